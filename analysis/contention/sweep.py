"""Sweeps: measured rates over the number of computing cores, and the files that hold them.

JSON: `schema` 1, `name`, `cores`, `numa_per_socket`, `numa_nodes`, `groups`, `order`, `notes`, and
`points`, each with the fields of `Point`. CSV: a header of those fields and one line per point; the
machine's facts are then given as options. An empty cell, null or a missing field is a rate that was
not measured.
"""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from analysis.contention.parameters import Order, Parameters, Rate, alone, shared
from nimc.base.errors import InputError
from nimc.base.json_limits import parsed, read_text, validated

_Whole = Annotated[int, Field(ge=1)]
_Node = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class Point:
    """One number of computing cores on one placement; rates in bytes per second."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    n: _Whole
    comp_node: _Node
    comm_node: _Node
    #: Rate of all computing cores and of communications, each without the other.
    comp_alone_b_s: Rate | None = None
    comm_alone_b_s: Rate | None = None
    #: The same with both running.
    comp_par_b_s: Rate | None = None
    comm_par_b_s: Rate | None = None


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
    #: Cores of a group with a capacity of its own (CCD, SNC domain), a divisor of `cores`; None if
    #: not stated.
    groups: int | None = None
    #: How the computing cores fill the groups.
    order: Order = "compact"

    def as_dict(self) -> dict[str, Any]:
        """The sweep as written to its JSON file."""
        return {"schema": 1} | asdict(self)

    def at(self, comp_node: int, comm_node: int) -> list[Point]:
        """The points of one placement, by number of cores."""
        chosen = [p for p in self.points if (p.comp_node, p.comm_node) == (comp_node, comm_node)]
        return sorted(chosen, key=lambda p: p.n)

    def placements(self) -> list[tuple[int, int]]:
        """The placements that have points."""
        return sorted({(p.comp_node, p.comm_node) for p in self.points})


class _File(BaseModel):
    """A file of points; what it does not state is None."""

    name: str | None = None
    cores: _Whole | None = None
    numa_per_socket: _Whole | None = None
    numa_nodes: _Whole | None = None
    groups: _Whole | None = None
    order: Order = "compact"
    notes: list[str] = []
    points: Annotated[list[Point], Field(min_length=1)]


_FILE = TypeAdapter(_File)


def load(path: Path, facts: dict[str, Any] | None = None) -> Sweep:
    """The sweep in a JSON or CSV file.

    `facts` (`cores`, `numa_per_socket`, `numa_nodes`, `groups`, `order`) override those of the
    file. By default the socket has as many cores as the largest n and one NUMA node, and the
    machine as many nodes as the points name. Raises InputError with file and field.
    """
    try:
        text = read_text(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if path.suffix.lower() == ".csv":
        document: Any = {"points": _cells(text, path)}
    else:
        document = parsed(text, str(path))
        if not isinstance(document, dict) or document.get("schema") != 1:
            raise InputError(f"{path}: not a sweep; allowed: a mapping with schema 1")
    file: _File = validated(_FILE, document, path)
    nodes = 1 + max(max(p.comp_node, p.comm_node) for p in file.points)
    found = Sweep(
        name=file.name or path.stem,
        cores=file.cores or max(p.n for p in file.points),
        numa_per_socket=file.numa_per_socket or 1,
        numa_nodes=file.numa_nodes or nodes,
        points=file.points,
        notes=file.notes,
        groups=file.groups,
        order=file.order,
    )
    return overruled(found, facts or {}, path)


def _cells(text: bytes, path: Path) -> list[dict[str, str | None]]:
    """The lines of a CSV file; a cell that is empty or missing is None."""
    try:
        lines = csv.DictReader(text.decode().splitlines(), restkey="(cells beyond the header)")
        return [{name: cell or None for name, cell in line.items()} for line in lines]
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not CSV ({error})") from None


def overruled(sweep: Sweep, facts: dict[str, Any], path: Path) -> Sweep:
    """The sweep with those `facts` of `load` that are not None. Raises InputError if its points
    exceed them."""
    given = {name: value for name, value in facts.items() if value is not None}
    sweep = replace(sweep, **given)
    if sweep.groups is not None and sweep.cores % sweep.groups:
        raise InputError(
            f"{path}: groups: {sweep.groups} cores must divide the socket's {sweep.cores}"
        )
    for i, p in enumerate(sweep.points):
        if p.n > sweep.cores:
            raise InputError(
                f"{path}: points.{i}.n: {p.n} found; allowed: at most {sweep.cores}, the socket's"
                " cores"
            )
        if max(p.comp_node, p.comm_node) >= sweep.numa_nodes:
            raise InputError(
                f"{path}: points.{i}: nodes {p.comp_node} and {p.comm_node} found; allowed: below"
                f" {sweep.numa_nodes}, the machine's NUMA nodes"
            )
    return sweep


# The measured curves of one placement, and how far a model is from them.


Array = NDArray[np.float64]

#: Huber's constant: residuals up to this many standard deviations count by their square.
HUBER = 1.345
#: Residuals beyond this many standard deviations count alike when models are compared, so that one
#: measurement cannot pay for another break (its two parameters cost as much).
OUTLIER = 3.0


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


def curves(points: list[Point]) -> Curves:
    """The points of one placement as arrays."""

    def column(name: str) -> Array:
        rates = [getattr(p, name) for p in points]
        return np.array([np.nan if rate is None else rate for rate in rates], dtype=float)

    return Curves(
        n=np.array([p.n for p in points]),
        comp_alone=column("comp_alone_b_s"),
        comm_alone=column("comm_alone_b_s"),
        comp_par=column("comp_par_b_s"),
        comm_par=column("comm_par_b_s"),
    )


def deviation(predicted: Array, measured: Array) -> Array:
    """Relative difference, bounded to -2 .. 2 so that a rate of zero cannot outweigh the rest."""
    size = (np.abs(predicted) + np.abs(measured)) / 2
    return (predicted - measured) / np.where(size > 0, size, 1.0)


def residuals(p: Parameters, c: Curves) -> Array:
    """Relative differences of all four curves; 0 for rates that were not measured."""
    grid = np.arange(1, c.last + 1)
    at = c.n - 1
    comp, comm = shared(p, grid)
    silent = np.full(c.n.shape, p.b_comm_seq_b_s or 0.0)
    parts = (
        deviation(alone(p, grid)[at], c.comp_alone),
        deviation(silent, c.comm_alone),
        deviation(comp[at], c.comp_par),
        deviation(comm[at], c.comm_par),
    )
    return np.nan_to_num(np.concatenate(parts), nan=0.0)


def huber(residual: Array, scale: float) -> Array:
    """Huber's loss of residuals whose standard deviation is `scale`."""
    r = np.abs(residual) / scale
    return np.where(r <= HUBER, r * r / 2, HUBER * (r - HUBER / 2))


def bounded(residual: Array, scale: float) -> Array:
    """Huber's loss that no longer grows beyond OUTLIER."""
    return huber(np.clip(residual, -OUTLIER * scale, OUTLIER * scale), scale)


def spread(residual: Array) -> float:
    """Standard deviation estimated from the median absolute deviation; 0 without values."""
    return float(1.4826 * np.median(np.abs(residual))) if residual.size else 0.0
