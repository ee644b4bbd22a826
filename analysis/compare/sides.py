"""The comparison of two sides: their nights, their facts, and the differences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import polars as pl

from analysis.compare.mismatches import Mismatch, setting_mismatches, write_mismatches
from analysis.display.figures import relative_change_text
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
from analysis.report.table import build_facts, results_table
from analysis.samples.integrity import Integrity
from analysis.samples.provenance import HOST_FACTS, all_hosts, mapping_or_empty, reported_facts
from analysis.statistics.interval import Estimate, flat_record, holm
from records.errors import InputError
from records.groups import grouped
from records.run import RunHeader
from records.sample import Better
from records.units import plural

#: What is compared: the slowdown, or the figure of merit without writes (`off`) or with writes
#: (`on`).
Metric = Literal["slowdown", "off", "on"]
#: Metric -> its name in tables and figures.
METRICS: dict[Metric, str] = {"slowdown": "slowdown", "off": "baseline", "on": "under writes"}


class Quantity(NamedTuple):
    """A quantity that is compared, if both sides have measured it."""

    case: str
    #: Name of the treatment or, if `metric` is `off`, of its baseline.
    arm: str
    metric: Metric
    #: Unit of the figure of merit.
    unit: str
    better: Better


#: Quantity -> one estimate per night.
NightsByQuantity = Mapping[Quantity, Sequence[Estimate]]
#: Metric -> the prefix of its interval's columns in the table of results, and its value's column.
_COLUMNS: dict[Metric, tuple[str, str]] = {
    "off": ("off", "off_median"),
    "slowdown": ("slowdown", "slowdown"),
    "on": ("on", "on_median"),
}


@dataclass(frozen=True)
class Side:
    """Runs of one campaign on one machine, in order of time. Each run is a night."""

    runs: tuple[RunData, ...]

    @property
    def header(self) -> RunHeader:
        """Return the header of the first run. All runs have the same machine and campaign."""
        return self.runs[0].header

    @cached_property
    def effects(self) -> pl.DataFrame:
        """The side's rows of the table of results, one per night, case and treatment."""
        return results_table(self.runs).filter(role="effect")

    def nights(self) -> NightsByQuantity:
        """Return one estimate per quantity and night. A night with too few pairs is left out."""
        nights: dict[Quantity, dict[tuple[str, float], Estimate | None]] = {}
        for row in self.effects.iter_rows(named=True):
            for metric, (prefix, column) in _COLUMNS.items():
                arm = row["baseline" if metric == "off" else "arm"]
                quantity = Quantity(row["case"], arm, metric, row["unit"], row["better"])
                low, high = row[f"{prefix}_low"], row[f"{prefix}_high"]
                night = None if low is None else Estimate(row[column], low, high)
                # Effects that share a baseline have the same baseline's time, which is compared
                # once. Runs in two folders may have the same name.
                run = row["run"], row["started_s"]
                nights.setdefault(quantity, {}).setdefault(run, night)
        return {
            quantity: list(filter(None, by_run.values())) for quantity, by_run in nights.items()
        }


