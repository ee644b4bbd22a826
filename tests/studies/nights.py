"""Simulates comparisons of nights: the tables of docs/evidence.md.

    python -m tests.studies.nights [COMPARISONS]

Two sides (groups) of nights are compared as `nimc compare` does, with seven cases or one. Each case
has three quantities: time of the baseline and time under writes, which vary by 1 % from night to
night, and the slowdown, which is their ratio. Every figure comes from COMPARISONS (default 1000)
comparisons with fixed seeds. All are computed at once; `tests/analysis/compare/test_sides.py`
compares the results with the program's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import special

from analysis.compare.sides import ERROR_LEVEL, Metric, NightsByQuantity, Quantity, nights_needed
from analysis.history.between_nights import (
    CORRELATIONS,
    MISSED_CHANCE,
    MISSED_CHANCE_OF_HISTORY,
    count_independent_rows,
    decorrelation_matrix,
    neighbour_ratio,
    variance_of_mean,
)
from analysis.statistics.interval import Estimate
from records.units import percentage
from tests.studies import FRESH, head, row, show
from tests.studies.noises import Draw, Draws, bimodal, correlated, heavy_tailed, normal

COMPARISONS = 1000
CASES = (7, 1)
#: Correlations of neighbouring nights.
RS = (0.0, 0.3, 0.6, 0.9)
#: Numbers of nights: of the reference, of the side that is compared with it, and of the machine's
#: history.
SIDES = (
    *((7, 7, past) for past in (0, 30, 90, 200)),
    (10, 10, 0),
    (10, 10, 90),
    (20, 20, 90),
)
SPREAD, CHANGE = 0.01, 0.03


@dataclass(frozen=True)
class NightNoise:
    """Noise of nights without a change; its standard deviation is 1."""

    name: str
    #: Function that draws the deviation of each night.
    draw: Draw
    #: Share of the variance that all cases and quantities have in common.
    common: float = 0.0


#: Treatment and metric of each quantity of a case.
_QUANTITIES: tuple[tuple[str, Metric], ...] = (
    ("off", "off"),
    ("on", "on"),
    ("on", "slowdown"),
)
NOISES = (
    NightNoise("independent", normal),
    *(NightNoise(f"correlated by {r}", correlated(r)) for r in (0.3, 0.6, 0.9)),
    *(NightNoise(f"by {r}, cases alike", correlated(r), common=0.8) for r in (0.6, 0.9)),
    NightNoise("bimodal", bimodal),
    NightNoise("Student's t, 3 degrees", heavy_tailed),
)


def made_logs(
    noise: NightNoise, rng: np.random.Generator, count: int, nights: int, cases: int
) -> Draws:
    """Draw logarithms of nights without a change: (comparison, quantity, night).

    Each case has the quantities of `_QUANTITIES`, in this order.
    """
    apart = noise.draw(rng, (2, count, cases, nights))
    common = noise.draw(rng, (1, count, 1, nights))
    off, on = SPREAD * (np.sqrt(1 - noise.common) * apart + np.sqrt(noise.common) * common)
    return np.stack([off, on, on - off], axis=2).reshape(count, 3 * cases, nights)


def as_nights(logs: Draws) -> NightsByQuantity:
    """Return the nights of one comparison in the form that the program compares."""
    nights = {}
    for number, values in enumerate(np.exp(logs).tolist()):
        case, (arm, metric) = f"case{number // 3}", _QUANTITIES[number % 3]
        quantity = Quantity(case, arm, metric, "s", "lower")
        nights[quantity] = [Estimate(value, value, value) for value in values]
    return nights


def p_values(old: Draws, new: Draws, correlations: Draws) -> Draws:
    """Return the p value of each quantity of each comparison.

    `correlations` has for each comparison the largest correlation of neighbouring nights. The p
    values are those of `analysis.history.between_nights.ratio_of_nights`.
    """
    p = np.empty(old.shape[:2])
    for r in np.unique(correlations):
        places = np.flatnonzero(correlations == r)
        p[places] = np.maximum(
            *(_p_values(old[places], new[places], correlation) for correlation in (0.0, r))
        )
    return p


def _p_values(old: Draws, new: Draws, r: float) -> Draws:
    sides = [(logs, logs.shape[-1]) for logs in (old, new)]
    squares = [((logs @ decorrelation_matrix(n, r).T) ** 2).sum(-1) for logs, n in sides]
    mean_variances = [variance_of_mean(n, r) for _, n in sides]
    m, n = (n for _, n in sides)
    student = sum(squares) / (m + n - 2) * sum(mean_variances)
    parts = [
        squared / (n - 1) * mean
        for squared, (_, n), mean in zip(squares, sides, mean_variances, strict=True)
    ]
    welch = sum(parts)
    freedom = welch**2 / sum(part**2 / (n - 1) for part, (_, n) in zip(parts, sides, strict=True))
    change = np.abs(new.mean(-1) - old.mean(-1))
    by_student = special.stdtr(np.full(change.shape, m + n - 2.0), -change / np.sqrt(student))
    return np.asarray(2 * np.maximum(by_student, special.stdtr(freedom, -change / np.sqrt(welch))))


def p_values_in_turn(old: Draws, new: Draws) -> Draws:
    """Return p values for nights that alternate between the sides, as of `ratio_of_alternating`."""
    apart, n = new - old, old.shape[-1]
    t = np.abs(apart.mean(-1)) / apart.std(-1, ddof=1) * np.sqrt(n)
    return np.asarray(2 * special.stdtr(np.full(t.shape, n - 1.0), -t))


def at_most(old: Draws, new: Draws, past: Draws) -> Draws:
    """Return for each comparison the largest possible correlation of neighbouring nights.

    It is that of `correlation_of_history` if there are past nights, else that of
    `correlation_of_nights`.
    """
    has_past = past.shape[-1] > 0
    sides, missed = ([past], MISSED_CHANCE_OF_HISTORY) if has_past else ([old, new], MISSED_CHANCE)
    centred = [side - side.mean(-1, keepdims=True) for side in sides]
    squares = sum((side**2).sum(-1) for side in centred)
    products = sum((side[..., 1:] * side[..., :-1]).sum(-1) for side in centred)
    neighbours = (products / squares).mean(1)
    one, other = sides[0].shape[-1], 0 if has_past else new.shape[-1]
    expected, deviation = np.array([neighbour_ratio(one, other, r) for r in CORRELATIONS]).T
    lengths = np.concatenate(centred, axis=-1) / np.sqrt(squares)[..., None]
    rows = np.array([count_independent_rows(comparison, one + other - 2) for comparison in lengths])
    error = deviation / np.sqrt(rows)[:, None]
    possible = neighbours[:, None] - expected > special.ndtri(missed) * error
    return np.asarray(np.where(possible, CORRELATIONS, 0.0).max(1))


def shown(p: Draws) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Return which quantities of each comparison are named as changed.

    The error level holds over all quantities of a comparison (Holm 1979).
    """
    order = np.sort(p, axis=1)
    held = np.logical_and.accumulate(order <= ERROR_LEVEL / np.arange(p.shape[1], 0, -1), axis=1)
    return np.asarray(p <= np.where(held, order, -1.0).max(axis=1, keepdims=True))


