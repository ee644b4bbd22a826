"""Sweeps: measured rates over the number of computing cores, from files and from runs.

A file is JSON. Its keys are `schema` (1), `name`, `cores`, `numa_per_socket`, `numa_nodes`,
`notes`, and `points`, each with the fields of `Point`. A rate that was not measured is null or left
out.
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
from analysis.effects.verdict import emulation_caveats
from analysis.samples.columns import read_run
from analysis.samples.pairs import extra_figure, factor_level, judge_samples, parsed_levels
from analysis.samples.provenance import hosts_of, mapping_or_empty
from analysis.statistics.interval import median_of
from records.arms import arm_and_levels
from records.errors import InputError
from records.json_limits import read_json, validated
from records.run import RunHeader, load_header
from records.units import plural

_Count = Annotated[int, Field(ge=1)]
_NodeNumber = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, kw_only=True)
class Point:
    """The rates with one number of computing cores on one placement, in bytes per second."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    n: _Count
    comp_node: _NodeNumber
    comm_node: _NodeNumber
    #: Rate of all computing cores without communications.
    comp_alone_b_s: Rate | None = None
    #: Rate of communications without computations.
    comm_alone_b_s: Rate | None = None
    #: Rate of all computing cores while communications run, too.
    comp_par_b_s: Rate | None = None
    #: Rate of communications while the cores compute, too.
    comm_par_b_s: Rate | None = None

    @property
    def placement(self) -> tuple[int, int]:
        """The NUMA nodes of the computations' data and of the communications' buffers."""
        return self.comp_node, self.comm_node


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The points of one machine. Repeated measurements are repeated points."""

    name: str
    #: Cores of the first socket, where the computing cores are. In a sweep of a run, and by default
    #: in a file, this is the largest measured number of computing cores.
    cores: int
    numa_per_socket: int
    numa_nodes: int
    points: list[Point]
    #: Caveats to show with every figure made from the sweep (`NUMA nodes are emulated ...`).
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the sweep as written to its JSON file."""
        return {"schema": 1} | asdict(self)

    def points_at(self, comp_node: int, comm_node: int) -> list[Point]:
        """Return the points of one placement, by number of cores."""
        placement = comp_node, comm_node
        points = [point for point in self.points if point.placement == placement]
        return sorted(points, key=lambda point: point.n)

    def placements(self) -> list[tuple[int, int]]:
        """Return the placements that have points."""
        return sorted({point.placement for point in self.points})

    def is_calibrated(self, placement: tuple[int, int]) -> bool:
        """Return whether a model is fitted to this placement."""
        return placement in ((0, 0), (self.numa_per_socket, self.numa_per_socket))


class _SweepFile(BaseModel):
    """A sweep's file. A field that is left out is None."""

    name: str | None = None
    cores: _Count | None = None
    numa_per_socket: _Count | None = None
    numa_nodes: _Count | None = None
    notes: list[str] = []
    points: Annotated[list[Point], Field(min_length=1)]


def load_sweep(path: Path) -> Sweep:
    """Return the sweep in a file.

    By default, `name` is the file's name, `cores` is the largest n, `numa_per_socket` is 1, and
    `numa_nodes` is one more than the largest node of a point, or at least `numa_per_socket`. Raises
    InputError with file and field.
    """
    document = read_json(path)
    if not isinstance(document, dict) or document.get("schema") != 1:
        raise InputError(f"{path}: not a sweep; allowed: a mapping with schema 1")
    sweep_file = validated(_SweepFile, document, path)
    defaults: dict[str, Any] = {
        "name": path.stem,
        "cores": max(point.n for point in sweep_file.points),
        "numa_per_socket": 1,
        "numa_nodes": max(
            sweep_file.numa_per_socket or 1,
            1 + max(max(point.placement) for point in sweep_file.points),
        ),
    }
    file_values = {name: value for name, value in vars(sweep_file).items() if value}
    sweep = Sweep(**(defaults | file_values))
    if sweep.numa_per_socket > sweep.numa_nodes:
        raise InputError(
            f"{path}: numa_per_socket: {sweep.numa_per_socket} found; allowed: at most"
            f" {sweep.numa_nodes}, the machine's NUMA nodes"
        )
    for index, point in enumerate(sweep.points):
        if point.n > sweep.cores:
            raise InputError(
                f"{path}: points.{index}.n: {point.n} found; allowed: at most {sweep.cores}, the"
                " socket's cores"
            )
        if max(point.placement) >= sweep.numa_nodes:
            raise InputError(
                f"{path}: points.{index}: nodes {point.comp_node} and {point.comm_node} found;"
                f" allowed: below {sweep.numa_nodes}, the machine's NUMA nodes"
            )
    return sweep


# The measured curves of one placement.


Array = NDArray[np.float64]


@dataclass(frozen=True)
class Curves:
    """The rates of the measured points, bytes per second; NaN for a rate that was not measured."""

    n: NDArray[np.int64]
    comp_alone: Array
    comm_alone: Array
    comp_par: Array
    comm_par: Array

    @property
    def most_cores(self) -> int:
        """The largest measured number of cores."""
        return int(self.n.max())

    @property
    def rates(self) -> tuple[Array, Array, Array, Array]:
        """All four curves."""
        return self.comp_alone, self.comm_alone, self.comp_par, self.comm_par


