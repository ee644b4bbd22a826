"""The ratio of the time of treated runs to the time of their baseline runs, by aligned ranks.

docs/method.md#slowdown describes test, estimate and interval. If each pair has one baseline run,
the test is that of Wilcoxon's signed ranks, with the scores 1/2, 3/2, ... in place of the ranks 1,
2, ... From six pairs on, the interval covers the true ratio with a probability of 95 %.
`python -m tests.studies.verdicts` simulates this coverage.

A shift is a number that is subtracted from the logarithms of all treated times. The estimate and
the ends of the interval are shifts. Bisection finds all of them together.
Arrays may have any leading dimensions, so that one search handles many simulated nights.
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

#: Maximum number of pairs that are used. If there are more, evenly spaced pairs are used, and the
#: interval widens.
MAX_RANKED_PAIRS = 500
#: Thresholds of the rank statistic, each as (deviations, offset): a threshold is `deviations` times
#: the statistic's standard deviation, plus `offset`. The statistic falls while the shift rises, in
#: steps of at least 1 if all pairs have the same number of baseline runs. For each threshold, the
#: search finds the largest shift at which the statistic is above it. The shifts of the first and
#: the last threshold are the ends of the interval. Between the shifts of the two inner thresholds,
#: the statistic counts as zero. The estimate is midway between these two shifts.
_THRESHOLDS = np.array([(NORMAL_QUANTILE, 0.5), (0, 0.25), (0, -0.25), (-NORMAL_QUANTILE, -0.5)])
#: Steps of the bisection: shifts are exact to 2e-8 of their range.
_BISECTION_STEPS = 26
#: Length by which the searched range is widened at both ends, in logarithms. With it, the range is
#: never empty.
_RANGE_MARGIN = 1e-9


def slowdown(log_times: Values) -> Estimate | None:
    """Return the time of the treated runs / the time of their baselines; None below six pairs.

    `log_times`: natural logarithms of times, shape (pairs, runs). The treated run comes first, then
    the baseline runs. A missing baseline run is NaN, but each pair has at least one.
    """
    if len(log_times) < MIN_VALUES:
        return None
    low, value, high = np.exp(shifts(thin_rows(log_times))).tolist()
    return Estimate(value, low, high)


def with_zero_baselines(values: Values) -> Values:
    """Return `values` (..., pairs) in the form of `log_times` (..., pairs, 2).

    The values are differences, such as logarithms of ratios. Each value becomes the treated run of
    a pair whose baseline run is 0.
    """
    return np.asarray(np.stack([values, np.zeros_like(values)], axis=-1))


def thin_rows(values: Values, max_rows: int = MAX_RANKED_PAIRS) -> Values:
    """Return at most `max_rows` rows of `values`, evenly spaced, which widens intervals."""
    if len(values) <= max_rows:
        return values
    return np.asarray(values[np.linspace(0, len(values) - 1, max_rows).astype(int)])


def shifts(log_times: Values) -> Values:
    """Return low end, estimate and high end of the treated runs' shift, shape (3, ...).

    `log_times` has shape (..., pairs, runs) and at least six pairs. Runs are ordered as in
    `slowdown`.
    """
    searches = len(_THRESHOLDS)
    leading = (1,) * (log_times.ndim - 2)
    deviations, offsets = _THRESHOLDS.T.reshape(2, searches, *leading)
    # All thresholds are searched at once, along the first axis.
    low, high = (np.broadcast_to(end, (searches, *end.shape)) for end in _shift_range(log_times))
    for _ in range(_BISECTION_STEPS):
        middle = (low + high) / 2
        statistic, sd = _rank_statistic(log_times, middle)
        is_above = statistic > deviations * sd + offsets
        low, high = np.where(is_above, middle, low), np.where(is_above, high, middle)
    interval_low, zero_low, _, _ = low
    _, _, zero_high, interval_high = high
    value = (zero_low + zero_high) / 2
    return np.stack([np.minimum(interval_low, value), value, np.maximum(interval_high, value)])


def standard_score(values: Values) -> Values:
    """Return the rank statistic of `values` (..., pairs) / its standard deviation, shape (...).

    The absolute statistic is reduced by 1/2 (correction for continuity). If the score is beyond the
    normal quantile, the interval of `shifts` does not contain zero, unless some values are exactly
    zero.
    """
    return _score_at(with_zero_baselines(values), np.zeros(values.shape[:-1]))


def _score_at(log_times: Values, shift: Values) -> Values:
    """Return the standard score after `shift` is subtracted from the treated runs."""
    statistic, sd = _rank_statistic(log_times, shift)
    return np.asarray(np.sign(statistic) * np.maximum(np.abs(statistic) - 0.5, 0) / sd)


def _shift_range(log_times: Values) -> tuple[Values, Values]:
    """Return the ends of the range of shifts that is searched.

    The ends of the interval lie in this range. If all pairs have the same number of baseline
    runs, every treated run ranks above every baseline run at any shift below the range. At any
    shift above the range, every treated run ranks below every baseline run.
    """
    treated, baselines = log_times[..., 0], log_times[..., 1:]
    mean = np.nanmean(baselines, axis=-1)
    margin = np.nanmax(np.abs(baselines - mean[..., None]), axis=(-2, -1)) + _RANGE_MARGIN
    differences = treated - mean
    low, high = differences.min(axis=-1) - margin, differences.max(axis=-1) + margin
    # Runs are ranked after the mean of their pair is subtracted. After this, a shift of 1 moves the
    # treated run by 1/2 in a pair with one baseline run, and by 2/3 in a pair with two. So with
    # pairs of both kinds, two treated runs may still swap ranks outside of `low` to `high`, up to
    # three times the spread of the differences further. An end is moved out that far unless the
    # score there is already beyond the normal quantile.
    further = margin + 3 * np.ptp(differences, axis=-1)
    low = np.where(_score_at(log_times, low) > NORMAL_QUANTILE, low, low - further)
    high = np.where(_score_at(log_times, high) < -NORMAL_QUANTILE, high, high + further)
    return low, high


def _rank_statistic(log_times: Values, shift: Values) -> tuple[Values, Values]:
    """Return the rank statistic and its standard deviation.

    First, `shift` is subtracted from the treated runs. The statistic is the sum of the treated
    runs' scores. The score of a run is its aligned rank minus the mean rank of its pair. The
    larger of two variances is used: the variance over all exchanges of runs within pairs, and the
    variance over all changes of sign of the treated runs' scores.
    """
    aligned = np.broadcast_to(log_times, (*shift.shape, *log_times.shape[-2:])).copy()
    aligned[..., 0] -= shift[..., None]
    is_present = ~np.isnan(aligned)
    run_counts = is_present.sum(axis=-1, keepdims=True)
    aligned -= np.where(is_present, aligned, 0).sum(axis=-1, keepdims=True) / run_counts
    # NaN is sorted last, so missing runs do not change the ranks of the others.
    order = aligned.reshape(*shift.shape, -1).argsort(axis=-1, kind="stable")
    ranks = np.empty(order.shape)
    np.put_along_axis(ranks, order, np.arange(order.shape[-1], dtype=float), axis=-1)
    ranks = np.where(is_present, ranks.reshape(aligned.shape), 0)
    scores = np.where(is_present, ranks - ranks.sum(axis=-1, keepdims=True) / run_counts, 0)
    treated_scores = scores[..., 0]
    exchange_variances = (scores**2).sum(axis=-1) / run_counts[..., 0]
    variance = np.maximum(exchange_variances.sum(axis=-1), (treated_scores**2).sum(axis=-1))
    return treated_scores.sum(axis=-1), np.sqrt(variance)


#: Minimum number of blocks (allocations) that are needed to predict the next one.
MIN_BLOCKS = 3
#: Maximum number of pairs of a block that are used for this prediction. If there are more, evenly
#: spaced pairs are used.
_MAX_PAIRS_OF_BLOCK = 300
#: Blocks with the same number of pairs are estimated together, at most this many at a time.
_MAX_BLOCKS_OF_ARRAY = 100


def next_allocation(blocks: Sequence[Values]) -> Interval | None:
    """Return the interval that covers the slowdown of the next allocation at 95 %.

    `blocks`: one array per allocation, with the same axes as in `slowdown`. None if fewer than
    three allocations have pairs.

    The slowdown of an allocation is estimated by the method of Hodges and Lehmann. The difference
    of a pair is the logarithm of its treated time minus the mean logarithm of its baseline times.
    The logarithm of the slowdown is the median of one list. The list has all differences, and the
    mean of each two differences. The interval is Student's prediction interval of the allocations'
    estimates, which are assumed to be normal. It is wide for three allocations, and wider than
    needed if each estimate is itself uncertain.
    """
    from scipy import special

    thinned = [thin_rows(block, _MAX_PAIRS_OF_BLOCK) for block in blocks if len(block)]
    n = len(thinned)
    if n < MIN_BLOCKS:
        return None
    centres = np.empty(n)
    indices_by_array = grouped(
        ((len(block), index // _MAX_BLOCKS_OF_ARRAY), index) for index, block in enumerate(thinned)
    )
    for indices in indices_by_array.values():
        log_times = np.stack([thinned[index] for index in indices])
        differences = log_times[..., 0] - np.nanmean(log_times[..., 1:], axis=-1)
        pair, other_pair = np.triu_indices(differences.shape[-1])
        means = (differences[:, pair] + differences[:, other_pair]) / 2
        centres[indices] = np.median(means, axis=-1)
    prediction_error = np.std(centres, ddof=1) * np.sqrt(1 + 1 / n)
    half_width = special.stdtrit(n - 1, UPPER_PROBABILITY) * prediction_error
    low, high = np.exp(np.mean(centres) + np.array([-half_width, half_width])).tolist()
    return Interval(low, high)
