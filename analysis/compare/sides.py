"""Two sides compared: nights and facts of each, what differs, and both as one document."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import polars as pl

from analysis.compare.mismatches import Mismatch, other_settings, other_writes
from analysis.effects.verdict import emulations
from analysis.history.between_nights import (
    FEWEST_OF_HISTORY,
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
from analysis.report.facts import facts
from analysis.report.table import how_made, results_table
from analysis.samples.integrity import Integrity
from analysis.samples.provenance import FACTS, all_hosts, mapping, reported_facts
from analysis.statistics.interval import Estimate, flat, holm
from records.errors import InputError
from records.groups import grouped
from records.run import RunHeader
from records.sample import Better
from records.units import change, plural

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


#: One estimate per night.
Nights = Mapping[Quantity, Sequence[Estimate]]
#: Metric -> columns of the table of results: what its interval begins with, and its value.
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
        """That of its first run; machine and campaign are those of all."""
        return self.runs[0].header

    @cached_property
    def effects(self) -> pl.DataFrame:
        """Its rows of the table of results, one a night, case and treatment."""
        return results_table(self.runs).filter(role="effect")

    def nights(self) -> Nights:
        """One estimate per quantity and night; a night with too few pairs is left out."""
        nights: dict[Quantity, dict[str, Estimate | None]] = {}
        for row in self.effects.iter_rows(named=True):
            for metric, (column, value) in _COLUMNS.items():
                arm = row["baseline" if metric == "off" else "arm"]
                quantity = Quantity(row["case"], arm, metric, row["unit"], row["better"])
                low, high = row[f"{column}_low"], row[f"{column}_high"]
                night = None if low is None else Estimate(row[value], low, high)
                # Effects that share a baseline share its time, which is compared once.
                nights.setdefault(quantity, {}).setdefault(row["run"], night)
        return {
            quantity: list(filter(None, by_run.values())) for quantity, by_run in nights.items()
        }


def pair_up(reference: Sequence[RunData], current: Sequence[RunData]) -> tuple[Side, Side]:
    """The two sides. Raises InputError if one is mixed, or a run is given twice."""
    # Runs of two folders that start in the same second have the same name.
    started = [(run.header.run, run.header.started_s) for run in (*reference, *current)]
    if twice := sorted(run for run in started if started.count(run) > 1):
        raise InputError(f"{twice[0][0]}: each run must be given once; a copy is not another night")
    for runs in (reference, current):
        for name in ("machine", "campaign"):
            values = sorted({str(getattr(run.header, name)) for run in runs})
            if len(values) > 1:
                raise InputError(
                    f"{', '.join(run.header.run for run in runs)}: the runs of one side must"
                    f" have the same {name}, not {' and '.join(values)}"
                )
    one, other = (
        Side(tuple(sorted(runs, key=lambda run: run.header.started_s)))
        for runs in (reference, current)
    )
    return one, other


# Facts of how runs were made, as label -> text; several values are joined with ` | `.


@dataclass(frozen=True)
class Difference:
    """A fact that differs."""

    what: str
    reference: str
    this: str


#: Of a fact that no node reports, and of what one side does not have.
UNKNOWN, _ABSENT = "unknown", "absent"


def node_facts(side: Side) -> dict[str, str]:
    """Facts of the nodes that change what a run measures (`analysis.samples.provenance`).

    And those of their memory that the machine's file states; the others are left out.
    """
    hosts = all_hosts(record for run in side.runs for record in run.provenance.values())
    named = {name: _joined(texts) or UNKNOWN for name, texts in reported_facts(hosts).items()}
    memories = (mapping(_site(run).get("memory")) for run in side.runs)
    stated = (
        {key: value for key, value in memory.items() if value is not None} for memory in memories
    )
    of_memory = grouped(fact for memory in stated for fact in facts(memory))
    return named | {f"memory: {name}": _joined(texts) for name, texts in of_memory.items()}


def _site(run: RunData) -> dict[str, Any]:
    return mapping(run.header.facts.get("site"))


def _without_memory(run: RunData) -> dict[str, Any]:
    """The machine's file without what `node_facts` has."""
    site = {name: value for name, value in _site(run).items() if name != "memory"}
    return {"site": site} if site else {}


