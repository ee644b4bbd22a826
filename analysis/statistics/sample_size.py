"""Number of pairs needed for an interval of a given width, estimated beforehand."""

from __future__ import annotations

import math
from statistics import NormalDist

from analysis.errors import InputError
from analysis.statistics.interval import CONFIDENCE, FEWEST, order_rank

#: Order statistics of normal variables lie near (k - 3/8) / (n + 1/4) quantiles (Blom 1958).
_BLOM = 0.375


def pairs_needed(
    sd_log_ratio: float, half_width: float, confidence: float = CONFIDENCE, most: int = 10_000
) -> int | None:
    """Fewest pairs that give the median ratio to within `half_width` on average.

    `sd_log_ratio` is the standard deviation of the logarithm of an A/A pair's ratio, taken as
    normal; `half_width` is relative (0.01 for 1 %). The interval is that of `median_interval`.
    None if `most` pairs are too few. Raises InputError for invalid values.
    """
    if not (0 <= sd_log_ratio < math.inf and half_width > 0 and 0 < confidence < 1):
        raise InputError(
            "pairs: allowed are a standard deviation of 0 or more, a half-width above 0 and a "
            "confidence between 0 and 1"
        )
    asked = math.log1p(half_width)
    for pairs in range(FEWEST, most + 1):
        rank = order_rank(pairs, confidence)
        if rank is not None:
            quantile = (rank - _BLOM) / (pairs + 1 - 2 * _BLOM)
            if -sd_log_ratio * NormalDist().inv_cdf(quantile) <= asked:
                return pairs
    return None
