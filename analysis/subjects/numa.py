"""RDMA and NUMA: what communications and workers keep of their rates, and published findings.

A cell is a direction (write, read), the NUMA node of the buffer (`nic`: that of the network
interface, `other`: another one), and what workers on this machine do to the memory of the same node
and where they run. Its runs are those of all treatments with these levels, from one case or
several. Rates of communications are the target device's counts if it has any: received for writes,
sent for reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from analysis.questions.estimators import median, ratio, ratio_of_sets
from analysis.questions.question import INCONCLUSIVE, Limit, Question, shared
from analysis.questions.rows import paired, runs_that_count
from analysis.questions.shown import section
from analysis.report.data import RunData
from analysis.samples.pairs import level
from analysis.samples.provenance import all_hosts, reported_facts
from analysis.statistics.interval import FEWEST, Estimate

IDLE = "idle"
#: Levels of what identifies a cell, in the order of the table. `free`: placed by the system.
_LEVELS = {
    "direction": ("write", "read"),
    "buffer": ("nic", "other"),
    "load": (IDLE, "read", "write", "nt_write"),
    "workers": ("nic", "other", "free", ""),
}
CELL = tuple(_LEVELS)
_FIGURES = ("target_on_node_share", "target_pinned_b", "message_b", "comm_node", "own_binding")
_RATES = ("counted_b_s", "writer_rate_b_s")


def _treatments(run: RunData) -> pl.DataFrame:
    """Case, arm and baseline of the treatments that are cells, in the order of the table.

    If direction is not a factor, it is what the writers did. Names omit first levels, so the
    shortest has the first level of every other factor. Empty if the run is not about NUMA nodes.
    """
    if not _nodes(run):
        return pl.DataFrame()
    written = pl.col("direction").cast(pl.String)
    idle = level("load") == IDLE
    levels = {
        "direction": pl.coalesce(level("direction"), written),
        "buffer": level("buffer"),
        "load": level("load"),
        "workers": pl.when(idle).then(pl.lit("")).otherwise(level("workers")),
    }
    names = ("case", "arm", "baseline")
    shortest = pl.col("arm").sort_by(pl.col("arm").str.len_chars(), maintain_order=True).first()
    return (
        run.samples.lazy()
        .filter(pl.col("role") == "effect")
        .select(*names, "factors", "direction")
        .unique(maintain_order=True)
        .select(
            pl.col(names).cast(pl.String),
            *(levels[name].cast(pl.Enum(_LEVELS[name]), strict=False).alias(name) for name in CELL),
        )
        .drop_nulls()
        .unique(maintain_order=True)
        .filter(pl.col("arm") == shortest.over("case", *CELL))
        .sort(CELL, maintain_order=True)
        .collect()
    )


def _nodes(run: RunData) -> int:
    """NUMA nodes of the machine; 0 if the run is not about them."""
    facts = [record["numa"] for record in run.provenance.values() if "numa" in record]
    return max((int(record["numa_nodes"]) for record in facts), default=0)


def _communications(treatments: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """A row per run of a cell with its rate; one without a rate of a cell of which none counts."""
    by_target = pl.col("counted_b_s").null_count().over(CELL) == 0
    return treatments.join(
        runs.drop("baseline"), on=["case", "arm"], how="left", maintain_order="left"
    ).with_columns(
        rate_b_s=pl.when(by_target).then("counted_b_s").otherwise("writer_rate_b_s"),
        counted_by=pl.when(by_target).then(pl.lit("target")).otherwise(pl.lit("origin")),
    )


def _rows(run: RunData) -> pl.DataFrame:
    """A row per run of a cell and side.

    Communications: `rate_b_s`, and `idle`, the rates of the cell without workers. Workers: times
    within pairs, of one case only, with communications or the control.
    """
    treatments = _treatments(run)
    if treatments.is_empty():
        return treatments
    runs = runs_that_count(run.samples, "fom", "fom_better", *_RATES, *_FIGURES)
    communications = _communications(treatments, runs).drop("fom", "fom_better")
    buffers, loaded = ["direction", "buffer"], pl.col("load") != IDLE
    idle = (
        communications.filter(load=IDLE).group_by(buffers).agg(idle=pl.col("rate_b_s").drop_nulls())
    )
    communications = communications.join(
        idle, on=buffers, how="left", maintain_order="left"
    ).with_columns(idle=pl.when(loaded).then("idle"), side=pl.lit("communications"))
    with_workers = treatments.filter(loaded).unique(CELL, keep="first", maintain_order=True)
    pairs = paired(runs).select("case", "arm", "role", "baseline", "value", "against", "again")
    pairs = pairs.drop_nulls(["value", "against"])
    beside = {
        "workers": with_workers.join(pairs.drop("baseline"), on=["case", "arm"]),
        "workers, control": with_workers.drop("arm").join(
            pairs.filter(role="control"), on=["case", "baseline"]
        ),
    }
    workers = [
        pairs.with_columns(side=pl.lit(name), rate_b_s=1 / pl.col("value"))
        for name, pairs in beside.items()
    ]
    rows = pl.concat([communications, *workers], how="diagonal")
    return rows.sort(CELL, maintain_order=True)


def _share(rows: pl.DataFrame) -> Estimate | None:
    """Of communications between sets of runs, of workers within pairs."""
    if rows["side"][0] == "communications":
        return ratio_of_sets("rate_b_s", "idle")(rows)
    slowdown = ratio("value", "against", "again")(rows)
    return slowdown.inverse if slowdown else None


def _least(name: str) -> pl.Expr:
    """The least value of all runs; null if any run has none."""
    return pl.when(pl.col(name).null_count() == 0).then(pl.col(name).min())


CELLS = Question(
    name="numa",
    title="All cells of RDMA and NUMA",
    text="What communications keep of their rate without workers (ratio of all runs of both"
    " cells), and workers of theirs without communications (within pairs; also with the control)."
    " A cell is a direction, the NUMA node of the buffer (nic: that of the interface), and what"
    " workers do to the memory of the same node, and where they run (free: placed by the system)."
    " On one host without an interface, nic is the node of the origin's cores, a write is a copy by"
    " the origin and a read one by the kernel: their rates compare these two ways of copying.",
    rows=_rows,
    by=(*CELL, "side"),
    estimates={"share": _share, "rate_b_s": median("rate_b_s")},
    facts={
        "n": pl.col("rate_b_s").count().cast(pl.Int64),
        "alone_b_s": pl.coalesce(
            pl.col("idle").first().list.median(), (1 / pl.col("against")).median()
        ),
        "counted_by": pl.col("counted_by").first(),
        "node": pl.col("comm_node").max(),
        "on_node_share": _least("target_on_node_share"),
        "pinned_b": _least("target_pinned_b"),
        "own_binding": pl.col("own_binding").cast(pl.String).first(),
        "cases": pl.col("case").n_unique(),
    },
    columns=("rate_b_s", "alone_b_s", "n", "counted_by", "on_node_share"),
    headings={
        "share": "share of the rate alone",
        "alone_b_s": "rate alone",
        "n": "runs",
        "counted_by": "counted by",
        "on_node_share": "buffer on its node",
    },
    axes=("side",),
)


# The findings of Nelson and Palmieri on RDMA in NUMA systems.


def _findings(run: RunData) -> pl.DataFrame:
    """A row per run of the first cell of each comparison of numa.json, or one without a rate.

    `second`: rates of the second cell. `locked`: share of the cells of known pinned memory in which
    that is a message at least; null elsewhere.
    """
    treatments = _treatments(run)
    if treatments.is_empty():
        return treatments
    communications = _communications(treatments, runs_that_count(run.samples, *_RATES, *_FIGURES))
    cells = communications.group_by(CELL, maintain_order=True).agg(
        rates=pl.col("rate_b_s").drop_nulls(),
        locked=(_least("target_pinned_b") >= pl.col("message_b").first()),
    )
    rates = {tuple(map(str, key)): rates for *key, rates, _ in cells.iter_rows()}
    locked = cells["locked"].mean()
    loads = cells["load"].cast(pl.String).unique().to_list()
    balancing = ", ".join(reported_facts(all_hosts(run.provenance.values()))["NUMA balancing"])
    rows = [
        {
            "finding": finding["finding"],
            "published": finding["published"],
            "compared": comparison["compared"],
            "about_pages": "pinned" in comparison,
            "locked": locked if "pinned" in comparison else None,
            "numa_nodes": _nodes(run),
            "numa_balancing": balancing,
            **_cells_of(comparison, rates, finding.get("nodes_needed", 1)),
        }
        for finding in json.loads(Path(__file__).with_name("numa.json").read_text())
        for comparison in finding["comparisons"]
        if "nt_write" not in comparison.get("first", ()) or "nt_write" in loads
    ]
    types = {"locked": pl.Float64} | dict.fromkeys(("first", "second"), pl.List(pl.Float64))
    table = pl.DataFrame(rows, schema_overrides=types)
    return table.explode("first", empty_as_null=True)


def _cells_of(
    comparison: Mapping[str, Any], rates: Mapping[tuple[str, ...], list[float]], nodes_needed: int
) -> dict[str, Any]:
    """Rates of both cells of a comparison, whether both are in the run, and NUMA nodes needed."""
    keys = [tuple(comparison.get(name, ())) for name in ("first", "second")]
    first, second = map(rates.get, keys)
    return {
        "first": first,
        "second": second,
        "both": first is not None and second is not None,
        "nodes_needed": max(nodes_needed, 2 if any("other" in key for key in keys) else 1),
    }


def _balancing(table: pl.DataFrame) -> list[str]:
    """What the nodes' kernels do with pages that are not locked."""
    texts = table["numa_balancing"].unique().to_list() if table.height else []
    return [
        f"Automatic NUMA balancing (kernel.numa_balancing) of the nodes: {text or 'not known'}."
        " It moves pages, but none that are locked."
        for text in texts
    ]


