"""Compares the scatter of runs with writes to the scatter of their baseline runs.

The test of Brown and Forsythe (1974) is used: Student's t of the distances from the median.
"""

from __future__ import annotations

import math

import numpy as np

from analysis.statistics.aligned_ranks import Values
from analysis.statistics.interval import MIN_VALUES

#: Chance that a wider scatter is reported although the scatter is the same.
_ERROR_LEVEL = 0.01


def widening(log_times: Values) -> float | None:
    """Return the standard deviation of the treated runs / that of the baseline runs.

    `log_times` is the array that `aligned_ranks.slowdown` takes. Both deviations are computed from
    its logarithms. None below six pairs, or if the ratio is not above 1, or not shown to be. If it
    is shown and all baseline runs took the same time, the ratio is infinite.
    """
    from scipy import special

    if len(log_times) < MIN_VALUES:
        return None
    treated, baselines = log_times[:, 0], log_times[:, 1:]
    baselines = baselines[np.isfinite(baselines)]
    treated_distances = np.abs(treated - np.median(treated))
    baseline_distances = np.abs(baselines - np.median(baselines))
    degrees_of_freedom = len(treated) + len(baselines) - 2
    sum_of_squares = sum(
        len(distances) * float(np.var(distances))
        for distances in (treated_distances, baseline_distances)
    )
    pooled_variance = sum_of_squares / degrees_of_freedom
    standard_error = math.sqrt(pooled_variance * (1 / len(treated) + 1 / len(baselines)))
    excess = float(treated_distances.mean() - baseline_distances.mean())
    if excess <= special.stdtrit(degrees_of_freedom, 1 - _ERROR_LEVEL) * standard_error:
        return None
    baseline_deviation = float(np.std(baselines, ddof=1))
    ratio = float(np.std(treated, ddof=1)) / baseline_deviation if baseline_deviation else math.inf
    # One baseline run far from the others makes their deviation large, not their mean distance.
    return ratio if ratio > 1 else None