def other_facts(side: Side) -> dict[str, str]:
    """What asked for and made its runs, the machine's facts, and what they measured.

    What only one side has, or has in another unit, is not compared: so it is listed.
    """
    texts: list[tuple[str, str]] = []
    for run in side.runs:
        header = run.header
        texts += [(name, str(getattr(header, name))) for name in ("machine", "campaign", "digest")]
        texts.append(("commit", header.commit or UNKNOWN))
        texts += facts({**header.facts, **_without_memory(run)})
        made_by = how_made(header, run.provenance)
        texts += [(name, text) for name, text in made_by.items() if name not in FACTS]
        effects = (row for row in run.results if row.role == "effect")
        texts += [(f"{row.case} {row.arm}", f"measured in {row.unit}") for row in effects]
    return {name: _joined(values) for name, values in grouped(texts).items()}


def _joined(values: Iterable[str]) -> str:
    return " | ".join(sorted(set(values)))


def differences(reference: Mapping[str, str], current: Mapping[str, str]) -> list[Difference]:
    """What differs between the facts of two sides, or has one side alone."""
    rows = (
        Difference(name, reference.get(name, _ABSENT), current.get(name, _ABSENT))
        for name in dict.fromkeys([*reference, *current])
    )
    return [row for row in rows if row.reference != row.this]


# What differs between two sides.