def sides_of(reference: Sequence[RunData], current: Sequence[RunData]) -> tuple[Side, Side]:
    """Return the two sides: the reference, then the current side.

    Raises InputError if the runs of a side differ in machine or campaign, or if a run is given
    twice.
    """
    # Runs of two folders that start in the same second have the same name.
    names_and_starts = [(run.header.run, run.header.started_s) for run in (*reference, *current)]
    duplicates = sorted(
        name for name, start_s in names_and_starts if names_and_starts.count((name, start_s)) > 1
    )
    if duplicates:
        raise InputError(
            f"{duplicates[0]}: each run must be given once; a copy is not another night"
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
    """A fact that differs between the sides: its label, and its text for each side."""

    what: str
    reference: str
    this: str


#: Text for a fact that no node reports.
UNKNOWN = "unknown"
#: Text for a fact that one side does not have.
_ABSENT_TEXT = "absent"


def node_facts(side: Side) -> dict[str, str]:
    """Return facts of the nodes that change what a run measures (`analysis.samples.provenance`).

    They include the facts about memory that the machine's file states.
    """
    hosts = all_hosts(record for run in side.runs for record in run.provenance.values())
    host_facts = {name: _joined(texts) or UNKNOWN for name, texts in reported_facts(hosts).items()}
    stated_facts: list[tuple[str, str]] = []
    for run in side.runs:
        memory = mapping_or_empty(_site(run).get("memory"))
        stated_facts += labelled_facts(
            {key: value for key, value in memory.items() if value is not None}
        )
    return host_facts | {
        f"memory: {name}": _joined(texts) for name, texts in grouped(stated_facts).items()
    }


def _site(run: RunData) -> dict[str, Any]:
    return mapping_or_empty(run.header.facts.get("site"))


def _without_memory(run: RunData) -> dict[str, Any]:
    """Return the facts of the machine's file, except facts about memory (see `node_facts`)."""
    site = {name: value for name, value in _site(run).items() if name != "memory"}
    return {"site": site} if site else {}


def other_facts(side: Side) -> dict[str, str]:
    """Return facts of the machine and of how the runs were requested and made, with their units.

    Units are listed, since a quantity is not compared if its unit differs between the sides.
    """
    texts: list[tuple[str, str]] = []
    for run in side.runs:
        header = run.header
        texts += [(name, str(getattr(header, name))) for name in ("machine", "campaign", "digest")]
        texts.append(("commit", header.commit or UNKNOWN))
        texts += labelled_facts({**header.facts, **_without_memory(run)})
        making = build_facts(header, run.provenance)
        texts += [(name, text) for name, text in making.items() if name not in HOST_FACTS]
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
    "not comparable": "The application had other settings on one side or, for slowdown and time"
    " under writes, other writes.",
    "too few pairs": "One side has no night with at least six pairs.",
}
#: Adjusted p value up to which a change is named.
ERROR_LEVEL = 0.05
#: If correlation widens intervals by this factor or more, the summary says what narrows them.
_MIN_WIDENING = 1.5
#: Smallest number of nights of each side with which a change can be named.
_MIN_NIGHTS = 2


