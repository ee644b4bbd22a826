"""Centres of values, one per pair; the ratio between those of two sets; and runs that are hit.

The estimate of a centre is that of Hodges and Lehmann (1963). Its interval holds what Wilcoxon's
signed ranks or Student's t do not reject: ranks alone are too narrow for many values from a skewed
distribution, t alone for few; the wider holds for both. Values may have any sign and unit, other
than the ratios of `analysis.statistics.aligned_ranks`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from analysis.statistics.aligned_ranks import Values, score, shifts, thin_rows, with_zero_baselines
from analysis.statistics.interval import (
    MIN_VALUES,
    NORMAL_QUANTILE,
    TAIL_PROBABILITY,
    UPPER_PROBABILITY,
    Estimate,
)

#: Steps of the range in which a crossing is sought; its ends are exact to one step.
_STEPS = 1000


@dataclass(frozen=True)
class Crossing:
    """The point where a quantity goes from below zero to above it, within the measured range.

    With both ends an interval; with `low` only, it lies above that; with `high` only, below that;
    with neither, it is not decided.
    """

    value: float | None
    low: float | None
    high: float | None


def location(values: Values) -> Estimate | None:
    """The centre of `values` with its interval; None below six."""
    if len(values) < MIN_VALUES:
        return None
    scale = float(np.abs(values).max()) or 1.0
    scaled = thin_rows(values) / scale
    mean, error = _mean(scaled)
    half = float(special.stdtrit(len(scaled) - 1, UPPER_PROBABILITY)) * error
    low, centre, high = shifts(with_zero_baselines(scaled))
    return Estimate(
        value=float(centre * scale),
        low=float(min(low, mean - half) * scale),
        high=float(max(high, mean + half) * scale),
    )


def p_value(values: Values) -> float:
    """Two-sided p value of 'the centre is zero': the larger of signed ranks' and Student's."""
    from scipy import stats  # takes most of a second

    if len(values) < MIN_VALUES or not np.any(values):
        return 1.0
    mean, error = _mean(values)
    student = 2 * special.stdtr(len(values) - 1, -abs(mean) / error) if error > 0 else 0.0
    return max(float(stats.wilcoxon(thin_rows(values)).pvalue), float(student))


def crossing(values_at: Callable[[Values], Values], low: float, high: float) -> Crossing:
    """Return where in [low, high] the centre of values changes from below zero to above.

    `values_at`: points of shape (n, 1) -> values of the pairs there, shape (n, pairs); the pairs
    are those of `thin_rows`. The interval holds every point at which zero is not rejected, as
    Fieller's (1954) does for the ratio of two means, and all points between them. It is open on a
    side if it reaches that end.
    """
    points = np.linspace(low, high, _STEPS + 1)
    values = values_at(points[:, None])
    if values.shape[-1] < MIN_VALUES:
        return Crossing(None, None, None)
    ranks = score(values)
    mean, error = _mean(values)
    by_t = np.abs(mean) > float(special.stdtrit(values.shape[-1] - 1, UPPER_PROBABILITY)) * error
    shown = (np.abs(ranks) > NORMAL_QUANTILE) & by_t & (np.sign(ranks) == np.sign(mean))
    # -1 or 1 where the centre is shown to be below or above zero, 0 where neither is.
    signs = np.where(shown, np.sign(mean), 0)
    # So many points at each end are shown to be on its side.
    below = int(np.argmin([*(signs < 0), False]))
    above = int(np.argmin([*(signs[::-1] > 0), False]))
    between = signs[below : len(points) - above]
    if len(between) and (between[0] or between[-1]):
        return Crossing(None, None, None)
    left = float(points[below - 1]) if below else None
    right = float(points[-above]) if above else None
    if left is None or right is None:
        return Crossing(None, left, right)
    distance = np.abs(ranks)
    return Crossing(float(points[distance == distance.min()].mean()), left, right)


def _mean(values: Values) -> tuple[Values, Values]:
    """Mean and its standard error, over the last axis."""
    return values.mean(axis=-1), values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1])


#: A larger set is replaced by this many evenly spaced quantiles, which widens the interval.
_LARGEST_SET = 2_000


def ratio_between(x: Sequence[float], y: Sequence[float]) -> Estimate | None:
    """Ratio of the positive values `x` to `y`, which share no pairs; None below six of either.

    The median of all ratios x/y (Hodges and Lehmann). The d-th smallest and the d-th largest
    enclose the ratio with probability 1 - 2 P(U < d), where U is the rank-sum statistic, taken as
    normal, with correction for continuity.
    """
    if min(len(x), len(y)) < MIN_VALUES:
        return None
    some_x, some_y = _thinned(x), _thinned(y)
    m, n = len(some_x), len(some_y)
    ratios = np.sort(np.divide.outer(some_x, some_y).ravel())
    deviation = np.sqrt(m * n * (m + n + 1) / 12)
    rank = int(m * n / 2 + 0.5 - NORMAL_QUANTILE * deviation)
    return Estimate(float(np.median(ratios)), float(ratios[rank - 1]), float(ratios[-rank]))


def _thinned(values: Sequence[float]) -> Values:
    array = np.asarray(values, dtype=float)
    if len(array) <= _LARGEST_SET:
        return array
    return np.asarray(np.quantile(array, (np.arange(_LARGEST_SET) + 0.5) / _LARGEST_SET))


#: A run is hit beyond four standard deviations; so many median distances, for normal noise.
_DEVIATIONS = 4 * 1.4826


def hit_share(log_times: Values, margin: float) -> Estimate | None:
    """Share of the treated runs that are hit, after Clopper and Pearson (1934); None below six.

    `log_times`: natural logarithms of times relative to the typical baseline run. A run is hit if
    it takes longer than the typical treated run by more than the margin, and by more than four
    standard deviations (from the median distance to the median).
    """
    runs = len(log_times)
    if runs < MIN_VALUES:
        return None
    above = log_times - np.median(log_times)
    beyond = max(np.log1p(margin), _DEVIATIONS * np.median(np.abs(above)))
    hit = int((above > beyond).sum())
    low = float(special.betaincinv(hit, runs - hit + 1, TAIL_PROBABILITY)) if hit else 0.0
    high = float(special.betaincinv(hit + 1, runs - hit, UPPER_PROBABILITY)) if hit < runs else 1.0
    return Estimate(hit / runs, low, high)
