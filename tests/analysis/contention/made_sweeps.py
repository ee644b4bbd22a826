"""Sweeps made from a model, with noise, to test the fit."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from analysis.contention.parameters import Model, placements, predict
from analysis.contention.sweep import Point, Sweep


def point(
    n: int, alone_b_s: tuple[float, float | None], parallel_b_s: tuple[float, float], node: int = 0
) -> Point:
    """Rates of computations and of communications on `n` cores, both on one NUMA node."""
    comp_alone_b_s, comm_alone_b_s = alone_b_s
    comp_par_b_s, comm_par_b_s = parallel_b_s
    return Point(
        n=n,
        comp_node=node,
        comm_node=node,
        comp_alone_b_s=comp_alone_b_s,
        comm_alone_b_s=comm_alone_b_s,
        comp_par_b_s=comp_par_b_s,
        comm_par_b_s=comm_par_b_s,
    )


def sweep(
    model: Model, seed: int, noise: float, node_pairs: Iterable[tuple[int, int]] | None = None
) -> Sweep:
    """A sweep of the model's machine, every rate multiplied by (1 + noise * N(0, 1)).

    `node_pairs`: the placements; None is all of them. Same seed, same sweep.
    """
    rng = np.random.default_rng(seed)
    points = []
    for comp_node, comm_node in placements(model) if node_pairs is None else node_pairs:
        p = predict(model, comp_node, comm_node)
        truth = np.stack([p.comp_alone_b_s, p.comm_alone_b_s, p.comp_par_b_s, p.comm_par_b_s])
        seen = truth * (1 + noise * rng.standard_normal(truth.shape))
        points += [
            Point(
                n=int(n),
                comp_node=comp_node,
                comm_node=comm_node,
                comp_alone_b_s=float(seen[0, i]),
                comm_alone_b_s=float(seen[1, i]),
                comp_par_b_s=float(seen[2, i]),
                comm_par_b_s=float(seen[3, i]),
            )
            for i, n in enumerate(p.n)
        ]
    return Sweep(
        name=model.name,
        cores=model.cores,
        numa_per_socket=model.numa_per_socket,
        numa_nodes=model.numa_nodes,
        points=points,
    )
