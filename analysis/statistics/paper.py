"""The estimators of Groves, Grant and Arnold (2016), for comparison with published results.

They are shown with the paired estimate, never instead of it: none has an interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics.interval import mean
from nimc.records.sample import Better

#: Runs per side in sections IV and V (mean and standard deviation) and VI (minimum).
RUNS_MEAN = 10
RUNS_BEST = 5


@dataclass(frozen=True)
class PaperEstimates:
    """The paper's estimators from the same samples; None if there are too few."""

    #: Mean (harmonic for rates) and sample standard deviation of the first 10 runs of each arm.
    off_mean: float | None
    off_sd: float | None
    on_mean: float | None
    on_sd: float | None
    #: Slowdowns: of the means (Tables II, III); of the best of the first 5 (section VI); of the
    #: best of 5 off against the median of 5 on (section VII).
    of_means: float | None
    of_best: float | None
    best_against_median: float | None


def mean_sd(values: Sequence[float], better: Better) -> tuple[float, float]:
    """Mean (harmonic for rates) and sample standard deviation of the first 10 of `values`.

    Of all if there are fewer. Raises ValueError below two.
    """
    first = values[:RUNS_MEAN]
    if len(first) < 2:
        raise ValueError("a standard deviation needs at least two values")
    return mean(first, better), float(np.std(first, ddof=1))


def paper_estimates(off: Sequence[float], on: Sequence[float], better: Better) -> PaperEstimates:
    """The paper's estimators of figures of merit `off` and `on`, in the order they were taken."""

    def slowdown(base: float, treated: float) -> float:
        return base / treated if better == "higher" else treated / base

    best = max if better == "higher" else min
    off_mean, off_sd = mean_sd(off, better) if len(off) >= RUNS_MEAN else (None, None)
    on_mean, on_sd = mean_sd(on, better) if len(on) >= RUNS_MEAN else (None, None)
    enough = min(len(off), len(on)) >= RUNS_BEST
    best_off, best_on = best(off[:RUNS_BEST], default=0.0), best(on[:RUNS_BEST], default=0.0)
    return PaperEstimates(
        off_mean,
        off_sd,
        on_mean,
        on_sd,
        slowdown(off_mean, on_mean) if off_mean and on_mean else None,
        slowdown(best_off, best_on) if enough else None,
        slowdown(best_off, float(np.median(on[:RUNS_BEST]))) if enough else None,
    )
