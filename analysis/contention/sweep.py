"""Sweeps: measured rates over the number of computing cores, and the files that hold them.

JSON: `schema` 1, `name`, `cores`, `numa_per_socket`, `numa_nodes`, `groups`, `order`, `notes`, and
`points`, each with the fields of `Point`. CSV: a header of those fields and one line per point; the
machine's facts are then given as options. An empty cell, null or a missing field is a rate that was
not measured.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
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

    @property
    def at(self) -> tuple[int, int]:
        """Its placement."""
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
        return sorted((p for p in self.points if p.at == (comp_node, comm_node)), key=lambda p: p.n)

    def placements(self) -> list[tuple[int, int]]:
        """The placements that have points."""
        return sorted({p.at for p in self.points})

    def is_sample(self, at: tuple[int, int]) -> bool:
        """Whether a model is fitted to this placement."""
        return at in ((0, 0), (self.numa_per_socket, self.numa_per_socket))


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
        try:
            lines = csv.DictReader(text.decode().splitlines(), restkey="(cells beyond the header)")
            cells = [{name: cell or None for name, cell in line.items()} for line in lines]
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError(f"{path}: not CSV ({error})") from None
        document: Any = {"points": cells}
    else:
        document = parsed(text, str(path))
        if not isinstance(document, dict) or document.get("schema") != 1:
            raise InputError(f"{path}: not a sweep; allowed: a mapping with schema 1")
    file: _File = validated(_FILE, document, path)
    cores, nodes = max(p.n for p in file.points), 1 + max(max(p.at) for p in file.points)
    found: dict[str, Any] = {"name": path.stem, "numa_per_socket": 1}
    found |= {"cores": cores, "numa_nodes": nodes}
    found |= {name: value for name, value in vars(file).items() if value}
    return overruled(Sweep(**found), facts or {}, path)


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
        if max(p.at) >= sweep.numa_nodes:
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

    @property
    def rates(self) -> tuple[Array, Array, Array, Array]:
        """All four curves."""
        return self.comp_alone, self.comm_alone, self.comp_par, self.comm_par


def curves(points: Sequence[Point]) -> Curves:
    """The points of one placement as arrays."""
    rates = [(p.comp_alone_b_s, p.comm_alone_b_s, p.comp_par_b_s, p.comm_par_b_s) for p in points]
    return Curves(np.array([p.n for p in points]), *np.array(rates, float).reshape(-1, 4).T)


def deviation(predicted: Array, measured: Array) -> Array:
    """Relative difference, bounded to -2 .. 2 so that a rate of zero cannot outweigh the rest."""
    size = (np.abs(predicted) + np.abs(measured)) / 2
    return (predicted - measured) / np.where(size > 0, size, 1.0)


def residuals(p: Parameters, c: Curves) -> Array:
    """The `differences` of the paper's model."""
    grid = np.arange(1, c.last + 1)
    silent = np.full(grid.shape, p.b_comm_seq_b_s or 0.0)
    return differences((alone(p, grid), silent, *shared(p, grid)), c)


def differences(predicted: tuple[Array, Array, Array, Array], c: Curves) -> Array:
    """Relative differences from all four curves, predicted for 1 .. `c.last` cores.

    0 for rates that were not measured.
    """
    parts = [deviation(p[c.n - 1], seen) for p, seen in zip(predicted, c.rates, strict=True)]
    return np.nan_to_num(np.concatenate(parts), nan=0.0)


def huber(residual: Array, scale: float) -> Array:
    """Huber's loss of residuals whose standard deviation is `scale`."""
    r = np.abs(residual) / scale
    return np.where(r <= HUBER, r * r / 2, HUBER * (r - HUBER / 2))


def bounded(residual: Array, scale: float) -> Array:
    """Huber's loss that no longer grows beyond OUTLIER."""
    return huber(np.clip(residual, -OUTLIER * scale, OUTLIER * scale), scale)
