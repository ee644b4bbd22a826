"""The median with its distribution-free interval.

For n independent values from any continuous distribution, the k-th smallest and the k-th largest
enclose the median with probability 1 - 2 P(B < k), where B is binomial with n trials of 1/2. The
interval uses the largest k that keeps this at or above 95 %, so the actual confidence is somewhat
higher: n = 6 gives the extremes (96.875 %), n = 10 the second smallest and the second largest
(97.85 %). Five values or fewer give no interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import special

CONFIDENCE = 0.95
#: Fewest values with an interval at 95 %: 1 - 2/2^n >= 0.95.
FEWEST = 6


@dataclass(frozen=True)
class Estimate:
    """A value with its interval."""

    value: float
    low: float
    high: float
    #: Probability that [low, high] encloses the true value; at least 95 %.
    confidence: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value} is outside of its interval [{self.low}, {self.high}]")

    @property
    def inverse(self) -> Estimate:
        """The estimate of 1 / value."""
        return Estimate(1 / self.value, 1 / self.high, 1 / self.low, self.confidence)

    @property
    def half_width(self) -> float:
        """Half the interval's width relative to the value."""
        return (self.high - self.low) / 2 / self.value


def known(value: float | None, low: float | None, high: float | None) -> Estimate | None:
    """The estimate of fields that are all None if there is none."""
    if value is None or low is None or high is None:
        return None
    return Estimate(value, low, high, CONFIDENCE)


def as_fields(name: str, of: Estimate | None) -> dict[str, Any]:
    """An estimate as `NAME`, `NAME_low`, `NAME_high`, as records and JSON hold it."""
    return {name: of and of.value, **ends_as_fields(name, of)}


def ends_as_fields(name: str, of: Estimate | None) -> dict[str, Any]:
    """The interval alone."""
    return {f"{name}_low": of and of.low, f"{name}_high": of and of.high}


def median_interval(values: Sequence[float]) -> Estimate | None:
    """Median of `values` with its interval; None below six."""
    n = len(values)
    rank = order_rank(n)
    if rank is None:
        return None
    ordered = np.sort(np.asarray(values, dtype=float))
    return Estimate(
        value=float(np.median(ordered)),
        low=float(ordered[rank - 1]),
        high=float(ordered[n - rank]),
        confidence=_coverage(n, rank),
    )


@cache
def order_rank(n: int) -> int | None:
    """The k of the interval [k-th smallest, k-th largest] of `n` values; None if there is none.

    It is the smallest k with P(B <= k) >= q, the tail. If P(B <= k) equals q, k + 1 would be valid
    as well; k errs on the wide side.
    """
    tail = (1 - CONFIDENCE) / 2
    rank = int(np.searchsorted(special.bdtr(np.arange(n + 1), n, 0.5), tail))
    return rank if rank >= 1 else None


@cache
def _coverage(n: int, rank: int) -> float:
    return 1 - 2 * float(special.bdtr(rank - 1, n, 0.5))
