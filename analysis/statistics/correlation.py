"""Pearson's correlation with its interval (Table IV of seed 000)."""

from __future__ import annotations

from collections.abc import Sequence

from scipy import stats

from analysis.statistics.interval import CONFIDENCE, FEWEST, Estimate


def pearson(
    x: Sequence[float], y: Sequence[float], confidence: float = CONFIDENCE
) -> Estimate | None:
    """Pearson's r of the paired values `x` and `y`, with the interval of Fisher's transformation.

    The interval assumes two normal variables and is approximate. None from fewer than 6 pairs, and
    where one of the two never changes, since r is then undefined.
    """
    if len(x) != len(y):
        raise ValueError(f"{len(x)} and {len(y)} values are no pairs")
    if len(x) < FEWEST or min(x) == max(x) or min(y) == max(y):
        return None
    result = stats.pearsonr(x, y)
    interval = result.confidence_interval(confidence)
    return Estimate(float(result.statistic), float(interval.low), float(interval.high), confidence)
