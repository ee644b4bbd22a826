"""Rates of computations and communications that run together, on any placement, by any model.

Rates are bytes per second; NaN if a parameter that the equations need is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from analysis.contention.parameters import (
    SHARP,
    Band,
    Bands,
    Cores,
    Model,
    Parameters,
    Rates,
    alone,
    known,
    share,
    shared,
    together,
)
from nimc.base.errors import InputError


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
    #: None if nothing was held out of the fit.
    bands: Bands | None = None

    def band(self, rate: str) -> Band | None:
        """The band of a rate: `comp_par`, `comm_par` or `comp_alone`."""
        found: Band | None = getattr(self.bands, rate, None)
        return found


def predict(model: Model, comp_node: int, comm_node: int) -> Prediction:
    """Rates with the data of computations and of communications on the given NUMA nodes.

    Equations 7 and 8 (algorithms 3 and 4) choose the placement's parameters. The improved model
    changes what it has a shape or a node's own rate for. Raises InputError for a node that the
    machine or its model does not have.
    """
    for option, node in (("--comp-node", comp_node), ("--comm-node", comm_node)):
        check_node(model, node, option)
    n = np.arange(1, model.cores + 1)
    same = comp_node == comm_node
    comp_side, comp_at = side(model, comp_node), model.calibration(comp_node)
    of_socket = side(model, comm_node).b_comm_seq_b_s
    comm_side = comp_side if same else replace(model.local, b_comm_seq_b_s=of_socket)
    comm_at = comp_at if same else "local"
    comp_shape, comm_shape = model.shapes.get(comp_at), model.shapes.get(comm_at)
    nominal = model.comm_alone_b_s.get(comm_node, known(of_socket))

    def measured(rates: Rates, at: str) -> Rates:
        """NaN beyond the numbers of cores measured for these parameters."""
        return np.where(n <= model.reach.get(at, model.cores), rates, np.nan)

    calibrated = same and comp_node in model.calibrated_nodes()
    comp, by_paper = shared(comm_side, n)
    if comm_shape is None:
        comm = by_paper * (nominal / of_socket if of_socket else 1.0)
    else:
        kept = share(comm_shape, comm_side.alpha, n)
        comm = np.where(np.isnan(by_paper), np.nan, nominal * kept)
    comp_alone = alone(comp_side, n, comp_shape or SHARP, model.groups)
    if comp_shape:
        comp = together(comp_side, n, comm, comp_shape, model.groups)
    return Prediction(
        comp_node=comp_node,
        comm_node=comm_node,
        n=n,
        comp_par_b_s=measured(comp if same else comp_alone, comp_at),
        comm_par_b_s=measured(comm, comm_at),
        comp_alone_b_s=measured(comp_alone, comp_at),
        comm_alone_b_s=np.full(n.shape, nominal),
        bands=model.bands.get(comp_at if calibrated else "others"),
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
    return model.remote if model.remote and model.calibration(node) == "remote" else model.local
