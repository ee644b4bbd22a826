"""Compares two sides, the reference and the current side, by their runs.

The runs of a side have the same machine and campaign. Each run is a night. `compare_sides` returns:

- the facts in which the sides differ, such as the kernel of the nodes (`ComparedFact`);
- the settings and writes that make figures incomparable (`analysis.compare.mismatches`);
- a row for each quantity that both sides measured, from one value per night (`Comparison`).

The fields of these records are keys of `nimc compare --json`, where the current side is `this`.
"""

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

    @property
    def run_keys(self) -> list[tuple[str, float]]:
        """Return name and start of each run. Runs of two folders may have the same name."""
        return [(run.header.run, run.header.started_s) for run in self.runs]

    @cached_property
    def effects(self) -> pl.DataFrame:
        """The side's rows of the table of results, one per night, case and treatment."""
        return results_table(self.runs).filter(role="effect")

    def nights(self) -> NightsByQuantity:
        """Return one estimate per quantity and night. A night with too few pairs is left out."""
        nights: dict[Quantity, dict[tuple[str, float], Estimate | None]] = {}
        for row in self.effects.iter_rows(named=True):
            run_key = row["run"], row["started_s"]
            for metric, (prefix, column) in _COLUMNS.items():
                arm = row["baseline" if metric == "off" else "arm"]
                quantity = Quantity(row["case"], arm, metric, row["unit"], row["better"])
                low, high = row[f"{prefix}_low"], row[f"{prefix}_high"]
                night = None if low is None else Estimate(row[column], low, high)
                # Effects that share a baseline repeat its figure, which counts once.
                nights.setdefault(quantity, {}).setdefault(run_key, night)
        return {
            quantity: list(filter(None, by_run.values())) for quantity, by_run in nights.items()
        }


def sides_of(reference: Sequence[RunData], current: Sequence[RunData]) -> tuple[Side, Side]:
    """Return the two sides: the reference, then the current side.

    Raises InputError if the runs of a side differ in machine or campaign, or if a run is given
    twice.
    """
    reference_side, current_side = (
        Side(tuple(sorted(runs, key=lambda run: run.header.started_s)))
        for runs in (reference, current)
    )
    run_keys = [*reference_side.run_keys, *current_side.run_keys]
    duplicate_names = sorted(
        name for name, start_s in run_keys if run_keys.count((name, start_s)) > 1
    )
    if duplicate_names:
        raise InputError(
            f"{duplicate_names[0]}: each run must be given once; a copy is not another night"
        )
    for runs in (reference, current):
        for name in ("machine", "campaign"):
            values = sorted({str(getattr(run.header, name)) for run in runs})
            if len(values) > 1:
                raise InputError(
                    f"{', '.join(run.header.run for run in runs)}: the runs of one side must"
                    f" have the same {name}, not {' and '.join(values)}"
                )
    return reference_side, current_side


# Facts of a side: label -> text. If a side's runs or nodes have several values, ` | ` joins them.


@dataclass(frozen=True)
class ComparedFact:
    """A fact of the machine or of the runs, as a text for each side."""

    #: Label of the fact.
    what: str
    reference: str
    #: Text for the current side.
    this: str

    @property
    def differs(self) -> bool:
        """Return whether the sides differ in this fact."""
        return self.reference != self.this


#: Text for a fact that no node reports.
UNKNOWN = "unknown"
#: Text for a fact that one side does not have.
_ABSENT_TEXT = "absent"


def compared_facts(
    reference: Mapping[str, str], current: Mapping[str, str], *, missing_text: str
) -> list[ComparedFact]:
    """Return each fact that a side has. `missing_text` stands for it on a side without it."""
    return [
        ComparedFact(label, reference.get(label, missing_text), current.get(label, missing_text))
        for label in dict.fromkeys([*reference, *current])
    ]


def node_facts(side: Side) -> dict[str, str]:
    """Return the facts of a side's nodes that may explain a difference between results.

    They are the facts that hosts report (`HOST_FACTS`), and those about memory in the site file.
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
    """Return the facts of the site file that the run's header has."""
    return mapping_or_empty(run.header.facts.get("site"))


