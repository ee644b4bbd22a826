"""The contention model of a machine: ten parameters for each of two placements, and their rates.

The parameters have the names of section 3.1 of RR-9451 (Denis, Jeannot, Swartvagher), with the unit
appended. All rates are in bytes per second. A sweep measures the rates over the number of computing
cores. A parameter that a sweep does not determine is None. A rate that needs this parameter is NaN.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from records.errors import InputError
from records.json_limits import read_json, validated

#: Largest number of cores per socket in a model's file.
MAX_CORES = 4096
#: Largest number of NUMA nodes in a model's file. It is limited since each pair is predicted.
MAX_NUMA_NODES = 256
#: Largest rate in a model's file.
MAX_RATE_B_S = 1e30
#: Number of the model file's schema.
SCHEMA = 4

#: A number of cores of a socket, or a number of its NUMA nodes.
_CountInSocket = Annotated[int, Field(ge=1, le=MAX_CORES)]
#: Bytes per second.
Rate = Annotated[float, Field(ge=0, le=MAX_RATE_B_S)]
_Share = Annotated[float, Field(ge=0, le=1)]
#: Bytes per second lost with each further core; negative if the total grows.
_LossPerCore = Annotated[float, Field(ge=-MAX_RATE_B_S, le=MAX_RATE_B_S)]


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The ten parameters of a placement: computations and communications on the same NUMA node."""

    #: Number of computing cores at which the rates of both sides have the largest sum.
    n_par_max: _CountInSocket | None
    #: This largest sum, the total rate.
    t_par_max_b_s: Rate | None
    #: Total rate with `n_seq_max` cores. If `n_par_max` is larger, the rate is not measured: the
    #: line that holds beyond `n_par_max` is extended back to `n_seq_max`.
    t_par_max2_b_s: Rate | None
    #: Number of computing cores at which computations alone have their largest rate.
    n_seq_max: _CountInSocket | None
    #: This largest rate of computations alone.
    t_seq_max_b_s: Rate | None
    #: Loss of the total rate with each further core between the two maxima.
    delta_l_b_s: _LossPerCore | None
    #: Loss of the total rate with each further core beyond both maxima.
    delta_r_b_s: _LossPerCore | None
    #: Rate of one computing core alone.
    b_comp_seq_b_s: Rate | None
    #: Rate of communications alone.
    b_comm_seq_b_s: Rate | None
    #: Share of the rate of communications alone that they keep in the worst case.
    alpha: _Share | None


#: The parameters if nothing was measured.
UNKNOWN = Parameters(**dict.fromkeys((parameter.name for parameter in fields(Parameters)), None))


