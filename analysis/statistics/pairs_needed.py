"""How many pairs an interval of a given width needs."""

from __future__ import annotations

import math

from scipy import special

from analysis.statistics.interval import CONFIDENCE, FEWEST
from nimc.base.errors import InputError

#: Standard deviation of a run against the mean of two others / that of a run against another.
_POOLED = math.sqrt(3) / 2
#: Of normal values, ranks need pi/3 times as many as means (Hodges and Lehmann 1956).
_RANKS = math.pi / 3


def pairs_needed(sd_log_ratio: float, half_width: float, most: int = 10_000) -> int | None:
    """Fewest pairs that give the slowdown to within `half_width` on average.

    `sd_log_ratio` is the standard deviation of the logarithm of an A/A pair's ratio, taken as
    normal; `half_width` is relative (0.01 for 1 %). The interval is that of
    `analysis.statistics.aligned_ranks` with the baseline repeated in each pair. None if `most`
    pairs are too few. Raises InputError for invalid values.
    """
    if not (0 <= sd_log_ratio < math.inf and half_width > 0):
        raise InputError(
            "pairs: allowed are a standard deviation of 0 or more and a half-width above 0"
        )
    requested = math.log1p(half_width)
    sd = sd_log_ratio * _POOLED
    # Student's t instead of the normal quantile stands for the discreteness of few ranks.
    for pairs in range(FEWEST, most + 1):
        quantile = float(special.stdtrit(pairs - 1, (1 + CONFIDENCE) / 2))
        if quantile * sd * math.sqrt(_RANKS / pairs) <= requested:
            return pairs
    return None
