"""Sweeps: measured rates over the number of computing cores, and the files that hold them.

JSON: `schema` 1, `name`, `cores`, `numa_per_socket`, `numa_nodes`, `groups`, `order`, `notes`, and
`points`, each with the fields of `Point`. CSV: a header of those fields and one line per point; the
machine's facts are then given as options. An empty cell, null or a missing field is a rate that was
not measured.
"""

from __future__ import annotations

import csv
import json
import math
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.contention.parameters import Parameters, alone, shared
from nimc.base.errors import InputError

#: How the computing cores fill the groups: one after the other, or each in turn.
ORDERS = ("compact", "spread")
#: No rate of a machine is larger, bytes per second.
MOST_B_S = 1e30
RATES = ("comp_alone_b_s", "comm_alone_b_s", "comp_par_b_s", "comm_par_b_s")


@dataclass(frozen=True)
class Point:
    """One number of computing cores on one placement; rates in bytes per second."""

    n: int
    comp_node: int
    comm_node: int
    #: Rate of all computing cores and of communications, each without the other.
    comp_alone_b_s: float | None = None
    comm_alone_b_s: float | None = None
    #: The same with both running.
    comp_par_b_s: float | None = None
    comm_par_b_s: float | None = None


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
    #: One of ORDERS.
    order: str = ORDERS[0]

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


def load(path: Path, facts: dict[str, Any] | None = None) -> Sweep:
    """The sweep in a JSON or CSV file.

    `facts` (`cores`, `numa_per_socket`, `numa_nodes`, `groups`, `order`) override those of the
    file. By default the socket has as many cores as the largest n and one NUMA node, and the
    machine as many nodes as the points name. Raises InputError with file and field.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not text ({error})") from None
    if path.suffix.lower() == ".csv":
        try:
            document: dict[str, Any] = {"points": list(csv.DictReader(text.splitlines()))}
        except csv.Error as error:
            raise InputError(f"{path}: not CSV ({error})") from None
    else:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: not JSON ({error})") from None
        if not isinstance(document, dict) or document.get("schema") != 1:
            raise InputError(f"{path}: not a sweep (`schema` must be 1)")
    rows = document.get("points")
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{path}: points: must be a list of at least one point")
    notes = document.get("notes") or []
    if not isinstance(notes, list):
        raise InputError(f"{path}: notes: must be a list of strings, not {notes!r}")
    points = [_point(row, f"{path}: point {i + 1}") for i, row in enumerate(rows)]
    defaults = {
        "cores": max(p.n for p in points),
        "numa_per_socket": 1,
        "numa_nodes": 1 + max(max(p.comp_node, p.comm_node) for p in points),
    }
    said = {
        name: _integer(document[name], f"{path}: {name}", 1)
        for name in (*defaults, "groups")
        if document.get(name) is not None
    }
    order = document.get("order") or ORDERS[0]
    if order not in ORDERS:
        raise InputError(f"{path}: order: must be {' or '.join(ORDERS)}, not {order!r}")
    found = Sweep(
        name=str(document.get("name") or path.stem),
        points=points,
        notes=[str(note) for note in notes],
        order=order,
        **(defaults | said),
    )
    return overruled(found, facts or {}, path)


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
                f"{path}: point {i + 1}: n {p.n} exceeds the socket's {sweep.cores} cores"
            )
        if max(p.comp_node, p.comm_node) >= sweep.numa_nodes:
            raise InputError(
                f"{path}: point {i + 1}: the machine has {sweep.numa_nodes} NUMA nodes"
            )
    return sweep


def _point(row: Any, where: str) -> Point:
    if not isinstance(row, dict):
        raise InputError(f"{where}: must be a mapping")
    if None in row:  # csv's key for cells beyond the header
        raise InputError(f"{where}: more cells than header columns")
    unknown = set(row) - {f.name for f in fields(Point)}
    if unknown:
        raise InputError(f"{where}: unknown field {min(map(str, unknown))!r}")
    return Point(
        n=_integer(row.get("n"), f"{where}: n", 1),
        comp_node=_integer(row.get("comp_node"), f"{where}: comp_node", 0),
        comm_node=_integer(row.get("comm_node"), f"{where}: comm_node", 0),
        **{name: _rate(row.get(name), f"{where}: {name}") for name in RATES},
    )


def _integer(value: Any, where: str, least: int) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = least - 1
    if number < least:
        raise InputError(f"{where}: must be a whole number of at least {least}, not {value!r}")
    return number


def _rate(value: Any, where: str) -> float | None:
    if value is None or value == "":
        return None
    try:
        rate = float(value)
    except (TypeError, ValueError, OverflowError):
        rate = math.nan
    if not 0 <= rate <= MOST_B_S:  # nor NaN
        raise InputError(f"{where}: must be 0 to {MOST_B_S:g} bytes per second, not {value!r}")
    return rate


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
