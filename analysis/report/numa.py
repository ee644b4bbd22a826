"""RDMA and NUMA on the page: the grid of cells, its figure, the seed's findings as questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import polars as pl
from markupsafe import Markup
from matplotlib.figure import Figure

from analysis.caveats import emulations
from analysis.numa import IDLE, Cell, Key, Question, cells, questions
from analysis.report.data import RunData
from analysis.report.palette import STYLE, light, themed_svg
from analysis.statistics.interval import Estimate


@dataclass(frozen=True)
class NumaView:
    """The section of one run."""

    cells: list[Cell]
    questions: list[Question]
    svg: Markup
    numa_nodes: int
    #: What the run says of where things lay, and what limits its figures.
    notes: list[str]
    emulated: list[str]


def numa_view(run: RunData, name: str) -> NumaView | None:
    """The cells of a run and what they answer; None where it has none."""
    found = cells(run.samples, run.results, run.provenance)
    if not found:
        return None
    facts = [each["numa"] for each in run.provenance.values() if "numa" in each]
    nodes = max(int(each["numa_nodes"]) for each in facts)
    cases = {row.case for row in run.results if row.workload in ("numa", "numa_idle")}
    own = run.samples.filter(pl.col("case").cast(pl.String).is_in(cases))
    emulated = emulations([str(text) for text in own["transport"].unique(maintain_order=True)])
    said = dict.fromkeys(note for row in run.results if row.case in cases for note in row.notes)
    return NumaView(
        cells=found,
        questions=questions(found, nodes),
        svg=Markup(_plot(found, name)),
        numa_nodes=nodes,
        notes=[
            *_places(facts, nodes),
            *_limits(found, own),
            *(n for n in said if n not in emulated),
        ],
        emulated=emulated,
    )


def label(key: Key) -> str:
    """A cell in a few words: `write, nic: write on other`."""
    where = {"free": "left alone"}.get(key.workers, f"on {key.workers}")
    workers = "nobody" if key.load == IDLE else f"{key.load} {where}"
    return f"{key.direction} {key.buffer}: {workers}"


def _places(facts: Sequence[dict[str, Any]], nodes: int) -> list[str]:
    """Which node is meant by which word."""
    nic = facts[0]["nic_node"]
    other = [each["buffer_node"] for each in facts if each["buffer"] == "other"] + [
        each["worker_node"] for each in facts if each["workers"] == "other"
    ]
    if nodes == 1:
        return [
            "this machine has one NUMA node: cells with buffer or workers on another one are absent"
        ]
    told = f", other is {other[0]}" if other else ""
    return [f"nic is NUMA node {nic}{told}, of {nodes}"]


def _limits(found: Sequence[Cell], samples: pl.DataFrame) -> list[str]:
    """How far places are verified, who told the rates, and what binds itself."""
    run = [cell for cell in found if cell.rates_b_s]
    unverified = [label(cell.key) for cell in run if cell.on_node_share is None]
    notes = []
    if not run:
        notes.append("no run with communications counts")
    elif not unverified:
        notes.append("the kernel showed every buffer on its node, in every run that counts")
    elif len(unverified) == len(run):
        notes.append("where buffers lay is not verified")
    else:
        notes.append(f"where buffers lay is not verified in {', '.join(unverified)}")
    told = {cell.told_by for cell in run}
    notes.append(
        "communications' rates are what the target's device counted"
        if told == {"target"}
        else "communications' rates are what the origin reports; no device counted all of them"
    )
    if (samples["transport"].cast(pl.String) == "shared memory").any():
        notes.append("no network interface is between: the origin's cores stand in for one")
        if len({cell.key.direction for cell in found}) > 1:
            notes.append(
                "on one host writes are a copy by the origin, reads one by the kernel: what differs"
                " between them is the way of copying"
            )
    own = [str(text) for text in samples["own_binding"].drop_nulls().unique(maintain_order=True)]
    notes.append(f"the injector's own NUMA binding: {', '.join(own) or 'not told'}")
    return notes


def _plot(found: Sequence[Cell], name: str) -> str:
    """A row a cell: what is left of both sides' rates, with intervals."""
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
        axes.set_xlabel("share of the rate that is left")
        axes.tick_params(length=0)
        axes.grid(axis="x")
        return themed_svg(figure, name, "Share that communications and workers keep in every cell")


def _bar(axes: Any, estimate: Estimate | None, at: float, colour: str) -> None:
    if estimate is not None:
        axes.hlines(at, estimate.low, estimate.high, color=colour, lw=3)
        axes.scatter([estimate.value], [at], s=18, color=colour, zorder=3)
