"""Whether the runs with writes scatter more than their baseline runs.

The test is that of Brown and Forsythe (1974): Student's t of the distances from the median.
"""

from __future__ import annotations

import math

import numpy as np

from analysis.statistics.aligned_ranks import Values
from analysis.statistics.interval import FEWEST

#: Chance that a wider scatter is named where there is none.
_LEVEL = 0.01


def widening(log_times: Values) -> float | None:
    """Standard deviation of the treated runs / of the baseline runs; None if not shown above 1.

    `log_times` as of `aligned_ranks.slowdown`. None below six pairs as well.
    """
    from scipy import special

    if len(log_times) < FEWEST:
        return None
    treated, baselines = log_times[:, 0], log_times[:, 1:]
    baselines = baselines[np.isfinite(baselines)]
    distances = [np.abs(times - np.median(times)) for times in (treated, baselines)]
    freedom = len(treated) + len(baselines) - 2
    pooled = sum(len(part) * float(np.var(part)) for part in distances) / freedom
    error = math.sqrt(pooled * (1 / len(treated) + 1 / len(baselines)))
    excess = float(distances[0].mean() - distances[1].mean())
    if excess <= special.stdtrit(freedom, 1 - _LEVEL) * error:
        return None
    spread = float(np.std(baselines, ddof=1))
    return float(np.std(treated, ddof=1)) / spread if spread else math.inf
