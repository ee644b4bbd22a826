"""RDMA and NUMA: what communications and workers keep of their rates.

Workers are the application, which loads memory. A cell is a direction (write, read), the NUMA
node of the buffer (`nic`: that of the network interface, `other`: another one), what workers do to
the memory of the same node, and where they run. Its runs are those of all treatments with these
levels, from one case or several. Rates of communications come from the target device's counters if
it has any: bytes received for writes, bytes sent for reads.
"""

from __future__ import annotations

import polars as pl

from analysis.questions.estimators import median, ratio, ratio_of_sets
from analysis.questions.question import Question
from analysis.questions.rows import paired, runs_that_count
from analysis.questions.shown import section
from analysis.report.data import RunData
from analysis.samples.pairs import factor_level
from analysis.statistics.interval import Estimate

IDLE = "idle"
#: What identifies a cell -> its levels, in the order of the table. Workers: `free` if the system
#: places them, empty if there are none.
_LEVELS = {
    "direction": ("write", "read"),
    "buffer": ("nic", "other"),
    "load": (IDLE, "read", "write", "nt_write"),
    "workers": ("nic", "other", "free", ""),
}
CELL = tuple(_LEVELS)
FIGURES = ("target_on_node_share", "target_pinned_b", "message_b", "comm_node", "own_binding")
RATES = ("counted_b_s", "writer_rate_b_s")


def treatments_of_cells(run: RunData) -> pl.DataFrame:
    """Case, arm and baseline of the treatments that are cells, in the order of the table.

    If direction is not a factor, it is that of the writers. Of several treatments of a cell in one
    case, the one with the shortest name is used: names omit first levels, so it has the first level
    of every other factor. The table is empty if the run is not about NUMA nodes.
    """
    if not numa_nodes(run):
        return pl.DataFrame()
    written = pl.col("direction").cast(pl.String)
    idle = factor_level("load") == IDLE
    levels = {
        "direction": pl.coalesce(factor_level("direction"), written),
        "buffer": factor_level("buffer"),
        "load": factor_level("load"),
        "workers": pl.when(idle).then(pl.lit("")).otherwise(factor_level("workers")),
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


def numa_nodes(run: RunData) -> int:
    """Number of NUMA nodes of the machine; 0 if the run is not about them."""
    facts = [record["numa"] for record in run.provenance.values() if "numa" in record]
    return max((int(record["numa_nodes"]) for record in facts), default=0)


def communications(treatments: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """A row per run of a cell, with its `rate_b_s`; one without a rate if no run of it counts.

    `counted_by` is `target` only if the target's device counted every run of the cell.
    """
    by_target = pl.col("counted_b_s").null_count().over(CELL) == 0
    return treatments.join(
        runs.drop("baseline"), on=["case", "arm"], how="left", maintain_order="left"
    ).with_columns(
        rate_b_s=pl.when(by_target).then("counted_b_s").otherwise("writer_rate_b_s"),
        counted_by=pl.when(by_target).then(pl.lit("target")).otherwise(pl.lit("origin")),
    )


def _rows(run: RunData) -> pl.DataFrame:
    """A row per run of a cell and side.

    Rows of communications have `rate_b_s`, and in `idle` the list of rates of the same cell without
    workers. Rows of workers have the times of a pair, with communications or with the control; if
    several cases have the cell, only those of the first.
    """
    treatments = treatments_of_cells(run)
    if treatments.is_empty():
        return treatments
    runs = runs_that_count(run.samples, "fom", "fom_better", *RATES, *FIGURES)
    communication_rows = communications(treatments, runs).drop("fom", "fom_better")
    buffers, loaded = ["direction", "buffer"], pl.col("load") != IDLE
    idle = (
        communication_rows.filter(load=IDLE)
        .group_by(buffers)
        .agg(idle=pl.col("rate_b_s").drop_nulls())
    )
    communication_rows = communication_rows.join(
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
        pairs_of_side.with_columns(side=pl.lit(name), rate_b_s=1 / pl.col("value"))
        for name, pairs_of_side in beside.items()
    ]
    rows = pl.concat([communication_rows, *workers], how="diagonal")
    return rows.sort(CELL, maintain_order=True)


def _share(rows: pl.DataFrame) -> Estimate | None:
    """Share of the rate alone: of communications from sets of runs, of workers from pairs."""
    if rows["side"][0] == "communications":
        return ratio_of_sets("rate_b_s", "idle")(rows)
    slowdown = ratio("value", "against", "again")(rows)
    return slowdown.inverse if slowdown else None


def least_of_runs(name: str) -> pl.Expr:
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
        "on_node_share": least_of_runs("target_on_node_share"),
        "pinned_b": least_of_runs("target_pinned_b"),
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
SECTIONS = [section(CELLS, "run", 41)]
