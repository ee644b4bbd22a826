"""The comparison of two sides: their nights, their facts, and what differs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import polars as pl

from analysis.compare.mismatches import Mismatch, setting_mismatches, write_mismatches
from analysis.display.figures import change
from analysis.effects.verdict import emulation_caveats
from analysis.history.between_nights import (
    MAX_HISTORY_NIGHTS,
    MIN_HISTORY_NIGHTS,
    NightCorrelation,
    NightsDifference,
    correlation_of_history,
    correlation_of_nights,
    mean_of_nights,
    ratio_of_alternating,
    ratio_of_nights,
    ratio_of_two,
)
from analysis.report.data import RunData
from analysis.report.fact_texts import labelled_facts
from analysis.report.table import facts_of_making, results_table
from analysis.samples.integrity import Integrity
from analysis.samples.provenance import FACTS, all_hosts, mapping_or_empty, reported_facts
from analysis.statistics.interval import Estimate, flat_record, holm
from records.errors import InputError
from records.groups import grouped
from records.run import RunHeader
from records.sample import Better
from records.units import plural

#: The quantity compared: the slowdown, or the figure of merit under baseline or treatment.
Metric = Literal["slowdown", "off", "on"]
#: Metric -> its name in tables and figures.
METRICS: dict[Metric, str] = {"slowdown": "slowdown", "off": "baseline", "on": "under writes"}


class Quantity(NamedTuple):
    """A quantity that is compared, if both sides have measured it."""

    case: str
    #: Name of the treatment; of the baseline if `metric` is `off`.
    arm: str
    metric: Metric
    #: Unit of the figure of merit.
    unit: str
    better: Better


#: Quantity -> one estimate per night.
NightsByQuantity = Mapping[Quantity, Sequence[Estimate]]
#: Metric -> in the table of results, the prefix of the columns of its interval, and its column.
_COLUMNS: dict[Metric, tuple[str, str]] = {
    "off": ("off", "off_median"),
    "slowdown": ("slowdown", "slowdown"),
    "on": ("on", "on_median"),
}


@dataclass(frozen=True)
class Side:
    """Runs of one campaign on one machine, in order of time; each is a night."""

    runs: tuple[RunData, ...]

    @property
    def header(self) -> RunHeader:
        """Return the header of its first run; machine and campaign are those of all."""
        return self.runs[0].header

    @cached_property
    def effects(self) -> pl.DataFrame:
        """The side's rows of the table of results, one per night, case and treatment."""
        return results_table(self.runs).filter(role="effect")

    def nights(self) -> NightsByQuantity:
        """One estimate per quantity and night; a night with too few pairs is left out."""
        nights: dict[Quantity, dict[str, Estimate | None]] = {}
        for row in self.effects.iter_rows(named=True):
            for metric, (prefix, column) in _COLUMNS.items():
                arm = row["baseline" if metric == "off" else "arm"]
                quantity = Quantity(row["case"], arm, metric, row["unit"], row["better"])
                low, high = row[f"{prefix}_low"], row[f"{prefix}_high"]
                night = None if low is None else Estimate(row[column], low, high)
                # Effects that share a baseline share its time, which is compared once.
                nights.setdefault(quantity, {}).setdefault(row["run"], night)
        return {
            quantity: list(filter(None, by_run.values())) for quantity, by_run in nights.items()
        }


def sides_of(reference: Sequence[RunData], current: Sequence[RunData]) -> tuple[Side, Side]:
    """The two sides. Raises InputError if a side is mixed, or a run is given twice."""
    # Runs of two folders that start in the same second have the same name.
    started = [(run.header.run, run.header.started_s) for run in (*reference, *current)]
    if duplicates := sorted(run for run in started if started.count(run) > 1):
        raise InputError(
            f"{duplicates[0][0]}: each run must be given once; a copy is not another night"
        )
    for runs in (reference, current):
        for name in ("machine", "campaign"):
            values = sorted({str(getattr(run.header, name)) for run in runs})
            if len(values) > 1:
                raise InputError(
                    f"{', '.join(run.header.run for run in runs)}: the runs of one side must"
                    f" have the same {name}, not {' and '.join(values)}"
                )
    reference_side, current_side = (
        Side(tuple(sorted(runs, key=lambda run: run.header.started_s)))
        for runs in (reference, current)
    )
    return reference_side, current_side


