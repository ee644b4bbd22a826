"""Chooses which number of cores to measure next, so that a few points replace a full sweep.

The ends come first. Then the number is measured on which the likeliest models of the points so far
disagree most; where they agree, the middle of the widest gap. A placement is done when the models
agree everywhere to within a tolerance, or its points are used up.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from analysis.contention.fit import contenders
from analysis.contention.parameters import alone, shared
from analysis.contention.sweep import Array, Point, curves, deviation

#: Models whose information criterion exceeds the best one by more than this are ignored.
PLAUSIBLE = 10.0
#: Number of models compared.
COMMITTEE = 8
#: Relative disagreement below which another measurement would add nothing.
TOLERANCE = 0.01


def next_n(points: list[Point], cores: int, most: int) -> int | None:
    """The number of cores to measure next on a placement; None when it is done.

    `points` are those measured so far, `cores` the socket's, `most` the points that may be spent.
    """
    measured = sorted({p.n for p in points})
    open_n = [n for n in range(1, cores + 1) if n not in measured]
    if not open_n or len(measured) >= most:
        return None
    if 1 not in measured:
        return 1
    if cores not in measured:
        return cores
    apart = _disagreement(points, cores)
    worst = max(open_n, key=lambda n: float(apart[n - 1]))
    if len(measured) > 2 and apart[worst - 1] < TOLERANCE:
        widest = max(pairwise(measured), key=lambda gap: gap[1] - gap[0])
        return None if widest[1] - widest[0] <= cores / 4 else sum(widest) // 2
    return worst


def points_allowed(cores: int) -> int:
    """Points per placement for a third of a full sweep's runs; at least both ends and one between.

    A full sweep takes three runs per point; here it is two, plus two of communications alone.
    """
    return max(3, (cores - 2) // 2)


def _disagreement(points: list[Point], cores: int) -> Array:
    """Largest relative difference between plausible models, for 1 .. cores; shape (cores,)."""
    found = contenders(curves(points), COMMITTEE)
    plausible = [p for p, cost in found if cost - found[0][1] <= PLAUSIBLE]
    n = np.arange(1, cores + 1)
    rates = np.stack([[alone(p, n), *shared(p, n)] for p in plausible])
    spread = np.abs(deviation(rates, rates[:1]))
    largest: Array = np.nan_to_num(spread).max(axis=(0, 1))
    return largest
