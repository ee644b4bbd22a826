"""What a run with writes leaves to the baseline run right after it (carry-over).

The treatments of a baseline follow a Williams design, so that each of its runs comes right after
writes equally often. In pairs with one such run and one other, both differ by what is carried over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.statistics.aligned_ranks import Values
from analysis.statistics.interval import UPPER, Estimate

#: Fewest pairs with a run of either kind.
_FEWEST = 3
#: Standard errors above the estimate that may be carried over all the same. Of those tried, this
#: one holds the errors of verdicts, at an eighth more pairs for 'no effect' (docs/evidence.md).
_BEYOND = 1.0
#: Chance that a carry-over is named where there is none.
_LEVEL = 0.01


@dataclass(frozen=True)
class CarryOver:
    """The time of a baseline run right after writes / of another one of its pair."""

    ratio: Estimate
    #: Pairs with a run of either kind.
    pairs: int
    #: Whether it is shown to differ from 1.
    shown: bool
    #: Logarithm of the largest one that verdicts allow for; at least 0.
    reach: float


def carry_over(log_times: Values, after: NDArray[np.bool_]) -> CarryOver | None:
    """From Student's t over pairs; None below three pairs with a run of either kind.

    `log_times` as of `aligned_ranks.slowdown`; `after`: which of its baseline runs came right after
    a run with writes.
    """
    from scipy import special

    baselines = log_times[:, 1:]
    late, early = (np.where(chosen, baselines, np.nan) for chosen in (after, ~after))
    either = np.isfinite(late).any(axis=1) & np.isfinite(early).any(axis=1)
    apart = np.nanmean(late[either], axis=1) - np.nanmean(early[either], axis=1)
    pairs = len(apart)
    if pairs < _FEWEST:
        return None
    mean, error = float(apart.mean()), float(apart.std(ddof=1)) / math.sqrt(pairs)
    half, named = special.stdtrit(pairs - 1, [UPPER, 1 - _LEVEL / 2]) * error
    ratio = Estimate(*np.exp([mean, mean - half, mean + half]).tolist())
    return CarryOver(ratio, pairs, bool(abs(mean) > named), max(0.0, mean + _BEYOND * error))


def allowing(
    carried: CarryOver | None, log_times: Values, after: NDArray[np.bool_]
) -> list[Values]:
    """The pairs, and these as if runs right after writes had not been slowed down by the reach.

    Baselines that are slowed down as well hide a loss, or make a gain of it: what is said against a
    loss holds for both.
    """
    if carried is None or not carried.reach:
        return [log_times]
    baselines = log_times[:, 1:] - np.where(after, carried.reach, 0.0)
    return [log_times, np.concatenate([log_times[:, :1], baselines], axis=1)]
