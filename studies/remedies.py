"""Remedies, simulated: the figures of docs/evidence.md.

    python -m studies.remedies [COUNT]

The loss per byte written. Each sweep has pairs of one baseline and four rates in random order, with
one kind of noise of 1 % of the baseline's figure. Shown is how often the interval in use, the wider
of the signed ranks and Student's t of each pair's slope, encloses the true loss.

Recommendations. A remedy's net benefit differs between allocations, normally with a standard
deviation of `SPREADS`, and is `NETS` in the mean; runs scatter by `NOISE`. It is called better by
its pairs alone, or where it is shown for the next allocation as well.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.remedies.effect import compared
from analysis.remedies.throttling import slopes
from analysis.statistics.interval import CONFIDENCE
from analysis.statistics.location import Values, centres
from studies import head, row, show
from studies.noises import NOISES, RunNoise

SWEEPS = 1000
PAIRS = (6, 10, 20)
#: Rates relative to the highest, the true slope, and the standard deviation of one run.
RATES = np.array([0.25, 0.5, 0.75, 1.0])
SLOPE, NOISE = 0.3, 0.01


def sweeps(noise: RunNoise, rng: np.random.Generator, count: int, pairs: int) -> Values:
    """Losses of `count` made sweeps, shape (count, pairs, rates); the baseline's figure is 1."""
    runs = len(RATES) + 1
    drawn = noise.draw(rng, (count, pairs * runs)).reshape(count, pairs, runs)
    drawn = rng.permuted(drawn, axis=-1) * np.array([1.0, *[noise.treated] * len(RATES)])
    return np.asarray(SLOPE * RATES + NOISE * (drawn[..., :1] - drawn[..., 1:]))


def coverage(noise: RunNoise, pairs: int, count: int) -> float:
    """Share of the intervals that enclose the true slope."""
    loss = sweeps(noise, np.random.default_rng(1), count, pairs)
    low, _, high = centres(slopes(RATES, loss))
    return float(((low <= SLOPE) & (high >= SLOPE)).mean())


#: Allocations and pairs of each; standard deviations between allocations; mean net benefits.
DESIGNS = ((1, 12), (2, 6), (3, 4), (3, 10), (5, 4), (8, 5))
SPREADS, NETS = (0.0, 0.01, 0.03), (1.0, 1.05, 1.2)


def recommended(
    allocations: int, pairs: int, spread: float, mean: float, count: int
) -> tuple[float, float]:
    """Shares of made campaigns that call the remedy better: by pairs alone, and as advised."""
    rng = np.random.default_rng([allocations, pairs, int(spread * 1000), int(mean * 1000)])
    keys = [(block, pair) for block in range(allocations) for pair in range(pairs)]
    here = lasts = 0
    for _ in range(count):
        of_block = np.log(mean) + rng.normal(0, spread, allocations)
        scatter = rng.normal(0, NOISE * np.sqrt(2), len(keys))
        net = compared(np.repeat(of_block, pairs) + scatter, keys)
        better = net is not None and net.ratio.low > 1 and net.p <= 1 - CONFIDENCE
        here += better
        lasts += better and net is not None and net.lasts
    return here / count, lasts / count


def of_advice(count: int) -> Iterator[str]:
    """Rows of the table of recommendations: by pairs alone, as advised."""
    nets = [f"{mean:g}, spread {spread:g}" for mean in NETS for spread in SPREADS]
    yield from head(["allocations x pairs", *nets])[1:]
    for allocations, pairs in DESIGNS:
        found = [
            recommended(allocations, pairs, spread, mean, count)
            for mean in NETS
            for spread in SPREADS
        ]
        yield row([f"{allocations} x {pairs}", *(f"{a:.3f}, {b:.3f}" for a, b in found)])


def of_slopes(count: int) -> Iterator[str]:
    """Rows of the table of losses per byte."""
    yield from head(["noise", *(f"{pairs} pairs" for pairs in PAIRS)])[1:]
    for noise in NOISES:
        yield row([noise.name, *(f"{coverage(noise, pairs, count):.3f}" for pairs in PAIRS)])


if __name__ == "__main__":
    show(of_slopes, SWEEPS)
    show(of_advice, SWEEPS)
