"""Rates of computations and communications that run together (equations 1 to 8).

Rates are bytes per second; NaN if a parameter that the equation needs is unknown. A capacity that
no sweep reached (`t_par_max_b_s` or `t_seq_max_b_s` is None) is no limit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from analysis.contention.parameters import Model, Parameters
from analysis.errors import InputError

Rates = NDArray[np.float64]
Cores = NDArray[np.int64]


@dataclass(frozen=True)
class Prediction:
    """One placement; every array has one value per number of cores in `n`."""

    comp_node: int
    comm_node: int
    n: Cores
    comp_par_b_s: Rates
    comm_par_b_s: Rates
    comp_alone_b_s: Rates
    comm_alone_b_s: Rates


def total(p: Parameters, n: Cores) -> Rates:
    """Total rate of the memory with `n` computing cores and communications: equation 1.

    If `n_par_max` exceeds `n_seq_max` the second case is empty, by the paper's order of cases.
    """
    if p.t_par_max_b_s is None or p.n_par_max is None:
        return np.full(n.shape, np.inf)
    n_seq = np.inf if p.n_seq_max is None else p.n_seq_max
    left = p.t_par_max_b_s - _known(p.delta_l_b_s) * (n - p.n_par_max)
    right = _known(p.t_par_max2_b_s) - _known(p.delta_r_b_s) * (n - n_seq)
    return np.where(n <= p.n_par_max, p.t_par_max_b_s, np.where(n <= n_seq, left, right))


def alone(p: Parameters, n: Cores) -> Rates:
    """Rate of `n` computing cores without communications: equation 6."""
    limit = np.inf if p.t_seq_max_b_s is None else p.t_seq_max_b_s
    rates: Rates = np.minimum(np.minimum(n * _known(p.b_comp_seq_b_s), total(p, n)), limit)
    return rates


def shared(p: Parameters, n: Cores) -> tuple[Rates, Rates]:
    """Rates of computations and of communications that run together: equations 2 to 5.

    `n` must be 1, 2, ... without gaps, because equation 5 refers to the last number of cores whose
    demand fits the capacity. If not even one core fits, that number is 0, with communications at
    full rate. Returns (computations, communications).
    """
    nominal = _known(p.b_comm_seq_b_s)
    alpha = 0.0 if nominal == 0 else _known(p.alpha)
    capacity = total(p, n)
    wanted = n * _known(p.b_comp_seq_b_s)
    unbounded = np.isinf(capacity)
    fits = unbounded | (wanted + alpha * nominal < capacity)
    comm_fitting = np.where(unbounded, nominal, np.minimum(capacity - wanted, nominal))
    comm = np.where(fits, comm_fitting, _alpha(p, n, fits, comm_fitting) * nominal)
    comm = np.where(np.isnan(capacity) | (np.isnan(wanted) & ~unbounded), np.nan, comm)
    comp = np.where(fits, wanted, capacity - comm)
    return np.where(np.isnan(comm), np.nan, comp), comm


def _alpha(p: Parameters, n: Cores, fits: NDArray[np.bool_], comm_fitting: Rates) -> Rates:
    """Share that communications keep: equation 5, following algorithm 2."""
    alpha = _known(p.alpha) if p.b_comm_seq_b_s else 0.0
    if p.n_seq_max is None or p.n_par_max is None or p.n_seq_max - p.n_par_max <= 1:
        return np.full(n.shape, alpha)
    last = np.maximum.accumulate(np.where(fits, n, 0))
    shares = np.concatenate(([1.0], comm_fitting / (p.b_comm_seq_b_s or 1.0)))
    share = shares[last]
    between = n < p.n_seq_max
    step = (share - alpha) / np.where(between, p.n_seq_max - last, 1)
    return np.where(between, share - step * (n - last), alpha)


def predict(model: Model, comp_node: int, comm_node: int) -> Prediction:
    """Rates with the data of computations and of communications on the given NUMA nodes.

    Equations 7 and 8 (algorithms 3 and 4) choose the placement's parameters. Raises InputError
    for a node that the machine or its model does not have.
    """
    for option, node in (("--comp-node", comp_node), ("--comm-node", comm_node)):
        check_node(model, node, option)
    n = np.arange(1, model.cores + 1)
    same = comp_node == comm_node
    comp_side = side(model, comp_node)
    comm_side = side(model, comm_node)
    comm_model = (
        comp_side if same else replace(model.local, b_comm_seq_b_s=comm_side.b_comm_seq_b_s)
    )
    comp_known = n <= _reach(model, comp_side)
    comm_known = comp_known if same else n <= _reach(model, model.local)
    comp_alone = np.where(comp_known, alone(comp_side, n), np.nan)
    comp_same = np.where(comp_known, shared(comp_side, n)[0], np.nan)
    return Prediction(
        comp_node=comp_node,
        comm_node=comm_node,
        n=n,
        comp_par_b_s=comp_same if same else comp_alone,
        comm_par_b_s=np.where(comm_known, shared(comm_model, n)[1], np.nan),
        comp_alone_b_s=comp_alone,
        comm_alone_b_s=np.full(n.shape, _known(comm_side.b_comm_seq_b_s)),
    )


def placements(model: Model) -> list[tuple[int, int]]:
    """All placements (computations' node, communications' node) that can be predicted."""
    nodes = range(model.numa_nodes if model.remote is not None else model.numa_per_socket)
    return [(comp, comm) for comp in nodes for comm in nodes]


def check_node(model: Model, node: int, option: str) -> None:
    """Raises InputError unless the model knows the NUMA node."""
    if not 0 <= node < model.numa_nodes:
        raise InputError(
            f"{option} {node}: {model.name} has NUMA nodes 0 to {model.numa_nodes - 1}"
        )
    if node >= model.numa_per_socket and model.remote is None:
        raise InputError(f"{option} {node}: no remote placement was measured on {model.name}")


def side(model: Model, node: int) -> Parameters:
    """The local parameters for nodes of the first socket, else the remote ones."""
    if node < model.numa_per_socket or model.remote is None:
        return model.local
    return model.remote


def _reach(model: Model, p: Parameters) -> int:
    """The largest number of cores measured for these parameters."""
    return model.reach.get("remote" if p is model.remote else "local", model.cores)


def _known(value: float | None) -> float:
    return np.nan if value is None else value
