"""Two sides compared: what differs, the comparisons, and both as one document."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from analysis.compare.side import (
    Difference,
    DoseDifference,
    Metric,
    Nights,
    Quantity,
    Side,
    dose_differences,
    node_facts,
    other_differences,
    pair_up,
)
from analysis.effects.facts import UNKNOWN
from analysis.report.data import RunData
from analysis.samples.integrity import Integrity
from analysis.statistics.holm import holm
from analysis.statistics.interval import CONFIDENCE, Estimate, flat
from analysis.statistics.nights import (
    NightCorrelation,
    NightsDifference,
    correlation_of_nights,
    mean_of_nights,
    ratio_of_nights,
    ratio_of_two,
)
from nimc.base.units import plural, signed

Change = Literal[
    "worse", "better", "no change shown", "too few nights", "dose differs", "too few pairs"
]
#: Verdict -> its meaning.
CHANGES: dict[Change, str] = {
    "worse": "Worse than the reference nights, by more than nights differ; judged over all rows.",
    "better": "Better than the reference nights, by more than nights differ; judged over all rows.",
    "no change shown": "No change exceeds the spread between nights; the interval shows "
    "what is not ruled out.",
    "too few nights": "Whether nights are odd or something changed cannot be said. Between two "
    "nights the interval is that within them, and does not cover how nights differ.",
    "dose differs": "The sides were written to differently: their effects are not comparable.",
    "too few pairs": "One side has no night with at least six pairs.",
}
#: Adjusted p value up to which a change is named.
LEVEL = 0.05
#: Fewest nights of each side for that.
_FEWEST_NIGHTS = 2


def nights_needed(rows: int) -> int:
    """Fewest nights of both sides together with which a change can be named, of so many rows.

    Nights may fall on one of two levels. All of one side fall on one and all of the other side on
    the other with a chance of 2 / 2^nights a row, however far the levels are apart.
    """
    return math.ceil(1 + math.log2(max(rows, 1) / LEVEL))


@dataclass(frozen=True)
class Shown:
    """A quantity on one side, in the unit of its case; a slowdown has none."""

    #: With several nights their geometric mean with its interval, with one its own.
    value: float
    low: float
    high: float
    #: One value per night.
    nights: list[float]

    @property
    def estimate(self) -> Estimate:
        """The value with its interval."""
        return Estimate(self.value, self.low, self.high, CONFIDENCE)


@dataclass(frozen=True)
class Comparison:
    """One quantity, this side against the reference."""

    #: Names of case and treatment.
    case: str
    arm: str
    #: The slowdown, or a figure of merit.
    metric: Metric
    #: Of the figure of merit.
    unit: str
    #: Both sides; None if it lacks there.
    reference: Shown | None
    this: Shown | None
    #: Ratio of slowdowns or of times for the same work; above 1 is worse.
    ratio: Estimate | None
    #: Interval / interval if nights were independent; None with one night a side.
    widened: float | None
    #: Two-sided p value, and adjusted over all rows that are judged; None if not judged.
    p: float | None
    p_adjusted: float | None
    #: Least relative change that would have been named, given the spread between nights.
    least_named: float | None
    #: What may be said of it.
    verdict: Change

    @property
    def text(self) -> str:
        """The verdict in words; for two nights, by how much they differ."""
        if self.verdict != "too few nights" or self.ratio is None or self.widened is not None:
            return self.verdict
        return f"two nights differ by {signed((self.ratio.value - 1) * 100, 1)} %"


def correlation(old: Nights, new: Nights) -> NightCorrelation:
    """How much neighbouring nights correlate, from all quantities of both sides."""
    return correlation_of_nights(
        [
            ([e.value for e in old[each]], [e.value for e in new[each]])
            for each in new
            if each in old
        ]
    )


def compare(
    old: Nights,
    new: Nights,
    other_dose: Collection[tuple[str, str]],
    correlated: NightCorrelation,
) -> list[Comparison]:
    """Every quantity of both sides, `new` against `old`, the reference.

    `other_dose`: cases and treatments whose doses differ. Their rows are not judged, but for the
    baseline, which has no writes.
    """
    r = correlated.at_most
    rows: dict[Quantity, Comparison] = {}
    alike: dict[Quantity, NightsDifference] = {}
    for each in (each for each in new if each in old):
        rows[each], difference = _unjudged(each, old[each], new[each], r)
        if each.metric != "off" and each[:2] in other_dose and rows[each].ratio:
            rows[each] = replace(rows[each], verdict="dose differs")
        elif difference and min(len(old[each]), len(new[each])) >= _FEWEST_NIGHTS:
            alike[each] = difference
    needed = nights_needed(len(alike))
    judged = {e: found for e, found in alike.items() if len(old[e]) + len(new[e]) >= needed}
    adjusted = holm([found.p for found in judged.values()])
    for (each, found), p in zip(judged.items(), adjusted, strict=True):
        changed: Change = "worse" if found.ratio.value > 1 else "better"
        rows[each] = replace(
            rows[each],
            p=found.p,
            p_adjusted=p,
            least_named=found.least(LEVEL / len(judged)),
            verdict=changed if p <= LEVEL else "no change shown",
        )
    return list(rows.values())


def _unjudged(
    quantity: Quantity, old: Sequence[Estimate], new: Sequence[Estimate], correlation: float
) -> tuple[Comparison, NightsDifference | None]:
    above, below = (old, new) if quantity.is_rate else (new, old)
    x, y = ([night.value for night in side] for side in (above, below))
    difference = ratio_of_nights(x, y, correlation=correlation)
    ratio = difference.ratio if difference else None
    if ratio is None and old and new:
        ratio = ratio_of_two(above[0], below[0])
    row = Comparison(
        case=quantity.case,
        arm=quantity.arm,
        metric=quantity.metric,
        unit=quantity.unit,
        reference=_shown(old, correlation),
        this=_shown(new, correlation),
        ratio=ratio,
        widened=difference.widened if difference else None,
        p=None,
        p_adjusted=None,
        least_named=None,
        verdict="too few nights" if ratio else "too few pairs",
    )
    return row, difference


def _shown(nights: Sequence[Estimate], correlation: float) -> Shown | None:
    if not nights:
        return None
    values = [night.value for night in nights]
    estimate = mean_of_nights(values, correlation) or nights[0]
    return Shown(estimate.value, estimate.low, estimate.high, values)


@dataclass(frozen=True)
class Compared:
    """All that is said of two sides."""

    reference: Side
    this: Side
    #: Facts of the nodes that change what a run measures, whether or not they differ.
    nodes: list[Difference]
    doses: list[DoseDifference]
    #: Of neighbouring nights.
    correlation: NightCorrelation
    rows: list[Comparison]
    #: All other facts that differ.
    others: list[Difference]

    @property
    def differing(self) -> list[Difference]:
        """Facts of the nodes that differ, or that one side alone reports."""
        return [fact for fact in self.nodes if fact.reference != fact.this]

    @property
    def unknown(self) -> list[str]:
        """Facts of the nodes that neither side reports."""
        return [fact.what for fact in self.nodes if fact.reference == fact.this == UNKNOWN]

    @property
    def untrusted(self) -> list[Integrity]:
        """What is wrong with the runs that have integrity faults."""
        runs = (*self.reference.runs, *self.this.runs)
        return [run.integrity for run in runs if run.integrity.count]

    @property
    def worse(self) -> int:
        """Number of rows that got worse."""
        return sum(row.verdict == "worse" for row in self.rows)

    @property
    def emulations(self) -> list[str]:
        """Caveats of the transports of both sides."""
        return list(dict.fromkeys([*self.reference.emulations(), *self.this.emulations()]))

    @property
    def too_few_nights(self) -> str:
        """How many nights it takes to name a change; empty if there are enough for a row."""
        few = sum(row.verdict == "too few nights" for row in self.rows)
        if not few or any(row.p_adjusted is not None for row in self.rows):
            return ""
        return (
            f"Too few nights to name a change: for {plural(few, 'row')} it takes"
            f" {nights_needed(few)} of both sides together, {_FEWEST_NIGHTS} at least of each."
        )

    @property
    def summary(self) -> str:
        """What the nights allow, and how much neighbours correlate."""
        if not self.rows:
            return "No case in common."
        nights = len(self.reference.runs), len(self.this.runs)
        if self.too_few_nights:
            return " ".join([self.too_few_nights, *self._correlated()])
        rows = [row for row in self.rows if row.p_adjusted is not None]
        named = [row for row in rows if row.verdict in ("worse", "better")]
        text = f"{len(named)} of {len(rows)} rows changed by more than nights differ"
        if least := sorted(row.least_named for row in rows if row.least_named is not None):
            text += (
                f"; with {nights[0]} against {nights[1]} nights a row had to change by"
                f" {_percent(least[0])} to {_percent(least[-1])} to be named"
            )
        return " ".join([f"{text}.", *self._correlated()])

    def _correlated(self) -> Iterator[str]:
        """How much nights correlate, and what that does to intervals; nothing without these."""
        widened = sorted(row.widened for row in self.rows if row.widened is not None)
        if not widened:
            return
        found = self.correlation
        text = "Neighbouring nights"
        if found.estimate is not None:
            text += f" correlate by {found.estimate:.2f}, and"
        text += f" may correlate by {found.at_most:.2f}"
        text += ", the most that is considered" if found.is_worst else ""
        factors = dict.fromkeys(f"{each:.1f}" for each in (widened[0], widened[-1]))
        wide = f"{' to '.join(factors)} times as wide"
        yield f"{text}: intervals are {wide} as of independent nights."

    def document(self) -> dict[str, Any]:
        """The comparison as `nimc compare --json` prints it."""
        return {
            "reference": _side(self.reference),
            "this": _side(self.this),
            "nodes": [asdict(fact) for fact in self.nodes],
            "doses": [asdict(dose) for dose in self.doses],
            "night_correlation": asdict(self.correlation),
            "comparisons": list(map(flat, self.rows)),
            "differences": [asdict(fact) for fact in self.others],
            "emulations": self.emulations,
            "worse": self.worse,
            "integrity_faults": {str(found.run): found.faults for found in self.untrusted},
        }


def compare_sides(reference: Sequence[RunData], this: Sequence[RunData]) -> Compared:
    """Compares the runs of two sides. Raises InputError if they are not two sides of nights."""
    sides = pair_up(reference, this)
    doses = dose_differences(*sides)
    old, new = (side.nights() for side in sides)
    correlated = correlation(old, new)
    return Compared(
        *sides,
        nodes=node_facts(*sides),
        doses=doses,
        correlation=correlated,
        rows=compare(old, new, {(dose.case, dose.arm) for dose in doses}, correlated),
        others=other_differences(*sides),
    )


def _percent(share: float) -> str:
    return f"{share * 100:.2g} %" if share < 10 else "more than 1000 %"


def _side(side: Side) -> dict[str, Any]:
    return {"machine": side.machine, "campaign": side.campaign, "runs": side.names}