def named(
    noise: NightNoise,
    sides: tuple[int, int],
    cases: int,
    count: int,
    *,
    past: int = 0,
    change: float = CHANGE,
    in_turn: bool = False,
) -> tuple[float, float]:
    """Return two shares of comparisons that name a change, without and with a change.

    The first share names any change although there is none. The second names a change of the first
    case, whose time under writes changes by `change`. Both use the same nights. `past` is the
    number of nights of the machine's history. With `in_turn`, nights alternate between the sides.
    """
    if sum(sides) < nights_needed(3 * cases):
        return 0.0, 0.0
    rng = np.random.default_rng([FRESH, cases, *sides, past, in_turn])
    if in_turn:
        every = made_logs(noise, rng, count, sum(sides), cases)
        old, new = every[..., ::2], every[..., 1::2]
    else:
        old, new = (made_logs(noise, rng, count, nights, cases) for nights in sides)
    changed = new.copy()
    changed[:, 1:3] += np.log1p(change)
    if in_turn:
        p, p_changed = (p_values_in_turn(old, side) for side in (new, changed))
    else:
        largest = at_most(old, new, made_logs(noise, rng, count, past, cases))
        p, p_changed = (p_values(old, side, largest) for side in (new, changed))
    return float(shown(p).any(1).mean()), float(shown(p_changed)[:, :3].any(1).mean())


def known(r: float, nights: int, cases: int, change: float, count: int = 100_000) -> float:
    """Return the share of changes found if spread and correlation of nights were known exactly.

    No history is long enough for this, so it is the most that can be found at this error level. It
    is computed from means of least variance of `nights` nights on each side, whose neighbours
    correlate by `r`.
    """
    rng = np.random.default_rng([FRESH, cases, nights, round(100 * r)])
    variance = (1 - r**2) / (1 - r**2 + (nights - 1) * (1 - r) ** 2)
    spread = SPREAD * np.sqrt(2 * variance)
    off, on = rng.normal(0, spread, (2, count, cases))
    on[:, 0] += np.log1p(change)
    deviations = np.stack([off, on, (on - off) / np.sqrt(2)], axis=-1).reshape(count, -1) / spread
    p = special.erfc(np.abs(deviations) / np.sqrt(2))
    return float(shown(p)[:, :3].any(1).mean())


def tables(count: int) -> Iterator[str]:
    """Yield the lines of all tables, as Markdown."""
    yield from head([f"{percentage(CHANGE)} found at most, %", *(f"correlated by {r}" for r in RS)])
    for cases, nights in product(CASES, (7, 10, 11, 14, 20)):
        most = [known(r, nights, cases, CHANGE) for r in RS]
        yield row([f"{nights} and {nights}, {cases}", *(percentage(share) for share in most)])
    names = [f"{noise.name}: named, found" for noise in NOISES]
    yield from head(["nights, history, cases", *names])
    for cases, (one, other, past) in product(CASES, SIDES):
        shares = (named(noise, (one, other), cases, count, past=past) for noise in NOISES)
        yield row([f"{one} and {other}, {past}, {cases}", *map(_percent, shares)])
    yield from head(["nights in turn, cases", *names])
    for cases, nights in product(CASES, (7, 10)):
        shares = (named(noise, (nights, nights), cases, count, in_turn=True) for noise in NOISES)
        yield row([f"{nights} and {nights}, {cases}", *map(_percent, shares)])


def _percent(shares: tuple[float, float]) -> str:
    unchanged, changed = shares
    return f"{100 * unchanged:.1f}, {100 * changed:.0f}"


if __name__ == "__main__":
    show(tables, COMPARISONS)
