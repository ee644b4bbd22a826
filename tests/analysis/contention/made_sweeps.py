"""Makes points of sweeps, and sweeps that have a model's rates with noise.

A sweep has rates of computations and communications for several numbers of cores and placements.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from analysis.contention.parameters import Model, placements, predict
from analysis.contention.sweep import Point, Sweep


def point(
    cores: int,
    *,
    alone_b_s: tuple[float, float | None],
    together_b_s: tuple[float, float],
    node: int = 0,
) -> Point:
    """Return the point of a number of cores, with data and buffers on one NUMA node.

    `alone_b_s` and `together_b_s` have two rates: of computations, then of communications, B/s.
    """
    comp_alone_b_s, comm_alone_b_s = alone_b_s
    comp_par_b_s, comm_par_b_s = together_b_s
    return Point(
        n=cores,
        comp_node=node,
        comm_node=node,
        comp_alone_b_s=comp_alone_b_s,
        comm_alone_b_s=comm_alone_b_s,
        comp_par_b_s=comp_par_b_s,
        comm_par_b_s=comm_par_b_s,
    )


def noisy_sweep(
    model: Model, seed: int, noise: float, node_pairs: Iterable[tuple[int, int]] | None = None
) -> Sweep:
    """Return a sweep of a model's machine: each predicted rate times (1 + noise * N(0, 1)).

    `node_pairs` are the placements, as pairs of the node of the data and the node of the buffers.
    If it is None, the sweep has all placements. The same seed gives the same sweep.
    """
    rng = np.random.default_rng(seed)
    points = []
    for comp_node, comm_node in placements(model) if node_pairs is None else node_pairs:
        predicted = predict(model, comp_node, comm_node)
        rates_b_s = np.stack(
            [
                predicted.comp_alone_b_s,
                predicted.comm_alone_b_s,
                predicted.comp_par_b_s,
                predicted.comm_par_b_s,
            ]
        )
        measured_b_s = rates_b_s * (1 + noise * rng.standard_normal(rates_b_s.shape))
        for cores, (comp_alone, comm_alone, comp_par, comm_par) in zip(
            predicted.n, measured_b_s.T, strict=True
        ):
            points.append(
                Point(
                    n=int(cores),
                    comp_node=comp_node,
                    comm_node=comm_node,
                    comp_alone_b_s=float(comp_alone),
                    comm_alone_b_s=float(comm_alone),
                    comp_par_b_s=float(comp_par),
                    comm_par_b_s=float(comm_par),
                )
            )
    return Sweep(
        name=model.name,
        cores=model.cores,
        numa_per_socket=model.numa_per_socket,
        numa_nodes=model.numa_nodes,
        points=points,
    )
