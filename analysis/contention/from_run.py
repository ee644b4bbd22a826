"""A sweep from a run's samples of membench: each run of a pair is one of the sweep's measurements.

Off: computations alone. On: both. The rate that the writers reached before the application began:
communications alone. All are medians over the samples that count.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from analysis.columns import read_run
from analysis.contention.sweep import Point, Sweep
from analysis.errors import InputError
from analysis.run import load_header

WORKLOAD = "membench"


def load(run: Path, comm_node: int | None) -> Sweep:
    """The sweep of a run folder.

    `comm_node` is where the writers' buffers lay: None where the machine has one NUMA node only.
    Raises InputError where there is nothing to read, or the placement is not known.
    """
    header = load_header(run)
    host = header.facts.get("host", {})
    nodes = len(host.get("numa_nodes", [])) or 1
    sockets = int(host.get("sockets", 1)) or 1
    if comm_node is None and nodes > 1:
        raise InputError(
            f"{run}: the machine has {nodes} NUMA nodes: give the one of the writers' buffers"
            " with --comm-node"
        )
    rows = _rows(read_run(run).frame)
    if rows.is_empty():
        raise InputError(f"{run}: no sample of {WORKLOAD} that counts")
    if nodes > 1 and rows["comp_node"].null_count():
        raise InputError(f"{run}: {WORKLOAD} ran without a NUMA node (set `node` in the campaign)")
    places = rows.with_columns(pl.col("comp_node").fill_null(0)).partition_by(
        "n", "comp_node", as_dict=True, maintain_order=True
    )
    points = [
        Point(
            n=int(n),
            comp_node=int(comp_node),
            comm_node=comm_node or 0,
            comp_alone_b_s=_median(group.filter(arm="off")["fom"]),
            comm_alone_b_s=_median(group.filter(arm="on")["writer_rate_alone_b_s"]),
            comp_par_b_s=_median(group.filter(arm="on")["fom"]),
            comm_par_b_s=_median(group.filter(arm="on")["writer_rate_b_s"]),
        )
        for (n, comp_node), group in places.items()
    ]
    return Sweep(
        name=header.machine,
        cores=max(p.n for p in points),
        numa_per_socket=max(1, nodes // sockets),
        numa_nodes=nodes,
        points=points,
    )


def _rows(samples: pl.DataFrame) -> pl.DataFrame:
    """The samples that count, with columns `n` and `comp_node` (null: bound to none)."""
    kept = samples.filter(
        (pl.col("workload") == WORKLOAD) & (pl.col("outcome") == "kept") & ~pl.col("warmup")
    )
    extras: list[dict[str, Any]] = [json.loads(text or "{}") for text in kept["fom_extra"]]
    return kept.with_columns(
        pl.Series("n", [extra.get("cores") for extra in extras], dtype=pl.Int64, strict=False),
        pl.Series(
            "comp_node", [extra.get("node") for extra in extras], dtype=pl.Int64, strict=False
        ),
    ).drop_nulls("n")


def _median(values: pl.Series) -> float | None:
    median = values.drop_nulls().median()
    return float(median) if isinstance(median, int | float) else None