# Facts of how runs were made, as label -> text; several values are joined with ` | `.


@dataclass(frozen=True)
class Difference:
    """A fact that differs."""

    what: str
    reference: str
    this: str


#: Text for a fact that no node reports.
UNKNOWN = "unknown"
#: Text for a fact that one side does not have.
_ABSENT_TEXT = "absent"


def node_facts(side: Side) -> dict[str, str]:
    """Facts of the nodes that change what a run measures (`analysis.samples.provenance`).

    The facts of memory that the machine's file states are among them.
    """
    hosts = all_hosts(record for run in side.runs for record in run.provenance.values())
    named = {name: _joined(texts) or UNKNOWN for name, texts in reported_facts(hosts).items()}
    memories = (mapping_or_empty(_site(run).get("memory")) for run in side.runs)
    stated = (
        {key: value for key, value in memory.items() if value is not None} for memory in memories
    )
    texts_by_name = grouped(fact for memory in stated for fact in labelled_facts(memory))
    return named | {f"memory: {name}": _joined(texts) for name, texts in texts_by_name.items()}


def _site(run: RunData) -> dict[str, Any]:
    return mapping_or_empty(run.header.facts.get("site"))


def _without_memory(run: RunData) -> dict[str, Any]:
    """The facts of the machine's file without those of memory, which `node_facts` has."""
    site = {name: value for name, value in _site(run).items() if name != "memory"}
    return {"site": site} if site else {}


def other_facts(side: Side) -> dict[str, str]:
    """Return facts of the machine and of how the runs were requested and made, with their units.

    Units are listed since a quantity that has another unit on the other side is not compared.
    """
    texts: list[tuple[str, str]] = []
    for run in side.runs:
        header = run.header
        texts += [(name, str(getattr(header, name))) for name in ("machine", "campaign", "digest")]
        texts.append(("commit", header.commit or UNKNOWN))
        texts += labelled_facts({**header.facts, **_without_memory(run)})
        making = facts_of_making(header, run.provenance)
        texts += [(name, text) for name, text in making.items() if name not in FACTS]
        effects = (row for row in run.results if row.role == "effect")
        texts += [(f"{row.case} {row.arm}", f"measured in {row.unit}") for row in effects]
    return {name: _joined(values) for name, values in grouped(texts).items()}


def _joined(values: Iterable[str]) -> str:
    return " | ".join(sorted(set(values)))


def differences(reference: Mapping[str, str], current: Mapping[str, str]) -> list[Difference]:
    """Return the facts that differ between two sides, or that only one side has."""
    rows = (
        Difference(name, reference.get(name, _ABSENT_TEXT), current.get(name, _ABSENT_TEXT))
        for name in dict.fromkeys([*reference, *current])
    )
    return [row for row in rows if row.reference != row.this]


# Differences between two sides.


ChangeVerdict = Literal[
    "worse", "better", "no change shown", "too few nights", "not comparable", "too few pairs"
]
#: Verdict -> its meaning.
VERDICT_MEANINGS: dict[ChangeVerdict, str] = {
    "worse": "Worse than the reference nights, by more than nights differ; judged over all rows.",
    "better": "Better than the reference nights, by more than nights differ; judged over all rows.",
    "no change shown": "No change exceeds the spread between nights; the interval shows "
    "what is not ruled out.",
    "too few nights": "Whether nights are odd or something changed cannot be said. Between two "
    "nights the interval is that within them, and does not cover how nights differ.",
    "not comparable": "The application was set otherwise on one side, or, of slowdown and time"
    " under writes, written to otherwise.",
    "too few pairs": "One side has no night with at least six pairs.",
}
#: Adjusted p value up to which a change is named.
ERROR_LEVEL = 0.05
#: From this factor on by which correlation widens intervals, the summary says what narrows them.
_MIN_WIDENING = 1.5
#: Fewest nights of each side with which a change can be named.
_MIN_NIGHTS = 2


