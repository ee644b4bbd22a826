"""Comparison of two sides when the night is the unit: one value per night and side.

Student's t pools the spreads of both sides, Welch's keeps them apart; the more cautious of the two
is used, and Student's alone if one side is one night. Neighbouring nights may correlate, as the
machine's history shows, or else these nights (docs/method.md#two-runs; Prais and Winsten 1954;
Berger and Boos 1994). Nights that alternate between the sides are compared with their neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean

import numpy as np
from scipy import special

from analysis.statistics.aligned_ranks import Values
from analysis.statistics.interval import TAIL, Estimate

#: Share of comparisons whose nights correlate by more than `NightCorrelation.at_most`, if they show
#: it themselves, and if a history does. All the same, unchanged nights name a change in at most 5 %
#: of comparisons (`python -m tests.studies.nights`).
_MISSED, _MISSED_OF_HISTORY = 0.05, 0.1
#: Correlations that are tried; nights are taken to correlate by no more than the last.
_TRIED = tuple(step / 20 for step in range(20))

#: Standard error of a logarithm, and its degrees of freedom.
_Error = tuple[float, float]


@dataclass(frozen=True)
class NightCorrelation:
    """How much neighbouring nights of a side correlate."""

    #: None if nights are too few, or do not differ.
    estimate: float | None
    #: The largest correlation that is not rejected.
    at_most: float
    #: Nights of the machine's history that show it; 0 if those that are compared do.
    of_history: int = 0

    @property
    def is_worst(self) -> bool:
        """Whether the nights reject no correlation."""
        return self.at_most == _TRIED[-1]


@dataclass(frozen=True)
class NightsDifference:
    """The ratio between two sides of nights."""

    ratio: Estimate
    #: Two-sided p value of "the sides do not differ".
    p: float
    #: By Student and by Welch; for independent nights, and for those of the largest correlation.
    errors: tuple[_Error, ...]
    #: Interval / interval of independent nights.
    widened: float

    def least(self, level: float) -> float:
        """Least relative change with a p value of at most `level`, given this spread."""
        return math.expm1(_half_width(self.errors, level / 2))

    def least_in_turn(self, level: float) -> float:
        """The same of as many nights in turn of either side; less if neighbours are alike."""
        error, freedom = self.errors[0]
        return math.expm1(_half_width([(error, freedom / 2)], level / 2))


def correlation_of_nights(
    rows: Sequence[tuple[Sequence[float], Sequence[float]]], missed: float = _MISSED
) -> NightCorrelation:
    """Of the positive values of both sides, one pair of sides a row, nights in order of time.

    Rows that lack a night are left out. All rows are taken to correlate alike. `missed`: chance
    that they correlate by more than `at_most`.
    """
    most = max(((len(x), len(y)) for x, y in rows), default=(0, 0), key=sum)
    full = [(x, y) for x, y in rows if (len(x), len(y)) == most]
    nights = np.array([np.concatenate([_logs(x)[1], _logs(y)[1]]) for x, y in full])
    nights = nights.reshape(len(full), sum(most))
    nights = nights[nights.any(axis=1)]
    if max(most) < 3 or not len(nights):
        return NightCorrelation(None, _TRIED[-1])
    nights /= np.linalg.norm(nights, axis=1, keepdims=True)
    neighbours = float(np.einsum("ri,ij,rj->r", nights, _neighbours(*most), nights).mean())
    expected, deviation = np.array([_of_neighbours(*most, r) for r in _TRIED]).T
    error = deviation / math.sqrt(_independent_rows(nights, sum(most) - 2))
    possible = neighbours - expected > special.ndtri(missed) * error
    return NightCorrelation(
        float(np.interp(neighbours, expected, _TRIED)),
        float(np.max(_TRIED, where=possible, initial=0.0)),
    )


#: Fewest and most nights from which a history says how much neighbours correlate.
FEWEST_OF_HISTORY, _MOST_OF_HISTORY = 30, 200


def correlation_of_history(series: Sequence[Sequence[float]]) -> NightCorrelation | None:
    """From past nights of one machine: positive values of each quantity, in order of time.

    Only of the quantities that every night has; None below 30 nights.
    """
    nights = max(map(len, series), default=0)
    if nights < FEWEST_OF_HISTORY:
        return None
    whole = [values for values in series if len(values) == nights]
    last: list[tuple[Sequence[float], Sequence[float]]]
    last = [(values[-_MOST_OF_HISTORY:], []) for values in whole]
    return replace(correlation_of_nights(last, _MISSED_OF_HISTORY), of_history=len(last[0][0]))


def mean_of_nights(values: Sequence[float], correlation: float = 0.0) -> Estimate | None:
    """Geometric mean of one positive value per night with Student's interval; None below two."""
    n = len(values)
    if n < 2:
        return None
    mean, centred = _logs(values)
    errors = [
        (math.sqrt(_squares(centred, r) / (n - 1) * variance_of_mean(n, r)), n - 1.0)
        for r in {0.0, correlation}
    ]
    return _estimate(mean, errors)


