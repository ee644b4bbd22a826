"""Nights compared, simulated: the tables of docs/evidence.md.

    python -m studies.nights [COMPARISONS]

Two sides of nights are compared as `nimc compare` does, with seven cases or one, each of three
quantities: time of the baseline and time under writes, which vary by 1 % from night to night, and
the slowdown, their ratio. `before` takes nights as independent, and judges one night as well.
Every figure comes from COMPARISONS (default 1000) comparisons with fixed seeds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from analysis.compare.side import Nights, Quantity
from analysis.compare.sides import LEVEL, compare, correlation
from analysis.statistics.holm import holm
from analysis.statistics.interval import Estimate
from analysis.statistics.nights import ratio_of_nights
from studies import head, row

COMPARISONS = 1000
CASES = (7, 1)
#: Nights of the reference, and of the side compared with it.
SIDES = ((3, 3), (4, 4), (5, 5), (7, 7), (10, 10), (20, 20), (10, 3), (10, 1))
SPREAD = 0.01
CHANGES = (0.02, 0.03, 0.05)

Draws = NDArray[np.float64]


@dataclass(frozen=True)
class NightNoise:
    """How nights differ although nothing changes; the standard deviation is 1."""

    name: str
    #: (generator, shape with nights last) -> deviation of each night.
    draw: Callable[[np.random.Generator, tuple[int, ...]], Draws]
    #: Share of the variance that all cases and quantities have in common.
    common: float = 0.0


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    return rng.standard_normal(shape)


def _correlated(r: float) -> Callable[[np.random.Generator, tuple[int, ...]], Draws]:
    """Neighbouring nights correlate by `r`: an autoregressive process of first order."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
        found = _normal(rng, shape)
        for night in range(1, shape[-1]):
            found[..., night] *= np.sqrt(1 - r**2)
            found[..., night] += r * found[..., night - 1]
        return found

    return draw


def _bimodal(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    level = np.where(rng.random(shape) < 0.5, -0.95, 0.95)
    return np.asarray(level + np.sqrt(1 - 0.95**2) * _normal(rng, shape))


def _heavy(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    return np.asarray(rng.standard_t(3, shape) / np.sqrt(3))


NOISES = (
    NightNoise("independent", _normal),
    *(NightNoise(f"correlated by {r}", _correlated(r)) for r in (0.3, 0.6, 0.9)),
    *(NightNoise(f"by {r}, cases alike", _correlated(r), common=0.8) for r in (0.6, 0.9)),
    NightNoise("bimodal", _bimodal),
    NightNoise("Student's t, 3 degrees", _heavy),
)


def made_nights(
    noise: NightNoise, rng: np.random.Generator, count: int, cases: int, change: float = 0.0
) -> Nights:
    """`count` nights; the first case is slower under writes by the share `change`."""
    own, common = noise.draw(rng, (2, cases, count)), noise.draw(rng, (1, 1, count))
    logs = SPREAD * (np.sqrt(1 - noise.common) * own + np.sqrt(noise.common) * common)
    logs[1, 0] += np.log1p(change)
    found: dict[Quantity, list[Estimate]] = {}
    for case, (off, on) in enumerate(logs.swapaxes(0, 1)):
        for arm, metric, each in (
            ("off", "off", off),
            ("on", "on", on),
            ("on", "slowdown", on - off),
        ):
            quantity = Quantity(f"case{case}", arm, metric, "s", "lower")  # type: ignore[arg-type]
            found[quantity] = [Estimate(v, v, v, 0.95) for v in np.exp(each).tolist()]
    return found


def before(old: Nights, new: Nights) -> set[Quantity]:
    """Quantities that the method of the first version says have changed."""
    p = {}
    for each in new:
        this, reference = ([night.value for night in side[each]] for side in (new, old))
        found = ratio_of_nights(this, reference)
        p[each] = found.p if found else 1.0
    adjusted = zip(p, holm(list(p.values())), strict=True)
    return {each for each, value in adjusted if value <= LEVEL}


def after(old: Nights, new: Nights) -> set[Quantity]:
    """Those that the method in use says have changed."""
    rows = compare(old, new, (), correlation(old, new))
    return {
        Quantity(row.case, row.arm, row.metric, row.unit, "lower")
        for row in rows
        if row.verdict in ("worse", "better")
    }


def named(
    noise: NightNoise, sides: tuple[int, int], cases: int, count: int, change: float = 0.0
) -> tuple[float, float]:
    """Shares of comparisons that name a change, before and after; of the first case if it did."""
    rng = np.random.default_rng([cases, *sides])
    hits = np.zeros(2)
    for _ in range(count):
        old = made_nights(noise, rng, sides[0], cases)
        new = made_nights(noise, rng, sides[1], cases, change)
        hits += [
            any(each.case == "case0" or not change for each in method(old, new))
            for method in (before, after)
        ]
    return float(hits[0] / count), float(hits[1] / count)


def tables(count: int) -> Iterator[str]:
    """The lines of both tables, as Markdown."""
    columns = [
        " and ".join(map(str, sides)) + ("" if cases > 1 else ", one case")
        for cases, sides in product(CASES, SIDES)
    ]
    rows = list(zip(columns, product(CASES, SIDES), strict=True))
    yield from head(["unchanged nights: named, %", *(noise.name for noise in NOISES)])
    for column, (cases, sides) in rows:
        found = [named(noise, sides, cases, count) for noise in NOISES]
        yield row([column, *map(_percent, found)])
    yield from head(["change found, %", *(f"{change:.0%}" for change in CHANGES)])
    for column, (cases, sides) in rows:
        found = [named(NOISES[0], sides, cases, count, change) for change in CHANGES]
        yield row([column, *map(_percent, found)])


def _percent(shares: tuple[float, float]) -> str:
    return ", ".join(f"{share * 100:.1f}" for share in shares)


if __name__ == "__main__":
    for line in tables(int(sys.argv[1]) if len(sys.argv) > 1 else COMPARISONS):
        print(line, flush=True)
