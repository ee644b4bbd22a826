"""Sweeps made from a model, with noise, to test the fit."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from analysis.contention.parameters import Model, placements, predict
from analysis.contention.sweep import Point, Sweep


def sweep(
    model: Model, seed: int, noise: float, where: Iterable[tuple[int, int]] | None = None
) -> Sweep:
    """A sweep of the model's machine, every rate multiplied by (1 + noise * N(0, 1)).

    `where` lists placements; None is all of them. Same seed, same sweep.
    """
    rng = np.random.default_rng(seed)
    points = []
    for comp_node, comm_node in placements(model) if where is None else where:
        p = predict(model, comp_node, comm_node)
        truth = np.stack([p.comp_alone_b_s, p.comm_alone_b_s, p.comp_par_b_s, p.comm_par_b_s])
        seen = truth * (1 + noise * rng.standard_normal(truth.shape))
        points += [
            Point(int(n), comp_node, comm_node, *(float(rate) for rate in seen[:, i]))
            for i, n in enumerate(p.n)
        ]
    return Sweep(model.name, model.cores, model.numa_per_socket, model.numa_nodes, points)
