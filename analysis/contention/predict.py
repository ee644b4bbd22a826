"""Rates of computations and communications that run together, on any placement, by any model.

Rates are bytes per second; NaN if a parameter that the equations need is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from analysis.contention import parameters
from analysis.contention.parameters import (
    Band,
    Bands,
    Cores,
    Model,
    Parameters,
    Rates,
    alone,
    known,
    shared,
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

    Raises InputError for a node that the machine or its model does not have.
    """
    for option, node in (("--comp-node", comp_node), ("--comm-node", comm_node)):
        check_node(model, node, option)
    found = _by_the_paper(model, comp_node, comm_node)
    return found if model.kind == "paper" else _improved(model, found)


def _by_the_paper(model: Model, comp_node: int, comm_node: int) -> Prediction:
    """Equations 7 and 8 (algorithms 3 and 4) choose the placement's parameters."""
    n = np.arange(1, model.cores + 1)
    same, nominal = comp_node == comm_node, side(model, comm_node).b_comm_seq_b_s
    comp_side, comp_at = side(model, comp_node), model.calibration(comp_node)
    comm_side = comp_side if same else replace(model.local, b_comm_seq_b_s=nominal)

    def measured(rates: Rates, at: str) -> Rates:
        """NaN beyond the numbers of cores measured for these parameters."""
        return np.where(n <= model.reach.get(at, model.cores), rates, np.nan)

    comp_alone = measured(alone(comp_side, n), comp_at)
    return Prediction(
        comp_node=comp_node,
        comm_node=comm_node,
        n=n,
        comp_par_b_s=measured(shared(comp_side, n)[0], comp_at) if same else comp_alone,
        comm_par_b_s=measured(shared(comm_side, n)[1], comp_at if same else "local"),
        comp_alone_b_s=comp_alone,
        comm_alone_b_s=np.full(n.shape, known(nominal)),
        bands=model.bands_at(comp_node, comm_node),
    )


def _improved(model: Model, paper: Prediction) -> Prediction:
    """The paper's prediction with what the model's shapes and rates of each node change.

    A placement without a shape keeps the paper's equations.
    """
    n, same = paper.n, paper.comp_node == paper.comm_node
    comp_side, comp_at = side(model, paper.comp_node), model.calibration(paper.comp_node)
    comp_shape = model.shapes.get(comp_at)
    comm_shape = model.shapes.get(comp_at if same else "local")
    before = float(paper.comm_alone_b_s[0])
    nominal = model.comm_alone_b_s.get(paper.comm_node, before)
    if comm_shape is None:
        comm = paper.comm_par_b_s * (nominal / before if before else 1.0)
    else:
        alpha = (comp_side if same else model.local).alpha
        # Unknown beyond the measured numbers of cores, as in the paper's model.
        unknown = np.isnan(paper.comm_par_b_s)
        comm = np.where(unknown, np.nan, nominal * parameters.improved_share(comm_shape, alpha, n))
    comp, comp_alone = paper.comp_par_b_s, paper.comp_alone_b_s
    if comp_shape is not None:
        of = (comp_side, comp_shape, model.groups, n)
        comp_alone = np.where(np.isnan(comp_alone), np.nan, parameters.improved_alone(*of))
        comp = parameters.improved_together(*of, comm) if same else comp_alone
    return replace(
        paper,
        comp_par_b_s=comp,
        comm_par_b_s=comm,
        comp_alone_b_s=comp_alone,
        comm_alone_b_s=np.full(n.shape, nominal),
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
