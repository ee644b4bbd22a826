"""Comparison of two sides when the night is the unit: one value per night and side.

Student's t pools the spreads of both sides, Welch's keeps them apart; the more cautious of the two
is used, and Student's alone if one side is one night (docs/method.md#two-runs). Nights are taken as
independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy import special

from analysis.statistics.aligned_ranks import Values
from analysis.statistics.interval import TAIL, Estimate

#: Standard error of a logarithm, and its degrees of freedom.
_Error = tuple[float, float]


@dataclass(frozen=True)
class NightsDifference:
    """The ratio between two sides of nights."""

    ratio: Estimate
    #: Two-sided p value of "the sides do not differ".
    p: float
    #: By Student and by Welch.
    errors: tuple[_Error, ...]

    def least(self, level: float) -> float:
        """Least relative change with a p value of at most `level`, given this spread."""
        return math.expm1(_half_width(self.errors, level / 2))


def mean_of_nights(values: Sequence[float]) -> Estimate | None:
    """Geometric mean of one positive value per night with Student's interval; None below two."""
    n = len(values)
    if n < 2:
        return None
    mean, centred = _logs(values)
    return _estimate(mean, [(math.sqrt(float(centred @ centred) / (n - 1) / n), n - 1.0)])


def ratio_of_nights(x: Sequence[float], y: Sequence[float]) -> NightsDifference | None:
    """Ratio of the nights `x` to the nights `y`, positive values; None below three in total."""
    if min(len(x), len(y)) < 1 or len(x) + len(y) < 3:
        return None
    (mean, one), (mean_other, other) = _logs(x), _logs(y)
    errors, change = _errors(one, other), mean - mean_other
    # Nights without any spread differ, or do not.
    certain = 1.0 if change == 0 else 0.0
    p = max(
        float(2 * special.stdtr(freedom, -abs(change) / error)) if error else certain
        for error, freedom in errors
    )
    return NightsDifference(_estimate(change, errors), p, tuple(errors))


def ratio_of_two(x: Estimate, y: Estimate) -> Estimate:
    """Ratio of two independent estimates of positive figures, from their intervals.

    On logarithms, the distances of the bounds add in quadrature (Zou and Donner 2008, Statistics in
    Medicine 27, 1693-1702).
    """
    lx, ly = (np.log([of.low, of.value, of.high]).tolist() for of in (x, y))
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


def _errors(x: Values, y: Values) -> list[_Error]:
    """Student's, and Welch's if both sides have several nights."""
    m, n = len(x), len(y)
    squares = float(x @ x), float(y @ y)
    errors = [(math.sqrt(sum(squares) / (m + n - 2) * (1 / m + 1 / n)), m + n - 2.0)]
    if min(m, n) > 1 and any(squares):
        a, b = squares[0] / (m - 1) / m, squares[1] / (n - 1) / n
        errors.append((math.sqrt(a + b), (a + b) ** 2 / (a**2 / (m - 1) + b**2 / (n - 1))))
    return errors


def _estimate(log: float, errors: Sequence[_Error]) -> Estimate:
    half = _half_width(errors, TAIL)
    return Estimate(math.exp(log), math.exp(log - half), math.exp(log + half))


def _half_width(errors: Sequence[_Error], tail: float) -> float:
    return max(-error * float(special.stdtrit(freedom, tail)) for error, freedom in errors)
