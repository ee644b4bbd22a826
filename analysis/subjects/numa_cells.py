"""RDMA and NUMA: which share of their rates communications and workers keep beside each other.

Communications are the writes or reads that writers make. Workers are the application, which loads
memory. A cell is a combination of levels:

- the direction (write, read);
- the NUMA node of the buffer (`nic`: the node of the network interface, `other`: another node);
- the load that workers put on the memory of this node;
- the NUMA node of the workers;
- the numbers of workers and of clients (writers).

A level that a case does not vary is that of its settings, or else the check's default. A cell has
the runs of all treatments with its levels, from one case or several cases. If the target's device
has counters, rates of communications come from them: bytes received for writes, bytes sent for
reads.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from analysis.questions.estimators import median, ratio, ratio_of_sets
from analysis.questions.presentation import section
from analysis.questions.question import Question
from analysis.questions.rows import paired, runs_that_count
from analysis.report.data import RunData
from analysis.samples.pairs import factor_level
from analysis.statistics.interval import Estimate

IDLE = "idle"
#: Factor of a cell -> its levels, in the order of the table. The level of `workers` is `free` if
#: the system places the workers, and empty if there are no workers.
_LEVELS = {
    "direction": ("write", "read"),
    "buffer": ("nic", "other"),
    "load": (IDLE, "read", "write", "nt_write"),
    "workers": ("nic", "other", "free", ""),
}
LEVEL_COLUMNS = tuple(_LEVELS)
#: Keys that are shown if they vary. 0 is a worker per core of the node, or as many clients as
#: targets or origins.
COUNT_COLUMNS = ("local_workers", "clients")
CELL_COLUMNS = (*LEVEL_COLUMNS, *COUNT_COLUMNS)
#: Factor -> default of the check and of the writers.
DEFAULTS = {"buffer": "nic", "load": "write", "workers": "nic", "local_workers": 0, "clients": 0}
_WORKLOAD = "numa"
#: Columns of `samples.parquet` (docs/data.md) besides the rates. `comm_node` is the NUMA node of
#: the writers' buffers. `own_binding` is the NUMA binding that the injector does itself.
RUN_FIGURES = ("target_on_node_share", "target_pinned_b", "message_b", "comm_node", "own_binding")
RATE_COLUMNS = ("counted_b_s", "writer_rate_b_s")


def cell_treatments(run: RunData) -> pl.DataFrame:
    """Treatments of the check `numa`: case, arm, baseline and cell, in the table's order.

    If direction is not a factor, the direction of the writers is used. If a case has several
    treatments of a cell, the treatment with the shortest name is used. It has the first level of
    every other factor, since names omit first levels. The table is empty if the run is not about
    NUMA nodes.
    """
    if not numa_nodes(run):
        return pl.DataFrame()
    writers_direction = pl.col("direction").cast(pl.String)
    levels = {name: _level_or_default(run, name) for name in DEFAULTS}
    has_no_workers = levels["load"] == IDLE
    levels |= {
        "direction": pl.coalesce(factor_level("direction"), writers_direction),
        "workers": pl.when(has_no_workers).then(pl.lit("")).otherwise(levels["workers"]),
        "local_workers": pl.when(has_no_workers)
        .then(pl.lit("0"))
        .otherwise(levels["local_workers"]),
    }
    types: dict[str, pl.DataType] = {name: pl.Enum(words) for name, words in _LEVELS.items()}
    types |= dict.fromkeys(COUNT_COLUMNS, pl.Int64())
    names = ("case", "arm", "baseline")
    shortest_name = (
        pl.col("arm").sort_by(pl.col("arm").str.len_chars(), maintain_order=True).first()
    )
    return (
        run.samples.lazy()
        .filter(pl.col("role") == "effect", pl.col("workload").cast(pl.String) == _WORKLOAD)
        .select(*names, "factors", "direction")
        .unique(maintain_order=True)
        .select(
            pl.col(names).cast(pl.String),
            *(levels[name].cast(types[name], strict=False).alias(name) for name in CELL_COLUMNS),
        )
        .drop_nulls()
        .unique(maintain_order=True)
        .filter(pl.col("arm") == shortest_name.over("case", *CELL_COLUMNS))
        .sort(CELL_COLUMNS, maintain_order=True)
        .collect()
    )


def _level_or_default(run: RunData, factor: str) -> pl.Expr:
    """A run's level of a factor, as text; if the case does not vary it, its setting or default."""
    workloads: list[dict[str, Any]] = (
        (run.header.resolved or {}).get("campaign", {}).get("workloads", [])
    )
    settings = {
        entry.get("case", entry["check"]): str(entry["set"][factor])
        for entry in workloads
        if factor in entry.get("set", {})
    }
    case = pl.col("case").cast(pl.String)
    default = str(DEFAULTS[factor])
    return pl.coalesce(factor_level(factor), case.replace_strict(settings, default=default))


def numa_nodes(run: RunData) -> int:
    """The number of NUMA nodes of the machine; 0 if the run is not about NUMA nodes."""
    numa_facts = [record["numa"] for record in run.provenance.values() if "numa" in record]
    return max((int(facts["numa_nodes"]) for facts in numa_facts), default=0)


