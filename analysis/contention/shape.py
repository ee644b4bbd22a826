"""The improved model's rates on one placement, bytes per second.

It removes limits of the paper's equations (section 4.3.1 there):

- Communications lose bandwidth before the capacity is reached: their loss runs from a first to a
  last number of cores, which are fitted instead of following from the capacity.
- Cores scale imperfectly near the capacity: demand and capacity meet in a rounded knee,
  (a^-k + b^-k)^(-1/k), instead of at min(a, b).
- A group of cores (CCD, SNC domain) may have a capacity of its own, below the shared one. Its cores
  are independent of those of other groups, or in step with them.

With a sharp knee, no groups, and the loss placed by the paper's equations, it is the paper's model.
"""

from __future__ import annotations

import numpy as np

from analysis.contention.equations import Cores, Rates, known, total
from analysis.contention.parameters import Groups, Parameters, Shape


def soft_minimum(a: Rates, b: Rates, softness: float) -> Rates:
    """(a^-k + b^-k)^(-1/k) with k = 1 / softness; the minimum for a softness of 0.

    Written relative to the smaller one, so that nothing overflows.
    """
    low, high = np.minimum(a, b), np.maximum(a, b)
    if softness < 1e-3:
        return low
    ratio = np.where(np.isinf(high), 0.0, low / np.where(high > 0, high, 1.0))
    rounded: Rates = low * (1 + ratio ** (1 / softness)) ** (-softness)
    return rounded


def share(shape: Shape, alpha: float | None, n: Cores) -> Rates:
    """Share of their own rate that communications keep with `n` computing cores.

    All of it if `alpha`, what they keep in the worst case, is None.
    """
    lost = (n - shape.loss_from) / max(shape.loss_to - shape.loss_from, 1e-6)
    kept: Rates = 1 - (1 - (1.0 if alpha is None else alpha)) * np.clip(lost, 0.0, 1.0)
    return kept


def in_groups(groups: Groups, n: Cores) -> Cores:
    """Computing cores in each group; shape (len(n), groups.count)."""
    group = np.arange(groups.count)
    if groups.order == "spread":
        filled = (n[:, None] - group + groups.count - 1) // groups.count
    else:
        filled = n[:, None] - group * groups.size
    busy: Cores = np.clip(filled, 0, groups.size)
    return busy


def demand(p: Parameters, shape: Shape, groups: Groups | None, n: Cores) -> Rates:
    """Rate of `n` cores on a memory that limits nothing, with the limits of their groups."""
    per_core = known(p.b_comp_seq_b_s)
    if groups is None or shape.group_b_s is None:
        return n.astype(np.float64) * per_core
    busy = in_groups(groups, n)
    capacity: Rates = np.maximum(shape.group_b_s - shape.group_loss_b_s * (busy - 1), 0.0)
    rates = soft_minimum(busy.astype(np.float64) * per_core, capacity, shape.softness)
    if groups.in_step:
        paced: Rates = n * np.where(busy > 0, rates / np.maximum(busy, 1), np.inf).min(axis=1)
        return paced
    summed: Rates = rates.sum(axis=1)
    return summed


def alone(p: Parameters, shape: Shape, groups: Groups | None, n: Cores) -> Rates:
    """Rate of computations without communications."""
    limit = np.inf if p.t_seq_max_b_s is None else p.t_seq_max_b_s
    capacity = np.clip(total(p, n), 0.0, limit)
    return soft_minimum(demand(p, shape, groups, n), capacity, shape.softness)


def together(p: Parameters, shape: Shape, groups: Groups | None, n: Cores, comm: Rates) -> Rates:
    """Rate of computations while communications take `comm`."""
    left = np.maximum(total(p, n) - comm, 0.0)
    return soft_minimum(demand(p, shape, groups, n), left, shape.softness)
