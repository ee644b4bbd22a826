"""The median with its distribution-free interval.

For n independent values from any continuous distribution, the k-th smallest and the k-th largest
enclose the median with probability 1 - 2 P(B < k), where B is binomial with n trials of 1/2. The
interval uses the largest k that keeps this at or above 95 %, so the actual confidence is somewhat
higher: n = 6 gives the extremes (96.875 %), n = 10 the second smallest and the second largest
(97.85 %). Five values or fewer give no interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from nimc.base.units import NONE

CONFIDENCE = 0.95
#: Fewest values with an interval at 95 %: 1 - 2/2^n >= 0.95.
FEWEST = 6


class Interval(NamedTuple):
    """Where a value lies, without the value."""

    low: float
    high: float

    @classmethod
    def of(cls, estimate: Estimate | None) -> Interval | None:
        """That of an estimate, if there is one."""
        return cls(estimate.low, estimate.high) if estimate else None


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

    def mapped(self, increasing: Callable[[float], float]) -> Estimate:
        """The estimate of an increasing function of the value."""
        value, low, high = map(increasing, (self.value, self.low, self.high))
        return Estimate(value, low, high, self.confidence)

    @property
    def inverse(self) -> Estimate:
        """The estimate of 1 / value."""
        return Estimate(1 / self.value, 1 / self.high, 1 / self.low, self.confidence)

    @property
    def half_width(self) -> float:
        """Half the interval's width relative to the value."""
        return (self.high - self.low) / 2 / self.value


#: Type of a field, as written -> endings of its keys in JSON, and the part that each holds.
_PARTS = {
    "Estimate": {"": "value", "_low": "low", "_high": "high"},
    "Interval": {"_low": "low", "_high": "high"},
}


def keys(record: Any) -> dict[str, tuple[str, str]]:
    """Key of a record, or of its class, in JSON -> the field, and which part of it, if any."""
    return {
        f"{each.name}{ending}": (each.name, part)
        for each in fields(record)
        for ending, part in _PARTS.get(str(each.type).removesuffix(" | None"), {"": ""}).items()
    }


def flat(record: Any) -> dict[str, Any]:
    """A record as JSON and tables hold it: an estimate as `NAME`, `NAME_low` and `NAME_high`.

    An interval is its ends alone. All are None if there is none.
    """
    plain = asdict(record)
    return {
        key: getattr(getattr(record, name), part, None) if part else plain[name]
        for key, (name, part) in keys(record).items()
    }


def ends(of: Estimate | Interval | None) -> str:
    """An interval of ratios as text: `1.321-1.382`."""
    return f"{of.low:.3f}-{of.high:.3f}" if of else NONE


def effect(of: Estimate | None) -> tuple[str, str]:
    """A ratio and its interval as text."""
    return f"{of.value:.3f}" if of else NONE, ends(of)


def bracketed(of: Estimate | None) -> str:
    """A ratio with its interval, in as many decimals as the interval carries: `1.61 [1.51, 1.71]`.

    Two where it is wider than a twentieth, else three.
    """
    if of is None:
        return NONE
    places = 2 if of.high - of.low > 0.05 else 3
    return f"{of.value:.{places}f} [{of.low:.{places}f}, {of.high:.{places}f}]"


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
        confidence=1 - 2 * float(special.bdtr(rank - 1, n, 0.5)),
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