def other_facts(side: Side) -> dict[str, str]:
    """Return the facts of the machine, the campaign and the build that `node_facts` leaves out.

    The unit of each figure of merit is one of them, since figures in two units are not compared.
    """
    labels_and_texts: list[tuple[str, str]] = []
    for run in side.runs:
        header = run.header
        labels_and_texts += [
            (name, str(getattr(header, name))) for name in ("machine", "campaign", "digest")
        ]
        labels_and_texts.append(("commit", header.commit or UNKNOWN))
        labels_and_texts += labelled_facts({**header.facts, **_site_without_memory(run)})
        labels_and_texts += [
            (name, text)
            for name, text in build_facts(header, run.provenance).items()
            if name not in HOST_FACTS
        ]
        labels_and_texts += [
            (f"{row.case} {row.arm}", f"measured in {row.unit}")
            for row in run.results
            if row.role == "effect"
        ]
    return {label: _joined(texts) for label, texts in grouped(labels_and_texts).items()}


def _site_without_memory(run: RunData) -> dict[str, Any]:
    """Return `{"site": ...}`, the site file's facts except those about memory; {} without any."""
    site = {name: value for name, value in _site(run).items() if name != "memory"}
    return {"site": site} if site else {}


def _joined(texts: Iterable[str]) -> str:
    return " | ".join(sorted(set(texts)))


# The rows of a comparison, and their verdicts.


ChangeVerdict = Literal[
    "worse", "better", "no change shown", "too few nights", "not comparable", "too few pairs"
]
#: Verdict -> its meaning.
VERDICT_MEANINGS: dict[ChangeVerdict, str] = {
    "worse": "Worse than the reference by more than the nights of one side differ. All rows are"
    " judged together.",
    "better": "Better than the reference by more than the nights of one side differ. All rows are"
    " judged together.",
    "no change shown": "The sides differ no more than the nights of one side. The interval shows"
    " which changes are not ruled out.",
    "too few nights": "The nights are too few to tell a change from an unusual night. With one"
    " night on each side, the interval is from the pairs within these nights. It does not cover"
    " how nights differ.",
    "not comparable": "The sides differ in the application's settings or, for the slowdown and the"
    " time under writes, in the writes.",
    "too few pairs": "One side has no night with at least six pairs.",
}
#: A change is named if its adjusted p value is not above this level.
ERROR_LEVEL = 0.05
#: If correlation widens an interval by this factor or more, the summary says what would narrow it.
_MIN_WIDENING = 1.5
#: Smallest number of nights of each side with which a change can be named.
_MIN_NIGHTS = 2


