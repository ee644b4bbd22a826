"""The median of ratios that were taken in blocks (allocations).

Ratios of one allocation share its nodes, so they are not independent samples of what the next
allocation would show. What the interval covers depends on the number of blocks:

- fewer than six: the median of all ratios with its interval, which covers only these allocations.
  It is valid even if blocks differ: the number of ratios below the common median is then a sum of
  unequal trials, whose tails are no heavier than the binomial's (Hoeffding 1956,
  Annals of Mathematical Statistics 27, 713-721), so the interval errs on the wide side.
- six or more: the median of the blocks' medians with its interval, from one value per block. It
  covers other allocations like these.

A bootstrap over two to five blocks is not used: it is known to be too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from statistics import median

from analysis.statistics.interval import CONFIDENCE, FEWEST, Estimate, median_interval


class Scope(Enum):
    """What an interval covers: one allocation, a few, or any others like these."""

    ONE = "one"
    FEW = "few"
    ANY = "any"


def blocked_median(
    blocks: Sequence[Sequence[float]], confidence: float = CONFIDENCE
) -> Estimate | None:
    """Median of the ratios in `blocks` (one sequence per block); None if too few."""
    filled = [block for block in blocks if len(block)]
    if scope(blocks) is Scope.ANY:
        return median_interval([median(block) for block in filled], confidence)
    return median_interval([ratio for block in filled for ratio in block], confidence)


def scope(blocks: Sequence[Sequence[float]]) -> Scope:
    """What an interval from `blocks` covers."""
    filled = sum(1 for block in blocks if len(block))
    if filled >= FEWEST:
        return Scope.ANY
    return Scope.FEW if filled > 1 else Scope.ONE
