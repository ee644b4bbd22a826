"""Compares the nights of two sides, with one value for each night.

Student's t pools the spreads of both sides; Welch's t keeps them apart. The more cautious of the
two is used. If one side has one night, only Student's t can be used. Neighbouring nights may
correlate. The correlation is estimated from the machine's history or, without one, from the nights
compared (docs/method.md#two-runs; Prais and Winsten 1954; Berger and Boos 1994). If the nights of
the two sides alternate, each night is compared with its neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean
from typing import NamedTuple

import numpy as np
from scipy import special

from analysis.statistics.aligned_ranks import Values
from analysis.statistics.interval import TAIL_PROBABILITY, Estimate, Interval

#: Chance that nights correlate by more than `NightCorrelation.at_most`, if this limit is estimated
#: from the nights compared.
MISSED_CHANCE = 0.05
#: The same chance, if the limit is estimated from a history. With these two chances, a change is
#: reported in at most 5 % of comparisons of unchanged nights (`python -m tests.studies.nights`).
MISSED_CHANCE_OF_HISTORY = 0.1
#: Correlations that are tried, 0 to 0.95. Nights are assumed to correlate by at most the last
#: value.
CORRELATIONS = tuple(step / 20 for step in range(20))
#: Largest factor of an interval's ends, either way, and of a least change. Two nights that differ
#: much may give a larger one, even larger than a float can be.
_MAX_FACTOR = 1e6


class _Error(NamedTuple):
    """The error of the logarithm of a ratio or of a mean, and its degrees of freedom."""

    standard_error: float
    freedom: float


@dataclass(frozen=True)
class NightCorrelation:
    """The correlation of neighbouring nights of a side."""

    #: The estimated correlation; None if nights are too few, or do not differ.
    estimate: float | None
    #: The largest correlation that is not rejected.
    at_most: float
    #: Number of nights of the machine's history from which it was estimated. 0 means that it was
    #: estimated from the compared nights.
    history_nights: int = 0

    @property
    def is_worst(self) -> bool:
        """Return whether the largest correlation could not be rejected, so that it is assumed."""
        return self.at_most == CORRELATIONS[-1]


@dataclass(frozen=True)
class NightsDifference:
    """The ratio of one side's nights to the other's, with p value and errors."""

    ratio: Estimate
    #: Two-sided p value of "the sides do not differ".
    p: float
    #: Errors by Student and by Welch for independent nights, then both for the largest correlation.
    errors: tuple[_Error, ...]
    #: Width of the interval / width for independent nights, both in logarithms.
    widening: float

    def least_change(self, level: float) -> float:
        """Return the smallest relative change with a p value of `level`, given this spread."""
        return _least_change(self.errors, level)

    def least_alternating_change(self, level: float) -> float:
        """Return the least change if as many nights alternated between the sides.

        If neighbouring nights correlate, the least change is even smaller than this.
        """
        error, freedom = self.errors[0]
        return _least_change([_Error(error, freedom / 2)], level)


def correlation_of_nights(
    rows: Sequence[tuple[Sequence[float], Sequence[float]]], missed_chance: float = MISSED_CHANCE
) -> NightCorrelation:
    """Return the correlation of neighbouring nights, which is assumed to be the same in all `rows`.

    A row has the positive values of one quantity on each side, with nights in order of time. Rows
    that lack a night are left out, and so are rows whose nights do not differ. `missed_chance` is
    the chance that nights correlate by more than the upper limit.
    """
    m, n = max(((len(x), len(y)) for x, y in rows), default=(0, 0), key=sum)
    complete = [(x, y) for x, y in rows if (len(x), len(y)) == (m, n)]
    nights = np.array([np.concatenate([_logs(x)[1], _logs(y)[1]]) for x, y in complete])
    nights = nights.reshape(len(complete), m + n)
    nights = nights[nights.any(axis=1)]
    if max(m, n) < 3 or not len(nights):
        return NightCorrelation(estimate=None, at_most=CORRELATIONS[-1])
    nights /= np.linalg.norm(nights, axis=1, keepdims=True)
    ratio = float(np.einsum("ri,ij,rj->r", nights, _neighbours(m, n), nights).mean())
    expected_ratios, deviations = np.array([neighbour_ratio(m, n, r) for r in CORRELATIONS]).T
    errors = deviations / math.sqrt(count_independent_rows(nights, m + n - 2))
    # A correlation is rejected if a ratio as small as this one would be too improbable with it.
    not_rejected = ratio - expected_ratios > special.ndtri(missed_chance) * errors
    return NightCorrelation(
        estimate=float(np.interp(ratio, expected_ratios, CORRELATIONS)),
        at_most=float(np.max(CORRELATIONS, where=not_rejected, initial=0.0)),
    )


#: Smallest and largest number of nights of a history from which the correlation is estimated.
MIN_HISTORY_NIGHTS, MAX_HISTORY_NIGHTS = 30, 200


def correlation_of_history(series: Sequence[Sequence[float]]) -> NightCorrelation | None:
    """Return the correlation of neighbouring nights in a machine's history.

    `series` has the positive values of each quantity, in order of time. Only quantities that were
    measured in every night are used. Returns None if the history has fewer nights than
    `MIN_HISTORY_NIGHTS`.
    """
    nights = max(map(len, series), default=0)
    if nights < MIN_HISTORY_NIGHTS:
        return None
    # The history is one side; the other side has no nights.
    rows: list[tuple[Sequence[float], Sequence[float]]]
    rows = [(values[-MAX_HISTORY_NIGHTS:], []) for values in series if len(values) == nights]
    correlation = correlation_of_nights(rows, MISSED_CHANCE_OF_HISTORY)
    return replace(correlation, history_nights=min(nights, MAX_HISTORY_NIGHTS))


def mean_of_nights(values: Sequence[float], correlation: float = 0.0) -> Estimate | None:
    """Return the geometric mean of one positive value per night, with its interval.

    `correlation` is the correlation of neighbouring nights. Nights are in order of time. Returns
    None for fewer than two nights.
    """
    n = len(values)
    if n < 2:
        return None
    mean, centred = _logs(values)
    errors = [
        _Error(math.sqrt(_squares(centred, r) / (n - 1) * variance_of_mean(n, r)), n - 1.0)
        for r in {0.0, correlation}
    ]
    return _estimate(mean, errors)


def ratio_of_nights(
    x: Sequence[float], y: Sequence[float], correlation: float = 0.0
) -> NightsDifference | None:
    """Return the ratio of the nights `x` to the nights `y`, which have positive values.

    `correlation` is the correlation of neighbouring nights. Nights are in order of time. Returns
    None if a side has no night, or both sides together have fewer than three.
    """
    if min(len(x), len(y)) < 1 or len(x) + len(y) < 3:
        return None
    (mean_x, centred_x), (mean_y, centred_y) = _logs(x), _logs(y)
    uncorrelated = _errors(centred_x, centred_y, 0.0)
    errors = [*uncorrelated, *(_errors(centred_x, centred_y, correlation) if correlation else [])]
    change = mean_x - mean_y
    # Without any spread, two means are certainly the same, or certainly different.
    p_without_spread = 1.0 if change == 0 else 0.0
    p = max(
        float(2 * special.stdtr(freedom, -abs(change) / error)) if error else p_without_spread
        for error, freedom in errors
    )
    uncorrelated_width = _half_width(uncorrelated, TAIL_PROBABILITY)
    widening = (
        _half_width(errors, TAIL_PROBABILITY) / uncorrelated_width if uncorrelated_width else 1.0
    )
    return NightsDifference(
        ratio=_estimate(change, errors), p=p, errors=tuple(errors), widening=widening
    )


def ratio_of_next_nights(x: Sequence[float], y: Sequence[float]) -> Interval:
    """Return the interval that covers the ratio of the next night of each side at 95 %.

    `x` and `y` have one positive value for each night, and at least two nights each. Nights must
    not correlate. The next night of a side varies as much as that side's nights did.
    """
    (mean_x, centred_x), (mean_y, centred_y) = _logs(x), _logs(y)
    ratio = _estimate(mean_x - mean_y, _errors(centred_x, centred_y, next_variance=1.0))
    return Interval(ratio.low, ratio.high)


def ratio_of_alternating(x: Sequence[float], y: Sequence[float]) -> NightsDifference | None:
    """Return the ratio of the nights `x` to the nights `y` if each is compared with its neighbour.

    Returns None if a side has fewer than two nights, or if the sides have different numbers of
    nights. What neighbours have in common cancels. If nights correlate by r, two successive ratios
    correlate by -r (1 - r) / 2, which makes the interval rather too wide.
    """
    if len(x) != len(y) or len(x) < 2:
        return None
    differences = np.log(x) - np.log(y)
    change = float(differences.mean())
    error = float(differences.std(ddof=1)) / math.sqrt(len(x))
    errors = [_Error(error, len(x) - 1.0)]
    p = float(2 * special.stdtr(len(x) - 1, -abs(change) / error)) if error else float(change == 0)
    return NightsDifference(
        ratio=_estimate(change, errors), p=p, errors=tuple(errors), widening=1.0
    )


def ratio_of_two(x: Estimate, y: Estimate) -> Estimate:
    """Return the ratio of two independent estimates of positive figures, from their intervals.

    The distances between bounds and values, in logarithms, add in quadrature (Zou and Donner 2008,
    Statistics in Medicine 27, 1693-1702).
    """
    log_x, log_y = (estimate.mapped(np.log) for estimate in (x, y))
    ratio = log_x.value - log_y.value
    below = math.hypot(log_x.value - log_x.low, log_y.high - log_y.value)
    above = math.hypot(log_x.high - log_x.value, log_y.value - log_y.low)
    return Estimate(
        value=math.exp(ratio), low=math.exp(ratio - below), high=math.exp(ratio + above)
    )


def _logs(values: Sequence[float]) -> tuple[float, Values]:
    """Return the mean of the logarithms, and the deviation of each logarithm from this mean."""
    logs = np.log(np.asarray(values, dtype=float))
    mean = fmean(logs) if len(logs) else 0.0
    return mean, logs - mean


def _squares(centred: Values, r: float) -> float:
    """Return the sum of squares with n - 1 degrees of freedom, without the correlation `r`.

    The sum divided by n - 1 is the variance of one night.
    """
    decorrelated = decorrelation_matrix(len(centred), r) @ centred
    return float(decorrelated @ decorrelated)


@cache
def decorrelation_matrix(n: int, r: float) -> Values:
    """Return the matrix (n, n) that removes neighbours' correlation `r`, and the mean, from nights.

    A night minus r times the night before is independent of all earlier nights.
    """
    steps = np.eye(n) - r * np.eye(n, k=-1)
    steps[0, 0] = math.sqrt(1 - r * r)
    level = steps.sum(axis=1)
    return np.asarray(
        (steps - np.outer(level, level @ steps) / (level @ level)) / math.sqrt(1 - r * r)
    )


@cache
def variance_of_mean(n: int, r: float) -> float:
    """Variance of the mean of n nights / variance of one night, if neighbours correlate by `r`."""
    return (1 + 2 * sum((1 - k / n) * r**k for k in range(1, n))) / n


def _errors(x: Values, y: Values, r: float = 0.0, *, next_variance: float = 0.0) -> list[_Error]:
    """Return Student's and Welch's error of the difference between both means.

    `x` and `y` are deviations of logarithms. Welch's error is left out if a side has one night, or
    if all deviations are 0. `next_variance` is added to the variance of each mean, in variances of
    one night: 1 gives the error of the difference between the next night of each side.
    """
    m, n = len(x), len(y)
    squares = _squares(x, r), _squares(y, r)
    mean_variances = [variance_of_mean(nights, r) + next_variance for nights in (m, n)]
    pooled_freedom = m + n - 2.0
    pooled_variance = sum(squares) / pooled_freedom * sum(mean_variances)
    errors = [_Error(math.sqrt(pooled_variance), pooled_freedom)]
    if min(m, n) > 1 and any(squares):
        variance_x = squares[0] / (m - 1) * mean_variances[0]
        variance_y = squares[1] / (n - 1) * mean_variances[1]
        variance = variance_x + variance_y
        welch_freedom = variance**2 / (variance_x**2 / (m - 1) + variance_y**2 / (n - 1))
        errors.append(_Error(math.sqrt(variance), welch_freedom))
    return errors


def _estimate(log_value: float, errors: Sequence[_Error]) -> Estimate:
    """Return a ratio or mean with its 95 % interval, from its logarithm.

    Of the intervals by the errors, the widest is used.
    """
    half_width = min(_half_width(errors, TAIL_PROBABILITY), math.log(_MAX_FACTOR))
    return Estimate(
        value=math.exp(log_value),
        low=math.exp(log_value - half_width),
        high=math.exp(log_value + half_width),
    )


def _least_change(errors: Sequence[_Error], level: float) -> float:
    """Return the smallest relative change with a p value of `level`, at most to `_MAX_FACTOR`."""
    return math.expm1(min(_half_width(errors, level / 2), math.log(_MAX_FACTOR)))


def _half_width(errors: Sequence[_Error], tail_probability: float) -> float:
    """Return the half-width of the widest interval of the logarithm with these tails."""
    return max(
        -error * float(special.stdtrit(freedom, tail_probability)) for error, freedom in errors
    )


# The correlation is estimated from a ratio: products of neighbouring nights over squares of nights.
# Both are quadratic forms of the m + n nights of both sides, so the expected ratio follows from the
# nights' covariances alone. Matrices have shape (m + n, m + n).


@cache
def _distance(m: int, n: int) -> Values:
    """Return the distances between nights, in nights of their side; infinite between sides."""
    night = np.arange(m + n)
    distance = np.abs(np.subtract.outer(night, night)).astype(float)
    return np.where(np.equal.outer(night < m, night < m), distance, np.inf)


def _neighbours(m: int, n: int) -> Values:
    """Return the quadratic form whose value is the sum of the products of neighbouring nights."""
    return np.where(_distance(m, n) == 1, 0.5, 0.0)


@cache
def neighbour_ratio(m: int, n: int, r: float) -> tuple[float, float]:
    """Return the expected ratio of products of neighbours to squares, and its standard deviation.

    A row has `m` nights of one side and `n` of the other, whose neighbours correlate by `r`. Both
    figures are exact to second order in the deviations of products and squares. In simulations with
    3 to 12 nights a side, `r` up to 0.95 and 100,000 rows each, the expected ratio was 0 to 0.05
    too low, so the correlations that are not rejected are slightly too large. The deviation was
    correct within 0.05.
    """
    on_same_side = np.isfinite(_distance(m, n))
    covariance = r ** _distance(m, n)
    centred = np.eye(m + n) - on_same_side / on_same_side.sum(axis=0)
    products = centred @ _neighbours(m, n) @ centred
    squares = float(np.trace(centred @ covariance))
    first_order = float(np.trace(products @ covariance)) / squares
    form = (products - first_order * centred) @ covariance
    deviation = math.sqrt(max(2 * float(np.trace(form @ form)), 0.0)) / squares
    second_order = 2 * float(np.trace(form @ centred @ covariance)) / squares**2
    return first_order - second_order, deviation


def count_independent_rows(centred: Values, freedom: int) -> float:
    """Return the number of independent rows whose mean would have the same error.

    Rows are not independent, since they have the same nights. `centred` has centred nights (row,
    night), with each row scaled to norm 1. `freedom` is the degrees of freedom of a row. The
    squared correlation of two rows, minus what chance adds to it, is the correlation of their
    products of neighbours.
    """
    rows = len(centred)
    chance = 1 / freedom
    squares = (centred @ centred.T) ** 2
    total_correlation = float((squares - chance).sum()) / (1 - chance) if freedom > 1 else 0.0
    return rows**2 / min(max(total_correlation, rows), rows**2)
