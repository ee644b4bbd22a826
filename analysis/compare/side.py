"""One side of a comparison: its nights, its facts, and the dose of each treatment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal, NamedTuple

import polars as pl

from analysis.effects.caveats import emulations
from analysis.effects.facts import FACTS, OF_A_BLOCK, UNKNOWN, known
from analysis.report.data import RunData
from analysis.report.words import binary, facts
from analysis.samples.provenance import all_hosts
from analysis.statistics.interval import Estimate, median_interval
from nimc.base.errors import InputError
from nimc.base.groups import grouped
from nimc.base.units import plural, quantity
from nimc.records.sample import Better

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


#: One estimate per night.
Nights = Mapping[Quantity, Sequence[Estimate]]


@dataclass(frozen=True)
class Side:
    """Runs of one campaign on one machine; each is a night."""

    runs: tuple[RunData, ...]

    def __post_init__(self) -> None:
        for name in ("machine", "campaign"):
            found = sorted({str(getattr(run.header, name)) for run in self.runs})
            if len(found) > 1:
                raise InputError(
                    f"{', '.join(run.header.run for run in self.runs)}: the runs of one side must"
                    f" have the same {name}, not {' and '.join(found)}"
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

    def nights(self) -> Nights:
        """One estimate per quantity and night; a night with too few pairs is left out."""
        found: dict[Quantity, list[Estimate]] = {}
        for run in self.runs:
            for watched, estimate in of_night(run).items():
                found.setdefault(watched, []).extend([estimate] if estimate else [])
        return found

    def emulations(self) -> list[str]:
        """Caveats of the transports of its writes."""
        names = {str(name) for run in self.runs for name in run.samples["transport"].unique()}
        return emulations(sorted(names))


def pair_up(reference: Sequence[RunData], this: Sequence[RunData]) -> tuple[Side, Side]:
    """The two sides, runs in order of time.

    Raises InputError if a side is empty or mixed, or a run is given twice.
    """
    names = [run.header.run for run in (*reference, *this)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{twice[0]}: each run must be given once; a copy is not another night")
    one, other = (
        Side(tuple(sorted(runs, key=lambda run: run.header.started_s)))
        for runs in (reference, this)
    )
    return one, other


def of_night(run: RunData) -> dict[Quantity, Estimate | None]:
    """What one night says of each quantity; None with too few pairs for an interval."""
    found: dict[Quantity, Estimate | None] = {}
    for row in run.results:
        if row.role == "effect":
            pairs = run.pairs.filter(pl.col("case") == row.case, pl.col("arm") == row.arm)
            baseline = Quantity(row.case, row.baseline, "off", row.unit, row.better)
            # Effects that share a baseline share its time, which is compared once.
            found.setdefault(baseline, median_interval(pairs["off"].to_list()))
            found[baseline._replace(arm=row.arm, metric="slowdown")] = row.slowdown
            times = median_interval(pairs["on"].to_list())
            found[baseline._replace(arm=row.arm, metric="on")] = times
    return found


#: Parts of provenance that are drawn for each run, or that its header has as well.
_OF_A_RUN = {*OF_A_BLOCK, "seed", "commit", "machine"}
#: Facts of a host that are listed apart (`rdma` has more than the firmware), and its name.
_LISTED = ({*FACTS.values()} - {"rdma"}) | {"hostname"}
_ABSENT = "absent"


@dataclass(frozen=True)
class Difference:
    """A fact that differs; several values of one side are joined with ` | `."""

    what: str
    reference: str
    this: str


def node_facts(reference: Side, this: Side) -> list[Difference]:
    """Facts of the nodes that change what a run measures, whether or not they differ.

    See `analysis.effects.facts`; `unknown` if no node of a side reports them.
    """
    old, new = (known(_hosts(side)) for side in (reference, this))
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
    found: list[tuple[str, str]] = []
    for run in side.runs:
        header = run.header
        found += [(name, str(getattr(header, name))) for name in ("machine", "campaign", "digest")]
        found.append(("commit", header.commit or UNKNOWN))
        # What only one side has, or has in another unit, is not compared: it is listed here.
        effects = (row for row in run.results if row.role == "effect")
        found += [(f"{row.case} {row.arm}", f"measured in {row.unit}") for row in effects]
        found += facts({"version": header.versions})
        found += facts(header.facts)
        for record in run.provenance.values():
            own = {name: value for name, value in record.items() if name not in _OF_A_RUN}
            if program := own.get("program"):
                # What was built for the run lies in its folder; the digest tells programs apart.
                own["program"] = {name: program[name] for name in program if name != "path"}
            found += facts({"provenance": own})
    for host in _hosts(side):
        found += facts({"node": {k: v for k, v in host.items() if k not in _LISTED}})
    return {name: _joined(texts) for name, texts in grouped(found).items()}


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


def dose_differences(reference: Side, this: Side) -> list[DoseDifference]:
    """One entry for each case and treatment of both sides whose doses differ."""
    old, new = _doses(reference), _doses(this)
    return [
        DoseDifference(*key, text)
        for key in new
        if key in old and (text := "; ".join(_differ(old[key], new[key])))
    ]


def _doses(side: Side) -> dict[tuple[str, str], dict[str, list[Any]]]:
    """(Case, treatment) -> column -> its distinct values, of rates each night's median."""
    found: dict[tuple[str, str], dict[str, list[Any]]] = {}
    for run in side.runs:
        made = run.samples.filter(pl.col("role") == "effect", pl.col("status") == "counts")
        each = made.group_by("case", "arm", maintain_order=True).agg(
            *(pl.col(name).unique(maintain_order=True) for name in _EXACT),
            *(pl.col(name).median() for name in _RATES),
        )
        for row in each.iter_rows(named=True):
            dose = found.setdefault((row["case"], row["arm"]), {n: [] for n in (*_EXACT, *_RATES)})
            for name in _EXACT:
                dose[name] += [value for value in row[name] if value not in dose[name]]
            for name in _RATES:
                dose[name].append(row[name])
    return found


def _differ(old: dict[str, list[Any]], new: dict[str, list[Any]]) -> list[str]:
    found = [
        f"{_all(text, old[name])} against {_all(text, new[name])}"
        for name, text in _EXACT.items()
        if len({text(value) for value in (*old[name], *new[name])}) > 1
    ]
    for name, show in _RATES.items():
        # Full rate, which is None, if any night was at full rate.
        a, b = (None if None in side[name] else median(side[name]) for side in (old, new))
        alike = a is b if a is None or b is None else max(a, b) <= min(a, b) * (1 + RATE_TOLERANCE)
        if not alike:
            found.append(f"{show(a)} against {show(b)}")
    return found


def _all(text: Callable[[Any], str], values: list[Any]) -> str:
    return ", ".join(dict.fromkeys(text(value) for value in values))


def _rate(value: float | None) -> str:
    return quantity(value, "B/s", 3)
