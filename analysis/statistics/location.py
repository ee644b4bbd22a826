"""The centre of the values of pairs; the ratio between two sets; and the share of hit runs.

A centre is estimated by the method of Hodges and Lehmann (1963). Its interval encloses two
intervals: the interval of Wilcoxon's signed ranks and the interval of Student's t. The first alone
is too narrow if there are many values from a skewed distribution. The second alone is too narrow if
there are few values. Values may have any sign and unit, unlike the ratios of
`analysis.statistics.aligned_ranks`. A hit run is a slow outlier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from analysis.statistics.aligned_ranks import (
    Values,
    shifts,
    standard_score,
    thin_rows,
    with_zero_baselines,
)
from analysis.statistics.interval import (
    MIN_VALUES,
    NORMAL_QUANTILE,
    TAIL_PROBABILITY,
    UPPER_PROBABILITY,
    Estimate,
)

#: Number of steps into which the range is divided to find a crossing. The ends of the crossing's
#: interval are exact to one step.
_CROSSING_STEPS = 1000


@dataclass(frozen=True)
class Crossing:
    """The point where a quantity goes from below zero to above it, within the measured range.

    `low` and `high` are its interval. If only `low` is known, the point lies above it. If only
    `high` is known, the point lies below it. If neither is known, the data do not locate the point.
    """

    value: float | None
    low: float | None
    high: float | None


def location(values: Values) -> Estimate | None:
    """Return the centre of `values` with its interval; None below six values."""
    if len(values) < MIN_VALUES:
        return None
    scale = float(np.abs(values).max()) or 1.0
    scaled = thin_rows(values) / scale
    mean, standard_error = _mean_and_error(scaled)
    half_width = float(special.stdtrit(len(scaled) - 1, UPPER_PROBABILITY)) * standard_error
    low, centre, high = shifts(with_zero_baselines(scaled))
    return Estimate(
        value=float(centre * scale),
        low=float(min(low, mean - half_width) * scale),
        high=float(max(high, mean + half_width) * scale),
    )


def p_value(values: Values) -> float:
    """Return the two-sided p value of the null hypothesis 'the centre is zero'.

    It is the larger one of Wilcoxon's and Student's p values.
    """
    from scipy import stats  # takes most of a second to load

    if len(values) < MIN_VALUES or not np.any(values):
        return 1.0
    mean, standard_error = _mean_and_error(values)
    student_p = 0.0
    if standard_error > 0:
        student_p = 2 * float(special.stdtr(len(values) - 1, -abs(mean) / standard_error))
    return max(float(stats.wilcoxon(thin_rows(values)).pvalue), student_p)


def p_above_zero(values: Values) -> float:
    """Return the one-sided p value of 'the centre is at most zero'; 1 below six values.

    It is the larger one of Wilcoxon's and Student's p values.
    """
    from scipy import stats  # takes most of a second to load

    if len(values) < MIN_VALUES or not np.any(values > 0):
        return 1.0
    mean, standard_error = _mean_and_error(values)
    student_p = 0.0 if mean > 0 else 1.0
    if standard_error > 0:
        student_p = float(special.stdtr(len(values) - 1, -mean / standard_error))
    wilcoxon = stats.wilcoxon(thin_rows(values), alternative="greater")
    return max(float(wilcoxon.pvalue), student_p)


def crossing(values_at: Callable[[Values], Values], low: float, high: float) -> Crossing:
    """Return where in [low, high] the centre of values changes from below zero to above.

    `values_at`: points, shape (n, 1) -> values of the pairs at these points, shape (n, pairs). If
    there are many pairs, they must be thinned before (`thin_rows`). The interval contains every
    point at which zero is not rejected, and all points between them. Fieller's interval (1954) does
    the same for the ratio of two means. The interval is open on a side if it reaches that end of
    the range.
    """
    points = np.linspace(low, high, _CROSSING_STEPS + 1)
    values = values_at(points[:, None])
    if values.shape[-1] < MIN_VALUES:
        return Crossing(None, None, None)
    scores = standard_score(values)
    mean, standard_error = _mean_and_error(values)
    quantile = float(special.stdtrit(values.shape[-1] - 1, UPPER_PROBABILITY))
    shown_by_t = np.abs(mean) > quantile * standard_error
    shown = (np.abs(scores) > NORMAL_QUANTILE) & shown_by_t & (np.sign(scores) == np.sign(mean))
    # -1 or 1 if the centre is shown to be below or above zero at a point, else 0.
    signs = np.where(shown, np.sign(mean), 0)
    # Number of points at the low end that are all shown to be below zero, and of points at the high
    # end that are all shown to be above.
    points_below = int(np.argmin([*(signs < 0), False]))
    points_above = int(np.argmin([*(signs[::-1] > 0), False]))
    signs_between = signs[points_below : len(points) - points_above]
    # A decided sign at the first or the last of the points between means that the centre crosses
    # zero more than once.
    if len(signs_between) and (signs_between[0] or signs_between[-1]):
        return Crossing(None, None, None)
    low_end = float(points[points_below - 1]) if points_below else None
    high_end = float(points[-points_above]) if points_above else None
    if low_end is None or high_end is None:
        return Crossing(None, low_end, high_end)
    distances = np.abs(scores)
    closest_points = points[distances == distances.min()]
    return Crossing(float(closest_points.mean()), low_end, high_end)


def _mean_and_error(values: Values) -> tuple[Values, Values]:
    """Return the means over the last axis, and their standard errors."""
    return values.mean(axis=-1), values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1])


#: Maximum number of values of a set. A larger set is replaced by this number of evenly spaced
#: quantiles, which widens the interval.
_MAX_VALUES_OF_SET = 2_000


def ratio_between(x: Sequence[float], y: Sequence[float]) -> Estimate | None:
    """Return the ratio of the values `x` to the values `y`, which are positive and not paired.

    None if either set has fewer than six values. The ratio is the median of all x/y (Hodges and
    Lehmann). The d-th smallest and the d-th largest x/y enclose the ratio with probability
    1 - 2 P(U < d). U is the rank-sum statistic. It is assumed to be normal, with correction for
    continuity.
    """
    if min(len(x), len(y)) < MIN_VALUES:
        return None
    x_values, y_values = _thinned_set(x), _thinned_set(y)
    m, n = len(x_values), len(y_values)
    ratios = np.sort(np.divide.outer(x_values, y_values).ravel())
    deviation = np.sqrt(m * n * (m + n + 1) / 12)
    rank = int(m * n / 2 + 0.5 - NORMAL_QUANTILE * deviation)
    return Estimate(float(np.median(ratios)), float(ratios[rank - 1]), float(ratios[-rank]))


def _thinned_set(values: Sequence[float]) -> Values:
    array = np.asarray(values, dtype=float)
    if len(array) <= _MAX_VALUES_OF_SET:
        return array
    return np.asarray(
        np.quantile(array, (np.arange(_MAX_VALUES_OF_SET) + 0.5) / _MAX_VALUES_OF_SET)
    )


#: Four standard deviations of normal noise, as a multiple of its median absolute deviation.
_HIT_DEVIATIONS = 4 * 1.4826


def hit_share(log_times: Values, margin: float) -> Estimate | None:
    """Return the share of treated runs that are hit; None below six runs.

    Its interval is that of Clopper and Pearson (1934). `log_times`: natural logarithms of the times
    of treated runs, shape (runs,). Each time is divided by the time of its block's typical baseline
    run. A run is hit if it takes longer than the typical treated run by more than the margin, and
    by more than four standard deviations (estimated from the median absolute deviation).
    """
    runs = len(log_times)
    if runs < MIN_VALUES:
        return None
    excess = log_times - np.median(log_times)
    threshold = max(np.log1p(margin), _HIT_DEVIATIONS * np.median(np.abs(excess)))
    hits = int((excess > threshold).sum())
    low = float(special.betaincinv(hits, runs - hits + 1, TAIL_PROBABILITY)) if hits else 0.0
    upper_hits, others = hits + 1, runs - hits
    high = float(special.betaincinv(upper_hits, others, UPPER_PROBABILITY)) if others else 1.0
    return Estimate(hits / runs, low, high)
