"""The paper's equations 1 to 6: rates of computations and communications on one placement.

Rates are bytes per second; NaN if a parameter that the equation needs is unknown. A capacity that
no sweep reached (`t_par_max_b_s` or `t_seq_max_b_s` is None) is no limit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.contention.parameters import Parameters

Rates = NDArray[np.float64]
Cores = NDArray[np.int64]


def known(value: float | None) -> float:
    """The value, NaN for None."""
    return np.nan if value is None else value


def total(p: Parameters, n: Cores) -> Rates:
    """Total rate of the memory with `n` computing cores and communications: equation 1.

    If `n_par_max` exceeds `n_seq_max` the second case is empty, by the paper's order of cases.
    """
    if p.t_par_max_b_s is None or p.n_par_max is None:
        return np.full(n.shape, np.inf)
    n_seq = np.inf if p.n_seq_max is None else p.n_seq_max
    left = p.t_par_max_b_s - known(p.delta_l_b_s) * (n - p.n_par_max)
    right = known(p.t_par_max2_b_s) - known(p.delta_r_b_s) * (n - n_seq)
    return np.where(n <= p.n_par_max, p.t_par_max_b_s, np.where(n <= n_seq, left, right))


def alone(p: Parameters, n: Cores) -> Rates:
    """Rate of `n` computing cores without communications: equation 6."""
    limit = np.inf if p.t_seq_max_b_s is None else p.t_seq_max_b_s
    rates: Rates = np.minimum(np.minimum(n * known(p.b_comp_seq_b_s), total(p, n)), limit)
    return rates


def shared(p: Parameters, n: Cores) -> tuple[Rates, Rates]:
    """Rates of computations and of communications that run together: equations 2 to 5.

    `n` must be 1, 2, ... without gaps, because equation 5 refers to the last number of cores whose
    demand fits the capacity. If not even one core fits, that number is 0, with communications at
    full rate. Returns (computations, communications).
    """
    nominal = known(p.b_comm_seq_b_s)
    alpha = 0.0 if nominal == 0 else known(p.alpha)
    capacity = total(p, n)
    wanted = n * known(p.b_comp_seq_b_s)
    unbounded = np.isinf(capacity)
    fits = unbounded | (wanted + alpha * nominal < capacity)
    comm_fitting = np.where(unbounded, nominal, np.minimum(capacity - wanted, nominal))
    comm = np.where(fits, comm_fitting, _alpha(p, n, fits, comm_fitting) * nominal)
    comm = np.where(np.isnan(capacity) | (np.isnan(wanted) & ~unbounded), np.nan, comm)
    comp = np.where(fits, wanted, capacity - comm)
    return np.where(np.isnan(comm), np.nan, comp), comm


def _alpha(p: Parameters, n: Cores, fits: NDArray[np.bool_], comm_fitting: Rates) -> Rates:
    """Share that communications keep: equation 5, following algorithm 2."""
    alpha = known(p.alpha) if p.b_comm_seq_b_s else 0.0
    if p.n_seq_max is None or p.n_par_max is None or p.n_seq_max - p.n_par_max <= 1:
        return np.full(n.shape, alpha)
    last = np.maximum.accumulate(np.where(fits, n, 0))
    shares = np.concatenate(([1.0], comm_fitting / (p.b_comm_seq_b_s or 1.0)))
    share = shares[last]
    between = n < p.n_seq_max
    step = (share - alpha) / np.where(between, p.n_seq_max - last, 1)
    return np.where(between, share - step * (n - last), alpha)
