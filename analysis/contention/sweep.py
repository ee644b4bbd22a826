"""Sweeps: measured rates over the number of computing cores, from files and from runs.

A file is JSON: `schema` 1, `name`, `cores`, `numa_per_socket`, `numa_nodes`, `notes`, and `points`,
each with the fields of `Point`; null or a missing field is a rate that was not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from analysis.contention.parameters import Rate
from analysis.effects.verdict import emulations
from analysis.samples.columns import read_run
from analysis.samples.pairs import extra, judged, level, levels
from analysis.samples.provenance import hosts_of, mapping
from analysis.statistics.interval import middle
from records.arms import parts_of
from records.errors import InputError
from records.json_limits import read_json, validated
from records.run import RunHeader, load_header

_Whole = Annotated[int, Field(ge=1)]
_Node = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class Point:
    """One number of computing cores on one placement; rates in bytes per second."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    n: _Whole
    comp_node: _Node
    comm_node: _Node
    #: Rate of all computing cores and of communications, each without the other.
    comp_alone_b_s: Rate | None = None
    comm_alone_b_s: Rate | None = None
    #: The same with both running.
    comp_par_b_s: Rate | None = None
    comm_par_b_s: Rate | None = None

    @property
    def placement(self) -> tuple[int, int]:
        """The nodes of its computations and of its communications."""
        return self.comp_node, self.comm_node