Change = Literal[
    "worse", "better", "no change shown", "too few nights", "not comparable", "too few pairs"
]
#: Verdict -> its meaning.
CHANGES: dict[Change, str] = {
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
LEVEL = 0.05
#: Intervals that are wider by this because nights may correlate: what narrows them is said.
_WIDE = 1.5
#: Fewest nights of each side for that.
_FEWEST_NIGHTS = 2


def nights_needed(rows: int) -> int:
    """Fewest nights of both sides together with which a change can be named, of so many rows.

    Nights may fall on one of two levels. All of one side fall on one and all of the other side on
    the other with a chance of 2 / 2^nights a row, however far the levels are apart.
    """
    return math.ceil(1 + math.log2(max(rows, 1) / LEVEL))


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
    #: Both sides: one value per night, and with several nights their geometric mean with its
    #: interval, with one its own. A figure of merit in its unit; None of a side without nights.
    reference: Estimate | None
    reference_nights: list[float]
    this: Estimate | None
    this_nights: list[float]
    #: Ratio of slowdowns or of times for the same work; above 1 is worse. None if the application
    #: was set otherwise on one side: then the work is not the same.
    ratio: Estimate | None
    #: Interval / interval if nights were independent; None with one night a side.
    widened: float | None
    #: Two-sided p value, and adjusted over all rows that are judged; None if not judged.
    p: float | None
    p_adjusted: float | None
    #: Least relative change that would have been named, given the spread between nights.
    least_named: float | None
    #: At most that of as many nights in turn of either side; None if not judged, or if they are.
    least_named_in_turn: float | None
    #: What may be said of it.
    verdict: Change

    @property
    def text(self) -> str:
        """The verdict in words; for two nights, by how much they differ."""
        if self.verdict != "too few nights" or self.ratio is None or self.widened is not None:
            return self.verdict
        changed = change(self.ratio.value)
        if changed.endswith("%"):
            return f"two nights differ by {changed}"
        return f"two nights: {changed} {'as large' if self.metric == 'slowdown' else 'as long'}"


def correlation(old: Nights, new: Nights, *past: Sequence[Sequence[float]]) -> NightCorrelation:
    """How much neighbouring nights correlate.

    The most that the `past` of any side shows, a series a quantity, if each has nights enough; else
    from all quantities of both sides.
    """
    known = list(map(correlation_of_history, past))
    if known and all(known):
        return max(filter(None, known), key=lambda past_nights: past_nights.at_most)
    return correlation_of_nights(
        [(_values(old[quantity]), _values(new[quantity])) for quantity in new if quantity in old]
    )


def _past(history: pl.DataFrame | None, sides: Iterable[Side]) -> list[list[list[float]]]:
    """The values of each quantity on the machines of the sides, without the nights to be judged."""
    if history is None:
        return []
    *_, last = sides = tuple(sides)
    judged = [run.header.run for run in last.runs]
    of_each = {(side.header.machine, side.header.campaign) for side in sides}
    nights = history.filter(~pl.col("run").is_in(judged), pl.col("quantity") != "writer_rate")
    past = []
    for machine, campaign in sorted(of_each):
        rows = nights.filter(machine=machine, campaign=campaign).sort("started_s")
        past.append(rows.group_by("case", "arm", "quantity").agg("value")["value"].to_list())
    return past


def _in_turn(reference: Side, current: Side) -> int:
    """Nights of either side if they alternate, else 0."""
    runs = [
        (run.header.started_s, side) for side in (0, 1) for run in (reference, current)[side].runs
    ]
    order = [side for _, side in sorted(runs)]
    alternate = all(one != other for one, other in pairwise(order))
    return len(current.runs) if alternate and len(reference.runs) == len(current.runs) else 0


def _values(nights: Sequence[Estimate]) -> list[float]:
    return [night.value for night in nights]


def compare(
    old: Nights,
    new: Nights,
    mismatches: Iterable[Mismatch],
    correlated: NightCorrelation,
    *,
    in_turn: int = 0,
) -> list[Comparison]:
    """Every quantity of both sides, `new` against `old`, the reference.

    Rows of `mismatches` are not judged; of one of writes, the baseline is, which has none.
    `in_turn`: nights of either side if they alternate.
    """
    common = {quantity: (old[quantity], new[quantity]) for quantity in new if quantity in old}
    apart = {
        quantity: _apart(quantity, *sides, correlated.at_most, in_turn)
        for quantity, sides in common.items()
    }
    differing = {(mismatch.case, mismatch.arm) for mismatch in mismatches}
    unlike = {quantity for quantity in common if (quantity.case, None) in differing}
    differ = unlike | {
        quantity for quantity in common if quantity.metric != "off" and quantity[:2] in differing
    }
    enough = [
        quantity
        for quantity in common
        if min(map(len, common[quantity])) >= _FEWEST_NIGHTS and quantity not in differ
    ]
    needed = nights_needed(len(enough))
    judged = {
        quantity: difference
        for quantity in enough
        if sum(map(len, common[quantity])) >= needed and (difference := apart[quantity])
    }
    adjusted = dict(
        zip(judged, holm([difference.p for difference in judged.values()]), strict=True)
    )
    rows = []
    for quantity, (reference, current) in common.items():
        difference, p = apart[quantity], adjusted.get(quantity)
        ratio = difference.ratio if difference else _of_two(quantity, reference, current)
        verdict = _verdict(ratio, p, comparable=quantity not in differ)
        row = Comparison(
            *(quantity.case, quantity.arm, quantity.metric, quantity.unit),
            *(_mean(reference, correlated), _values(reference)),
            *(_mean(current, correlated), _values(current)),
            ratio=None if quantity in unlike else ratio,
            widened=difference.widened if difference else None,
            p=judged[quantity].p if quantity in judged else None,
            p_adjusted=p,
            least_named=judged[quantity].least(LEVEL / len(judged)) if quantity in judged else None,
            least_named_in_turn=judged[quantity].least_in_turn(LEVEL / len(judged))
            if quantity in judged and not in_turn
            else None,
            verdict=verdict,
        )
        rows.append(row)
    return rows


def _verdict(ratio: Estimate | None, p_adjusted: float | None, *, comparable: bool) -> Change:
    if ratio is None:
        return "too few pairs"
    if not comparable:
        return "not comparable"
    if p_adjusted is None:
        return "too few nights"
    if p_adjusted > LEVEL:
        return "no change shown"
    return "worse" if ratio.value > 1 else "better"


_Side = Sequence[Estimate]


def _in_times(quantity: Quantity, old: _Side, new: _Side) -> tuple[_Side, _Side]:
    """Numerator and denominator of the ratio of times, which of rates is the other way round."""
    rate = quantity.metric != "slowdown" and quantity.better == "higher"
    return (old, new) if rate else (new, old)


def _apart(
    quantity: Quantity, old: _Side, new: _Side, correlation: float, in_turn: int
) -> NightsDifference | None:
    above, below = map(_values, _in_times(quantity, old, new))
    if len(old) == len(new) == in_turn:
        return ratio_of_alternating(above, below)
    return ratio_of_nights(above, below, correlation=correlation)


def _of_two(quantity: Quantity, old: _Side, new: _Side) -> Estimate | None:
    """The ratio of two nights, from their own intervals."""
    above, below = _in_times(quantity, old, new)
    return ratio_of_two(above[0], below[0]) if above and below else None


def _mean(nights: _Side, correlated: NightCorrelation) -> Estimate | None:
    return mean_of_nights(_values(nights), correlated.at_most) or next(iter(nights), None)


@dataclass(frozen=True)
class Compared:
    """All that is said of two sides."""

    reference: Side
    this: Side
    #: Facts of the nodes that change what a run measures, whether or not they differ.
    nodes: list[Difference]
    #: What makes rows not comparable.
    mismatches: list[Mismatch]
    #: Of neighbouring nights; and nights of either side if they alternate, else 0.
    correlation: NightCorrelation
    in_turn: int
    rows: list[Comparison]
    #: All other facts that differ.
    others: list[Difference]

    @property
    def first(self) -> list[str]:
        """What differs and must be known before any figure: machine, campaign, what is measured."""
        sides = (self.reference.header, self.this.header)
        named = {
            name: [getattr(header, name) for header in sides] for name in ("machine", "campaign")
        }
        lines = [
            f"different {name}s: {', '.join(values)}"
            for name, values in named.items()
            if values[0] != values[1]
        ]
        return [*lines, *(mismatch.sentence for mismatch in self.mismatches)]

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
        named = (side.effects["transport"] for side in (self.reference, self.this))
        return emulations(pl.concat(transports.sort() for transports in named))

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
        if all(row.verdict == "not comparable" for row in self.rows):
            return "No figure is comparable."
        return f"{self.too_few_nights or self._changed()}{self._correlated()}"

    def _changed(self) -> str:
        """How many rows changed, and by how much they had to."""
        rows = [row for row in self.rows if row.p_adjusted is not None]
        named = [row for row in rows if row.verdict in ("worse", "better")]
        text = f"{len(named)} of {len(rows)} rows changed by more than nights differ"
        if least := sorted(row.least_named for row in rows if row.least_named is not None):
            text += (
                f"; with {len(self.reference.runs)} against {len(self.this.runs)} nights a row had"
                f" to change by {change(1 + least[0])} to {change(1 + least[-1])} to be named"
            )
        return f"{text}."

    def _correlated(self) -> str:
        """How much nights correlate, and what that does to intervals; empty without these."""
        widened = sorted(row.widened for row in self.rows if row.widened is not None)
        if not widened:
            return ""
        estimate, at_most = self.correlation.estimate, f"{self.correlation.at_most:.2f}"
        correlate = "" if estimate is None else f" correlate by {estimate:.2f}, and"
        worst = ", the most that is considered" if self.correlation.is_worst else ""
        if self.in_turn:
            return " Nights alternate: each is compared with its neighbour, whatever they share."
        if known := self.correlation.of_history:
            worst = f", as {known} nights of the machine show"
        wide = " to ".join(dict.fromkeys(f"{factor:.1f}" for factor in (widened[0], widened[-1])))
        return (
            f" Neighbouring nights{correlate} may correlate by {at_most}{worst}: intervals are"
            f" {wide} times as wide as of independent nights.{self._offered(widened[-1])}"
        )

    def _offered(self, widened: float) -> str:
        """What would make intervals narrower, and its price."""
        if widened < _WIDE:
            return ""
        history = (
            f" {FEWEST_OF_HISTORY} other nights of this campaign may show that they correlate less."
        )
        if self.correlation.of_history:
            history = ""
        named = [
            row.least_named_in_turn for row in self.rows if row.least_named_in_turn is not None
        ]
        if not named:
            return history
        nights = (len(self.reference.runs) + len(self.this.runs)) // 2
        return (
            f"{history} With as many nights in turn, {nights} of either side, a row has to"
            f" change by no more than {change(1 + min(named))} to {change(1 + max(named))};"
            " every second night is then of the reference."
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
            "night_correlation": asdict(self.correlation),
            "comparisons": list(map(flat, self.rows)),
            "differences": [asdict(fact) for fact in self.others],
            "emulations": self.emulations,
            "worse": self.worse,
            "integrity_faults": {str(checked.run): checked.faults for checked in self.untrusted},
        }


def compare_sides(
    reference: Sequence[RunData], current: Sequence[RunData], history: pl.DataFrame | None = None
) -> Compared:
    """Compares the runs of two sides. Raises InputError if they are not two sides of nights.

    `history`: nights of their machines (`analysis.history.nights.nights_of`).
    """
    sides = pair_up(reference, current)
    settings = other_settings(*(side.runs for side in sides))
    writes = other_writes(*(side.effects for side in sides))
    old, new = (side.nights() for side in sides)
    correlated = correlation(old, new, *_past(history, sides))
    in_turn = _in_turn(*sides)
    old_nodes, new_nodes = map(node_facts, sides)
    mismatches = [*settings, *writes]
    return Compared(
        *sides,
        nodes=[
            Difference(name, old_nodes.get(name, UNKNOWN), new_nodes.get(name, UNKNOWN))
            for name in dict.fromkeys([*FACTS, *old_nodes, *new_nodes])
        ],
        mismatches=mismatches,
        correlation=correlated,
        in_turn=in_turn,
        rows=compare(old, new, mismatches, correlated, in_turn=in_turn),
        others=differences(*map(other_facts, sides)),
    )
