"""Two sides compared: nights, facts and doses of each, what differs, and both as one document."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any, Literal, NamedTuple

import polars as pl

from analysis.effects.verdict import emulations
from analysis.report.data import RunData
from analysis.report.table import results_table
from analysis.report.words import binary, facts
from analysis.samples.integrity import Integrity
from analysis.samples.provenance import FACTS, OF_A_BLOCK, all_hosts, reported_facts
from analysis.statistics.interval import CONFIDENCE, Estimate, flat, holm
from analysis.statistics.nights import (
    NightCorrelation,
    NightsDifference,
    correlation_of_nights,
    mean_of_nights,
    ratio_of_nights,
    ratio_of_two,
)
from records.errors import InputError
from records.groups import grouped
from records.sample import Better
from records.units import plural, quantity, signed

#: What is compared: the slowdown, or the figure of merit under baseline or treatment.
Metric = Literal["slowdown", "off", "on"]
#: Metric -> its name in tables and figures.
METRICS: dict[Metric, str] = {"slowdown": "slowdown", "off": "baseline", "on": "under writes"}


class Quantity(NamedTuple):
    """What both sides must have measured alike to be compared."""

    case: str
    #: Name of the treatment; of the baseline if `metric` is `off`.
    arm: str
    metric: Metric
    #: Of the figure of merit.
    unit: str
    better: Better

    @property
    def is_rate(self) -> bool:
        """Whether a higher value is better, so that its ratio is taken the other way round."""
        return self.metric != "slowdown" and self.better == "higher"


#: Metric -> columns of the table of results: what its interval begins with, and its value.
_COLUMNS: dict[Metric, tuple[str, str]] = {
    "off": ("off", "off_median"),
    "slowdown": ("slowdown", "slowdown"),
    "on": ("on", "on_median"),
}
#: One estimate per night.
Nights = Mapping[Quantity, Sequence[Estimate]]


@dataclass(frozen=True)
class Side:
    """Runs of one campaign on one machine; each is a night."""

    runs: tuple[RunData, ...]

    def __post_init__(self) -> None:
        for name in ("machine", "campaign"):
            values = sorted({str(getattr(run.header, name)) for run in self.runs})
            if len(values) > 1:
                raise InputError(
                    f"{', '.join(run.header.run for run in self.runs)}: the runs of one side must"
                    f" have the same {name}, not {' and '.join(values)}"
                )

    @property
    def machine(self) -> str:
        """The machine of all its runs."""
        return self.runs[0].header.machine

    @property
    def campaign(self) -> str:
        """The campaign of all its runs."""
        return self.runs[0].header.campaign

    @property
    def names(self) -> list[str]:
        """Names of its runs."""
        return [run.header.run for run in self.runs]

    @cached_property
    def effects(self) -> pl.DataFrame:
        """Its rows of the table of results, one a night, case and treatment."""
        return results_table(self.runs).filter(role="effect")

    def nights(self) -> Nights:
        """One estimate per quantity and night; a night with too few pairs is left out."""
        names = ["run", "case", "unit", "better"]
        parts = [
            self.effects.with_row_index().select(
                "index",
                *names,
                pl.col("baseline" if metric == "off" else "arm").alias("arm"),
                pl.lit(metric).alias("metric"),
                *(pl.col(f"{column}{end}").alias(f"value{end}") for end in ("_low", "_high")),
                value=value,
            )
            for metric, (column, value) in _COLUMNS.items()
        ]
        # Effects that share a baseline share its time, which is compared once.
        rows = pl.concat(parts).sort("index", maintain_order=True)
        rows = rows.unique([*names, "arm", "metric"], keep="first", maintain_order=True)
        nights: dict[Quantity, list[Estimate]] = {}
        for row in rows.iter_rows(named=True):
            quantity = Quantity(*(row[name] for name in Quantity._fields))
            ends = row["value"], row["value_low"], row["value_high"]
            of = [] if ends[1] is None else [Estimate(*ends, CONFIDENCE)]
            nights.setdefault(quantity, []).extend(of)
        return nights

    @property
    def emulations(self) -> list[str]:
        """Caveats of the transports of its writes."""
        return emulations(self.effects["transport"].drop_nulls().unique().sort().to_list())


def pair_up(reference: Sequence[RunData], this: Sequence[RunData]) -> tuple[Side, Side]:
    """The two sides, runs in order of time.

    Raises InputError if a side is empty or mixed, or a run is given twice.
    """
    # Runs of two folders that start in the same second have the same name.
    started = [(run.header.run, run.header.started_s) for run in (*reference, *this)]
    twice = sorted({run for run in started if started.count(run) > 1})
    if twice:
        raise InputError(f"{twice[0][0]}: each run must be given once; a copy is not another night")
    one, other = (
        Side(tuple(sorted(runs, key=lambda run: run.header.started_s)))
        for runs in (reference, this)
    )
    return one, other


#: Parts of provenance that are drawn for each run, or that its header has as well.
_OF_A_RUN = {*OF_A_BLOCK, "seed", "commit", "machine"}
#: Facts of a host that are listed apart (`rdma` has more than the firmware), and its name.
_LISTED = ({*FACTS.values()} - {"rdma"}) | {"hostname"}
#: Of a fact that no node reports, and of what one side does not have.
UNKNOWN, _ABSENT = "unknown", "absent"


@dataclass(frozen=True)
class Difference:
    """A fact that differs; several values of one side are joined with ` | `."""

    what: str
    reference: str
    this: str


def node_facts(reference: Side, this: Side) -> list[Difference]:
    """Facts of the nodes that change what a run measures, whether or not they differ.

    See `analysis.samples.provenance`; `unknown` if no node of a side reports them.
    """
    old, new = (reported_facts(_hosts(side)) for side in (reference, this))
    return [Difference(name, _joined(old[name]), _joined(new[name])) for name in FACTS]


def other_differences(reference: Side, this: Side) -> list[Difference]:
    """All other facts that differ, and cases and treatments that only one side has."""
    old, new = _facts(reference), _facts(this)
    return [
        Difference(name, old.get(name, _ABSENT), new.get(name, _ABSENT))
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]


def _hosts(side: Side) -> list[dict[str, Any]]:
    return all_hosts(record for run in side.runs for record in run.provenance.values())


def _joined(values: Iterable[str]) -> str:
    return " | ".join(sorted(set(values))) or UNKNOWN


def _facts(side: Side) -> dict[str, str]:
    """Label -> text. Node by node would list every node; so by fact, over all nodes."""
    texts: list[tuple[str, str]] = []
    for run in side.runs:
        header = run.header
        texts += [(name, str(getattr(header, name))) for name in ("machine", "campaign", "digest")]
        texts.append(("commit", header.commit or UNKNOWN))
        # What only one side has, or has in another unit, is not compared: it is listed here.
        effects = (row for row in run.results if row.role == "effect")
        texts += [(f"{row.case} {row.arm}", f"measured in {row.unit}") for row in effects]
        texts += facts({"version": header.versions})
        texts += facts(header.facts)
        for record in run.provenance.values():
            lasting = {name: value for name, value in record.items() if name not in _OF_A_RUN}
            if program := lasting.get("program"):
                # What was built for the run lies in its folder; the digest tells programs apart.
                lasting["program"] = {name: program[name] for name in program if name != "path"}
            texts += facts({"provenance": lasting})
    for host in _hosts(side):
        texts += facts({"node": {k: v for k, v in host.items() if k not in _LISTED}})
    return {name: _joined(values) for name, values in grouped(texts).items()}


# The dose of a treatment: what its writers do. Sides are comparable only if their doses agree.


#: Rates vary from night to night; those that differ by more than this share are another dose.
RATE_TOLERANCE = 0.1


@dataclass(frozen=True)
class DoseDifference:
    """What differs between the sides' writes of one case and treatment."""

    case: str
    arm: str
    #: `64 KiB against 1 MiB`, and so on.
    text: str


