"""Which side loses: the application, the device, both, or none.

The application's loss is the slowdown of its runs with writers. The device's is the rate that its
writers had before the application started, divided by their rate while it ran, run by run. A side
loses if the whole interval of its loss lies beyond the margin, and keeps its rate if the whole
interval lies within; otherwise nothing is said. Names as in Understanding the Host Network
(SIGCOMM 2024): blue, the application loses and the device does not; red, both lose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from markupsafe import Markup

from analysis.effects.estimate import Result
from analysis.effects.verdict import Verdict
from analysis.report.data import RunData
from analysis.report.plots import View, drawing, light, themed_svg
from analysis.report.sections import Section, json_rows
from analysis.report.words import kind
from analysis.samples.pairs import counted, extra, of_treatment
from analysis.statistics.aligned_ranks import slowdown
from analysis.statistics.interval import Estimate
from nimc.base.units import plural

#: The workload whose cores and kernel are known.
WORKLOAD = "membench"


class Regime(str, Enum):
    """What contention does; the value is used in text and files."""

    BLUE = "blue"
    RED = "red"
    NETWORK = "network alone"
    NONE = "none"
    UNKNOWN = "cannot tell"

    __str__ = str.__str__


#: (application loses, device loses) -> regime.
_OF_LOSSES = {
    (True, False): Regime.BLUE,
    (True, True): Regime.RED,
    (False, True): Regime.NETWORK,
    (False, False): Regime.NONE,
}
#: Verdicts that leave open why the application loses.
_NOT_MEMORY = (Verdict.NO_CONTROL, Verdict.NOT_ABOVE_CONTROL)
_ACROSS = "the interval reaches across the margin"
#: The writers' rate before a run, alone in its block, and during the run.
_RATES = ("writer_rate_before_b_s", "writer_rate_alone_b_s", "writer_rate_b_s")


def loses(loss: Estimate | None, margin: float) -> bool | None:
    """Whether a side loses more than `margin`; None if its interval does not say.

    `loss`: time with / time without the other side, or the inverse ratio of rates. Wrong in at
    most 2.5 % of cases, whatever the true loss.
    """
    if loss is None or loss.low <= 1 + margin < loss.high:
        return None
    return loss.low > 1 + margin


def classify(application: bool | None, device: bool | None) -> Regime:
    """The regime, from what each side loses (`loses`)."""
    if application is None or device is None:
        return Regime.UNKNOWN
    return _OF_LOSSES[application, device]


@dataclass(frozen=True)
class RegimePoint:
    """One kernel on some cores under one direction of traffic."""

    case: str
    treatment: str
    #: Level of the factor `kernel`; the workload's name without that factor.
    kernel: str
    #: What the device does to memory: `write`, `read` or `both`.
    direction: str
    cores: int
    #: NUMA node of the application's data and of the buffers; None: not bound.
    comp_node: int | None
    comm_node: int | None
    #: Time with writers / time without; rate of the writers before / during the run. None below six
    #: pairs or runs.
    application: Estimate | None
    device: Estimate | None
    #: Whether the writers' rate before is that of each run, or one measurement of each block.
    device_by_run: bool
    regime: Regime
    #: Why the regime is unknown; empty otherwise.
    reason: str


def regimes(marked: pl.DataFrame, results: Sequence[Result]) -> list[RegimePoint]:
    """The points of a run at full rate, from its samples (`pairs.judged`) and its results.

    Empty for a run without membench under writers.
    """
    rows = [
        row
        for row in results
        if (row.workload, row.role) == (WORKLOAD, "effect") and row.at_full_rate
    ]
    if not rows:
        return []
    runs = counted(marked.lazy(), "fom_extra", "comm_node", *_RATES)
    return sorted(filter(None, (_point(row, runs) for row in rows)), key=_position)


def _point(row: Result, runs: pl.DataFrame) -> RegimePoint | None:
    """The point of one treatment; None if its runs do not say on how many cores they ran."""
    own = of_treatment(runs, row.case, row.arm)
    facts = own.select(extra("cores").alias("cores"), extra("node").alias("node"), "comm_node")
    first = facts.select(pl.all().drop_nulls().first()).cast(pl.Int64).row(0, named=True)
    if first["cores"] is None:
        return None
    device, by_run = device_loss(own)
    regime, reason = _judged(row, device)
    return RegimePoint(
        case=row.case,
        treatment=row.arm,
        kernel=str(row.factors.get("kernel", WORKLOAD)),
        direction=row.direction or "write",
        cores=first["cores"],
        comp_node=first["node"],
        comm_node=first["comm_node"],
        application=row.slowdown,
        device=device,
        device_by_run=by_run,
        regime=regime,
        reason=reason,
    )


def device_loss(runs: pl.DataFrame) -> tuple[Estimate | None, bool]:
    """Rate before / rate during of the treatment's runs, and whether 'before' is of each run.

    Columns: those of `_RATES`. None below six runs.
    """
    of_run, of_block, during = (runs[name].to_numpy() for name in _RATES)
    by_run = runs.height > 0 and runs[_RATES[0]].null_count() == 0
    before = of_run if by_run else of_block
    rates = np.column_stack([during, before])[(before > 0) & (during > 0)]
    return slowdown(-np.log(rates)), by_run  # as times, so that a loss is above 1


def _application_loses(row: Result) -> tuple[bool | None, str]:
    """As `loses`, of the application, and why it is unknown.

    As for verdicts, a loss must exceed that of the repeated baseline and that of the control.
    """
    if row.verdict.is_not_compared:
        return None, str(row.verdict)
    effect = row.slowdown
    lost = loses(effect, row.margin)
    if lost is None:
        return None, _ACROSS
    if lost and row.verdict in _NOT_MEMORY:
        return None, str(row.verdict)
    if lost and effect and row.noise_floor and effect.value <= row.noise_floor.high:
        return None, "not above the repeated baseline"
    return lost, ""


def _judged(row: Result, device: Estimate | None) -> tuple[Regime, str]:
    """The regime and, if it is unknown, why."""
    application, reason = _application_loses(row)
    lost = loses(device, row.margin)
    why_device = "" if lost is not None else _ACROSS if device else "fewer than 6 runs"
    sides = {"application": reason, "device": why_device}
    reasons = (f"{name}: {text}" for name, text in sides.items() if text)
    return classify(application, lost), "; ".join(reasons)


def _position(point: RegimePoint) -> tuple[Any, ...]:
    places = (-1 if node is None else node for node in (point.comp_node, point.comm_node))
    return (point.kernel, point.direction != "write", *places, point.cores, point.case)


# On the page: a map of kernels and directions over numbers of cores, and its table.


class Look(NamedTuple):
    """How a regime is drawn: its marker has a shape, in words, and a meaning of its own."""

    colour: str
    marker: str
    shape: str
    meaning: str


LOOKS: dict[Regime, Look] = {
    Regime.BLUE: Look("level1", "s", "square", "the application loses, the device does not"),
    Regime.RED: Look("level0", "D", "diamond", "both lose"),
    Regime.NETWORK: Look("level4", "^", "triangle", "only the device loses"),
    Regime.NONE: Look("level2", "o", "circle", "neither loses"),
    Regime.UNKNOWN: Look("bad", "x", "cross", f"{_ACROSS}, or a comparison is missing"),
}
_BY_BLOCK = (
    "the writers' rate before is not known for every run, so that their loss is relative to one"
    " measurement of each block, whose error the interval does not include"
)


def regimes_view(run: RunData, name: str) -> View | None:
    """The regimes of a run; None without membench under writers."""
    points = regimes(run.samples, run.results)
    if not points:
        return None
    shown = {point.regime for point in points}
    by_block = any(point.device and not point.device_by_run for point in points)
    return View(
        points=points,
        svg=_map(points, name),
        legend={regime: look for regime, look in LOOKS.items() if regime in shown},
        margin=run.header.margin,
        notes=[_BY_BLOCK] if by_block else [],
        emulated=run.emulated({point.case for point in points}),
    )


def label(point: RegimePoint) -> str:
    """Kernel, direction and, if bound, nodes: `copy, device writes, nodes 0 and 1`."""
    nodes = [node for node in (point.comp_node, point.comm_node) if node is not None]
    where = f", nodes {' and '.join(map(str, nodes))}" if any(nodes) else ""
    return f"{point.kernel}, device {kind(point.direction)[0]}{where}"


def _map(points: Sequence[RegimePoint], name: str) -> Markup:
    """One row for each kernel, direction and placement; the number of cores as categories."""
    rows = list(dict.fromkeys(map(label, points)))
    cores = sorted({point.cores for point in points})
    with drawing(0.9 + 0.34 * len(rows), 3.6 + 0.45 * len(cores)) as figure:
        axes = figure.subplots()
        for point in points:
            look = LOOKS[point.regime]
            place = cores.index(point.cores), rows.index(label(point))
            axes.plot(*place, marker=look.marker, color=light(look.colour), ms=9, mew=2, ls="none")
        axes.set_xticks(range(len(cores)), [str(n) for n in cores])
        axes.set_yticks(range(len(rows)), rows)
        ends = {"xlim": (-0.6, len(cores) - 0.4), "ylim": (len(rows) - 0.4, -0.6)}
        axes.set(xlabel="cores of the application", **ends)
        axes.grid()
        said = "; ".join(f"{label(p)}, {plural(p.cores, 'core')}: {p.regime}" for p in points)
        return themed_svg(figure, name, f"Map of regimes. {said}")


_FILES = json_rows("regimes.json", "regimes", lambda run: regimes(run.samples, run.results))
SECTIONS = [Section("run", 70, "regimes", regimes_view, "Regimes", _FILES)]