def communication_runs(treatments: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """A row per run of a cell, with its `rate_b_s`.

    A cell without a run that counts has one row, without a rate. `counted_by` is `target` if the
    target's device counted every run of the cell, and otherwise `origin`.
    """
    is_by_target = pl.col("counted_b_s").null_count().over(CELL_COLUMNS) == 0
    return treatments.join(
        runs.drop("baseline"), on=["case", "arm"], how="left", maintain_order="left"
    ).with_columns(
        rate_b_s=pl.when(is_by_target).then("counted_b_s").otherwise("writer_rate_b_s"),
        counted_by=pl.when(is_by_target).then(pl.lit("target")).otherwise(pl.lit("origin")),
    )


def _cell_runs(run: RunData) -> pl.DataFrame:
    """A row per run of a cell; `side` is `communications`, `workers` or `workers, control`.

    A row of communications has `rate_b_s`, and the list `rates_without_workers`: the rates of the
    same cell without workers. A row of workers has the times of a pair, and the workers' rate in
    `rate_b_s`. If several cases have the cell, only the first case has rows of workers.
    """
    treatments = cell_treatments(run)
    if treatments.is_empty():
        return treatments
    runs = runs_that_count(run.samples, "fom", "fom_better", *RATE_COLUMNS, *RUN_FIGURES)
    communication_rows = communication_runs(treatments, runs).drop("fom", "fom_better")
    communication_rows = _with_rates_without_workers(communication_rows)
    pairs = paired(runs).drop_nulls(["value", "baseline_value"])
    rows = pl.concat([communication_rows, *_worker_rows(treatments, pairs)], how="diagonal")
    rows = rows.sort(CELL_COLUMNS, maintain_order=True)
    constant = [name for name in COUNT_COLUMNS if treatments[name].n_unique() == 1]
    # Texts as in names of treatments tell workers from clients in the labels of the picture.
    return rows.drop(constant).with_columns(
        pl.when(pl.col(name) == 0)
        .then(pl.lit(""))
        .otherwise(pl.format(f"{name}={{}}", name))
        .alias(name)
        for name in COUNT_COLUMNS
        if name not in constant
    )


def _with_rates_without_workers(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `rates_without_workers` to runs of communications.

    These are the rates with the same buffer, direction and clients, but without workers. They are
    null in the rows of cells that have no workers themselves.
    """
    columns = ["direction", "buffer", "clients"]
    idle_cells = rows.filter(load=IDLE).group_by(columns)
    rates = idle_cells.agg(rates_without_workers=pl.col("rate_b_s").drop_nulls())
    rows = rows.join(rates, on=columns, how="left", maintain_order="left")
    has_workers = pl.col("load") != IDLE
    return rows.with_columns(
        rates_without_workers=pl.when(has_workers).then("rates_without_workers"),
        side=pl.lit("communications"),
    )


def _worker_rows(treatments: pl.DataFrame, pairs: pl.DataFrame) -> list[pl.DataFrame]:
    """The pairs of cells with workers: under communications, and with the control."""
    cells = treatments.filter(pl.col("load") != IDLE)
    cells = cells.unique(CELL_COLUMNS, keep="first", maintain_order=True)
    times = ("value", "baseline_value", "repeated_value")
    under_communications = pairs.select("case", "arm", "role", *times)
    controls = pairs.filter(role="control").select("case", "arm", "role", "baseline", *times)
    sides = {
        "workers": cells.join(under_communications, on=["case", "arm"]),
        # A control belongs to a baseline. Cells that share the baseline share the control.
        "workers, control": cells.drop("arm").join(controls, on=["case", "baseline"]),
    }
    # `value` is a time. Its inverse is the workers' rate.
    return [
        rows.with_columns(side=pl.lit(side), rate_b_s=1 / pl.col("value"))
        for side, rows in sides.items()
    ]


def _rate_share(rows: pl.DataFrame) -> Estimate | None:
    """The rate as a share of the uncontended rate.

    Runs of communications are compared as two sets. Runs of workers are compared within pairs.
    """
    if rows["side"][0] == "communications":
        return ratio_of_sets("rate_b_s", "rates_without_workers")(rows)
    slowdown = ratio("value", "baseline_value", "repeated_value")(rows)
    return slowdown.inverse if slowdown else None


def smallest_of_runs(name: str) -> pl.Expr:
    """The smallest value of all runs; null if any run has no value."""
    return pl.when(pl.col(name).null_count() == 0).then(pl.col(name).min())


CELLS = Question(
    name="numa",
    title="All cells of RDMA and NUMA",
    text="The rate of communications next to workers, as a share of their rate without workers"
    " (ratio of all runs of both cells), and the rate of workers next to communications, as a share"
    " of theirs without communications (within pairs; also with the control). A cell is a"
    " direction, the NUMA node of the buffer (nic: that of the interface), what workers do to the"
    " memory of the same node, and where they run (free: placed by the system). If the numbers of"
    " workers or clients vary, they are levels, too; empty is the default, which is a worker per"
    " core of the node, or as many clients as targets or origins. On one host without"
    " an interface, nic is the node of the origin's cores. There, a write is a copy made by the"
    " origin, and a read is a copy made by the kernel: their rates compare these ways of copying.",
    rows=_cell_runs,
    by=(*CELL_COLUMNS, "side"),
    estimates={"share": _rate_share, "rate_b_s": median("rate_b_s")},
    facts={
        "n": pl.col("rate_b_s").count().cast(pl.Int64),
        "alone_b_s": pl.coalesce(
            pl.col("rates_without_workers").first().list.median(),
            (1 / pl.col("baseline_value")).median(),
        ),
        "counted_by": pl.col("counted_by").first(),
        "node": pl.col("comm_node").max(),  # a NUMA node
        "on_node_share": smallest_of_runs("target_on_node_share"),
        "pinned_b": smallest_of_runs("target_pinned_b"),
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
    plot_columns=("side",),
)
SECTIONS = [section(CELLS, "before_cases", 41)]