#: Column -> its text; each must be the same in all runs of both sides.
_EXACT: dict[str, Callable[[Any], str]] = {
    "writers": lambda value: plural(value, "writer"),
    "message_b": lambda value: binary(value) if value else "none",
    "transport": lambda value: value or "none",
    "injector": lambda value: value or "none",
    "direction": lambda value: value or "write",
}
#: Rate -> its text; the medians of the sides must agree within `RATE_TOLERANCE`.
_RATES: dict[str, Callable[[float | None], str]] = {
    "asked_b_s": lambda value: "full rate" if value is None else f"{_rate(value)} requested",
    "writer_rate_alone_b_s": lambda value: f"{_rate(value)} alone",
}


def dose_differences(reference: pl.DataFrame, this: pl.DataFrame) -> list[DoseDifference]:
    """One entry for each case and treatment of both sides whose doses differ, from their effects.

    Of rates, the medians over the nights are compared.
    """
    names = ["case", "arm"]
    old, new = (
        effects.filter(pl.col("runs") > 0)
        .group_by(names, maintain_order=True)
        .agg(pl.col(*_EXACT).unique(maintain_order=True), pl.col(*_RATES))
        for effects in (reference, this)
    )
    both = new.join(old, on=names, suffix="_reference", maintain_order="left")
    return [
        DoseDifference(row["case"], row["arm"], text)
        for row in both.iter_rows(named=True)
        if (text := "; ".join(_differences(row)))
    ]


