"""The comparison of every quantity that both sides measured, and its verdict."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from analysis.compare.side import Metric, Nights, Quantity
from analysis.numbers import signed
from analysis.statistics.holm import holm
from analysis.statistics.interval import Estimate
from analysis.statistics.nights import (
    NightsDifference,
    mean_of_nights,
    ratio_of_nights,
    ratio_of_two,
)

Change = Literal[
    "worse", "better", "no change shown", "one night a side", "dose differs", "too few pairs"
]
#: Verdict -> its meaning.
CHANGES: dict[Change, str] = {
    "worse": "Worse than the reference nights, by more than nights differ; judged over all rows.",
    "better": "Better than the reference nights, by more than nights differ; judged over all rows.",
    "no change shown": "No change exceeds the spread between nights; the interval shows "
    "what is not ruled out.",
    "one night a side": "Two nights differ. Whether that is a change cannot be said: the interval "
    "is that within the nights, and does not cover how nights differ.",
    "dose differs": "The sides were written to differently: their effects are not comparable.",
    "too few pairs": "One side has no night with at least six pairs.",
}
#: Adjusted p value up to which a change is named.
LEVEL = 0.05


@dataclass(frozen=True)
class Shown:
    """A quantity on one side, in the unit of its case; a slowdown has none."""

    #: With several nights their geometric mean with its interval, with one its own.
    value: float
    low: float
    high: float
    #: One value per night.
    nights: list[float]


@dataclass(frozen=True)
class Comparison:
    """One quantity, this side against the reference."""

    case: str
    arm: str
    metric: Metric
    #: Of the figure of merit.
    unit: str
    reference: Shown | None
    this: Shown | None
    #: Ratio of slowdowns or of times for the same work; above 1 is worse. Its interval is 95 %.
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    #: Two-sided p value, and adjusted over all rows that are judged; None if not judged.
    p: float | None
    p_adjusted: float | None
    #: Least relative change that would have been named, given the spread between nights.
    least_named: float | None
    verdict: Change

    def __post_init__(self) -> None:
        if (self.ratio is None) != (self.ratio_low is None or self.ratio_high is None):
            raise ValueError(f"{self.case}/{self.arm}: ratio without its interval")

    @property
    def text(self) -> str:
        """The verdict in words; for two nights, by how much they differ."""
        if self.verdict != "one night a side" or self.ratio is None:
            return self.verdict
        return f"two nights differ by {signed((self.ratio - 1) * 100, 1)} %"

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON holds it."""
        return asdict(self)


def compare(old: Nights, new: Nights, other_dose: Collection[tuple[str, str]]) -> list[Comparison]:
    """Every quantity of both sides, `new` against `old`, the reference.

    `other_dose`: cases and treatments whose doses differ. Their rows are not judged, but for the
    baseline, which has no writes.
    """
    found = {each: _find(each, old[each], new[each]) for each in new if each in old}
    judged = {
        each: of.difference.p
        for each, of in found.items()
        if of.difference and (each.metric == "off" or each[:2] not in other_dose)
    }
    adjusted = dict(zip(judged, holm(list(judged.values())), strict=True))
    return [_row(each, of, adjusted, each[:2] in other_dose) for each, of in found.items()]


class _Found(NamedTuple):
    """A quantity that both sides have."""

    old: Sequence[Estimate]
    new: Sequence[Estimate]
    #: None with one night a side.
    difference: NightsDifference | None
    #: None if a side has no night.
    ratio: Estimate | None


def _find(quantity: Quantity, old: Sequence[Estimate], new: Sequence[Estimate]) -> _Found:
    above, below = (old, new) if quantity.is_rate else (new, old)
    difference = ratio_of_nights([each.value for each in above], [each.value for each in below])
    if difference:
        return _Found(old, new, difference, difference.ratio)
    return _Found(old, new, None, ratio_of_two(above[0], below[0]) if above and below else None)


def _row(
    quantity: Quantity, found: _Found, adjusted: Mapping[Quantity, float], other_dose: bool
) -> Comparison:
    ratio, p_adjusted = found.ratio, adjusted.get(quantity)
    judged = None if p_adjusted is None else found.difference
    return Comparison(
        case=quantity.case,
        arm=quantity.arm,
        metric=quantity.metric,
        unit=quantity.unit,
        reference=_shown(found.old),
        this=_shown(found.new),
        ratio=ratio.value if ratio else None,
        ratio_low=ratio.low if ratio else None,
        ratio_high=ratio.high if ratio else None,
        p=judged.p if judged else None,
        p_adjusted=p_adjusted,
        least_named=judged.least(LEVEL / len(adjusted)) if judged else None,
        verdict=_verdict(quantity, ratio, p_adjusted, other_dose),
    )


def _verdict(
    quantity: Quantity, ratio: Estimate | None, adjusted: float | None, other_dose: bool
) -> Change:
    if ratio is None:
        return "too few pairs"
    if other_dose and quantity.metric != "off":
        return "dose differs"
    if adjusted is None:
        return "one night a side"
    if adjusted > LEVEL:
        return "no change shown"
    return "worse" if ratio.value > 1 else "better"


def _shown(nights: Sequence[Estimate]) -> Shown | None:
    if not nights:
        return None
    values = [night.value for night in nights]
    estimate = mean_of_nights(values) or nights[0]
    return Shown(estimate.value, estimate.low, estimate.high, values)