def nights_needed(rows: int) -> int:
    """Return how many nights, of both sides together, it takes to name a change in any of `rows`.

    Each night may be at one of two levels, at any distance from each other. The chance that by
    accident all nights of one side are at one level, and all nights of the other side at the other
    level, is 2 / 2^nights.
    """
    return math.ceil(1 + math.log2(max(rows, 1) / ERROR_LEVEL))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One quantity: this side compared with the reference."""

    #: Names of case and treatment.
    case: str
    arm: str
    #: The slowdown, or a figure of merit.
    metric: Metric
    #: Unit of the figure of merit.
    unit: str
    #: For each side, the values of its nights, and their geometric mean with its interval. If the
    #: side has one night, its estimate replaces the mean. If it has no nights, the mean is None.
    #: Figures of merit are in `unit`.
    reference: Estimate | None
    reference_nights: list[float]
    this: Estimate | None
    this_nights: list[float]
    #: Ratio of slowdowns or of times for the same work; above 1 is worse. None if the row is not
    #: comparable, or if a side has no nights.
    ratio: Estimate | None
    #: Width of the interval / width for independent nights; None if each side has one night.
    widened: float | None
    #: Two-sided p value, and this p value adjusted over all judged rows. Both are None if this row
    #: is not judged.
    p: float | None
    p_adjusted: float | None
    #: Smallest relative change that would have been named, given the spread between nights.
    least_named: float | None
    #: Upper limit of `least_named` if as many nights alternated between the sides. None if
    #: this row is not judged, or if the nights do alternate.
    least_named_in_turn: float | None
    #: The verdict on the row.
    verdict: ChangeVerdict

    @property
    def text(self) -> str:
        """The verdict in words. For two nights, it says whether and by how much they differ."""
        if self.verdict != "too few nights" or self.ratio is None or self.widened is not None:
            return self.verdict
        changed = relative_change_text(self.ratio.value)
        if self.ratio.low <= 1 <= self.ratio.high:
            return f"two nights: no difference shown ({changed})"
        if changed.endswith("%"):
            return f"two nights differ by {changed}"
        return f"two nights: {changed} {'as large' if self.metric == 'slowdown' else 'as long'}"


def correlation_of_sides(
    reference: NightsByQuantity, current: NightsByQuantity, *past: Sequence[Sequence[float]]
) -> NightCorrelation:
    """Return how much neighbouring nights correlate.

    `past` has, for each machine and campaign, a series of earlier nights per quantity. If each past
    has enough nights, the past with the largest correlation decides. Otherwise, the correlation is
    estimated from the nights of both sides.
    """
    correlations = [correlation_of_history(series) for series in past]
    known = [past_correlation for past_correlation in correlations if past_correlation]
    if known and len(known) == len(correlations):
        return max(known, key=lambda past_correlation: past_correlation.at_most)
    return correlation_of_nights(
        [
            (_values(reference[quantity]), _values(nights))
            for quantity, nights in current.items()
            if quantity in reference
        ]
    )


def _past_nights(
    history: pl.DataFrame | None, reference: Side, current: Side
) -> list[list[list[float]]]:
    """Return each quantity's values in order of time, for each machine and campaign of the sides.

    The nights of the current side are left out.
    """
    if history is None:
        return []
    keys = [(run.header.run, run.header.started_s) for run in current.runs]
    key_types = {"run": pl.String, "started_s": pl.Float64}
    current_runs = pl.DataFrame(keys, schema=key_types, orient="row")
    campaigns = {(side.header.machine, side.header.campaign) for side in (reference, current)}
    nights = history.filter(pl.col("quantity") != "writer_rate")
    nights = nights.join(current_runs, on=list(key_types), how="anti", maintain_order="left")
    past = []
    for machine, campaign in sorted(campaigns):
        rows = nights.filter(machine=machine, campaign=campaign).sort("started_s")
        past.append(rows.group_by("case", "arm", "quantity").agg("value")["value"].to_list())
    return past


def _unmatched(nights: NightsByQuantity, other_nights: NightsByQuantity) -> list[str]:
    """Return cases and treatments of `nights` that the others lack or have in another unit."""
    other_treatments = {(quantity.case, quantity.arm) for quantity in other_nights}
    names = {
        quantity: quantity.case if quantity.arm == "on" else f"{quantity.case} {quantity.arm}"
        for quantity in nights
        if quantity.metric == "on" and quantity not in other_nights
    }
    return [
        f"{name} in {quantity.unit}" if (quantity.case, quantity.arm) in other_treatments else name
        for quantity, name in names.items()
    ]


def _count_alternating_nights(reference: Side, current: Side) -> int:
    """Return the number of nights of each side if the nights alternate, else 0."""
    if len(reference.runs) != len(current.runs):
        return 0
    starts = [(run.header.started_s, "reference") for run in reference.runs]
    starts += [(run.header.started_s, "this") for run in current.runs]
    sides_in_order = [side for _, side in sorted(starts)]
    alternate = all(earlier != later for earlier, later in pairwise(sides_in_order))
    return len(current.runs) if alternate else 0


def _values(nights: Sequence[Estimate]) -> list[float]:
    return [night.value for night in nights]


def compare_quantities(
    reference: NightsByQuantity,
    current: NightsByQuantity,
    mismatches: Iterable[Mismatch],
    night_correlation: NightCorrelation,
    *,
    alternating_nights: int = 0,
) -> list[Comparison]:
    """Return a row for each quantity of both sides, the current side against the reference.

    Rows of `mismatches` are not judged, except baselines if only the writes differ.
    `alternating_nights` is the number of nights of each side if the nights alternate, else 0.
    """
    common = {
        quantity: (reference[quantity], nights)
        for quantity, nights in current.items()
        if quantity in reference
    }
    differences_of_nights = {
        quantity: _night_difference(quantity, *sides, night_correlation.at_most, alternating_nights)
        for quantity, sides in common.items()
    }
    mismatched_arms = {(mismatch.case, mismatch.arm) for mismatch in mismatches}
    not_comparable = {
        quantity
        for quantity in common
        if (quantity.case, None) in mismatched_arms
        or (quantity.metric != "off" and (quantity.case, quantity.arm) in mismatched_arms)
    }
    judged = _judged_differences(
        {
            quantity: difference
            for quantity, difference in differences_of_nights.items()
            if difference and quantity not in not_comparable
        },
        {quantity: tuple(map(len, sides)) for quantity, sides in common.items()},
    )
    adjusted_p = dict(
        zip(judged, holm([difference.p for difference in judged.values()]), strict=True)
    )
    rows = []
    for quantity, (reference_nights, current_nights) in common.items():
        difference = differences_of_nights[quantity]
        p_adjusted = adjusted_p.get(quantity)
        if difference:
            ratio: Estimate | None = difference.ratio
        else:
            ratio = _ratio_of_two_nights(quantity, reference_nights, current_nights)
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
            reference=_mean(reference_nights, night_correlation),
            reference_nights=_values(reference_nights),
            this=_mean(current_nights, night_correlation),
            this_nights=_values(current_nights),
            ratio=None if quantity in not_comparable else ratio,
            widened=difference.widening if difference else None,
            p=p,
            p_adjusted=p_adjusted,
            least_named=least_named,
            least_named_in_turn=least_named_in_turn,
            verdict=_verdict(ratio, p_adjusted, comparable=quantity not in not_comparable),
        )
        rows.append(row)
    return rows


def _judged_differences(
    differences_of_nights: Mapping[Quantity, NightsDifference],
    night_counts: Mapping[Quantity, tuple[int, ...]],
) -> dict[Quantity, NightsDifference]:
    """Return the differences that have enough nights to name a change.

    `night_counts` are the numbers of nights of both sides.
    """
    testable = {
        quantity: difference
        for quantity, difference in differences_of_nights.items()
        if min(night_counts[quantity]) >= _MIN_NIGHTS
    }
    min_nights = nights_needed(len(testable))
    return {
        quantity: difference
        for quantity, difference in testable.items()
        if sum(night_counts[quantity]) >= min_nights
    }


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


def _in_times(quantity: Quantity, reference: _Nights, current: _Nights) -> tuple[_Nights, _Nights]:
    """Return the numerator and the denominator of the ratio of times.

    For rates, the sides are swapped, since a time is the inverse of a rate.
    """
    is_rate = quantity.metric != "slowdown" and quantity.better == "higher"
    return (reference, current) if is_rate else (current, reference)


def _night_difference(
    quantity: Quantity,
    reference: _Nights,
    current: _Nights,
    correlation: float,
    alternating_nights: int,
) -> NightsDifference | None:
    numerator, denominator = map(_values, _in_times(quantity, reference, current))
    if len(reference) == len(current) == alternating_nights:
        return ratio_of_alternating(numerator, denominator)
    return ratio_of_nights(numerator, denominator, correlation=correlation)


def _ratio_of_two_nights(
    quantity: Quantity, reference: _Nights, current: _Nights
) -> Estimate | None:
    """Return the ratio of the first nights, from their intervals; None if a side has no night."""
    numerator, denominator = _in_times(quantity, reference, current)
    return ratio_of_two(numerator[0], denominator[0]) if numerator and denominator else None


def _range_of_changes(changes: Sequence[float]) -> str:
    """Return the smallest and the largest of relative changes, such as `+1.2 % to +3.4 %`."""
    least, most = relative_change_text(1 + min(changes)), relative_change_text(1 + max(changes))
    return f"{least} to {most}"


def _mean(nights: _Nights, night_correlation: NightCorrelation) -> Estimate | None:
    """Return the mean of several nights, or the estimate of a single night; None without nights."""
    return mean_of_nights(_values(nights), night_correlation.at_most) or next(iter(nights), None)


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
    #: Cases and treatments that only the reference has, and those that only this side has.
    unmatched: tuple[list[str], list[str]]
    #: All other facts that differ.
    other_differences: list[Difference]

    @property
    def warnings(self) -> list[str]:
        """Return what limits the comparison: unfinished runs, and differences between the sides.

        Machine, campaign, settings and writes may differ, and a side may lack a case or treatment.
        """
        runs = (*self.reference.runs, *self.this.runs)
        unfinished = [
            f"{run.header.run}: unfinished" for run in runs if run.header.finished_s is None
        ]
        lines = []
        for name in ("machine", "campaign"):
            reference = getattr(self.reference.header, name)
            current = getattr(self.this.header, name)
            if reference != current:
                lines.append(f"different {name}s: {reference} -> {current}")
        lines += [mismatch.sentence for mismatch in self.mismatches]
        unmatched = zip(("the reference", "this side"), self.unmatched, strict=True)
        lines += [f"only {side} measured: {', '.join(names)}" for side, names in unmatched if names]
        return [*unfinished, *lines]

    @property
    def differing_facts(self) -> list[Difference]:
        """Facts of the nodes that differ, or that only one side reports."""
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
        """Number of rows with the verdict `worse`."""
        return sum(row.verdict == "worse" for row in self.rows)

    @property
    def emulations(self) -> list[str]:
        """Caveats of the transports of both sides."""
        transports = (side.effects["transport"] for side in (self.reference, self.this))
        return emulation_caveats(pl.concat(names.sort() for names in transports))

    @property
    def unjudged_text(self) -> str:
        """Return why no row is judged, such as too few nights; empty if any row is judged."""
        if any(row.p_adjusted is not None for row in self.rows):
            return ""
        if not self.rows:
            return "No case in common."
        few = sum(row.verdict == "too few nights" for row in self.rows)
        if not few:
            return "No row can be judged: too few pairs, or not comparable."
        return (
            f"Too few nights to name a change: for {plural(few, 'row')} it takes"
            f" {nights_needed(few)} of both sides together, {_MIN_NIGHTS} at least of each."
        )

    @property
    def summary(self) -> str:
        """Return what the nights show, and how much neighbouring nights correlate."""
        if all(row.verdict in ("not comparable", "too few pairs") for row in self.rows):
            return self.unjudged_text
        return f"{self.unjudged_text or self._change_text()}{self._correlation_text()}"

    def _change_text(self) -> str:
        """Return how many rows changed, and how large a change had to be to be named."""
        rows = [row for row in self.rows if row.p_adjusted is not None]
        changed_rows = [row for row in rows if row.verdict in ("worse", "better")]
        text = f"{len(changed_rows)} of {len(rows)} rows changed by more than nights differ"
        if least := [row.least_named for row in rows if row.least_named is not None]:
            text += (
                f"; with {plural(len(self.reference.runs), 'night')} of the reference and"
                f" {len(self.this.runs)} of this side a row had to change by"
                f" {_range_of_changes(least)} to be named"
            )
        return f"{text}."

    def _correlation_text(self) -> str:
        """Return how much nights correlate, and how this widens intervals.

        The text is empty if no interval depends on the correlation.
        """
        factors = [row.widened for row in self.rows if row.widened is not None]
        if not factors:
            return ""
        if self.alternating_nights:
            return " Nights alternate: each is compared with its neighbour, whatever they share."
        estimate, history_nights = self.correlation.estimate, self.correlation.history_nights
        correlate = "" if estimate is None else f" correlate by {estimate:.2f}, and"
        basis = ", the most that is considered" if self.correlation.is_worst else ""
        if history_nights:
            basis = f", as {history_nights} nights of the machine show"
        range_text = " to ".join(dict.fromkeys([f"{min(factors):.1f}", f"{max(factors):.1f}"]))
        at_most = f"{self.correlation.at_most:.2f}"
        return (
            f" Neighbouring nights{correlate} may correlate by {at_most}{basis}: intervals are"
            f" {range_text} times as wide as those of independent nights."
            f"{self._advice_text(max(factors))}"
        )

    def _advice_text(self, largest_factor: float) -> str:
        """Return what would make intervals narrower, and what this costs; empty if they are narrow.

        `largest_factor` is the largest factor by which correlation widens an interval.
        """
        if largest_factor < _MIN_WIDENING:
            return ""
        history_nights = self.correlation.history_nights
        advice = ""
        if history_nights < MAX_HISTORY_NIGHTS:
            needed = f"More than these {history_nights}" if history_nights else MIN_HISTORY_NIGHTS
            advice = f" {needed} other nights of this campaign may show that they correlate less."
        least = [
            row.least_named_in_turn for row in self.rows if row.least_named_in_turn is not None
        ]
        if not least:
            return advice
        nights = (len(self.reference.runs) + len(self.this.runs)) // 2
        return (
            f"{advice} If as many nights alternated between the sides, {nights} of each, a change"
            f" of at most {_range_of_changes(least)} would be named; the price: every second night"
            " is one of the reference."
        )

    def document(self) -> dict[str, Any]:
        """Return the comparison as `nimc compare --json` prints it."""
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
    """Compare the runs of two sides. Raises InputError as `sides_of` does.

    `history` has nights of the sides' machines (`analysis.history.nights.nights_of`).
    """
    reference_side, this_side = sides_of(reference, current)
    mismatches = [
        *setting_mismatches(reference_side.runs, this_side.runs),
        *write_mismatches(reference_side.effects, this_side.effects),
    ]
    reference_nights, this_nights = reference_side.nights(), this_side.nights()
    past = _past_nights(history, reference_side, this_side)
    night_correlation = correlation_of_sides(reference_nights, this_nights, *past)
    alternating_nights = _count_alternating_nights(reference_side, this_side)
    reference_nodes, this_nodes = node_facts(reference_side), node_facts(this_side)
    return ComparedSides(
        reference=reference_side,
        this=this_side,
        nodes=[
            Difference(name, reference_nodes.get(name, UNKNOWN), this_nodes.get(name, UNKNOWN))
            for name in dict.fromkeys([*HOST_FACTS, *reference_nodes, *this_nodes])
        ],
        mismatches=mismatches,
        correlation=night_correlation,
        alternating_nights=alternating_nights,
        rows=compare_quantities(
            reference_nights,
            this_nights,
            mismatches,
            night_correlation,
            alternating_nights=alternating_nights,
        ),
        unmatched=(
            _unmatched(reference_nights, this_nights),
            _unmatched(this_nights, reference_nights),
        ),
        other_differences=differences(other_facts(reference_side), other_facts(this_side)),
    )
