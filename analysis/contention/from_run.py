"""Makes a sweep from a run's samples of membench: each run of a pair is one of its measurements.

Baselines: computations alone. Effects at full rate: both. The rate that the writers reached before
the application started: communications alone. All are medians over the samples that count. The
rate of communications is taken at the receiver if its device counts (section 4.1.1 of the paper).
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from analysis.contention.sweep import Point, Sweep
from analysis.effects.estimate import StoppingRule, results_of
from analysis.effects.verdict import emulated
from analysis.report.words import kind
from analysis.samples.columns import read_run
from analysis.samples.pairs import extra, judged, level, levels, pair_table
from analysis.samples.provenance import hosts_of, mapping
from analysis.statistics.interval import middle
from analysis.subjects.regimes import WORKLOAD, Regime, regimes
from nimc.base.errors import InputError
from nimc.base.groups import grouped
from nimc.base.json_limits import read_json
from nimc.records.arms import parts_of
from nimc.records.run import RunHeader, load_header

_LEFT_OUT = "placements on NUMA nodes without cores are left out: the model has no such nodes"
#: Factors that a point has, and the rate, of which the full one is taken.
_OF_POINTS = {"", "rate", "comm_node", "cores", "node", "share"}


def load(run: Path, comm_node: int | None, kernel: str | None = None) -> Sweep:
    """The sweep of a run folder.

    `comm_node` is the NUMA node of writers' buffers that no case bound; None if the machine has
    only one, or all were bound. `kernel` is a level of the factor of that name, by default the
    first; of other factors that change the load, such as `tool`, the first levels are taken. Raises
    InputError if there is nothing to read, or the placement is unknown.
    """
    header = load_header(run)
    samples = read_run(run).frame.filter(pl.col("workload") == WORKLOAD)
    rows = _rows(_of_kernel(samples, kernel, run))
    if rows.is_empty():
        raise InputError(f"{run}: no sample of {WORKLOAD} that counts")
    nodes, sockets = _nodes_and_sockets(run, header, rows)
    if comm_node is not None:
        rows = rows.with_columns(pl.col("comm_node").fill_null(comm_node))
    if nodes > 1 and rows["comm_node"].null_count():
        raise InputError(
            f"{run}: the machine has {nodes} NUMA nodes: name the one of the writers' buffers"
            " with --comm-node"
        )
    if nodes > 1 and rows["comp_node"].null_count():
        raise InputError(f"{run}: {WORKLOAD} ran without a NUMA node (set `node` in the campaign)")
    rows = rows.with_columns(pl.col("comp_node", "comm_node").fill_null(0))
    with_cores = rows.filter(pl.max_horizontal("comp_node", "comm_node") < nodes)
    if with_cores.is_empty():
        raise InputError(f"{run}: all cases use a NUMA node without cores; the model has none")
    left_out = [_LEFT_OUT] if with_cores.height < rows.height else []
    places = with_cores.partition_by(
        "n", "comp_node", "comm_node", as_dict=True, maintain_order=True
    )
    for (n, comp, comm), group in places.items():
        if len(cases := group["case"].unique(maintain_order=True)) > 1:
            raise InputError(
                f"{run}: {', '.join(cases)}: each measured {n} cores, data on node {comp} and"
                f" buffers on {comm}; a model is fitted to one kind of load"
            )
    points = [
        Point(
            n=int(n),
            comp_node=int(comp),
            comm_node=int(comm),
            comp_alone_b_s=middle(group.filter(role="baseline")["fom"]),
            comm_alone_b_s=middle(group.filter(role="effect")["comm_alone_b_s"]),
            comp_par_b_s=middle(group.filter(role="effect")["fom"]),
            comm_par_b_s=middle(group.filter(role="effect")["comm_par_b_s"]),
        )
        for (n, comp, comm), group in places.items()
    ]
    return Sweep(
        name=header.machine,
        cores=max(p.n for p in points),
        numa_per_socket=max(1, nodes // sockets),
        numa_nodes=nodes,
        points=points,
        notes=[*_contradictions(samples, header), *_notes(with_cores), *left_out],
    )


def _of_kernel(samples: pl.DataFrame, kernel: str | None, run: Path) -> pl.DataFrame:
    """The runs of one kernel, at the first levels of factors other than those of points."""
    found = samples.select(pl.col("arm", "factors").cast(pl.String)).unique(maintain_order=True)
    known = {arm: levels(text).get("kernel") for arm, text in found.iter_rows()}
    if kernel is not None and kernel not in known.values():
        words = ", ".join(sorted({str(each) for each in known.values() if each is not None}))
        raise InputError(f"--kernel: {kernel} was not measured in {run}; allowed: {words or '-'}")

    def wanted(arm: str) -> bool:
        others = parts_of(arm)[1].keys() - _OF_POINTS
        return not others if kernel is None else known[arm] == kernel and others <= {"kernel"}

    return samples.filter(pl.col("arm").cast(pl.String).is_in([*filter(wanted, known)]))


def _contradictions(samples: pl.DataFrame, header: RunHeader) -> list[str]:
    """Where the model's rule does not hold that computations lose only after communications."""
    marked = judged(samples)
    found = regimes(marked, results_of(marked, pair_table(marked), StoppingRule.of(header)))
    blue = grouped(
        ((point.kernel, point.direction), str(point.cores))
        for point in found
        if point.regime is Regime.BLUE
    )
    return [
        f"blue regime: with {kernel} on {', '.join(dict.fromkeys(cores))} cores the application"
        f" loses and {kind(direction)[0]} of the device do not; the equations let communications"
        " lose first and do not describe this"
        for (kernel, direction), cores in blue.items()
    ]


