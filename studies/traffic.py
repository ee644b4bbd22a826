"""Loss under replayed traffic, and the same computed from a sweep of rates: docs/evidence.md.

    python -m studies.traffic [SEEDS]

Each seed makes an application whose slowdown grows with the rate, a trace of an hour in bursts, and
two campaigns of the application with noise: one under windows of the trace, drawn as for replay,
one at a few rates, each by itself. The second's slowdowns, interpolated, give the loss under the
trace: work is done at 1 / slowdown, so the mean of that over the trace is the speed under it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.statistics.aligned_ranks import slowdown
from analysis.statistics.e_values import mean_ratio
from nimc.records.treatment import Replay
from nimc.traffic.trace import SCHEMA, Trace, TraceHeader, draw_windows
from studies import head, row, show

SEEDS = 200
#: Pairs under the trace; pairs at each rate of the sweep.
PAIRS, SWEEP_PAIRS = 20, 40
TRACE_S, RUN_S = 3600, 30.0
#: Slowdown at the highest rate, and how it grows: the power of the rate's share.
WORST, POWER = 1.3, 1.5
SHARES = np.linspace(0, 1, 6)
#: Noise of a run, and of what both runs of a pair share.
NOISE, PAIR_NOISE = 0.01, 0.03
#: Mean length of bursts, seconds, and share of time in them.
BURSTS = ((2.0, 0.1), (2.0, 0.5), (20.0, 0.5), (20.0, 0.9))

Values = NDArray[np.float64]


def table(seeds: int) -> Iterator[str]:
    """A row for each kind of trace."""
    yield from head(("bursts", "duty", "mean covers", "typical covers", "largest difference"))
    for length_s, duty in BURSTS:
        found = np.array([_compared(length_s, duty, seed) for seed in range(seeds)])
        means, typical = found[:, :2].mean(axis=0)
        furthest = f"{100 * np.max(abs(found[:, 2])):.2f} %"
        yield row((f"{length_s:g} s", f"{duty:.0%}", f"{means:.3f}", f"{typical:.3f}", furthest))


def _compared(length_s: float, duty: float, seed: int) -> tuple[bool, bool, float]:
    """Whether both intervals cover the computed loss; the estimate of the mean less that."""
    rng = np.random.default_rng(seed)
    rates = _trace(length_s, duty, rng)
    seconds = pl.DataFrame({"node": "n", "time_s": np.arange(TRACE_S), "bytes": rates})
    trace = Trace(TraceHeader(SCHEMA, [], 1.0, []), seconds)
    names = [f"{seed}/{pair}" for pair in range(PAIRS)]
    windows = draw_windows(trace, Replay("", 1, 1.0), 1, names)
    pairs = _measured([_time_s(np.array(each.rates_b_s[0])) / RUN_S for each in windows], rng)
    swept = [slowdown(_measured([float(_slowdown(at))] * SWEEP_PAIRS, rng)) for at in SHARES]
    levels = [each.value for each in swept if each]
    computed = 1 / float(np.mean(1 / np.interp(rates, SHARES, levels)))
    mean, typical = mean_ratio(pairs), slowdown(pairs)
    assert mean is not None
    assert typical is not None
    inside = [each.low <= computed <= each.high for each in (mean, typical)]
    return inside[0], inside[1], mean.value - computed


def _trace(length_s: float, duty: float, rng: np.random.Generator) -> Values:
    """Shares of the highest rate, second by second: bursts at one rate each, and pauses."""
    rates: list[float] = []
    while len(rates) < TRACE_S:
        pause_s, burst_s = rng.exponential(length_s * np.array([1 / duty - 1, 1.0]))
        rates += [0.0] * round(pause_s) + [rng.uniform(0.2, 1.0)] * max(round(burst_s), 1)
    return np.array(rates[:TRACE_S])


def _slowdown(share: float | Values) -> Values:
    return np.asarray(1 + (WORST - 1) * np.asarray(share) ** POWER)


def _time_s(rates: Values) -> float:
    """Time in which the work of `RUN_S` is done under these rates, which begin again."""
    done = np.concatenate(([0.0], np.cumsum(1 / _slowdown(np.tile(rates, 2)))))
    return float(np.interp(RUN_S, done, np.arange(len(done))))


def _measured(slowdowns: list[float], rng: np.random.Generator) -> Values:
    """Logarithms of the times of pairs: the treated run, the baseline and its repetition."""
    pair = rng.normal(0, PAIR_NOISE, (len(slowdowns), 1))
    times = pair + rng.normal(0, NOISE, (len(slowdowns), 3))
    times[:, 0] += np.log(slowdowns)
    return np.asarray(times)


if __name__ == "__main__":
    show(table, SEEDS)