def nights_needed(rows: int) -> int:
    """Fewest nights of both sides together with which a change can be named in one of `rows` rows.

    Nights may be at one of two levels, however far apart these are. The chance that by accident all
    nights of one side are at one level, and all of the other side at the other, is 2 / 2^nights.
    """
    return math.ceil(1 + math.log2(max(rows, 1) / ERROR_LEVEL))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One quantity, this side against the reference."""

    #: Names of case and treatment.
    case: str
    arm: str
    #: The slowdown, or a figure of merit.
    metric: Metric
    #: Unit of the figure of merit.
    unit: str
    #: Both sides: one value per night; and their geometric mean with its interval, or the estimate
    #: of the only night. Figures of merit are in their unit. None if a side has no nights.
    reference: Estimate | None
    reference_nights: list[float]
    this: Estimate | None
    this_nights: list[float]
    #: Ratio of slowdowns or of times for the same work; above 1 is worse. None if the row is not
    #: comparable.
    ratio: Estimate | None
    #: Width of the interval / width for independent nights; None with one night a side.
    widened: float | None
    #: Two-sided p value, and adjusted over all rows that are judged; None if not judged.
    p: float | None
    p_adjusted: float | None
    #: Smallest relative change that would have been named, given the spread between nights.
    least_named: float | None
    #: Upper limit of that change for as many nights that alternate between the sides; None if not
    #: judged, or if the nights do alternate.
    least_named_in_turn: float | None
    #: The verdict on the row.
    verdict: ChangeVerdict

    @property
    def text(self) -> str:
        """The verdict in words; for two nights, by how much they differ, if that is shown."""
        if self.verdict != "too few nights" or self.ratio is None or self.widened is not None:
            return self.verdict
        changed = change(self.ratio.value)
        if self.ratio.low <= 1 <= self.ratio.high:
            return f"two nights: no difference shown ({changed})"
        if changed.endswith("%"):
            return f"two nights differ by {changed}"
        return f"two nights: {changed} {'as large' if self.metric == 'slowdown' else 'as long'}"


def correlation(
    old: NightsByQuantity, new: NightsByQuantity, *past: Sequence[Sequence[float]]
) -> NightCorrelation:
    """Return how much neighbouring nights correlate.

    `past`: for each machine and campaign, a series of earlier nights per quantity. If each past has
    enough nights, the one with the largest correlation decides, else the nights of both sides.
    """
    histories = [correlation_of_history(series) for series in past]
    known = [history for history in histories if history]
    if known and len(known) == len(histories):
        return max(known, key=lambda history: history.at_most)
    return correlation_of_nights(
        [(_values(old[quantity]), _values(new[quantity])) for quantity in new if quantity in old]
    )


def _past(history: pl.DataFrame | None, sides: Iterable[Side]) -> list[list[list[float]]]:
    """The values of each quantity on the machines of the sides, without the current nights."""
    if history is None:
        return []
    sides = tuple(sides)
    current = sides[-1]
    current_runs = [run.header.run for run in current.runs]
    campaigns = {(side.header.machine, side.header.campaign) for side in sides}
    nights = history.filter(~pl.col("run").is_in(current_runs), pl.col("quantity") != "writer_rate")
    past = []
    for machine, campaign in sorted(campaigns):
        rows = nights.filter(machine=machine, campaign=campaign).sort("started_s")
        past.append(rows.group_by("case", "arm", "quantity").agg("value")["value"].to_list())
    return past


def _unmatched(nights: NightsByQuantity, other_nights: NightsByQuantity) -> list[str]:
    """Names of cases and treatments of `nights` that other nights lack or have in another unit."""
    measured = {(quantity.case, quantity.arm) for quantity in other_nights}
    names = {
        quantity: quantity.case if quantity.arm == "on" else f"{quantity.case} {quantity.arm}"
        for quantity in nights
        if quantity.metric == "on" and quantity not in other_nights
    }
    return [
        f"{name} in {quantity.unit}" if (quantity.case, quantity.arm) in measured else name
        for quantity, name in names.items()
    ]


def _number_alternating(reference: Side, current: Side) -> int:
    """Number of nights of each side if the nights alternate, else 0."""
    if len(reference.runs) != len(current.runs):
        return 0
    starts = [(run.header.started_s, "reference") for run in reference.runs]
    starts += [(run.header.started_s, "this") for run in current.runs]
    sides_in_time = [side for _, side in sorted(starts)]
    alternate = all(earlier != later for earlier, later in pairwise(sides_in_time))
    return len(current.runs) if alternate else 0


def _values(nights: Sequence[Estimate]) -> list[float]:
    return [night.value for night in nights]


def compare_quantities(
    old: NightsByQuantity,
    new: NightsByQuantity,
    mismatches: Iterable[Mismatch],
    correlated: NightCorrelation,
    *,
    alternating_nights: int = 0,
) -> list[Comparison]:
    """Return a row for each quantity of both sides, `new` against `old`, the reference.

    Rows of `mismatches` are not judged, except baselines if only the writes differ.
    `alternating_nights`: number of nights of each side if the nights alternate, else 0.
    """
    common = {quantity: (old[quantity], new[quantity]) for quantity in new if quantity in old}
    differences_of_nights = {
        quantity: _night_difference(quantity, *sides, correlated.at_most, alternating_nights)
        for quantity, sides in common.items()
    }
    mismatched_arms = {(mismatch.case, mismatch.arm) for mismatch in mismatches}
    not_comparable = {
        quantity
        for quantity in common
        if (quantity.case, None) in mismatched_arms
        or (quantity.metric != "off" and quantity[:2] in mismatched_arms)
    }
    testable = [
        quantity
        for quantity, sides in common.items()
        if min(map(len, sides)) >= _MIN_NIGHTS and quantity not in not_comparable
    ]
    min_nights = nights_needed(len(testable))
    judged = {}
    for quantity in testable:
        difference = differences_of_nights[quantity]
        if difference and sum(map(len, common[quantity])) >= min_nights:
            judged[quantity] = difference
    adjusted = dict(
        zip(judged, holm([difference.p for difference in judged.values()]), strict=True)
    )
    rows = []
    for quantity, (reference, current) in common.items():
        difference, p_adjusted = differences_of_nights[quantity], adjusted.get(quantity)
        if difference:
            ratio: Estimate | None = difference.ratio
        else:
            ratio = _ratio_of_two_nights(quantity, reference, current)
        p = least_named = least_named_in_turn = None
        if quantity in judged:
            p = judged[quantity].p
            row_level = ERROR_LEVEL / len(judged)
            least_named = judged[quantity].least_change(row_level)
            if not alternating_nights:
                least_named_in_turn = judged[quantity].least_alternating_change(row_level)
        row = Comparison(
            case=quantity.case,
            arm=quantity.arm,
            metric=quantity.metric,
            unit=quantity.unit,
            reference=_mean(reference, correlated),
            reference_nights=_values(reference),
            this=_mean(current, correlated),
            this_nights=_values(current),
            ratio=None if quantity in not_comparable else ratio,
            widened=difference.widened if difference else None,
            p=p,
            p_adjusted=p_adjusted,
            least_named=least_named,
            least_named_in_turn=least_named_in_turn,
            verdict=_verdict(ratio, p_adjusted, comparable=quantity not in not_comparable),
        )
        rows.append(row)
    return rows


def _verdict(
    ratio: Estimate | None, p_adjusted: float | None, *, comparable: bool
) -> ChangeVerdict:
    if not comparable:
        return "not comparable"
    if ratio is None:
        return "too few pairs"
    if p_adjusted is None:
        return "too few nights"
    if p_adjusted > ERROR_LEVEL:
        return "no change shown"
    return "worse" if ratio.value > 1 else "better"


#: The estimates of one quantity on one side, one per night.
_Nights = Sequence[Estimate]


def _in_times(quantity: Quantity, old: _Nights, new: _Nights) -> tuple[_Nights, _Nights]:
    """Return numerator and denominator of the ratio of times; rates are their inverse."""
    rate = quantity.metric != "slowdown" and quantity.better == "higher"
    return (old, new) if rate else (new, old)


def _night_difference(
    quantity: Quantity, old: _Nights, new: _Nights, correlation: float, alternating_nights: int
) -> NightsDifference | None:
    numerator, denominator = map(_values, _in_times(quantity, old, new))
    if len(old) == len(new) == alternating_nights:
        return ratio_of_alternating(numerator, denominator)
    return ratio_of_nights(numerator, denominator, correlation=correlation)


def _ratio_of_two_nights(quantity: Quantity, old: _Nights, new: _Nights) -> Estimate | None:
    """The ratio of two nights, from their own intervals."""
    numerator, denominator = _in_times(quantity, old, new)
    return ratio_of_two(numerator[0], denominator[0]) if numerator and denominator else None


def _mean(nights: _Nights, correlated: NightCorrelation) -> Estimate | None:
    return mean_of_nights(_values(nights), correlated.at_most) or next(iter(nights), None)


@dataclass(frozen=True, kw_only=True)
class ComparedSides:
    """The comparison of two sides."""

    reference: Side
    this: Side
    #: Facts of the nodes that change what a run measures, whether or not they differ.
    nodes: list[Difference]
    #: Mismatches that make rows not comparable.
    mismatches: list[Mismatch]
    #: Correlation of neighbouring nights.
    correlation: NightCorrelation
    #: Number of nights of each side if the nights alternate, else 0.
    alternating_nights: int
    rows: list[Comparison]
    #: Cases and treatments that only the reference has, and that only this side has.
    unmatched: tuple[list[str], list[str]]
    #: All other facts that differ.
    other_differences: list[Difference]

    @property
    def first_lines(self) -> list[str]:
        """Return the first lines of the page: unfinished runs, and what differs.

        Named are machine, campaign, settings and writes that differ, and what only one side has.
        """
        runs = (*self.reference.runs, *self.this.runs)
        unfinished = [
            f"{run.header.run}: unfinished" for run in runs if run.header.finished_s is None
        ]
        sides = (self.reference.header, self.this.header)
        named = {
            name: [getattr(header, name) for header in sides] for name in ("machine", "campaign")
        }
        lines = [
            f"different {name}s: {', '.join(values)}"
            for name, values in named.items()
            if values[0] != values[1]
        ]
        lines += [mismatch.sentence for mismatch in self.mismatches]
        unmatched = zip(("the reference", "this side"), self.unmatched, strict=True)
        return [
            *unfinished,
            *lines,
            *(f"only {side} measured: {', '.join(names)}" for side, names in unmatched if names),
        ]

    @property
    def differing_facts(self) -> list[Difference]:
        """Facts of the nodes that differ, or that one side alone reports."""
        return [fact for fact in self.nodes if fact.reference != fact.this]

    @property
    def unknown_facts(self) -> list[str]:
        """Facts of the nodes that neither side reports."""
        return [fact.what for fact in self.nodes if fact.reference == fact.this == UNKNOWN]

    @property
    def faulty_runs(self) -> list[Integrity]:
        """Return the checks of the runs that have integrity faults."""
        runs = (*self.reference.runs, *self.this.runs)
        return [run.integrity for run in runs if run.integrity.fault_count]

    @property
    def worse_count(self) -> int:
        """Number of rows that got worse."""
        return sum(row.verdict == "worse" for row in self.rows)

    @property
    def emulations(self) -> list[str]:
        """Caveats of the transports of both sides."""
        named = (side.effects["transport"] for side in (self.reference, self.this))
        return emulation_caveats(pl.concat(transports.sort() for transports in named))

    @property
    def too_few_nights_text(self) -> str:
        """Return how many nights it takes to name a change; empty if there are enough for a row."""
        few = sum(row.verdict == "too few nights" for row in self.rows)
        if not few or any(row.p_adjusted is not None for row in self.rows):
            return ""
        return (
            f"Too few nights to name a change: for {plural(few, 'row')} it takes"
            f" {nights_needed(few)} of both sides together, {_MIN_NIGHTS} at least of each."
        )

    @property
    def summary(self) -> str:
        """Return what the nights show, and how much neighbouring nights correlate."""
        if not self.rows:
            return "No case in common."
        if all(row.verdict in ("not comparable", "too few pairs") for row in self.rows):
            return "No row is comparable."
        return f"{self.too_few_nights_text or self._change_text()}{self._correlation_text()}"

    def _change_text(self) -> str:
        """Return how many rows changed, and by how much they had to."""
        rows = [row for row in self.rows if row.p_adjusted is not None]
        named = [row for row in rows if row.verdict in ("worse", "better")]
        text = f"{len(named)} of {len(rows)} rows changed by more than nights differ"
        if least := sorted(row.least_named for row in rows if row.least_named is not None):
            text += (
                f"; with {len(self.reference.runs)} against {len(self.this.runs)} nights a row had"
                f" to change by {change(1 + least[0])} to {change(1 + least[-1])} to be named"
            )
        return f"{text}."

    def _correlation_text(self) -> str:
        """Return how much nights correlate and how that widens intervals; empty without any."""
        widened = sorted(row.widened for row in self.rows if row.widened is not None)
        if not widened:
            return ""
        estimate, at_most = self.correlation.estimate, f"{self.correlation.at_most:.2f}"
        correlate = "" if estimate is None else f" correlate by {estimate:.2f}, and"
        worst = ", the most that is considered" if self.correlation.is_worst else ""
        if self.alternating_nights:
            return " Nights alternate: each is compared with its neighbour, whatever they share."
        if known := self.correlation.history_nights:
            worst = f", as {known} nights of the machine show"
        wide = " to ".join(dict.fromkeys(f"{factor:.1f}" for factor in (widened[0], widened[-1])))
        return (
            f" Neighbouring nights{correlate} may correlate by {at_most}{worst}: intervals are"
            f" {wide} times as wide as of independent nights.{self._advice_text(widened[-1])}"
        )

    def _advice_text(self, widened: float) -> str:
        """Return what would make intervals narrower, and its price; empty if they are narrow."""
        if widened < _MIN_WIDENING:
            return ""
        known, history = self.correlation.history_nights, ""
        if known < MAX_HISTORY_NIGHTS:
            more = f"More than these {known}" if known else str(MIN_HISTORY_NIGHTS)
            history = f" {more} other nights of this campaign may show that they correlate less."
        named = [
            row.least_named_in_turn for row in self.rows if row.least_named_in_turn is not None
        ]
        if not named:
            return history
        nights = (len(self.reference.runs) + len(self.this.runs)) // 2
        return (
            f"{history} If as many nights alternated between the sides, {nights} of each, a change"
            f" of at most {change(1 + min(named))} to {change(1 + max(named))} would be named; the"
            " price: every second night is one of the reference."
        )

    def document(self) -> dict[str, Any]:
        """The comparison as `nimc compare --json` prints it."""
        sides = {"reference": self.reference, "this": self.this}
        return {
            **{
                name: {
                    "machine": side.header.machine,
                    "campaign": side.header.campaign,
                    "runs": [run.header.run for run in side.runs],
                }
                for name, side in sides.items()
            },
            "nodes": [asdict(fact) for fact in self.nodes],
            "mismatches": [asdict(mismatch) for mismatch in self.mismatches],
            "unmatched": dict(zip(sides, self.unmatched, strict=True)),
            "night_correlation": asdict(self.correlation),
            "comparisons": list(map(flat_record, self.rows)),
            "differences": [asdict(fact) for fact in self.other_differences],
            "emulations": self.emulations,
            "worse": self.worse_count,
            "integrity_faults": {str(checked.run): checked.faults for checked in self.faulty_runs},
        }


def compare_sides(
    reference: Sequence[RunData], current: Sequence[RunData], history: pl.DataFrame | None = None
) -> ComparedSides:
    """Compare the runs of two sides. Raises InputError if a side is mixed or has a run twice.

    `history`: nights of their machines (`analysis.history.nights.nights_of`).
    """
    sides = sides_of(reference, current)
    settings = setting_mismatches(*(side.runs for side in sides))
    writes = write_mismatches(*(side.effects for side in sides))
    old, new = (side.nights() for side in sides)
    correlated = correlation(old, new, *_past(history, sides))
    alternating_nights = _number_alternating(*sides)
    old_nodes, new_nodes = map(node_facts, sides)
    mismatches = [*settings, *writes]
    return ComparedSides(
        reference=sides[0],
        this=sides[1],
        nodes=[
            Difference(name, old_nodes.get(name, UNKNOWN), new_nodes.get(name, UNKNOWN))
            for name in dict.fromkeys([*FACTS, *old_nodes, *new_nodes])
        ],
        mismatches=mismatches,
        correlation=correlated,
        alternating_nights=alternating_nights,
        rows=compare_quantities(
            old, new, mismatches, correlated, alternating_nights=alternating_nights
        ),
        unmatched=(_unmatched(old, new), _unmatched(new, old)),
        other_differences=differences(*map(other_facts, sides)),
    )
