"""RDMA and NUMA: throughput of communications and workers in every cell.

A cell is a direction (write, read), the NUMA node of the buffer (`nic`: that of the network
interface, `other`: another one), and what workers on this machine do to the memory of the same node
and where they run. Its runs are those of all treatments with these levels, from one case or
several. Rates of communications are the target device's counts if it has any: received for writes,
sent for reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

import polars as pl
from markupsafe import Markup

from analysis.effects.estimate import Result
from analysis.effects.verdict import emulated
from analysis.report.data import RunData
from analysis.report.plots import View, drawing, interval, rows_axes, themed_svg
from analysis.report.sections import Section
from analysis.report.words import binary
from analysis.samples.pairs import counted, levels, of_treatment
from analysis.statistics.interval import FEWEST, Estimate, median_interval
from analysis.statistics.location import ratio_between
from records.sample import Level

IDLE = "idle"
_ONE_NODE = "this machine has only one NUMA node"
#: Levels of the fields of `Key`, in the order of the table. `free`: placed by the system.
_LEVELS = (
    ("write", "read"),
    ("nic", "other"),
    (IDLE, "read", "write", "nt_write"),
    ("nic", "other", "free", ""),
)
#: Columns of the samples that a cell is made of.
_RATES = ("counted_b_s", "writer_rate_b_s")
_OF_RUNS = (*_RATES, "target_on_node_share", "target_pinned_b", "message_b")


class Key(NamedTuple):
    """Identifies a cell."""

    direction: str
    buffer: str
    load: str
    #: Where workers run; empty without workers.
    workers: str


@dataclass(frozen=True)
class Cell:
    """One cell, rates in bytes per second; an estimate is None below six runs."""

    key: Key
    #: Rate of communications in every run that counts, and which end reported it.
    rates_b_s: list[float]
    reported_by: Literal["target", "origin"]
    communications: Estimate | None
    #: Ratio to the idle cell with the same direction and buffer.
    of_idle: Estimate | None
    #: Median rates of the workers, alone and with communications.
    workers_alone_b_s: float | None
    workers_b_s: float | None
    #: Share of their rate that workers keep with communications, and with the control; from pairs.
    kept: Estimate | None
    kept_control: Estimate | None
    #: Least share of the target's buffer on its NUMA node; None: unverified.
    on_node_share: float | None
    #: Least memory that the target's process has pinned, bytes; None: unknown.
    pinned_b: float | None
    message_b: int

    @property
    def median_b_s(self) -> float | None:
        """Median rate of communications; None if no run counts."""
        return median(self.rates_b_s) if self.rates_b_s else None


def cells(
    samples: pl.DataFrame, results: Sequence[Result], provenance: Mapping[str, Any]
) -> list[Cell]:
    """The cells of a run in table order, from its judged samples; empty for other runs."""
    if not any("numa" in each for each in provenance.values()):
        return []  # without reading its samples, which may be a million
    rows = {(row.case, row.arm): row for row in results}
    controls = {(each.case, each.baseline): each for each in results if each.role == "control"}
    of_cell: dict[Key, dict[str, str]] = {}
    named = samples.lazy().select(
        *(pl.col(name).cast(pl.String) for name in ("case", "arm", "role", "factors"))
    )
    for case, arm, role, factors in named.unique(maintain_order=True).collect().iter_rows():
        key = key_of(levels(factors), rows.get((case, arm)))
        if role == "effect" and key:
            arms = of_cell.setdefault(key, {})
            # Names omit first levels, so the shortest has the first level of every other factor.
            arms[case] = min(arms.get(case, arm), arm, key=len)
    found: dict[Key, Cell] = {}
    runs = counted(samples.lazy(), *_OF_RUNS)
    for key, arms in of_cell.items():
        on = pl.concat([of_treatment(runs, *each) for each in arms.items()])
        # Rates of all cases are pooled; the share of workers comes from one treatment.
        row = rows.get(next(iter(arms.items()))) if key.load != IDLE else None
        found[key] = _cell(key, on, row, controls.get((row.case, row.baseline)) if row else None)
    for key, cell in found.items():
        idle = found.get(Key(key.direction, key.buffer, IDLE, ""))
        if idle and key.load != IDLE:
            found[key] = replace(cell, of_idle=ratio_between(cell.rates_b_s, idle.rates_b_s))
    places = {
        key: [known.index(level) for level, known in zip(key, _LEVELS, strict=True)]
        for key in found
    }
    return [found[key] for key in sorted(found, key=places.__getitem__)]


def key_of(factors: Mapping[str, Level], row: Result | None = None) -> Key | None:
    """The cell of a treatment with these levels; None if a level is missing or invalid.

    If direction is not a factor, it is what the writers did (`row`).
    """
    factors = {"direction": (row and row.direction) or "", **factors}
    direction, buffer, load = (str(factors.get(name)) for name in ("direction", "buffer", "load"))
    workers = "" if load == IDLE else str(factors.get("workers"))
    key = Key(direction, buffer, load, workers)
    return key if all(level in known for level, known in zip(key, _LEVELS, strict=True)) else None


def _cell(key: Key, on: pl.DataFrame, row: Result | None, control: Result | None) -> Cell:
    by_target = on.height > 0 and on["counted_b_s"].null_count() == 0
    rates = on["counted_b_s" if by_target else "writer_rate_b_s"].drop_nulls().to_list()
    return Cell(
        key=key,
        rates_b_s=rates,
        reported_by="target" if by_target else "origin",
        communications=median_interval(rates),
        of_idle=None,
        workers_alone_b_s=row.off_median if row else None,
        workers_b_s=row.on_median if row else None,
        kept=_kept(row),
        kept_control=_kept(control),
        on_node_share=_least(on["target_on_node_share"]),
        pinned_b=_least(on["target_pinned_b"]),
        message_b=int(on["message_b"][0]) if on.height else 0,
    )


def _least(values: pl.Series) -> float | None:
    """The least value of all runs; None if any run has none."""
    least = values.min()
    return float(least) if isinstance(least, int | float) and not values.null_count() else None


def _kept(row: Result | None) -> Estimate | None:
    """Remaining share of the rate."""
    return row.slowdown.inverse if row and row.slowdown else None


# The findings of Nelson and Palmieri on RDMA in NUMA systems, as questions about a run.

#: Whether a finding holds here; `inconclusive`: measured, but not decided.
Finding = Literal["yes", "no", "inconclusive", "not measured"]


@dataclass(frozen=True)
class Answer:
    """A comparison of two cells' communications that answers a question, or why none exists."""

    #: What is compared, in words.
    what: str
    finding: Finding
    #: Empty if the ratio is reason enough.
    reason: str = ""
    ratio: Estimate | None = None
    #: Medians of both cells, bytes per second.
    first_b_s: float | None = None
    second_b_s: float | None = None


