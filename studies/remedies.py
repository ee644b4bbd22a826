"""Remedies, simulated: the figures of docs/evidence.md.

    python -m studies.remedies [COUNT]

The loss per byte written. Each sweep has pairs of one baseline and four rates in random order, with
one kind of noise of 1 % of the baseline's figure. `pooled` is least squares through the origin over
all runs with Student's interval; `bootstrap` the same slope with the percentiles of resampled
pairs; `ratios` the signed ranks of all runs' loss / rate; `ranks` those of each pair's slope;
`wider` the method in use, the wider of `ranks` and Student's t of the same slopes.

Recommendations. A remedy's net benefit differs between allocations, normally with a standard
deviation of `SPREADS`, and is `NETS` in the mean; runs scatter by `NOISE`. It is called better by
its pairs alone, or where it is shown for the next allocation as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
from scipy import special

from analysis.remedies.effect import compared
from analysis.remedies.throttling import slopes
from analysis.statistics.aligned_ranks import shifts
from analysis.statistics.interval import CONFIDENCE
from analysis.statistics.location import Values, centres
from studies import head, row
from studies.noises import NOISES, RunNoise

SWEEPS = 1000
PAIRS = (6, 10, 20)
#: Rates relative to the highest, the true slope, and the standard deviation of one run.
RATES = np.array([0.25, 0.5, 0.75, 1.0])
SLOPE, NOISE = 0.3, 0.01
_RESAMPLED = 400


def sweeps(noise: RunNoise, rng: np.random.Generator, count: int, pairs: int) -> Values:
    """Losses of `count` made sweeps, shape (count, pairs, rates); the baseline's figure is 1."""
    runs = len(RATES) + 1
    drawn = noise.draw(rng, count, pairs * runs).reshape(count, pairs, runs)
    drawn = rng.permuted(drawn, axis=-1) * np.array([1.0, *[noise.treated] * len(RATES)])
    return np.asarray(SLOPE * RATES + NOISE * (drawn[..., :1] - drawn[..., 1:]))


def _pooled(loss: Values, rng: np.random.Generator) -> Values:  # noqa: ARG001
    flat, x = loss.reshape(len(loss), -1), np.tile(RATES, loss.shape[1])
    slope = flat @ x / (x @ x)
    sd = np.sqrt(((flat - slope[:, None] * x) ** 2).sum(axis=1) / (len(x) - 1))
    half = special.stdtrit(len(x) - 1, (1 + CONFIDENCE) / 2) * sd / np.sqrt(x @ x)
    return np.stack([slope - half, slope + half])


def _bootstrap(loss: Values, rng: np.random.Generator) -> Values:
    own = slopes(RATES, loss)
    chosen = rng.integers(0, own.shape[1], (_RESAMPLED, own.shape[1]))
    tail = (1 - CONFIDENCE) / 2
    return np.asarray(np.quantile(own[:, chosen].mean(axis=-1), [tail, 1 - tail], axis=1))


def _ranks(values: Values) -> Values:
    return shifts(np.stack([values, np.zeros_like(values)], axis=-1))[[0, 2]]


def _runs(loss: Values, rng: np.random.Generator) -> Values:  # noqa: ARG001
    return _ranks((loss / RATES).reshape(len(loss), -1))


def _of_pairs(loss: Values, rng: np.random.Generator) -> Values:  # noqa: ARG001
    return _ranks(slopes(RATES, loss))


def _wider(loss: Values, rng: np.random.Generator) -> Values:  # noqa: ARG001
    return centres(slopes(RATES, loss))[[0, 2]]


METHODS: dict[str, Callable[[Values, np.random.Generator], Values]] = {
    "pooled": _pooled,
    "bootstrap": _bootstrap,
    "ratios": _runs,
    "ranks": _of_pairs,
    "wider": _wider,
}


def coverage(noise: RunNoise, pairs: int, count: int) -> dict[str, float]:
    """Method -> share of its intervals that enclose the true slope."""
    loss = sweeps(noise, np.random.default_rng(1), count, pairs)
    found = {}
    for name, method in METHODS.items():
        low, high = method(loss, np.random.default_rng(2))
        found[name] = float(((low <= SLOPE) & (high >= SLOPE)).mean())
    return found


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
    """Rows of the table of losses per byte: each cell has the coverages of all methods."""
    yield from head([", ".join(METHODS), *(f"{pairs} pairs" for pairs in PAIRS)])[1:]
    for noise in NOISES:
        cells = []
        for pairs in PAIRS:
            found = coverage(noise, pairs, count)
            cells.append(", ".join(f"{share:.3f}" for share in found.values()))
        yield row([noise.name, *cells])


if __name__ == "__main__":
    for table in (of_slopes, of_advice):
        print("\n".join(table(int(sys.argv[1]) if len(sys.argv) > 1 else SWEEPS)), flush=True)