def curves_of(points: Sequence[Point]) -> Curves:
    """Return the points of one placement as arrays."""

    def curve(rate: str) -> Array:
        return np.array([getattr(point, f"{rate}_b_s") for point in points], float)

    return Curves(
        n=np.array([point.n for point in points]),
        comp_alone=curve("comp_alone"),
        comm_alone=curve("comm_alone"),
        comp_par=curve("comp_par"),
        comm_par=curve("comm_par"),
    )


# A sweep from a run's samples of the workload membench. A baseline (a run without writers) measures
# computations alone. An effect (a run with writers) at full rate measures both sides. The writers'
# uncontended rate, measured once for a case on the same nodes, is the rate of communications alone.
# Each rate is the median over the samples that count. The rate of communications is the rate that
# the receiver's device counted, if this device counts bytes (section 4.1.1 of the paper).

#: The workload that measures sweeps. It records its number of cores and its kernel.
SWEEP_WORKLOAD = "membench"
#: Factors that may have any level. All but `rate` distinguish points. Of `rate`, only the full rate
#: is used.
_POINT_FACTORS = {"rate", "comm_node", "cores", "node", "share"}
_IS_AT_FULL_RATE = factor_level("rate").fill_null("full") == "full"


def sweep_of_run(run: Path, comm_node: int | None, kernel: str | None = None) -> Sweep:
    """Return the sweep that was measured in a run folder.

    `comm_node` is the NUMA node of the writers' buffers in cases that did not bind them. It may be
    None if the machine has one NUMA node, or if all cases bound them. `kernel` is a level of the
    factor `kernel`; by default, the first level is used. All factors that do not distinguish
    points, such as `tool`, must have their first level. Other runs are not used. Raises InputError
    if there is nothing to read, or if a placement is unknown.
    """
    header = load_header(run)
    samples = read_run(run).frame.filter(pl.col("workload") == SWEEP_WORKLOAD)
    measurements = _measurements(_runs_of_kernel(samples, kernel, run))
    effects = samples.filter(role="effect")
    if effects.height and effects.filter(_IS_AT_FULL_RATE).is_empty():
        raise InputError(
            f"{run}: no run of {SWEEP_WORKLOAD} had writers at the full rate; allowed: campaigns"
            " with full in factors.rate"
        )
    if measurements.is_empty():
        raise InputError(f"{run}: no sample of {SWEEP_WORKLOAD} that counts")
    node_numbers, socket_count = _nodes_and_sockets(run, header, measurements)
    node_count = len(node_numbers)
    if comm_node is not None:
        if comm_node not in node_numbers:
            allowed = ", ".join(map(str, node_numbers))
            raise InputError(f"--comm-node: {comm_node} found; allowed: {allowed}")
        measurements = measurements.with_columns(pl.col("comm_node").fill_null(comm_node))
    if node_count > 1 and measurements["comm_node"].null_count():
        raise InputError(
            f"{run}: the machine has {node_count} NUMA nodes: name the node of the writers' buffers"
            " with --comm-node"
        )
    if node_count > 1 and measurements["comp_node"].null_count():
        raise InputError(
            f"{run}: {SWEEP_WORKLOAD} ran without a NUMA node (set `node` in the campaign)"
        )
    placement = pl.col("comp_node", "comm_node")
    measurements = measurements.with_columns(placement.fill_null(node_numbers[0]))
    model_measurements = measurements.filter(pl.all_horizontal(placement.is_in(node_numbers)))
    if model_measurements.is_empty():
        raise InputError(
            f"{run}: all cases use a NUMA node without cores; the model has no such nodes"
        )
    model_measurements = model_measurements.with_columns(
        placement.replace(node_numbers, range(node_count))
    )
    notes = _notes(model_measurements)
    if model_measurements.height < measurements.height:
        notes.append(
            "placements on NUMA nodes without cores are left out: the model has no such nodes"
        )
    if node_numbers[-1] >= node_count:
        renumbered = (f"{number} is {index}" for index, number in enumerate(node_numbers))
        notes.append(f"NUMA nodes are numbered without gaps here: {', '.join(renumbered)}")
    groups = model_measurements.partition_by(
        "n", "comp_node", "comm_node", as_dict=True, maintain_order=True
    )
    for (n, comp, comm), group in groups.items():
        cases = group["case"].unique(maintain_order=True)
        if len(cases) > 1:
            raise InputError(
                f"{run}: {', '.join(cases)}: each measured {plural(n, 'core')}, data on node"
                f" {node_numbers[comp]} and buffers on {node_numbers[comm]}; a model is fitted to"
                " one kind of load"
            )
    points = []
    for (n, comp, comm), group in groups.items():
        effects = group.filter(role="effect")
        points.append(
            Point(
                n=int(n),
                comp_node=int(comp),
                comm_node=int(comm),
                comp_alone_b_s=median_of(group.filter(role="baseline")["fom"]),
                comm_alone_b_s=median_of(effects["comm_alone_b_s"]),
                comp_par_b_s=median_of(effects["fom"]),
                comm_par_b_s=median_of(effects["comm_par_b_s"]),
            )
        )
    return Sweep(
        name=header.machine,
        cores=max(point.n for point in points),
        numa_per_socket=max(1, node_count // socket_count),
        numa_nodes=node_count,
        points=points,
        notes=notes,
    )


def _runs_of_kernel(samples: pl.DataFrame, kernel: str | None, run: Path) -> pl.DataFrame:
    """Return the runs of one kernel, at the first levels of factors outside `_POINT_FACTORS`."""
    arms = samples.select(pl.col("arm", "factors").cast(pl.String)).unique(maintain_order=True)
    kernels = {arm: parsed_levels(text).get("kernel") for arm, text in arms.iter_rows()}
    if kernel is not None and kernel not in kernels.values():
        names = {str(name) for name in kernels.values() if name is not None}
        measured_kernels = ", ".join(sorted(names)) or "-"
        raise InputError(
            f"--kernel: {kernel} was not measured in {run}; allowed: {measured_kernels}"
        )

    def is_used(arm: str) -> bool:
        # An arm names only the factors that are not at their first level.
        _, levels = arm_and_levels(arm)
        changed = levels.keys() - _POINT_FACTORS
        if kernel is None:
            return not changed
        return kernels[arm] == kernel and changed <= {"kernel"}

    used_arms = [arm for arm in kernels if is_used(arm)]
    return samples.filter(pl.col("arm").cast(pl.String).is_in(used_arms))


def _measurements(samples: pl.DataFrame) -> pl.DataFrame:
    """Return baselines and effects that count, with columns `n`, `comp_node` and `comm_node`.

    A node is null if the run was not bound to one.

    A baseline is repeated for each `comm_node` of the effects that are paired with it, also of
    those that do not count. `comm_alone_b_s` and `comm_par_b_s` are rates that the target's device
    counted, if it counted both. Otherwise they are rates that the writers reported.
    """
    judged = judge_samples(samples)
    all_effects = judged.filter(pl.col("role") == "effect", _IS_AT_FULL_RATE)
    runs, effects = judged.filter(status="counts"), all_effects.filter(status="counts")
    pairings = all_effects.select("case", "comm_node", arm="baseline").unique(maintain_order=True)
    placed = pairings.drop_nulls("comm_node")
    nodes = pl.concat([placed, pairings.join(placed, on=["case", "arm"], how="anti")])
    baselines = (
        runs.filter(pl.col("role") == "baseline")
        .drop("comm_node")
        .join(nodes, on=["case", "arm"], how="left", maintain_order="left")
    )
    runs = pl.concat([baselines.select(runs.columns), effects])
    is_counted = pl.col("counted_alone_b_s").is_not_null() & pl.col("counted_b_s").is_not_null()
    return runs.with_columns(
        n=extra_figure("cores").cast(pl.Int64),
        comp_node=extra_figure("node").cast(pl.Int64),
        streaming=extra_figure("streaming"),
        comm_alone_b_s=pl.when(is_counted)
        .then("counted_alone_b_s")
        .otherwise("writer_rate_alone_b_s"),
        comm_par_b_s=pl.when(is_counted).then("counted_b_s").otherwise("writer_rate_b_s"),
        counted=is_counted,
    ).drop_nulls("n")


def _nodes_and_sockets(
    run: Path, header: RunHeader, samples: pl.DataFrame
) -> tuple[list[int], int]:
    """Return the numbers of the target's NUMA nodes that have cores, and its number of sockets.

    The target's agent recorded them. Without the agent's record, the numbers in the run's header
    are used. A node that has only memory belongs to no socket.
    """
    sample = samples.row(0, named=True)
    path = run / "provenance" / f"{sample['provenance']}.json"
    record = read_json(path) if path.is_file() else {}
    host = hosts_of(record).get(str(sample["nodes"])) or mapping_or_empty(header.facts.get("host"))
    numa_nodes, sockets = host.get("numa_nodes"), host.get("sockets")
    if not isinstance(numa_nodes, list):
        numa_nodes = []
    numbers = [
        node["number"]
        for node in map(mapping_or_empty, numa_nodes)
        if node.get("cpus", True) and isinstance(node.get("number"), int)
    ]
    if type(sockets) is not int or sockets < 1:
        sockets = 1
    return sorted(numbers) or [0], sockets


def _notes(samples: pl.DataFrame) -> list[str]:
    """Return the caveats of the samples, of their transport and of the source of their rates."""
    all_notes = samples["notes"].explode(empty_as_null=False)
    notes = list(map(str, all_notes.unique(maintain_order=True)))
    effects = samples.filter(role="effect")
    if not effects["counted"].all():
        notes.append(
            "rates of communications are as reported by the origin: no device counted them all"
        )
    if (effects["direction"] == "read").any():
        notes.append(
            "communications read the target's memory: its device sends data and receives none"
        )
    if (samples["streaming"] == 0).any():
        notes.append("computations' stores went through the caches, not around them")
    return list(dict.fromkeys([*notes, *emulation_caveats(samples["transport"])]))