@dataclass(frozen=True)
class Sweep:
    """The points of one machine. Repeated measurements are repeated points."""

    name: str
    #: Cores of the first socket, where the computing cores are.
    cores: int
    numa_per_socket: int
    numa_nodes: int
    points: list[Point]
    #: Caveats to show with every figure made from the sweep (`NUMA nodes are emulated ...`).
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The sweep as written to its JSON file."""
        return {"schema": 1} | asdict(self)

    def points_at(self, comp_node: int, comm_node: int) -> list[Point]:
        """The points of one placement, by number of cores."""
        return sorted(
            (p for p in self.points if p.placement == (comp_node, comm_node)), key=lambda p: p.n
        )

    def placements(self) -> list[tuple[int, int]]:
        """The placements that have points."""
        return sorted({p.placement for p in self.points})

    def is_sample(self, placement: tuple[int, int]) -> bool:
        """Whether a model is fitted to this placement."""
        return placement in ((0, 0), (self.numa_per_socket, self.numa_per_socket))


class _File(BaseModel):
    """A file of points; what it does not state is None."""

    name: str | None = None
    cores: _Whole | None = None
    numa_per_socket: _Whole | None = None
    numa_nodes: _Whole | None = None
    notes: list[str] = []
    points: Annotated[list[Point], Field(min_length=1)]


def load(path: Path) -> Sweep:
    """The sweep in a file.

    By default the socket has as many cores as the largest n and one NUMA node, and the machine as
    many nodes as the points name. Raises InputError with file and field.
    """
    document = read_json(path)
    if not isinstance(document, dict) or document.get("schema") != 1:
        raise InputError(f"{path}: not a sweep; allowed: a mapping with schema 1")
    file = validated(_File, document, path)
    cores, nodes = max(p.n for p in file.points), 1 + max(max(p.placement) for p in file.points)
    stated: dict[str, Any] = {"name": path.stem, "numa_per_socket": 1}
    stated |= {"cores": cores, "numa_nodes": nodes}
    stated |= {name: value for name, value in vars(file).items() if value}
    sweep = Sweep(**stated)
    for i, p in enumerate(sweep.points):
        if p.n > sweep.cores:
            raise InputError(
                f"{path}: points.{i}.n: {p.n} found; allowed: at most {sweep.cores}, the socket's"
                " cores"
            )
        if max(p.placement) >= sweep.numa_nodes:
            raise InputError(
                f"{path}: points.{i}: nodes {p.comp_node} and {p.comm_node} found; allowed: below"
                f" {sweep.numa_nodes}, the machine's NUMA nodes"
            )
    return sweep


# The measured curves of one placement.


Array = NDArray[np.float64]


@dataclass(frozen=True)
class Curves:
    """One value per measured point, NaN if a rate was not measured; bytes per second."""

    n: NDArray[np.int64]
    comp_alone: Array
    comm_alone: Array
    comp_par: Array
    comm_par: Array

    @property
    def last(self) -> int:
        """The largest measured number of cores."""
        return int(self.n.max())

    @property
    def rates(self) -> tuple[Array, Array, Array, Array]:
        """All four curves."""
        return self.comp_alone, self.comm_alone, self.comp_par, self.comm_par


def curves(points: Sequence[Point]) -> Curves:
    """The points of one placement as arrays."""
    rates = [(p.comp_alone_b_s, p.comm_alone_b_s, p.comp_par_b_s, p.comm_par_b_s) for p in points]
    return Curves(np.array([p.n for p in points]), *np.array(rates, float).reshape(-1, 4).T)


# A sweep from a run's samples of membench: each run of a pair is one of its measurements.
# Baselines: computations alone. Effects at full rate: both. The rate that the writers reached
# before the application started: communications alone. All are medians over the samples that count.
# The rate of communications is taken at the receiver if its device counts (section 4.1.1 of the
# paper).

#: The workload whose cores and kernel are known.
WORKLOAD = "membench"
#: Factors that a point has, and the rate, of which the full one is taken.
_OF_POINTS = {"", "rate", "comm_node", "cores", "node", "share"}


def from_run(run: Path, comm_node: int | None, kernel: str | None = None) -> Sweep:
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
    numbers, sockets = _nodes_and_sockets(run, header, rows)
    nodes = len(numbers)
    if comm_node is not None:
        rows = rows.with_columns(pl.col("comm_node").fill_null(comm_node))
    if nodes > 1 and rows["comm_node"].null_count():
        raise InputError(
            f"{run}: the machine has {nodes} NUMA nodes: name the one of the writers' buffers"
            " with --comm-node"
        )
    if nodes > 1 and rows["comp_node"].null_count():
        raise InputError(f"{run}: {WORKLOAD} ran without a NUMA node (set `node` in the campaign)")
    placed = pl.col("comp_node", "comm_node")
    rows = rows.with_columns(placed.fill_null(numbers[0]))
    with_cores = rows.filter(pl.all_horizontal(placed.is_in(numbers)))
    if with_cores.is_empty():
        raise InputError(f"{run}: all cases use a NUMA node without cores; the model has none")
    with_cores = with_cores.with_columns(placed.replace(numbers, range(nodes)))
    notes = _notes(with_cores)
    if with_cores.height < rows.height:
        left_out = "placements on NUMA nodes without cores are left out"
        notes.append(f"{left_out}: the model has no such nodes")
    if numbers[-1] >= nodes:
        pairs = (f"{number} is {index}" for index, number in enumerate(numbers))
        notes.append(f"NUMA nodes are numbered without gaps here: {', '.join(pairs)}")
    places = with_cores.partition_by(
        "n", "comp_node", "comm_node", as_dict=True, maintain_order=True
    )
    for (n, comp, comm), group in places.items():
        if len(cases := group["case"].unique(maintain_order=True)) > 1:
            raise InputError(
                f"{run}: {', '.join(cases)}: each measured {n} cores, data on node {numbers[comp]}"
                f" and buffers on {numbers[comm]}; a model is fitted to one kind of load"
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
        notes=notes,
    )


def _of_kernel(samples: pl.DataFrame, kernel: str | None, run: Path) -> pl.DataFrame:
    """The runs of one kernel, at the first levels of factors other than those of points."""
    arms = samples.select(pl.col("arm", "factors").cast(pl.String)).unique(maintain_order=True)
    kernels = {arm: levels(text).get("kernel") for arm, text in arms.iter_rows()}
    if kernel is not None and kernel not in kernels.values():
        words = ", ".join(sorted({str(name) for name in kernels.values() if name is not None}))
        raise InputError(f"--kernel: {kernel} was not measured in {run}; allowed: {words or '-'}")

    def wanted(arm: str) -> bool:
        others = parts_of(arm)[1].keys() - _OF_POINTS
        return not others if kernel is None else kernels[arm] == kernel and others <= {"kernel"}

    return samples.filter(pl.col("arm").cast(pl.String).is_in([*filter(wanted, kernels)]))


def _rows(samples: pl.DataFrame) -> pl.DataFrame:
    """Baselines and effects that count, with columns `n`, `comp_node`, `comm_node` (null: none).

    A baseline appears once for each node of the effects paired with it. `comm_alone_b_s` and
    `comm_par_b_s` are the target device's counts if it counted both; else the writers' reports.
    """
    runs = judged(samples).filter(status="counts")
    effects = runs.filter(pl.col("role") == "effect", level("rate").fill_null("full") == "full")
    nodes = effects.select("case", "comm_node", arm="baseline").unique(maintain_order=True)
    baselines = (
        runs.filter(pl.col("role") == "baseline")
        .drop("comm_node")
        .join(nodes, on=["case", "arm"], how="left", maintain_order="left")
    )
    runs = pl.concat([baselines.select(runs.columns), effects])
    counted = pl.col("counted_alone_b_s").is_not_null() & pl.col("counted_b_s").is_not_null()
    return runs.with_columns(
        n=extra("cores").cast(pl.Int64),
        comp_node=extra("node").cast(pl.Int64),
        streaming=extra("streaming"),
        comm_alone_b_s=pl.when(counted)
        .then("counted_alone_b_s")
        .otherwise("writer_rate_alone_b_s"),
        comm_par_b_s=pl.when(counted).then("counted_b_s").otherwise("writer_rate_b_s"),
        counted=counted,
    ).drop_nulls("n")


def _nodes_and_sockets(run: Path, header: RunHeader, rows: pl.DataFrame) -> tuple[list[int], int]:
    """Numbers of the target's NUMA nodes with cores, and its sockets, as recorded by its agent.

    Without such a record, those of the run; nodes with memory only belong to no socket.
    """
    first = rows.row(0, named=True)
    path = run / "provenance" / f"{first['provenance']}.json"
    record = read_json(path) if path.is_file() else {}
    host = hosts_of(record).get(str(first["nodes"])) or mapping(header.facts.get("host"))
    listed, sockets = host.get("numa_nodes"), host.get("sockets")
    nodes = listed if isinstance(listed, list) else []
    numbers = [
        number
        for node in map(mapping, nodes)
        if node.get("cpus", True) and isinstance(number := node.get("number"), int)
    ]
    return sorted(numbers) or [0], sockets if type(sockets) is int and sockets > 0 else 1


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
    return list(dict.fromkeys([*notes, *emulations(rows["transport"])]))
