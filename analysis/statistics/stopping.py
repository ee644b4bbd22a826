"""Decides when a case has enough pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.statistics.aligned_ranks import slowdown


def enough(
    blocks: Sequence[NDArray[np.float64]], floor: int, cap: int, precision: float | None
) -> bool:
    """Whether the pairs in `blocks` (log times as of `slowdown`, per block) need no further pair.

    At least `floor` and at most `cap` pairs; in between, until half the interval's width is at
    most `precision` of the estimate (None: exactly `floor` pairs). The rule depends on
    the width only, never on the estimate, so it favours no verdict.
    """
    pairs = sum(len(block) for block in blocks)
    if pairs < floor or pairs >= cap:
        return pairs >= cap
    if precision is None:
        return True
    estimate = slowdown(np.concatenate(blocks))
    return estimate is not None and estimate.half_width <= precision
