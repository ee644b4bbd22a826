"""Simulates how often verdicts are wrong and how many pairs they need: docs/evidence.md.

    python -m tests.studies.verdicts [NIGHTS]

A night is one case with `on`, `off` and `aa` between two hosts. It is analysed after 6, 8, 12, 16,
24, 32 and 48 pairs. The program's tests and rules give the verdict, in a campaign of one, seven or
twenty cases. The other cases show nothing. Shares of wrong verdicts come from NIGHTS (default
4,000) nights, the other figures from a twentieth of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.effects.result import Verdict
from analysis.effects.statements import ERROR_LEVELS
from analysis.statistics import evidence
from analysis.statistics.aligned_ranks import next_allocation
from analysis.statistics.interval import MIN_VALUES
from records.units import percentage
from tests.studies import FRESH, head, row, show
from tests.studies.many import ManyNights, estimates
from tests.studies.noises import NOISES, RunNoise, nights

NIGHTS = 4_000
#: Figures other than wrong verdicts take long to compute. They come from a share 1 / `FEW` of the
#: nights.
FEW = 20
MARGIN = 0.02
FAMILIES = (1, 7, 20)
MOST_PAIRS = 48
#: Numbers of pairs after which intervals are compared with the true slowdown.
COVERED = (6, 12, 24)
#: Share of the runs with writes that are made longer, and by which share of their time. All runs
#: have noise of 1 %.
HITS = ((0.05, 0.5), (0.1, 0.5), (0.2, 0.5))
#: Numbers of allocations, of six pairs each, from which the slowdown of the next one is predicted.
BLOCKS = (3, 5, 8)


def drawn(noise: RunNoise, count: int, effect: float = 1.0) -> ManyNights:
    """Draw `count` nights with a noise of 1 % and a true slowdown `effect`, with fixed seeds."""
    rng = np.random.default_rng([FRESH, count, NOISES.index(noise), round(1e4 * effect)])
    return ManyNights(*nights(noise, rng, count, MOST_PAIRS, 0.01, effect), MARGIN)


def hit(share: float, by: float, count: int) -> ManyNights:
    """Draw nights in which a share of the runs with writes takes longer by a share `by`."""
    many_nights = drawn(NOISES[0], count)
    times = many_nights.log_times.copy()
    hits = np.random.default_rng([FRESH, count]).random(times.shape[:2]) < share
    times[..., 0] += np.log1p(by * hits)
    return ManyNights(times, many_nights.after, MARGIN)


def ever(many_nights: ManyNights, name: str, cases: int) -> float:
    """Return the share of campaigns of `cases` cases that ever show a statement about any case.

    It is computed from the share of single cases, since cases are independent here.
    """
    return 1 - (1 - float(many_nights.shown(name, cases).any(1).mean())) ** cases


def power(many_nights: ManyNights, cases: int, verdict: Verdict) -> tuple[float, float]:
    """Return the share of nights that end with a verdict, and the mean pairs of all nights."""
    verdicts, pairs = many_nights.verdicts(cases)
    return verdicts.count(verdict) / len(verdicts), float(pairs.mean())


def fixed_pairs(many_nights: ManyNights, cases: int) -> int | None:
    """Return the fewest pairs with which a t test finds the effect in 90 % of nights.

    The test has the level of the verdict. Returns None if 48 pairs are too few.
    """
    apart = many_nights.log_times[..., 0] - many_nights.log_times[..., 1:].mean(-1)
    for pairs in range(2, MOST_PAIRS + 1):
        part = apart[:, :pairs]
        t = part.mean(1) / part.std(1, ddof=1) * np.sqrt(pairs)
        p = special.stdtr(pairs - 1, -t)
        if (p <= ERROR_LEVELS["slower"] / cases).mean() >= 0.9:
            return pairs
    return None


def coverage(many_nights: ManyNights, pairs: int, mean: float = 1.0) -> NDArray[np.float64]:
    """Return three shares of the nights that have an interval of the mean.

    In these nights, the interval of the typical run contains the true slowdown; the interval of the
    mean contains the true mean; the interval of the mean is below the true mean.
    """
    log_times = many_nights.log_times[:, :pairs]
    covered = [
        (typical.low <= 1 <= typical.high, ratio.low <= mean <= ratio.high, ratio.high < mean)
        for typical, ratio in zip(
            estimates(log_times), map(evidence.mean_ratio, log_times), strict=True
        )
        if ratio
    ]
    return np.asarray(np.mean(covered, axis=0))


def covers_next(spread: float, blocks: int, count: int) -> float:
    """Return the share of predictions that contain the slowdown of the next allocation.

    Each is made from `blocks` allocations, whose true slowdowns have the standard deviation
    `spread` (of the logarithm).
    """
    rng = np.random.default_rng([FRESH, blocks, round(1e4 * spread)])
    hits = 0
    for _ in range(count):
        true = rng.normal(0, spread, blocks + 1)
        times, _ = nights(NOISES[0], rng, blocks, MIN_VALUES, 0.01, 1.0)
        times[..., 0] += true[:-1, None]
        low, high = next_allocation(list(times)) or (np.nan, np.nan)
        hits += bool(low <= np.exp(true[-1]) <= high)
    return hits / count


def _noise_cells(noise: RunNoise, count: int) -> Iterator[str]:
    """Yield the cells of one noise; most have a figure for each campaign size of `FAMILIES`."""
    few = max(count // FEW, 2)
    unchanged, small = drawn(noise, few), drawn(noise, few, 1 + MARGIN)
    null, at_margin = drawn(noise, count), drawn(noise, count, 1 + MARGIN)
    for many_nights, name in (
        *((null, name) for name in ("slower", "faster", "unstable")),
        (at_margin, "within"),
    ):
        families = FAMILIES[:1] if name == "unstable" else FAMILIES
        yield ", ".join(f"{ever(many_nights, name, cases):.3f}" for cases in families)
    for many_nights, verdict in ((small, Verdict.SLOWER), (unchanged, Verdict.NO_EFFECT)):
        yield ", ".join(
            "{:.2f} {:.1f}".format(*power(many_nights, cases, verdict)) for cases in FAMILIES
        )
        if verdict is Verdict.SLOWER:
            yield ", ".join(str(fixed_pairs(many_nights, cases) or "more") for cases in FAMILIES)


def table(count: int) -> Iterator[str]:
    """Yield the lines of the tables, as Markdown."""
    estimated = [
        f"{quantity}, {pairs} pairs" for quantity in ("typical run", "mean") for pairs in COVERED
    ]
    yield from head(["noise", *estimated])
    for noise in NOISES:
        unchanged = drawn(noise, max(count // FEW, 2))
        shares = [coverage(unchanged, pairs) for pairs in COVERED]
        yield row([noise.name, *(f"{covers[i]:.2f}" for i in (0, 1) for covers in shares)])
    wrong = ["slower", "faster", "unstable", "wrong"]
    yield from head(["noise", *wrong, "1.02", "t", "no effect"])
    for noise in NOISES:
        yield row([noise.name, *_noise_cells(noise, count)])
    yield from head(["runs hit; mean loss", "no effect", "slower", "mean's interval below it"])
    for share, by in HITS:
        many_nights = hit(share, by, count // FEW)
        verdicts, _ = many_nights.verdicts(FAMILIES[1])
        counts = [verdicts.count(verdict) for verdict in (Verdict.NO_EFFECT, Verdict.SLOWER)]
        _, _, below = coverage(many_nights, 12, 1 + share * by)
        figures = (*(nights / len(verdicts) for nights in counts), below)
        yield row(
            [
                f"{percentage(share)} by {percentage(by)}; {percentage(share * by, '.1f')}",
                *(f"{x:.2f}" for x in figures),
            ]
        )
    yield from head(["spread of allocations", *(f"{blocks} of them" for blocks in BLOCKS)])
    for spread in (0.005, 0.02):
        covered = (covers_next(spread, blocks, count // FEW) for blocks in BLOCKS)
        yield row([percentage(spread, ".1f"), *(f"{share:.3f}" for share in covered)])


if __name__ == "__main__":
    show(table, NIGHTS)