def _rows(samples: pl.DataFrame) -> pl.DataFrame:
    """Baselines and effects that count, with columns `n`, `comp_node`, `comm_node` (null: none).

    A baseline appears once for each node of the effects paired with it. `comm_alone_b_s` and
    `comm_par_b_s` are the target device's counts if it counted both; else the writers' reports.
    """
    kept = judged(samples).filter(status="counts")
    effects = kept.filter(
        pl.col("role") == "effect",
        level("rate").fill_null("full") == "full",
        level("burst").fill_null("none") == "none",
    )
    nodes = effects.select("case", "comm_node", arm="baseline").unique(maintain_order=True)
    baselines = (
        kept.filter(pl.col("role") == "baseline")
        .drop("comm_node")
        .join(nodes, on=["case", "arm"], how="left", maintain_order="left")
    )
    kept = pl.concat([baselines.select(kept.columns), effects])
    counted = pl.col("counted_alone_b_s").is_not_null() & pl.col("counted_b_s").is_not_null()
    return kept.with_columns(
        n=extra("cores").cast(pl.Int64),
        comp_node=extra("node").cast(pl.Int64),
        streaming=extra("streaming"),
        comm_alone_b_s=pl.when(counted)
        .then("counted_alone_b_s")
        .otherwise("writer_rate_alone_b_s"),
        comm_par_b_s=pl.when(counted).then("counted_b_s").otherwise("writer_rate_b_s"),
        counted=counted,
    ).drop_nulls("n")


def _nodes_and_sockets(run: Path, header: RunHeader, rows: pl.DataFrame) -> tuple[int, int]:
    """NUMA nodes with cores and sockets of the target, as recorded by its agent.

    Without such a record, those of the run; nodes with memory only belong to no socket.
    """
    first = rows.row(0, named=True)
    path = run / "provenance" / f"{first['provenance']}.json"
    record = read_json(path) if path.is_file() else {}
    host = hosts_of(record).get(str(first["nodes"])) or mapping(header.facts.get("host"))
    listed, sockets = host.get("numa_nodes"), host.get("sockets")
    seen = listed if isinstance(listed, list) else []
    nodes = sum(bool(mapping(node).get("cpus", True)) for node in seen)
    return nodes or 1, sockets if type(sockets) is int and sockets > 0 else 1


def _notes(rows: pl.DataFrame) -> list[str]:
    """Caveats of the samples, their transport and the source of their rates, each once."""
    notes = [str(n) for n in rows["notes"].explode(empty_as_null=False).unique(maintain_order=True)]
    on = rows.filter(role="effect")
    if not on["counted"].all():
        notes.append(
            "rates of communications are as reported by the origin: no device counted them all"
        )
    if (on["direction"] == "read").any():
        notes.append(
            "communications read the target's memory: its device sends and receives nothing"
        )
    if (rows["streaming"] == 0).any():
        notes.append("computations' stores went through the caches, not around them")
    return list(dict.fromkeys([*notes, *emulated(rows)]))
