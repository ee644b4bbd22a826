"""RDMA and NUMA on the page: all cells, a figure, and published findings as questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import polars as pl
from markupsafe import Markup
from matplotlib.figure import Figure

from analysis.effects.caveats import emulations
from analysis.report.data import RunData
from analysis.report.plots import STYLE, light, themed_svg
from analysis.report.words import binary
from analysis.statistics.interval import Estimate
from analysis.subjects.numa import IDLE, Answer, Cell, Key, Question, Why, cells, key_of, questions

#: Reason for an answer -> text.
_WHY: dict[Why, str] = {
    "other way round": "the opposite holds",
    "within noise": "the interval contains 1",
    "too few runs": "fewer than 6 runs per side",
    "one NUMA node": "this machine has only one NUMA node",
    "only pinning differs": "this machine has only one NUMA node: the cells differ in pinning only",
    "cells missing": "not part of this run",
    "no run counts": "no run counts",
    "all pinned": "in all cells, at least",
    "none pinned": "no buffer is pinned: these writes register no memory",
    "some pinned": "pinned in some cells only",
    "pinning unknown": "not reported by the kernel",
}


@dataclass(frozen=True)
class NumaView:
    """The section of one run."""

    cells: list[Cell]
    questions: list[Question]
    svg: Markup
    numa_nodes: int
    #: Whether all cells belong to one case, so that each pair has runs of all of them.
    interleaved: bool
    #: Placement of buffers and workers, and limits of the figures.
    notes: list[str]
    emulated: list[str]


def numa_view(run: RunData, name: str) -> NumaView | None:
    """The cells of a run and their answers; None if it has none."""
    found = cells(run.samples, run.results, run.provenance)
    if not found:
        return None
    facts = [each["numa"] for each in run.provenance.values() if "numa" in each]
    nodes = max(int(each["numa_nodes"]) for each in facts)
    cases = {row.case for row in run.results if key_of(row.factors, row)}
    own = run.samples.filter(pl.col("case").cast(pl.String).is_in(cases))
    emulated = emulations([str(text) for text in own["transport"].unique(maintain_order=True)])
    said = dict.fromkeys(note for row in run.results if row.case in cases for note in row.notes)
    return NumaView(
        cells=found,
        questions=questions(found, nodes),
        svg=Markup(_plot(found, name)),
        numa_nodes=nodes,
        interleaved=len(cases) == 1,
        notes=[
            *_places(facts, nodes),
            *_limits(found, own),
            *(n for n in said if n not in emulated),
        ],
        emulated=emulated,
    )


def label(key: Key) -> str:
    """A short label of a cell: `write nic: write on other`."""
    where = {"free": "anywhere"}.get(key.workers, f"on {key.workers}")
    workers = "no workers" if key.load == IDLE else f"{key.load} {where}"
    return f"{key.direction} {key.buffer}: {workers}"


def why(answer: Answer) -> str:
    """Reason for an answer; empty if the ratio is reason enough."""
    text = _WHY[answer.why] if answer.why else ""
    return text if answer.pinned_b is None else f"{text} {binary(answer.pinned_b)}"


def _places(facts: Sequence[dict[str, Any]], nodes: int) -> list[str]:
    """The NUMA node that each word means."""
    if nodes == 1:
        return ["this machine has only one NUMA node: cells that need another one are left out"]
    nic = facts[0]["nic_node"]
    others = [node for each in facts for place, node in each["places"].items() if place == "other"]
    other = f", other is {others[0]}" if others else ""
    return [f"nic is NUMA node {nic}{other}, of {nodes}"]


def _limits(found: Sequence[Cell], samples: pl.DataFrame) -> list[str]:
    """How far placement is verified, the source of the rates, and the injector's own binding."""
    run = [cell for cell in found if cell.rates_b_s]
    unverified = [label(cell.key) for cell in run if cell.on_node_share is None]
    notes = []
    if not run:
        notes.append("no run with communications counts")
    elif not unverified:
        notes.append("in every run that counts, the kernel reports every buffer on its node")
    elif len(unverified) == len(run):
        notes.append("the placement of the buffers is not verified")
    else:
        notes.append(f"the placement of the buffers is not verified in {', '.join(unverified)}")
    counted = all(cell.reported_by == "target" for cell in run)
    notes.append(
        "rates of communications are counted by the target's device"
        if run and counted
        else "rates of communications are as reported by the origin: no device counted them all"
    )
    if (samples["transport"].cast(pl.String) == "shared memory").any():
        notes.append("no network interface: nic means the NUMA node of the origin's cores")
        if len({cell.key.direction for cell in found}) > 1:
            notes.append(
                "on one host a write is a copy by the origin and a read a copy by the kernel: their"
                " rates compare these two ways of copying"
            )
    own = [str(text) for text in samples["own_binding"].drop_nulls().unique(maintain_order=True)]
    notes.append(f"the injector's own NUMA binding: {', '.join(own) or 'unknown'}")
    return notes


def _plot(found: Sequence[Cell], name: str) -> str:
    """One row per cell: remaining share of both rates, with intervals."""
    rows = [cell for cell in found if cell.key.load != IDLE]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.0, 0.9 + 0.34 * max(len(rows), 1)), layout="constrained")
        axes = figure.subplots()
        axes.axvline(1, color=light("muted"), lw=1)
        for line, cell in enumerate(rows):
            for side, colour, at in (
                (cell.of_idle, "on", line - 0.18),
                (cell.kept, "off", line + 0.1),
                (cell.kept_control, "spin", line + 0.3),
            ):
                _bar(axes, side, at, light(colour))
        axes.set_yticks(range(len(rows)), [label(cell.key) for cell in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(left=0)
        axes.set_xlabel("remaining share of the rate")
        axes.tick_params(length=0)
        axes.grid(axis="x")
        return themed_svg(figure, name, "Share that communications and workers keep in every cell")


def _bar(axes: Any, estimate: Estimate | None, at: float, colour: str) -> None:
    if estimate is not None:
        axes.hlines(at, estimate.low, estimate.high, color=colour, lw=3)
        axes.scatter([estimate.value], [at], s=18, color=colour, zorder=3)