def ratio_of_nights(
    x: Sequence[float], y: Sequence[float], correlation: float = 0.0
) -> NightsDifference | None:
    """Ratio of the nights `x` to the nights `y`, positive values; None below three in total.

    `correlation`: that of neighbouring nights, which are in order of time.
    """
    if min(len(x), len(y)) < 1 or len(x) + len(y) < 3:
        return None
    (mean, one), (mean_other, other) = _logs(x), _logs(y)
    independent = _errors(one, other, 0.0)
    errors = [*independent, *(_errors(one, other, correlation) if correlation else [])]
    change = mean - mean_other
    # Nights without any spread differ, or do not.
    certain = 1.0 if change == 0 else 0.0
    p = max(
        float(2 * special.stdtr(freedom, -abs(change) / error)) if error else certain
        for error, freedom in errors
    )
    least = _half_width(independent, TAIL)
    widened = _half_width(errors, TAIL) / least if least else 1.0
    return NightsDifference(_estimate(change, errors), p, tuple(errors), widened)


def ratio_of_alternating(x: Sequence[float], y: Sequence[float]) -> NightsDifference | None:
    """Ratio of the nights `x` to the nights `y`, each to its neighbour; None below two of either.

    What neighbours share cancels. If nights correlate by r, two such ratios do by -r (1 - r) / 2,
    which makes the interval rather too wide.
    """
    if len(x) != len(y) or len(x) < 2:
        return None
    apart = np.log(x) - np.log(y)
    change, error = float(apart.mean()), float(apart.std(ddof=1)) / math.sqrt(len(x))
    errors = [(error, len(x) - 1.0)]
    p = float(2 * special.stdtr(len(x) - 1, -abs(change) / error)) if error else float(change == 0)
    return NightsDifference(_estimate(change, errors), p, tuple(errors), 1.0)


def ratio_of_two(x: Estimate, y: Estimate) -> Estimate:
    """Ratio of two independent estimates of positive figures, from their intervals.

    On logarithms, the distances of the bounds add in quadrature (Zou and Donner 2008, Statistics in
    Medicine 27, 1693-1702).
    """
    lx, ly = (np.log([estimate.low, estimate.value, estimate.high]).tolist() for estimate in (x, y))
    ratio = lx[1] - ly[1]
    return Estimate(
        math.exp(ratio),
        math.exp(ratio - math.hypot(lx[1] - lx[0], ly[2] - ly[1])),
        math.exp(ratio + math.hypot(lx[2] - lx[1], ly[1] - ly[0])),
    )


def _logs(values: Sequence[float]) -> tuple[float, Values]:
    """Mean of the logarithms, and their distances from it."""
    logs = np.log(np.asarray(values, dtype=float))
    mean = fmean(logs) if len(logs) else 0.0
    return mean, logs - mean


def _squares(centred: Values, r: float) -> float:
    """Sum of n - 1 squares of a night's deviation; neighbours correlate by r."""
    steps = independent(len(centred), r) @ centred
    return float(steps @ steps)