_LOCKED, _ONE_NODE = pl.col("locked"), "this machine has only one NUMA node"
_TOO_FEW_NODES = pl.col("numa_nodes") < pl.col("nodes_needed")
_NOT_MEASURED = "not measured"
FINDINGS = Question(
    name="numa_findings",
    title="RDMA and NUMA: findings of Nelson and Palmieri",
    text="Each finding as a ratio between the rates of communications of two cells: the median of"
    " all ratios between their runs, which are not paired. 'Yes' and 'no' require an interval that"
    " does not contain 1. Cells of different cases were measured one after the other: intervals do"
    " not include drift in between. Pages are locked if at least a message is pinned in all cells;"
    " writes that register no memory pin none.",
    rows=_findings,
    by=("finding", "compared"),
    estimates={"ratio": ratio_of_sets("first", "second")},
    facts={
        "n": pl.min_horizontal(
            pl.col("first").count(), pl.col("second").first().list.len().fill_null(0)
        ).cast(pl.Int64),
        "first_b_s": pl.col("first").median(),
        "second_b_s": pl.col("second").first().list.median(),
        **shared("published", "both", "about_pages", "locked", "numa_nodes", "nodes_needed"),
        **shared("numa_balancing"),
    },
    limits=(
        Limit("yes", when=_LOCKED == 1),
        Limit(INCONCLUSIVE, when=_LOCKED > 0, why="pinned in some cells only"),
        Limit("no", when=_LOCKED == 0),
        Limit(_NOT_MEASURED, when=pl.col("about_pages"), why="not reported by the kernel"),
        Limit(_NOT_MEASURED, when=~pl.col("both") & _TOO_FEW_NODES, why=_ONE_NODE),
        Limit(_NOT_MEASURED, when=~pl.col("both"), why="not part of this run"),
        Limit(_NOT_MEASURED, when=pl.col("n") == 0, why="no run counts"),
        Limit(INCONCLUSIVE, when=pl.col("n") < FEWEST, why=f"fewer than {FEWEST} runs per side"),
        Limit(
            _NOT_MEASURED,
            when=_TOO_FEW_NODES,
            why=f"{_ONE_NODE}: the cells differ in pinning only",
        ),
        Limit("yes", when=pl.col("ratio_low") > 1),
        Limit("no", when=pl.col("ratio_high") < 1),
        Limit(INCONCLUSIVE, why="the interval contains 1"),
    ),
    sentences=_balancing,
    columns=("first_b_s", "second_b_s", "n", "word", "published"),
    headings={
        "first_b_s": "first",
        "second_b_s": "second",
        "n": "runs per side",
        "word": "here",
    },
    plot=None,
)
SECTIONS = [section(FINDINGS, "run", 40), section(CELLS, "run", 41)]
