"""How many times as long a treated run takes as the baseline runs of its pair, by aligned ranks.

Test, estimate and interval: docs/method.md#slowdown. With one baseline run a pair this is
Wilcoxon's signed-rank test. `python -m tests.studies.verdicts` simulates the coverage; it
holds from six pairs on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.statistics.interval import FEWEST, QUANTILE, UPPER, Estimate, Interval
from records.groups import grouped

Values = NDArray[np.float64]

#: Of more pairs, this many evenly spaced ones are used, which widens the interval.
MOST_PAIRS = 500
#: What is sought, in the order of `shifts`: the greatest shift at which the statistic is above so
#: many standard deviations and a part of its step of 1. It is zero between the middle two.
_SOUGHT = np.array([(QUANTILE, 0.5), (0, 0.25), (0, -0.25), (-QUANTILE, -0.5)])
#: Halvings of the range in which a bound is sought: bounds are exact to 2e-8 of that range.
_HALVINGS = 26
_LEAST_RANGE = 1e-9


def slowdown(log_times: Values) -> Estimate | None:
    """Time of the treated runs / time of their baselines; None below six pairs.

    `log_times`: natural logarithms of times, one row per pair; first the treated run, then the
    baseline runs, NaN where one is missing (not all).
    """
    if len(log_times) < FEWEST:
        return None
    low, value, high = np.exp(shifts(few(log_times))).tolist()
    return Estimate(value, low, high)


def against_zero(values: Values) -> Values:
    """Values of pairs, such as logarithms of ratios, as `log_times` with one baseline run each."""
    return np.asarray(np.stack([values, np.zeros_like(values)], axis=-1))


def few(values: Values, most: int = MOST_PAIRS) -> Values:
    """At most so many rows, evenly spaced, which widens intervals."""
    if len(values) <= most:
        return values
    return np.asarray(values[np.linspace(0, len(values) - 1, most).astype(int)])


def shifts(log_times: Values) -> Values:
    """Low end, estimate and high end of the treated runs' shift, shape (3, ...).

    `log_times` has shape (..., pairs, runs), as for `slowdown`, at least six pairs each.
    """
    deviations, steps = _SOUGHT.T.reshape(2, 4, *[1] * (log_times.ndim - 2))
    low, high = (np.broadcast_to(end, (4, *end.shape)) for end in _range(log_times))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        statistic, sd = _statistic(log_times, middle)
        above = statistic > deviations * sd + steps
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    value = (low[1] + high[2]) / 2
    return np.stack([np.minimum(low[0], value), value, np.maximum(high[3], value)])


def score(values: Values) -> Values:
    """The statistic of values of pairs, shape (..., pairs), in standard deviations.

    Half a step is taken off, for continuity. Zero lies outside the interval of `shifts` if this is
    beyond the normal quantile.
    """
    statistic, sd = _statistic(against_zero(values), np.zeros(values.shape[:-1]))
    return np.sign(statistic) * np.maximum(np.abs(statistic) - 0.5, 0) / sd


def _range(log_times: Values) -> tuple[Values, Values]:
    """Shifts below and above which every treated run ranks above, or below, every baseline run."""
    treated, baselines = log_times[..., 0], log_times[..., 1:]
    mean = np.nanmean(baselines, axis=-1)
    apart = np.nanmax(np.abs(baselines - mean[..., None]), axis=(-2, -1)) + _LEAST_RANGE
    ratio = treated - mean
    return ratio.min(axis=-1) - apart, ratio.max(axis=-1) + apart


def _statistic(log_times: Values, shift: Values) -> tuple[Values, Values]:
    """The statistic and its standard deviation if the treated runs are shifted by `shift`."""
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
    exchanged = (scores**2).sum(axis=-1) / runs[..., 0]
    variance = np.maximum(exchanged.sum(axis=-1), (treated**2).sum(axis=-1))
    return treated.sum(axis=-1), np.sqrt(variance)


#: Fewest blocks (allocations) from which the next one is predicted.
FEWEST_BLOCKS = 3
#: Of more pairs in one block, this many evenly spaced ones are used.
_MOST_OF_A_BLOCK = 300
#: Of so many blocks with as many pairs the estimates are made together.
_AT_ONCE = 100


def next_allocation(blocks: Sequence[Values]) -> Interval | None:
    """Interval that covers the slowdown of the next allocation at 95 %; None below three.

    `blocks`: one array per allocation, as for `slowdown`. Student's prediction interval from one
    estimate of Hodges and Lehmann an allocation, taken as normal: the median of the means of two
    pairs, or one. It is wide for three, and wider than needed if the estimates themselves scatter.
    """
    from scipy import special

    times = [few(block, _MOST_OF_A_BLOCK) for block in blocks if len(block)]
    n = len(times)
    if n < FEWEST_BLOCKS:
        return None
    centres = np.empty(n)
    alike = grouped(((len(block), index // _AT_ONCE), index) for index, block in enumerate(times))
    for places in alike.values():
        runs = np.stack([times[index] for index in places])
        ratios = runs[..., 0] - np.nanmean(runs[..., 1:], axis=-1)
        one, other = np.triu_indices(ratios.shape[-1])
        centres[places] = np.median((ratios[:, one] + ratios[:, other]) / 2, axis=-1)
    half = special.stdtrit(n - 1, UPPER) * np.std(centres, ddof=1) * np.sqrt(1 + 1 / n)
    return Interval(*np.exp(np.mean(centres) + np.array([-half, half])).tolist())