def nights_needed(n_rows: int) -> int:
    """Return the smallest number of nights, of both sides together, that can name a change.

    `n_rows` rows are judged together. Suppose that every night is at one of two levels by chance.
    Then 2 / 2^nights is the probability that all nights of one side are at one level, and all
    nights of the other side are at the other level. In all rows together, this may happen with a
    probability of at most `ERROR_LEVEL`.
    """
    return math.ceil(1 + math.log2(max(n_rows, 1) / ERROR_LEVEL))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A row: one quantity of the current side, compared with the reference."""

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
        """The verdict in words. With one night on each side, it says by how much they differ."""
        if self.verdict != "too few nights" or self.ratio is None or self.widened is not None:
            return self.verdict
        changed = relative_change_text(self.ratio.value)
        if self.ratio.low <= 1 <= self.ratio.high:
            return f"two nights: no difference shown ({changed})"
        if changed.endswith("%"):
            return f"two nights differ by {changed}"
        return f"two nights: {changed} {'as large' if self.metric == 'slowdown' else 'as long'}"


# Correlation of neighbouring nights.


def correlation_of_sides(
    reference: NightsByQuantity, current: NightsByQuantity, *histories: Sequence[Sequence[float]]
) -> NightCorrelation:
    """Return how much neighbouring nights correlate.

    Each of `histories` is of one machine and campaign. It has, for each quantity, the values of
    nights in order of time. If all histories are long enough, the history with the largest
    correlation decides. Otherwise, the correlation is estimated from the nights of both sides.
    """
    correlations = [correlation_of_history(history) for history in histories]
    known = [correlation for correlation in correlations if correlation]
    if known and len(known) == len(histories):
        return max(known, key=lambda correlation: correlation.at_most)
    return correlation_of_nights(
        [
            (_values(reference[quantity]), _values(nights))
            for quantity, nights in current.items()
            if quantity in reference
        ]
    )


def _histories(
    all_nights: pl.DataFrame | None, reference: Side, current: Side
) -> list[list[list[float]]]:
    """Return a history for each machine and campaign of the sides (see `correlation_of_sides`).

    The nights of the current side are left out.
    """
    if all_nights is None:
        return []
    key_types = {"run": pl.String, "started_s": pl.Float64}
    current_runs = pl.DataFrame(current.run_keys, schema=key_types, orient="row")
    campaigns = {(side.header.machine, side.header.campaign) for side in (reference, current)}
    nights = all_nights.filter(pl.col("quantity") != "writer_rate")
    nights = nights.join(current_runs, on=list(key_types), how="anti", maintain_order="left")
    histories = []
    for machine, campaign in sorted(campaigns):
        rows = nights.filter(machine=machine, campaign=campaign).sort("started_s")
        histories.append(rows.group_by("case", "arm", "quantity").agg("value")["value"].to_list())
    return histories


def _count_alternating_nights(reference: Side, current: Side) -> int:
    """Return the number of nights of each side if the nights alternate, else 0."""
    if len(reference.runs) != len(current.runs):
        return 0
    starts = [(run.header.started_s, "reference") for run in reference.runs]
    starts += [(run.header.started_s, "this") for run in current.runs]
    sides_in_order = [side_name for _, side_name in sorted(starts)]
    alternate = all(earlier != later for earlier, later in pairwise(sides_in_order))
    return len(current.runs) if alternate else 0


# Makes the rows.


#: The estimates of one quantity on one side, one per night.
_Nights = Sequence[Estimate]


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
    night_differences = {
        quantity: _night_difference(quantity, *sides, night_correlation.at_most, alternating_nights)
        for quantity, sides in common.items()
    }
    not_comparable = _not_comparable(common, mismatches)
    comparable_differences = {
        quantity: difference
        for quantity, difference in night_differences.items()
        if difference and quantity not in not_comparable
    }
    night_counts = {quantity: tuple(map(len, sides)) for quantity, sides in common.items()}
    judgements = _judgements(
        _judged_differences(comparable_differences, night_counts),
        alternate=alternating_nights > 0,
    )
    rows = []
    for quantity, (reference_nights, current_nights) in common.items():
        judgement = judgements.get(quantity, _NOT_JUDGED)
        comparable = quantity not in not_comparable
        if difference := night_differences[quantity]:
            ratio: Estimate | None = difference.ratio
        else:
            ratio = _ratio_of_two_nights(quantity, reference_nights, current_nights)
        row = Comparison(
            case=quantity.case,
            arm=quantity.arm,
            metric=quantity.metric,
            unit=quantity.unit,
            reference=_mean(reference_nights, night_correlation),
            reference_nights=_values(reference_nights),
            this=_mean(current_nights, night_correlation),
            this_nights=_values(current_nights),
            ratio=ratio if comparable else None,
            widened=difference.widening if difference else None,
            p=judgement.p,
            p_adjusted=judgement.p_adjusted,
            least_named=judgement.least_named,
            least_named_in_turn=judgement.least_named_in_turn,
            verdict=_verdict(ratio, judgement.p_adjusted, comparable=comparable),
        )
        rows.append(row)
    return rows


def _night_difference(
    quantity: Quantity,
    reference: _Nights,
    current: _Nights,
    correlation: float,
    alternating_nights: int,
) -> NightsDifference | None:
    """Return how the nights of the sides differ; None if there are too few nights."""
    numerator, denominator = map(_values, _terms_of_ratio(quantity, reference, current))
    if len(reference) == len(current) == alternating_nights:
        return ratio_of_alternating(numerator, denominator)
    return ratio_of_nights(numerator, denominator, correlation=correlation)


def _ratio_of_two_nights(
    quantity: Quantity, reference: _Nights, current: _Nights
) -> Estimate | None:
    """Return the ratio of the first nights, from their intervals; None if a side has no night."""
    numerator, denominator = _terms_of_ratio(quantity, reference, current)
    return ratio_of_two(numerator[0], denominator[0]) if numerator and denominator else None


def _terms_of_ratio(
    quantity: Quantity, reference: _Nights, current: _Nights
) -> tuple[_Nights, _Nights]:
    """Return the numerator and the denominator of the ratio of times.

    For rates, the sides are swapped, since a time is the inverse of a rate.
    """
    is_rate = quantity.metric != "slowdown" and quantity.better == "higher"
    return (reference, current) if is_rate else (current, reference)


def _mean(nights: _Nights, night_correlation: NightCorrelation) -> Estimate | None:
    """Return the mean of several nights, or the estimate of a single night; None without nights."""
    return mean_of_nights(_values(nights), night_correlation.at_most) or next(iter(nights), None)


def _values(nights: _Nights) -> list[float]:
    return [night.value for night in nights]


def _not_comparable(
    quantities: Iterable[Quantity], mismatches: Iterable[Mismatch]
) -> set[Quantity]:
    """Return the quantities with a mismatch. Other writes do not affect a baseline."""
    mismatched_arms = {(mismatch.case, mismatch.arm) for mismatch in mismatches}
    return {
        quantity
        for quantity in quantities
        if (quantity.case, None) in mismatched_arms
        or (quantity.metric != "off" and (quantity.case, quantity.arm) in mismatched_arms)
    }


def _judged_differences(
    night_differences: Mapping[Quantity, NightsDifference],
    night_counts: Mapping[Quantity, tuple[int, ...]],
) -> dict[Quantity, NightsDifference]:
    """Return the differences that have enough nights to name a change.

    `night_counts` has the numbers of nights of both sides.
    """
    testable = {
        quantity: difference
        for quantity, difference in night_differences.items()
        if min(night_counts[quantity]) >= _MIN_NIGHTS
    }
    min_nights = nights_needed(len(testable))
    return {
        quantity: difference
        for quantity, difference in testable.items()
        if sum(night_counts[quantity]) >= min_nights
    }


class _Judgement(NamedTuple):
    """The fields of a row (see `Comparison`) that are None if the row is not judged."""

    p: float | None
    p_adjusted: float | None
    least_named: float | None
    least_named_in_turn: float | None


_NOT_JUDGED = _Judgement(None, None, None, None)


def _judgements(
    judged: Mapping[Quantity, NightsDifference], *, alternate: bool
) -> dict[Quantity, _Judgement]:
    """Judge these differences together. `alternate` is true if the nights of the sides do."""
    p_values_adjusted = holm([difference.p for difference in judged.values()])
    judgements = {}
    for (quantity, difference), p_adjusted in zip(judged.items(), p_values_adjusted, strict=True):
        row_level = ERROR_LEVEL / len(judged)
        judgements[quantity] = _Judgement(
            p=difference.p,
            p_adjusted=p_adjusted,
            least_named=difference.least_change(row_level),
            least_named_in_turn=(
                None if alternate else difference.least_alternating_change(row_level)
            ),
        )
    return judgements


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


# The whole comparison: facts, rows and a summary.


@dataclass(frozen=True, kw_only=True)
class ComparedSides:
    """The comparison of two sides."""

    reference: Side
    this: Side
    #: Facts of the nodes, whether or not they differ.
    nodes: list[ComparedFact]
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
    other_differences: list[ComparedFact]

    @property
    def warnings(self) -> list[str]:
        """Return a line for each reason why the sides may not be comparable.

        These are unfinished runs, another machine or campaign, other settings or writes, and cases
        or treatments that one side lacks.
        """
        runs = (*self.reference.runs, *self.this.runs)
        lines = [f"{run.header.run}: unfinished" for run in runs if run.header.finished_s is None]
        for name in ("machine", "campaign"):
            reference = getattr(self.reference.header, name)
            current = getattr(self.this.header, name)
            if reference != current:
                lines.append(f"different {name}s: {reference} -> {current}")
        lines += [mismatch.sentence for mismatch in self.mismatches]
        for side, names in zip(("the reference", "this side"), self.unmatched, strict=True):
            if names:
                lines.append(f"only {side} measured: {', '.join(names)}")
        return lines

    @property
    def differing_facts(self) -> list[ComparedFact]:
        """Facts of the nodes that differ, or that only one side reports."""
        return [fact for fact in self.nodes if fact.differs]

    @property
    def unknown_facts(self) -> list[str]:
        """Facts of the nodes that neither side reports."""
        return [fact.what for fact in self.nodes if fact.reference == fact.this == UNKNOWN]

    @property
    def faulty_checks(self) -> list[Integrity]:
        """Return the integrity checks that found faults, one per run with faults."""
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
            f"Too few nights to name a change: for {plural(few, 'row')}, both sides together need"
            f" {nights_needed(few)} nights, and each side needs at least {_MIN_NIGHTS}."
        )

    @property
    def summary(self) -> str:
        """Return how many rows changed, or why none is judged, and how much nights correlate."""
        if all(row.verdict in ("not comparable", "too few pairs") for row in self.rows):
            return self.unjudged_text
        return f"{self.unjudged_text or self._change_text()}{self._correlation_text()}"

    def _change_text(self) -> str:
        """Return how many rows changed, and how large a change had to be to be named."""
        rows = [row for row in self.rows if row.p_adjusted is not None]
        changed_rows = [row for row in rows if row.verdict in ("worse", "better")]
        text = f"{len(changed_rows)} of {len(rows)} rows changed by more than nights differ."
        if least_changes := [row.least_named for row in rows if row.least_named is not None]:
            text += (
                f" With {plural(len(self.reference.runs), 'night')} of the reference and"
                f" {len(self.this.runs)} of this side, a row had to change by"
                f" {_range_of_changes(least_changes)} to be named."
            )
        return text

    def _correlation_text(self) -> str:
        """Return how much neighbouring nights may correlate, and by how much this widens intervals.

        The text is empty if no row compares more than two nights.
        """
        factors = [row.widened for row in self.rows if row.widened is not None]
        if not factors:
            return ""
        if self.alternating_nights:
            return (
                " The nights of the sides alternate. Each is compared with its neighbour, so that"
                " what neighbours share cancels."
            )
        estimate, history_nights = self.correlation.estimate, self.correlation.history_nights
        estimate_text = "" if estimate is None else f" (estimate: {estimate:.2f})"
        basis = ""
        if history_nights:
            basis = f", as {history_nights} nights of the machine show"
        elif self.correlation.is_worst:
            basis = ", the largest correlation that is considered"
        range_text = " to ".join(dict.fromkeys([f"{min(factors):.1f}", f"{max(factors):.1f}"]))
        return (
            f" Neighbouring nights may correlate by up to {self.correlation.at_most:.2f}"
            f"{estimate_text}{basis}. So intervals are {range_text} times as wide as those of"
            f" independent nights.{self._advice_text(max(factors))}"
        )

    def _advice_text(self, largest_factor: float) -> str:
        """Return what would narrow the intervals, and what this costs; empty if they are narrow.

        `largest_factor` is the largest factor by which correlation widens an interval.
        """
        if largest_factor < _MIN_WIDENING:
            return ""
        history_nights = self.correlation.history_nights
        advice = ""
        if history_nights < MAX_HISTORY_NIGHTS:
            needed = f"more than {history_nights}" if history_nights else f"{MIN_HISTORY_NIGHTS}"
            advice = (
                f" A history of {needed} other nights of this campaign may show less correlation."
            )
        least_changes = [
            row.least_named_in_turn for row in self.rows if row.least_named_in_turn is not None
        ]
        if not least_changes:
            return advice
        nights_of_a_side = (len(self.reference.runs) + len(self.this.runs)) // 2
        return (
            f"{advice} If as many nights alternated between the sides, {nights_of_a_side} of each,"
            f" a row would have to change by at most {_range_of_changes(least_changes)} to be"
            " named. But then every second night is one of the reference."
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
            "integrity_faults": {
                str(checked.run): checked.faults for checked in self.faulty_checks
            },
        }


def _range_of_changes(changes: Sequence[float]) -> str:
    """Return the smallest and the largest of relative changes, such as `+1.2 % to +3.4 %`."""
    least, most = relative_change_text(1 + min(changes)), relative_change_text(1 + max(changes))
    return f"{least} to {most}"


def compare_sides(
    reference: Sequence[RunData], current: Sequence[RunData], history: pl.DataFrame | None = None
) -> ComparedSides:
    """Compare the runs of two sides. Raises InputError as `sides_of` does.

    `history` has nights of the sides' machines (`analysis.history.nights.nights_of`).
    """
    reference_side, current_side = sides_of(reference, current)
    mismatches = [
        *setting_mismatches(reference_side.runs, current_side.runs),
        *write_mismatches(reference_side.effects, current_side.effects),
    ]
    reference_nights, current_nights = reference_side.nights(), current_side.nights()
    histories = _histories(history, reference_side, current_side)
    night_correlation = correlation_of_sides(reference_nights, current_nights, *histories)
    alternating_nights = _count_alternating_nights(reference_side, current_side)
    other = compared_facts(
        other_facts(reference_side), other_facts(current_side), missing_text=_ABSENT_TEXT
    )
    return ComparedSides(
        reference=reference_side,
        this=current_side,
        nodes=compared_facts(
            node_facts(reference_side), node_facts(current_side), missing_text=UNKNOWN
        ),
        mismatches=mismatches,
        correlation=night_correlation,
        alternating_nights=alternating_nights,
        rows=compare_quantities(
            reference_nights,
            current_nights,
            mismatches,
            night_correlation,
            alternating_nights=alternating_nights,
        ),
        unmatched=(
            _unmatched(reference_nights, current_nights),
            _unmatched(current_nights, reference_nights),
        ),
        other_differences=[fact for fact in other if fact.differs],
    )
