"""Comparison of two sides when the night is the unit: one value per night and side.

Runs within a night share its temperature, its neighbours and its allocation, so their interval does
not cover how nights differ. Several nights a side do: the difference of the sides' means of the
logarithms is judged by the spread between nights. Student's t pools the spreads of both sides and
is exact if they are equal; Welch's keeps them apart and holds if they are not, with about equally
many nights. The more cautious of the two is used, and Student's alone if one side is one night.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from scipy import special

from analysis.statistics.interval import CONFIDENCE, Estimate


@dataclass(frozen=True)
class NightsDifference:
    """The ratio between two sides of nights."""

    ratio: Estimate
    #: Two-sided p value of "the sides do not differ".
    p: float
    #: Standard errors of the logarithm and their degrees of freedom: Student's, and Welch's.
    errors: tuple[tuple[float, float], ...]

    def least(self, level: float) -> float:
        """Least relative change with a p value of at most `level`, given this spread."""
        return math.expm1(_half_width(self.errors, level))


def mean_of_nights(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate | None:
    """Geometric mean of one positive value per night with Student's interval; None below two."""
    if len(values) < 2:
        return None
    mean, square = _logs(values)
    n = len(values)
    return _estimate(mean, [(math.sqrt(square / (n - 1) / n), n - 1.0)], confidence)


def ratio_of_nights(
    x: Sequence[float], y: Sequence[float], confidence: float = CONFIDENCE
) -> NightsDifference | None:
    """Ratio of the nights `x` to the nights `y`, positive values; None below three in total."""
    m, n = len(x), len(y)
    if min(m, n) < 1 or m + n < 3:
        return None
    means, squares = zip(_logs(x), _logs(y), strict=True)
    errors = [(math.sqrt(sum(squares) / (m + n - 2) * (1 / m + 1 / n)), m + n - 2.0)]
    if min(m, n) > 1 and all(squares):
        parts = [square / (k - 1) / k for square, k in zip(squares, (m, n), strict=True)]
        freedom = sum(parts) ** 2 / (parts[0] ** 2 / (m - 1) + parts[1] ** 2 / (n - 1))
        errors.append((math.sqrt(sum(parts)), freedom))
    change = means[0] - means[1]
    p = max(_p(change, error, freedom) for error, freedom in errors)
    return NightsDifference(_estimate(change, errors, confidence), p, tuple(errors))


def ratio_of_two(x: Estimate, y: Estimate) -> Estimate:
    """Ratio of two independent estimates of positive figures, from their intervals.

    On logarithms, the distances of the bounds add in quadrature (Zou and Donner 2008, Statistics in
    Medicine 27, 1693-1702).
    """
    lx, ly = ([math.log(v) for v in (each.low, each.value, each.high)] for each in (x, y))
    ratio = lx[1] - ly[1]
    return Estimate(
        math.exp(ratio),
        math.exp(ratio - math.hypot(lx[1] - lx[0], ly[2] - ly[1])),
        math.exp(ratio + math.hypot(lx[2] - lx[1], ly[1] - ly[0])),
        min(x.confidence, y.confidence),
    )


def _logs(values: Sequence[float]) -> tuple[float, float]:
    """Mean of the logarithms, and the sum of their squared distances from it."""
    logs = [math.log(value) for value in values]
    mean = fmean(logs)
    return mean, sum((log - mean) ** 2 for log in logs)


def _estimate(log: float, errors: Sequence[tuple[float, float]], confidence: float) -> Estimate:
    half = _half_width(errors, 1 - confidence)
    return Estimate(math.exp(log), math.exp(log - half), math.exp(log + half), confidence)


def _half_width(errors: Sequence[tuple[float, float]], level: float) -> float:
    return max(-error * float(special.stdtrit(freedom, level / 2)) for error, freedom in errors)


def _p(change: float, error: float, freedom: float) -> float:
    if error == 0:
        return 1.0 if change == 0 else 0.0
    return float(2 * special.stdtr(freedom, -abs(change) / error))
