"""The effect of a run with writes on the baseline run right after it (carry-over).

The runs of a pair are ordered by a Williams design, so that each baseline run comes right after
writes equally often. If only one of a pair's baseline runs comes right after writes, the difference
between this run and the pair's other baseline run shows the carry-over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.statistics.aligned_ranks import Values
from analysis.statistics.interval import UPPER_PROBABILITY, Estimate

#: Smallest number of pairs that allows an estimate. Each has baseline runs of both kinds: one right
#: after writes, and one not right after writes.
MIN_PAIRS = 3
#: Verdicts must hold for all carry-overs from 0.5 standard errors below the estimate to 1 standard
#: error above it. The first number keeps the error of 'slower' within its bound. The second number
#: is needed for 'no effect' if writes widen skewed noise (docs/evidence.md#carry-over).
ALLOWANCE_STANDARD_ERRORS = (0.5, 1.0)
#: Chance that a carry-over is reported although there is none.
_ERROR_LEVEL = 0.01


@dataclass(frozen=True)
class CarryOver:
    """The time of a baseline run right after writes / time of another baseline run of its pair."""

    ratio: Estimate
    #: Number of pairs with baseline runs of both kinds.
    pairs: int
    #: True if the ratio is shown to differ from 1.
    is_shown: bool
    #: The smallest and the largest ratio that verdicts allow for, as logarithms. The first is never
    #: above 0, the second never below.
    allowed_log_ratios: tuple[float, float]


def carry_over(log_times: Values, is_after_writes: NDArray[np.bool_]) -> CarryOver | None:
    """The carry-over, by Student's t; None below three pairs with baseline runs of both kinds.

    `log_times` is the array that `aligned_ranks.slowdown` takes. `is_after_writes` has one column
    for each baseline run, and is true if this run came right after a run with writes.
    """
    from scipy import special

    baselines = log_times[:, 1:]
    runs_after_writes = np.where(is_after_writes, baselines, np.nan)
    other_runs = np.where(is_after_writes, np.nan, baselines)
    has_both = np.isfinite(runs_after_writes).any(axis=1) & np.isfinite(other_runs).any(axis=1)
    differences = np.nanmean(runs_after_writes[has_both], axis=1) - np.nanmean(
        other_runs[has_both], axis=1
    )
    pairs = len(differences)
    if pairs < MIN_PAIRS:
        return None
    mean = float(differences.mean())
    standard_error = float(differences.std(ddof=1)) / math.sqrt(pairs)
    half_width, threshold = (
        special.stdtrit(pairs - 1, [UPPER_PROBABILITY, 1 - _ERROR_LEVEL / 2]) * standard_error
    )
    ratio = Estimate(*np.exp([mean, mean - half_width, mean + half_width]).tolist())
    below, above = ALLOWANCE_STANDARD_ERRORS
    lowest = min(0.0, mean - below * standard_error)
    highest = max(0.0, mean + above * standard_error)
    return CarryOver(
        ratio=ratio,
        pairs=pairs,
        is_shown=bool(abs(mean) > threshold),
        allowed_log_ratios=(lowest, highest),
    )


def without_carry_over(
    estimated: CarryOver | None, log_times: Values, is_after_writes: NDArray[np.bool_]
) -> tuple[Values, Values]:
    """Return two arrays: `log_times` without the smallest and without the largest carry-over.

    These are the ends of `allowed_log_ratios`. Both arrays are `log_times` itself if no carry-over
    was estimated (`estimated` is None).

    The first array has the smallest loss, the second array the largest loss. A carry-over that
    speeds baselines up looks like a loss. A carry-over that slows them down looks like a gain. So
    'slower' must hold for the first array and 'faster' for the second array. 'No effect' must bound
    the gain in the first array and the loss in the second array.
    """
    if estimated is None:
        return log_times, log_times
    lowest, highest = estimated.allowed_log_ratios
    smallest_loss, largest_loss = log_times.copy(), log_times.copy()
    smallest_loss[:, 1:] -= np.where(is_after_writes, lowest, 0.0)
    largest_loss[:, 1:] -= np.where(is_after_writes, highest, 0.0)
    return smallest_loss, largest_loss
