"""The ratio of a treated run's time to that of its pair's baseline runs, by aligned ranks.

Test, estimate and interval: docs/method.md#slowdown. With one baseline run a pair the test is
Wilcoxon's signed-rank test. `python -m tests.studies.verdicts` simulates the interval's coverage,
which holds from six pairs on.

The ends of the interval and the estimate are sought together, by halving the range of shifts.
Arrays may have any leading dimensions, so that many simulated nights take one search.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.statistics.interval import (
    MIN_VALUES,
    NORMAL_QUANTILE,
    UPPER_PROBABILITY,
    Estimate,
    Interval,
)
from records.groups import grouped

Values = NDArray[np.float64]

#: Most pairs that are used. Of more, as many evenly spaced ones are, which widens the interval.
MAX_RANKED_PAIRS = 500
#: Thresholds of the statistic, each as standard deviations and a part of its step of 1. For each,
#: the greatest shift is sought at which the statistic is above it. The first and the last give the
#: ends of the interval. Between the shifts of the middle two the statistic is zero.
_THRESHOLDS = np.array([(NORMAL_QUANTILE, 0.5), (0, 0.25), (0, -0.25), (-NORMAL_QUANTILE, -0.5)])
#: Halvings of the range in which a bound is sought: bounds are exact to 2e-8 of that range.
_HALVINGS = 26
#: Added to either end of the range, in logarithms, so that it is never empty.
_LEAST_RANGE = 1e-9


def slowdown(log_times: Values) -> Estimate | None:
    """Time of the treated runs / time of their baselines; None below six pairs.

    `log_times`: natural logarithms of times, shape (pairs, runs). The treated run comes first, then
    the baseline runs: NaN if missing, but each pair has one.
    """
    if len(log_times) < MIN_VALUES:
        return None
    low, value, high = np.exp(shifts(thin_rows(log_times))).tolist()
    return Estimate(value, low, high)


def with_zero_baselines(values: Values) -> Values:
    """`log_times` (..., pairs, 2) of `values` (..., pairs), with a baseline run of 0 for each pair.

    The values are differences, such as logarithms of ratios.
    """
    return np.asarray(np.stack([values, np.zeros_like(values)], axis=-1))


def thin_rows(values: Values, most: int = MAX_RANKED_PAIRS) -> Values:
    """At most `most` rows of `values`, evenly spaced, which widens intervals."""
    if len(values) <= most:
        return values
    return np.asarray(values[np.linspace(0, len(values) - 1, most).astype(int)])


def shifts(log_times: Values) -> Values:
    """Low end, estimate and high end of the treated runs' shift in `log_times`, shape (3, ...).

    `log_times` has shape (..., pairs, runs), with runs as for `slowdown` and at least six pairs.
    """
    deviations, steps = _THRESHOLDS.T.reshape(2, 4, *[1] * (log_times.ndim - 2))
    low, high = (np.broadcast_to(end, (4, *end.shape)) for end in _shift_range(log_times))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        statistic, sd = _rank_statistic(log_times, middle)
        above = statistic > deviations * sd + steps
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    value = (low[1] + high[2]) / 2
    return np.stack([np.minimum(low[0], value), value, np.maximum(high[3], value)])


def score(values: Values) -> Values:
    """The statistic in standard deviations, shape (...), of `values` of pairs, shape (..., pairs).

    Half a step is taken off, for continuity. If the score is beyond the normal quantile, the
    interval of `shifts` does not contain zero.
    """
    statistic, sd = _rank_statistic(with_zero_baselines(values), np.zeros(values.shape[:-1]))
    return np.sign(statistic) * np.maximum(np.abs(statistic) - 0.5, 0) / sd


def _shift_range(log_times: Values) -> tuple[Values, Values]:
    """Ends of the range of shifts in which the statistic changes.

    Shifted by less, every treated run ranks above every baseline run; by more, below.
    """
    treated, baselines = log_times[..., 0], log_times[..., 1:]
    mean = np.nanmean(baselines, axis=-1)
    apart = np.nanmax(np.abs(baselines - mean[..., None]), axis=(-2, -1)) + _LEAST_RANGE
    ratio = treated - mean
    return ratio.min(axis=-1) - apart, ratio.max(axis=-1) + apart


def _rank_statistic(log_times: Values, shift: Values) -> tuple[Values, Values]:
    """The statistic and its standard deviation if `shift` is taken off the treated runs."""
    aligned = np.broadcast_to(log_times, (*shift.shape, *log_times.shape[-2:])).copy()
    aligned[..., 0] -= shift[..., None]
    present = ~np.isnan(aligned)
    runs = present.sum(axis=-1, keepdims=True)
    aligned -= np.where(present, aligned, 0).sum(axis=-1, keepdims=True) / runs
    # NaN sorts last, so that runs which are missing take no rank from the others.
    order = aligned.reshape(*shift.shape, -1).argsort(axis=-1, kind="stable")
    ranks = np.empty(order.shape)
    np.put_along_axis(ranks, order, np.arange(order.shape[-1], dtype=float), axis=-1)
    ranks = np.where(present, ranks.reshape(aligned.shape), 0)
    scores = np.where(present, ranks - ranks.sum(axis=-1, keepdims=True) / runs, 0)
    treated = scores[..., 0]
    exchange_variance = (scores**2).sum(axis=-1) / runs[..., 0]
    variance = np.maximum(exchange_variance.sum(axis=-1), (treated**2).sum(axis=-1))
    return treated.sum(axis=-1), np.sqrt(variance)


#: Fewest blocks (allocations) from which the next one is predicted.
MIN_BLOCKS = 3
#: Most pairs of a block that are used to predict. Of more, as many evenly spaced ones are.
_MOST_OF_A_BLOCK = 300
#: Most blocks, all with the same number of pairs, that are estimated in one array.
_MOST_TOGETHER = 100


def next_allocation(blocks: Sequence[Values]) -> Interval | None:
    """Interval that covers the slowdown of the next allocation at 95 %; None below three.

    `blocks`: one array per allocation, as for `slowdown`. Each allocation gives the estimate of
    Hodges and Lehmann: the median of all pairs and of all means of two pairs. The interval is
    Student's prediction interval from these estimates, taken as normal. It is wide for three
    allocations, and wider than needed if the estimates themselves scatter.
    """
    from scipy import special

    times = [thin_rows(block, _MOST_OF_A_BLOCK) for block in blocks if len(block)]
    n = len(times)
    if n < MIN_BLOCKS:
        return None
    centres = np.empty(n)
    alike = grouped(
        ((len(block), index // _MOST_TOGETHER), index) for index, block in enumerate(times)
    )
    for indices in alike.values():
        runs = np.stack([times[index] for index in indices])
        ratios = runs[..., 0] - np.nanmean(runs[..., 1:], axis=-1)
        first, second = np.triu_indices(ratios.shape[-1])
        centres[indices] = np.median((ratios[:, first] + ratios[:, second]) / 2, axis=-1)
    half = special.stdtrit(n - 1, UPPER_PROBABILITY) * np.std(centres, ddof=1) * np.sqrt(1 + 1 / n)
    return Interval(*np.exp(np.mean(centres) + np.array([-half, half])).tolist())