@dataclass(frozen=True, kw_only=True)
class Model:
    """The model of a machine: two calibrated placements, and the topology that combines them."""

    name: str
    #: The largest number of computing cores that can be predicted. For a published model, it is the
    #: number of cores of the first socket. For others, it is the largest number measured on a
    #: calibrated placement.
    cores: _CountInSocket
    #: Number of NUMA nodes of one socket (#m of equations 7 and 8).
    numa_per_socket: _CountInSocket
    #: Number of NUMA nodes of the machine.
    numa_nodes: Annotated[int, Field(ge=1, le=MAX_NUMA_NODES)]
    local: Parameters
    #: None if no NUMA node on another socket exists, or if the points there cannot be fitted.
    remote: Parameters | None
    #: True if the parameters come from the literature.
    published: bool = False
    #: `local` or `remote` -> largest number of cores measured there, if this is below `cores`.
    #: Beyond this number, only communications alone are predicted.
    reach: dict[str, _CountInSocket] = field(default_factory=dict)
    #: `local` or `remote` -> parameter, or `all` if none is known -> why it is unknown.
    unidentified: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Caveats of the sweep, to show with every figure made from the model.
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the model as written to its file."""
        return {"schema": SCHEMA} | asdict(self)

    def calibrated_nodes(self) -> tuple[int, ...]:
        """Return the NUMA nodes that held data and buffers when the parameters were measured."""
        return (0,) if self.remote is None else (0, self.numa_per_socket)

    def calibration(self, node: int) -> str:
        """Return whether `local` or `remote` parameters predict the placements on a NUMA node."""
        return "local" if node < self.numa_per_socket or self.remote is None else "remote"


def load_model(path: Path) -> Model:
    """Return the model in a file. Raises InputError with file and field."""
    document = read_json(path)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise InputError(f"{path}: not a model file; allowed: a mapping with schema {SCHEMA}")
    return validated(Model, document, path)


# Rates of computations and communications on one placement, bytes per second: equations 1 to 6 of
# the paper.
#
# A rate is NaN if the equation needs an unknown parameter. A capacity that no sweep reached
# (`t_par_max_b_s` or `t_seq_max_b_s` is None) does not limit any rate.


Rates = NDArray[np.float64]
CoreCounts = NDArray[np.int64]


def or_nan(value: float | None) -> float:
    """Return the value; NaN for None."""
    return np.nan if value is None else value


def memory_rate(p: Parameters, n: CoreCounts) -> Rates:
    """Return the total rate of the memory with `n` computing cores and communications: equation 1.

    If `n_par_max` exceeds `n_seq_max`, the case between the maxima does not occur.
    """
    if p.t_par_max_b_s is None or p.n_par_max is None:
        return np.full(n.shape, np.inf)
    n_seq = np.inf if p.n_seq_max is None else p.n_seq_max
    between_maxima = p.t_par_max_b_s - or_nan(p.delta_l_b_s) * (n - p.n_par_max)
    beyond_maxima = or_nan(p.t_par_max2_b_s) - or_nan(p.delta_r_b_s) * (n - n_seq)
    falling = np.where(n <= n_seq, between_maxima, beyond_maxima)
    return np.where(n <= p.n_par_max, p.t_par_max_b_s, falling)


def computations_alone(p: Parameters, n: CoreCounts) -> Rates:
    """Return the rate of `n` computing cores without communications: equation 6."""
    limit = np.inf if p.t_seq_max_b_s is None else p.t_seq_max_b_s
    capacity = np.clip(memory_rate(p, n), 0.0, limit)
    rates: Rates = np.minimum(n * or_nan(p.b_comp_seq_b_s), capacity)
    return rates


def rates_together(p: Parameters, n: CoreCounts) -> tuple[Rates, Rates]:
    """Return the rates of computations and of communications, both running: equations 2 to 5.

    `n` must be 1, 2, ... without gaps, because equation 5 refers to the last number of cores whose
    demand fits the capacity. If not even one core fits, this last number is 0, at which
    communications have their full rate.
    """
    alone_b_s = or_nan(p.b_comm_seq_b_s)
    alpha = 0.0 if alone_b_s == 0 else or_nan(p.alpha)
    capacity = memory_rate(p, n)
    demand = n * or_nan(p.b_comp_seq_b_s)
    unbounded = np.isinf(capacity)
    is_below_capacity = unbounded | (demand + alpha * alone_b_s < capacity)
    comm_below_capacity = np.where(unbounded, alone_b_s, np.minimum(capacity - demand, alone_b_s))
    comm = np.where(
        is_below_capacity,
        comm_below_capacity,
        _kept_share(p, n, is_below_capacity, comm_below_capacity) * alone_b_s,
    )
    comm = np.where(np.isnan(capacity) | (np.isnan(demand) & ~unbounded), np.nan, comm)
    return np.minimum(demand, np.maximum(capacity - comm, 0.0)), comm


def _kept_share(
    p: Parameters, n: CoreCounts, is_below_capacity: NDArray[np.bool_], comm_below_capacity: Rates
) -> Rates:
    """Return the share of their rate alone that communications keep: equation 5, algorithm 2."""
    alpha = or_nan(p.alpha) if p.b_comm_seq_b_s else 0.0
    if p.n_seq_max is None or p.n_par_max is None or p.n_seq_max - p.n_par_max <= 1:
        return np.full(n.shape, alpha)
    last_fitting = np.maximum.accumulate(np.where(is_below_capacity, n, 0))
    # The first share is for 0 cores.
    shares = np.concatenate(([1.0], comm_below_capacity / (p.b_comm_seq_b_s or 1.0)))
    share = shares[last_fitting]
    falls = n < p.n_seq_max
    step = (share - alpha) / np.where(falls, p.n_seq_max - last_fitting, 1)
    return np.where(falls, share - step * (n - last_fitting), alpha)


# Rates on any placement.


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The rates on one placement. Every array has a value for each number of cores in `n`."""

    comp_node: int
    comm_node: int
    n: CoreCounts
    comp_par_b_s: Rates
    comm_par_b_s: Rates
    comp_alone_b_s: Rates
    comm_alone_b_s: Rates


def predict(model: Model, comp_node: int, comm_node: int) -> Prediction:
    """Return the rates with data on NUMA node `comp_node` and buffers on `comm_node`.

    Equations 7 and 8 (algorithms 3 and 4) choose the placement's parameters. Raises InputError for
    a node that the machine or its model does not have.
    """
    for option, node in (("--comp-node", comp_node), ("--comm-node", comm_node)):
        if not 0 <= node < model.numa_nodes:
            last_node = model.numa_nodes - 1
            raise InputError(f"{option} {node}: {model.name} has NUMA nodes 0 to {last_node}")
        if node >= model.numa_per_socket and model.remote is None:
            raise InputError(f"{option} {node}: {model.name} has no fitted remote placement")
    n = np.arange(1, model.cores + 1)
    same_node = comp_node == comm_node
    comp_parameters, comp_calibration = _parameters(model, comp_node), model.calibration(comp_node)
    alone_b_s = _parameters(model, comm_node).b_comm_seq_b_s
    if same_node:
        comm_parameters, comm_calibration = comp_parameters, comp_calibration
    else:
        comm_parameters = replace(model.local, b_comm_seq_b_s=alone_b_s)
        comm_calibration = "local"

    def within_reach(rates: Rates, calibration: str) -> Rates:
        """Return the rates, NaN beyond the numbers of cores measured for these parameters."""
        return np.where(n <= model.reach.get(calibration, model.cores), rates, np.nan)

    comp, comm = rates_together(comm_parameters, n)
    comp_alone = computations_alone(comp_parameters, n)
    return Prediction(
        comp_node=comp_node,
        comm_node=comm_node,
        n=n,
        comp_par_b_s=within_reach(comp if same_node else comp_alone, comp_calibration),
        comm_par_b_s=within_reach(comm, comm_calibration),
        comp_alone_b_s=within_reach(comp_alone, comp_calibration),
        comm_alone_b_s=np.full(n.shape, or_nan(alone_b_s)),
    )


def placements(model: Model) -> list[tuple[int, int]]:
    """Return all placements (computations' node, communications' node) that can be predicted."""
    nodes = range(model.numa_nodes if model.remote is not None else model.numa_per_socket)
    return [(comp, comm) for comp in nodes for comm in nodes]


def _parameters(model: Model, node: int) -> Parameters:
    """Return the local parameters for a node of the first socket, else the remote parameters."""
    return model.remote if model.remote and model.calibration(node) == "remote" else model.local