def _differences(row: Mapping[str, Any]) -> Iterator[str]:
    for name, text in _EXACT.items():
        old, new = (list(map(text, row[side])) for side in (f"{name}_reference", name))
        if len({*old, *new}) > 1:
            yield f"{', '.join(dict.fromkeys(old))} against {', '.join(dict.fromkeys(new))}"
    for name, show in _RATES.items():
        rates = [row[f"{name}_reference"], row[name]]
        # Full rate, which is null, if any night was at full rate.
        a, b = (None if None in nights else median(nights) for nights in rates)
        alike = a is b if a is None or b is None else max(a, b) <= min(a, b) * (1 + RATE_TOLERANCE)
        if not alike:
            yield f"{show(a)} against {show(b)}"


def _rate(value: float | None) -> str:
    return quantity(value, "B/s", 3)


# What differs between two sides.

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
            ([night.value for night in old[quantity]], [night.value for night in nights])
            for quantity, nights in new.items()
            if quantity in old
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
    for of in (of for of in new if of in old):
        rows[of], difference = _unjudged(of, old[of], new[of], r)
        if of.metric != "off" and of[:2] in other_dose and rows[of].ratio:
            rows[of] = replace(rows[of], verdict="dose differs")
        elif difference and min(len(old[of]), len(new[of])) >= _FEWEST_NIGHTS:
            alike[of] = difference
    needed = nights_needed(len(alike))
    judged = {of: apart for of, apart in alike.items() if len(old[of]) + len(new[of]) >= needed}
    adjusted = holm([apart.p for apart in judged.values()])
    for (of, apart), p in zip(judged.items(), adjusted, strict=True):
        changed: Change = "worse" if apart.ratio.value > 1 else "better"
        rows[of] = replace(
            rows[of],
            p=apart.p,
            p_adjusted=p,
            least_named=apart.least(LEVEL / len(judged)),
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
        return list(dict.fromkeys([*self.reference.emulations, *self.this.emulations]))

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
        correlated = self.correlation
        text = "Neighbouring nights"
        if correlated.estimate is not None:
            text += f" correlate by {correlated.estimate:.2f}, and"
        text += f" may correlate by {correlated.at_most:.2f}"
        text += ", the most that is considered" if correlated.is_worst else ""
        factors = dict.fromkeys(f"{factor:.1f}" for factor in (widened[0], widened[-1]))
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
            "integrity_faults": {str(checked.run): checked.faults for checked in self.untrusted},
        }


def compare_sides(reference: Sequence[RunData], this: Sequence[RunData]) -> Compared:
    """Compares the runs of two sides. Raises InputError if they are not two sides of nights."""
    sides = pair_up(reference, this)
    doses = dose_differences(*(side.effects for side in sides))
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
