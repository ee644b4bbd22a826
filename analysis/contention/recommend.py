"""Recommends a number of computing cores and a NUMA node for communication buffers.

An application step computes and communicates at the same time and ends with the later of the two.
It can use some number of cores, each with a demand for memory bandwidth, and receives some traffic.
Demand below the calibration's replaces it in the model: a core uses no more than the application's
rate, the network no more than the traffic, and the floor of communications stays the same in bytes
per second. Kernel and message size of the calibration were chosen for maximum contention, so real
applications should suffer no more than predicted here (section 4.3.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from analysis.contention.parameters import (
    Model,
    Parameters,
    Prediction,
    Shape,
    alone,
    placements,
    predict,
    side,
    total,
)
from nimc.base.errors import InputError

#: Choices within this much of the best count as equal; the one with the fewest cores wins.
EQUAL = 0.01


@dataclass(frozen=True)
class Need:
    """An application's demand on a node; None means as much as in the calibration.

    A larger demand is an error.
    """

    #: Cores that it can use for computing.
    cores: int
    #: Memory bandwidth that each of them uses, bytes per second.
    per_core_b_s: float | None = None
    #: Incoming traffic, bytes per second.
    traffic_b_s: float | None = None


@dataclass(frozen=True)
class Choice:
    """A number of cores and a placement, with the predicted rates and time."""

    n: int
    comp_node: int
    comm_node: int
    comp_b_s: float
    comm_b_s: float
    #: Time of a step, relative to one in which all demands are met.
    slowdown: float
    #: The same at both ends of the model's error bands; as `slowdown` if it has none.
    slowdown_low: float
    slowdown_high: float
    #: Extra time of a step, relative to the shortest (0.2: a fifth longer).
    cost: float = 0.0
    #: Whether that is too little to tell from the shortest: within EQUAL, or the bands overlap.
    tied: bool = False


@dataclass(frozen=True)
class Recommendation:
    """The best choice, and the cost of the others."""

    best: Choice
    #: All placements with the same data node for computations, each with its best number of cores.
    placements: list[Choice]
    #: The recommended placement with other numbers of cores.
    cores: list[Choice]
    #: Where a rate follows from an artefact of the equations.
    notes: list[str]


def recommend(model: Model, need: Need, comp_node: int = 0) -> Recommendation:
    """The choice with the shortest step; among equals, the one with the fewest cores.

    Raises InputError if the model cannot predict any placement of that node, or if the need exceeds
    the measured cores and rates.
    """
    if not 1 <= need.cores <= model.cores:
        raise InputError(f"--cores: {need.cores} found; allowed: 1 to {model.cores}")
    sides = [p for p in (model.local, model.remote) if p]
    _within("--per-core", need.per_core_b_s, [p.b_comp_seq_b_s for p in sides])
    if need.traffic_b_s != 0:
        _within("--traffic", need.traffic_b_s, [p.b_comm_seq_b_s for p in sides])
    requested = _requested(model, need)
    traffic_b_s = max(p.b_comm_seq_b_s or 0.0 for p in (requested.local, requested.remote) if p)
    by_node = {
        node: _choices(_monotone(model, requested, comp_node, node), need, traffic_b_s)
        for comp, node in placements(requested)
        if comp == comp_node
    }
    choices = list(chain(*by_node.values()))
    if not choices:
        raise InputError(f"--comp-node {comp_node}: nothing can be predicted for it")
    shortest = min(choices, key=lambda choice: choice.slowdown)

    def cost(choice: Choice) -> Choice:
        longer = choice.slowdown / shortest.slowdown - 1
        overlap = choice.slowdown_low <= shortest.slowdown_high
        return replace(choice, cost=longer, tied=longer <= EQUAL or overlap)

    best = cost(_best(choices))
    of_nodes = [cost(_best(group)) for group in by_node.values() if group]
    shape = requested.shapes.get(requested.calibration(comp_node))
    return Recommendation(
        best=best,
        placements=sorted(of_nodes, key=lambda c: c.cost),
        cores=list(map(cost, by_node[best.comm_node])),
        notes=[] if shape else _artefacts(side(requested, comp_node), need),
    )


def _artefacts(p: Parameters, need: Need) -> list[str]:
    """A note if equation 6 cuts off computations alone, which nothing else limits there."""
    n = np.arange(1, need.cores + 1)
    wanted = n * (p.b_comp_seq_b_s or 0.0)
    others = np.minimum(wanted, np.inf if p.t_seq_max_b_s is None else p.t_seq_max_b_s)
    cut = n[alone(p, n) < 0.99 * others]
    if not cut.size:
        return []
    return [
        f"from {cut[0]} cores on, computations alone are limited by the total of both sides"
        " (equation 6), not by a measurement: more cores may do better than shown"
    ]


def _within(option: str, asked_b_s: float | None, reached_b_s: list[float | None]) -> None:
    """Raises InputError for a rate that was not reached anywhere; unknown rates are no limit."""
    most = max((rate for rate in reached_b_s if rate is not None), default=math.inf)
    if asked_b_s is not None and not 0 < asked_b_s <= most:
        raise InputError(
            f"{option}: {asked_b_s / 1e9:g} GB/s found; allowed: above 0 and at most the rate"
            f" reached alone, {most / 1e9:.2f} GB/s, which is the default"
        )


def _requested(model: Model, need: Need) -> Model:
    """The model with the need's demand in place of the calibration's."""
    sides = {"local": model.local, "remote": model.remote or model.local}
    most_b_s = math.inf if need.traffic_b_s is None else need.traffic_b_s
    return replace(
        model,
        local=_lowered(model.local, need),
        remote=model.remote and _lowered(model.remote, need),
        shapes={
            name: shape and _shape(shape, sides[name], need) for name, shape in model.shapes.items()
        },
        comm_alone_b_s={node: min(b_s, most_b_s) for node, b_s in model.comm_alone_b_s.items()},
    )


def _shape(shape: Shape, p: Parameters, need: Need) -> Shape:
    """The loss of communications as it is with the need's demand.

    It depends on what all cores want together, so cores that want less move it. Less traffic
    receives what it wants until no more than that is left.
    """
    cores = 1.0
    if need.per_core_b_s is not None and p.b_comp_seq_b_s is not None:
        cores = max(1.0, p.b_comp_seq_b_s / need.per_core_b_s)
    begin, end = shape.loss_from * cores, shape.loss_to * cores
    lost = 1 - (p.alpha or 0.0)
    if need.traffic_b_s is not None and p.b_comm_seq_b_s and lost > 0:
        unwanted = max(0.0, 1 - need.traffic_b_s / p.b_comm_seq_b_s)
        begin += (end - begin) * min(1.0, unwanted / lost)
    return replace(shape, loss_from=begin, loss_to=end)


def _lowered(p: Parameters, need: Need) -> Parameters:
    comp, comm, alpha = p.b_comp_seq_b_s, p.b_comm_seq_b_s, p.alpha
    if need.per_core_b_s is not None and comp is not None:
        comp = min(comp, need.per_core_b_s)
    if need.traffic_b_s is not None and comm is not None and need.traffic_b_s < comm:
        if alpha is not None:
            alpha = min(1.0, alpha * comm / need.traffic_b_s) if need.traffic_b_s else 1.0
        comm = need.traffic_b_s
    return replace(p, b_comp_seq_b_s=comp, b_comm_seq_b_s=comm, alpha=alpha)


def _monotone(model: Model, requested: Model, comp_node: int, comm_node: int) -> Prediction:
    """The prediction as requested; communications get no less than with more demand.

    Equation 5 starts from the last number of cores whose demand fits, so communications gain at a
    demand with which one core fewer does. The most of all demands up to the model's is taken.
    """
    p = predict(requested, comp_node, comm_node)
    at = requested.calibration(comp_node) if comp_node == comm_node else "local"
    if requested.shapes.get(at):
        return p  # the improved model has no such jump
    received = p.comm_par_b_s
    for demand in _steps(model, requested, comp_node, comm_node):
        more = replace(
            requested,
            local=replace(requested.local, b_comp_seq_b_s=demand),
            remote=requested.remote and replace(requested.remote, b_comp_seq_b_s=demand),
        )
        received = np.maximum(received, predict(more, comp_node, comm_node).comm_par_b_s)
    computed = p.comp_par_b_s
    if comp_node == comm_node:
        computed = np.minimum(computed, total(side(requested, comp_node), p.n) - received)
    return replace(p, comm_par_b_s=received, comp_par_b_s=computed)


def _steps(model: Model, requested: Model, comp_node: int, comm_node: int) -> list[float]:
    """Demands of a core, bytes per second, from which on one core fewer fits the capacity."""
    same = comp_node == comm_node
    most, p = (side(each, comp_node) if same else each.local for each in (model, requested))
    if p.t_par_max_b_s is None or p.b_comp_seq_b_s is None or most.b_comp_seq_b_s is None:
        return []
    n = np.arange(1, model.cores + 1)
    floor = (p.alpha or 0.0) * (side(requested, comm_node).b_comm_seq_b_s or 0.0)
    demands = (total(p, n) - floor) / n * (1 + 1e-9)
    inside = (p.b_comp_seq_b_s < demands) & (demands <= most.b_comp_seq_b_s)
    return [float(demand) for demand in demands[inside]]


def _choices(p: Prediction, need: Need, traffic_b_s: float) -> list[Choice]:
    """All numbers of cores on one placement that can be predicted."""
    per_core = float(p.comp_alone_b_s[0])
    # Below 1, so that the rate at the low end is positive.
    comp_width, comm_width = (
        min(band.width, 0.99) if (band := p.band(side)) else 0.0
        for side in ("comp_par", "comm_par")
    )
    found = []

    def slowdown(comp: float, comm: float) -> float:
        computing = need.cores * per_core / comp
        communicating = traffic_b_s / comm if traffic_b_s else 0.0
        return max(1.0, computing, communicating)

    for n in range(1, need.cores + 1):
        # With less traffic than calibrated, more is left than computations alone can take.
        comp = min(float(p.comp_par_b_s[n - 1]), float(p.comp_alone_b_s[n - 1]))
        comm = float(p.comm_par_b_s[n - 1])
        if np.isnan(comp) or np.isnan(comm) or comp <= 0 or (comm <= 0 < traffic_b_s):
            continue
        found.append(
            Choice(
                *(n, p.comp_node, p.comm_node, comp, comm),
                slowdown(comp, comm),
                slowdown(comp * (1 + comp_width), comm * (1 + comm_width)),
                slowdown(comp * (1 - comp_width), comm * (1 - comm_width)),
            )
        )
    return found


def _best(choices: list[Choice]) -> Choice:
    shortest = min(c.slowdown for c in choices)
    good = [c for c in choices if c.slowdown <= shortest * (1 + EQUAL)]
    return min(good, key=lambda c: (c.n, c.slowdown))
