"""Pearson's r with its interval and p value.

The interval is Fisher's: atanh(r) is nearly normal with standard deviation 1 / sqrt(n - 3) (Fisher
1921, Metron 1, 3-32). The p value is that of t = r sqrt((n - 2) / (1 - r^2)) with n - 2 degrees of
freedom, against r = 0. Both take the points as independent and jointly normal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from analysis.statistics.interval import CONFIDENCE

#: Fewest points with an interval.
FEWEST_POINTS = 4


@dataclass(frozen=True)
class Correlation:
    """Pearson's r of some points."""

    r: float
    low: float
    high: float
    #: Two-sided, against r = 0.
    p: float
    points: int


def pearson(x: Sequence[float], y: Sequence[float]) -> Correlation | None:
    """r of the points (x, y); None below four points, or if x or y does not vary."""
    if len(x) < FEWEST_POINTS or len(set(x)) < 2 or len(set(y)) < 2:
        return None
    a, b = (np.asarray(values, dtype=float) / max(map(abs, values)) for values in (x, y))
    a, b = a - a.mean(), b - b.mean()
    spread = math.sqrt(float(a @ a) * float(b @ b))
    if spread == 0:
        return None
    return of_r(min(1.0, max(-1.0, float(a @ b) / spread)), len(x))


def of_r(r: float, points: int) -> Correlation:
    """Interval and p value that belong to an r, such as a published one."""
    if points < FEWEST_POINTS or not -1 <= r <= 1:
        raise ValueError(f"r = {r} of {points} points: at least {FEWEST_POINTS}, r within -1 and 1")
    if abs(r) == 1:
        return Correlation(r, r, r, 0.0, points)
    t = r * math.sqrt((points - 2) / (1 - r * r))
    half = float(special.ndtri((1 + CONFIDENCE) / 2)) / math.sqrt(points - 3)
    z = math.atanh(r)
    p = 2 * float(special.stdtr(points - 2, -abs(t)))
    return Correlation(r, math.tanh(z - half), math.tanh(z + half), p, points)