def questions(found: Sequence[Cell], numa_nodes: int) -> list[View]:
    """The questions of numa.json, answered from the cells of a machine with so many NUMA nodes.

    Each has its `text`, the `published` answer and the `answers` found here. The last one is
    answered without a comparison.
    """
    known = {cell.key: cell for cell in found}
    loads = {key.load for key in known}
    answered = []
    for each in json.loads(Path(__file__).with_name("numa.json").read_text())["questions"]:
        answers = [
            _answer(of, known, numa_nodes, each.get("nodes_needed", 1))
            for of in each["comparisons"]
            if Key(*of["first"]).load != "nt_write" or "nt_write" in loads
        ]
        answered.append(View(text=each["text"], published=each["published"], answers=answers))
    answered[-1].answers.append(_locked(found))
    return answered


def _answer(
    of: Mapping[str, Any], known: Mapping[Key, Cell], numa_nodes: int, nodes_needed: int
) -> Answer:
    """Whether the communications of the `first` cell are faster than those of the `second`."""
    what, keys = of["what"], (Key(*of["first"]), Key(*of["second"]))
    other = any("other" in key for key in keys)
    one, two = map(known.get, keys)
    if (other or nodes_needed > 1) and numa_nodes < 2 and not (one and two):
        return Answer(what, "not measured", _ONE_NODE)
    if one is None or two is None:
        return Answer(what, "not measured", "not part of this run")
    if not one.rates_b_s or not two.rates_b_s:
        return Answer(what, "not measured", "no run counts")
    ratio = ratio_between(one.rates_b_s, two.rates_b_s)
    finding, reason = _finding(ratio, nodes_measured=numa_nodes >= nodes_needed)
    return Answer(what, finding, reason, ratio, one.median_b_s, two.median_b_s)


