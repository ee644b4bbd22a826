"""Estimates with their intervals, and the statistics that all analyses share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.display.figures import NO_FIGURE

if TYPE_CHECKING:
    import polars as pl

CONFIDENCE = 0.95
#: Probability of either tail of an interval, and of all values below its upper end.
TAIL_PROBABILITY, UPPER_PROBABILITY = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
#: The normal distribution's quantile at `UPPER_PROBABILITY`. It is not computed, since scipy takes
#: 0.2 s to load.
NORMAL_QUANTILE = 1.959963984540054
#: Smallest number n of values that allows an interval at 95 %. It follows from 1 - 2/2^n >= 0.95.
MIN_VALUES = 6


class Interval(NamedTuple):
    """The interval in which a value lies, without the value."""

    low: float
    high: float

    @classmethod
    def from_estimate(cls, estimate: Estimate | None) -> Interval | None:
        """Return the interval of an estimate, or None if there is no estimate."""
        return cls(estimate.low, estimate.high) if estimate else None

    def widened_to(self, other: Estimate | Interval) -> Interval:
        """Return the smallest interval that encloses this one and `other`."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    @property
    def inverse(self) -> Interval:
        """The interval of 1 / value."""
        return Interval(1 / self.high, 1 / self.low)


@dataclass(frozen=True)
class Estimate:
    """A value with the interval that encloses the true value with a confidence of at least 95 %."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value} is outside of its interval [{self.low}, {self.high}]")

    def mapped(self, increasing: Callable[[float], float]) -> Estimate:
        """The estimate of an increasing function of the value."""
        return Estimate(
            value=increasing(self.value), low=increasing(self.low), high=increasing(self.high)
        )

    @property
    def inverse(self) -> Estimate:
        """The estimate of 1 / value."""
        return Estimate(1 / self.value, 1 / self.high, 1 / self.low)

    @property
    def relative_half_width(self) -> float:
        """Half the width of the interval, divided by the value."""
        return (self.high - self.low) / 2 / self.value


#: Name of a field's type in its annotation -> the endings of the field's keys in JSON. Each ending
#: is mapped to the attribute whose value the key has.
_KEY_ENDINGS = {
    "Estimate": {"": "value", "_low": "low", "_high": "high"},
    "Interval": {"_low": "low", "_high": "high"},
}


def json_keys(record: Any) -> dict[str, tuple[str, str]]:
    """Key in JSON -> name of the record's field, and the attribute whose value the key has.

    `record` is a record or its class. The attribute is empty if the key has the whole field.
    """
    fields_and_attributes = {}
    for field in fields(record):
        type_name = str(field.type).removesuffix(" | None")
        for ending, attribute in _KEY_ENDINGS.get(type_name, {"": ""}).items():
            fields_and_attributes[f"{field.name}{ending}"] = (field.name, attribute)
    return fields_and_attributes


def flat_record(record: Any) -> dict[str, Any]:
    """A record as a flat mapping, for JSON and tables.

    An estimate becomes `NAME`, `NAME_low` and `NAME_high`. An interval becomes `NAME_low` and
    `NAME_high`. These values are None if the record's field is None.
    """
    plain = asdict(record)
    return {
        key: getattr(getattr(record, name), attribute, None) if attribute else plain[name]
        for key, (name, attribute) in json_keys(record).items()
    }


def ends_text(estimate: Estimate | Interval | None) -> str:
    """The ends of an interval of ratios: `1.321-1.382`; `NO_FIGURE` for None."""
    return f"{estimate.low:.3f}-{estimate.high:.3f}" if estimate else NO_FIGURE


def estimate_text(estimate: Estimate | None) -> str:
    """A ratio with its interval: `1.61 [1.51, 1.71]`.

    It has two decimal places if the interval is wider than 0.05, and three otherwise. The text is
    `NO_FIGURE` if there is no estimate.
    """
    if estimate is None:
        return NO_FIGURE
    places = 2 if estimate.high - estimate.low > 0.05 else 3
    return f"{estimate.value:.{places}f} [{estimate.low:.{places}f}, {estimate.high:.{places}f}]"


def median_interval(values: Sequence[float] | NDArray[np.float64]) -> Estimate | None:
    """Median of `values` with its distribution-free interval; None below six values.

    The k-th smallest and the k-th largest of n values enclose the true median with probability
    1 - 2 P(B < k). B is binomial with n trials of probability 1/2. The largest k with at least 95 %
    is used. For six values, the interval has the extremes as ends (96.875 %). For ten values, it
    has the second smallest and the second largest (97.85 %).
    """
    from scipy import special

    n = len(values)
    if n < MIN_VALUES:
        return None
    rank = int(np.searchsorted(special.bdtr(np.arange(n // 2 + 1), n, 0.5), TAIL_PROBABILITY))
    ordered = np.sort(np.asarray(values, dtype=float))
    return Estimate(float(np.median(ordered)), float(ordered[rank - 1]), float(ordered[n - rank]))


def median_of(values: pl.Series) -> float | None:
    """Median of the values that are not null; None if all are null."""
    median = values.median()
    return float(median) if isinstance(median, int | float) else None


def holm(p: Sequence[float]) -> list[float]:
    """Adjusted p values, in the order of `p` (Holm 1979, Scand. J. Statist. 6, 65-70).

    The chance that any true hypothesis gets an adjusted p value below a level is at most that
    level, however the p values depend on each other. The k-th smallest p value of n is multiplied
    by n - k + 1. An adjusted p value is at least that of the next smaller p value, and at most 1.
    """
    adjusted = [1.0] * len(p)
    previous = 0.0
    for rank, index in enumerate(sorted(range(len(p)), key=lambda index: p[index])):
        previous = max(previous, min(1.0, (len(p) - rank) * p[index]))
        adjusted[index] = previous
    return adjusted