@cache
def independent(n: int, r: float) -> Values:
    """Matrix that makes nights whose neighbours correlate by `r` independent, and takes their mean.

    Each night less r times the one before is independent of all others.
    """
    steps = np.eye(n) - r * np.eye(n, k=-1)
    steps[0, 0] = math.sqrt(1 - r * r)
    level = steps.sum(axis=1)
    return np.asarray(
        (steps - np.outer(level, level @ steps) / (level @ level)) / math.sqrt(1 - r * r)
    )


@cache
def variance_of_mean(n: int, r: float) -> float:
    """Variance of the mean of n nights / variance of one."""
    return (1 + 2 * sum((1 - k / n) * r**k for k in range(1, n))) / n


def _errors(x: Values, y: Values, r: float) -> list[_Error]:
    """Student's, and Welch's if both sides have several nights."""
    m, n = len(x), len(y)
    squares = _squares(x, r), _squares(y, r)
    of_mean = variance_of_mean(m, r), variance_of_mean(n, r)
    errors = [(math.sqrt(sum(squares) / (m + n - 2) * sum(of_mean)), m + n - 2.0)]
    if min(m, n) > 1 and any(squares):
        a, b = squares[0] / (m - 1) * of_mean[0], squares[1] / (n - 1) * of_mean[1]
        errors.append((math.sqrt(a + b), (a + b) ** 2 / (a**2 / (m - 1) + b**2 / (n - 1))))
    return errors


def _estimate(log: float, errors: Sequence[_Error]) -> Estimate:
    half = _half_width(errors, TAIL)
    return Estimate(math.exp(log), math.exp(log - half), math.exp(log + half))


def _half_width(errors: Sequence[_Error], tail: float) -> float:
    return max(-error * float(special.stdtrit(freedom, tail)) for error, freedom in errors)


# Products of neighbouring nights, relative to their squares, as quadratic forms of both sides'
# nights. What is expected of them follows from the covariances of the nights alone. Matrices have
# shape (m + n, m + n).


@cache
def _apart(m: int, n: int) -> Values:
    """Nights between two nights of one side; infinite between the sides."""
    night = np.arange(m + n)
    distance = np.abs(np.subtract.outer(night, night)).astype(float)
    return np.where(np.equal.outer(night < m, night < m), distance, np.inf)


def _neighbours(m: int, n: int) -> Values:
    return np.where(_apart(m, n) == 1, 0.5, 0.0)


@cache
def _of_neighbours(m: int, n: int, r: float) -> tuple[float, float]:
    """Expected ratio of one row, and its standard deviation, if neighbours correlate by `r`.

    To second order in the deviations of products and squares. With 3 to 12 nights a side and `r` up
    to 0.95 the first is 0 to 0.05 too low, so that rather too large correlations stay possible, and
    the second within 0.05 (simulated, 100,000 rows each).
    """
    together = np.isfinite(_apart(m, n))
    covariance = r ** _apart(m, n)
    centred = np.eye(m + n) - together / together.sum(axis=0)
    products = centred @ _neighbours(m, n) @ centred
    squares = float(np.trace(centred @ covariance))
    first = float(np.trace(products @ covariance)) / squares
    form = (products - first * centred) @ covariance
    deviation = math.sqrt(max(2 * float(np.trace(form @ form)), 0.0)) / squares
    return first - 2 * float(np.trace(form @ centred @ covariance)) / squares**2, deviation


def _independent_rows(centred: Values, freedom: int) -> float:
    """So many independent rows would give as sharp a mean: rows of one case share its nights.

    `centred`: rows of centred nights, of length 1. Their squared correlations, less what chance
    adds, are the correlations of their products of neighbours.
    """
    rows = len(centred)
    chance = 1 / freedom
    products = (centred @ centred.T) ** 2
    together = float((products - chance).sum()) / (1 - chance) if freedom > 1 else 0.0
    return rows**2 / min(max(together, rows), rows**2)