def _finding(ratio: Estimate | None, *, nodes_measured: bool) -> tuple[Finding, str]:
    """Whether a ratio is above 1; with too few NUMA nodes it answers another question."""
    if ratio is None:
        return "inconclusive", f"fewer than {FEWEST} runs per side"
    if not nodes_measured:
        return "not measured", f"{_ONE_NODE}: the cells differ in pinning only"
    if ratio.low > 1:
        return "yes", ""
    if ratio.high < 1:
        return "no", "the opposite holds"
    return "inconclusive", "the interval contains 1"


def _locked(found: Sequence[Cell]) -> Answer:
    """Answer from the kernel's count of memory that the target's process has pinned."""
    what = "pinned memory of the target's process (VmPin)"
    known = [(cell.pinned_b, cell.message_b) for cell in found if cell.pinned_b is not None]
    if not known:
        return Answer(what, "not measured", "not reported by the kernel")
    pinned = [pinned_b >= message_b for pinned_b, message_b in known]
    if all(pinned):
        return Answer(what, "yes", f"in all cells, at least {binary(min(known)[0])}")
    if any(pinned):
        return Answer(what, "inconclusive", "pinned in some cells only")
    return Answer(what, "no", "no buffer is pinned: these writes register no memory")


# On the page.


def numa_view(run: RunData, name: str) -> View | None:
    """The cells of a run and their answers; None if it has none."""
    found = cells(run.samples, run.results, run.provenance)
    if not found:
        return None
    facts = [each["numa"] for each in run.provenance.values() if "numa" in each]
    nodes = max(int(each["numa_nodes"]) for each in facts)
    cases = {row.case for row in run.results if key_of(row.factors, row)}
    own = run.samples.filter(pl.col("case").cast(pl.String).is_in(cases))
    caveats = emulated(own)
    said = dict.fromkeys(note for row in run.results if row.case in cases for note in row.notes)
    return View(
        cells=found,
        questions=questions(found, nodes),
        svg=_plot(found, name),
        numa_nodes=nodes,
        # Each pair has runs of all cells.
        interleaved=len(cases) == 1,
        # Placement of buffers and workers, and limits of the figures.
        notes=[_places(facts, nodes), *_limits(found, own), *(n for n in said if n not in caveats)],
        emulated=caveats,
    )


def label(key: Key) -> str:
    """A short label of a cell: `write nic: write on other`."""
    where = {"free": "anywhere"}.get(key.workers, f"on {key.workers}")
    workers = "no workers" if key.load == IDLE else f"{key.load} {where}"
    return f"{key.direction} {key.buffer}: {workers}"


def _places(facts: Sequence[dict[str, Any]], nodes: int) -> str:
    """The NUMA node that each word means."""
    if nodes == 1:
        return f"{_ONE_NODE}: cells that need another one are left out"
    others = [each["places"]["other"] for each in facts if "other" in each["places"]]
    other = f", other is {others[0]}" if others else ""
    return f"nic is NUMA node {facts[0]['nic_node']}{other}, of {nodes}"


def _limits(found: Sequence[Cell], samples: pl.DataFrame) -> list[str]:
    """How far placement is verified, the source of the rates, and the injector's own binding."""
    run = [cell for cell in found if cell.rates_b_s]
    unverified = [label(cell.key) for cell in run if cell.on_node_share is None]
    if not run:
        notes = ["no run with communications counts"]
    elif not unverified:
        notes = ["in every run that counts, the kernel reports every buffer on its node"]
    else:
        some = f" in {', '.join(unverified)}" if len(unverified) < len(run) else ""
        notes = [f"the placement of the buffers is not verified{some}"]
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


def _plot(found: Sequence[Cell], name: str) -> Markup:
    """One row per cell: remaining share of both rates, with intervals."""
    rows = [cell for cell in found if cell.key.load != IDLE]
    with drawing(0.9 + 0.34 * max(len(rows), 1)) as figure:
        axes = rows_axes(figure, [label(c.key) for c in rows], "remaining share of the rate")
        for line, cell in enumerate(rows):
            interval(axes, cell.of_idle, line - 0.18, "on", "o")
            interval(axes, cell.kept, line + 0.1, "off", "o")
            interval(axes, cell.kept_control, line + 0.3, "spin", "o")
        axes.set_xlim(left=0)
        return themed_svg(figure, name, "Share that communications and workers keep in every cell")


SECTIONS = [Section("run", 40, "numa", numa_view, "RDMA and NUMA")]
