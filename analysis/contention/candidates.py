"""First guesses of the parameters: one for each plausible pair of maxima.

The total is min(n B + C, T(n)) whatever the share of communications, so the capacity T is found
first, from totals alone, by robust least squares for every pair (n_par_max, n_seq_max) at once.
The share then follows from the communications.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from analysis.contention.curves import HUBER, OUTLIER, Array, Curves, bounded, deviation, residuals
from analysis.contention.parameters import Parameters

#: Noise assumed before it is estimated.
NOISE = 0.02
ROUNDS = 4
#: From so many numbers of cores on, a single measurement can be recognised as wrong.
ENOUGH = 12


def knee(n: NDArray[np.int64], rate: Array) -> tuple[float, float | None]:
    """Slope through the origin and plateau of a rate that scales, then saturates.

    Medians on both sides of the split with the least bounded loss; the plateau is None if no
    split fits better than a straight line.
    """
    best: tuple[float, float, float | None] | None = None
    for split in np.unique(n)[::-1]:
        slope = float(np.median((rate / n)[n <= split]))
        beyond = rate[n > split]
        plateau = float(np.median(beyond)) if beyond.size else None
        fitted = np.minimum(n * slope, np.inf if plateau is None else plateau)
        loss = float(bounded(deviation(fitted, rate), NOISE).sum()) + (plateau is not None)
        if best is None or loss < best[0]:
            best = (loss, slope, plateau)
    assert best is not None
    return best[1], best[2]


def capacities(
    c: Curves, b_comp: float, b_comm: float, pairs: NDArray[np.int64], *, trimmed: bool
) -> tuple[Array, Array]:
    """Capacity for each pair (n_par_max, n_seq_max), and its Huber loss on the totals.

    If `trimmed`, totals that are far off count no more in the end: where few are saturated, a wrong
    one moves the capacity.

    Returns coefficients of shape (pairs, 3), see `_basis`, and losses of shape (pairs,), infinite
    if the pair's flat part holds no saturated point, or if the total would still grow with further
    cores by more than the noise: the capacity is not reached there.
    """
    both = c.comp_par + c.comm_par
    seen = np.isfinite(both) & (both > 0)
    if not seen.any():
        return np.zeros((len(pairs), 3)), np.full(len(pairs), np.inf)
    n, totals = c.n[seen], both[seen]
    wanted = n * b_comp + b_comm
    basis = _basis(n, pairs)
    # Not the largest total: one that is too high would hide the capacity.
    lowest = float(np.median(totals[totals >= 0.9 * np.quantile(totals, 0.75)]))
    capacity = np.full((len(pairs), len(n)), lowest)
    solution = np.zeros((len(pairs), 3))
    for left in reversed(range(ROUNDS)):
        off = np.abs(deviation(capacity, totals)) / NOISE
        weight = np.minimum(1.0, HUBER / np.maximum(off, 1e-12))
        if trimmed and not left:
            weight[off > OUTLIER] = 0.0
        saturated = wanted > capacity
        w = np.where(saturated, weight, 0.0) / totals**2
        gram = np.einsum("pni,pn,pnj->pij", basis, w, basis)
        ridge = 1e-9 * np.trace(gram, axis1=1, axis2=2)[:, None, None] * np.eye(3)
        gram = gram + ridge + 1e-300 * np.eye(3)
        right = np.einsum("pni,pn,n->pi", basis, w, totals)
        solution = np.linalg.solve(gram, right[:, :, None])[:, :, 0]
        capacity = np.einsum("pni,pi->pn", basis, solution)
    loss = bounded(deviation(np.minimum(wanted, capacity), totals), NOISE).sum(axis=1)
    flat = (wanted > capacity) & (n <= pairs[:, :1])
    grown = capacity.max(axis=1) > (1 + 2 * NOISE) * capacity[:, 0]
    return solution, np.where(flat.any(axis=1) & ~grown, loss, np.inf)


def _basis(n: NDArray[np.int64], pairs: NDArray[np.int64]) -> Array:
    """Shape (pairs, n, 3): T(n) is linear in three numbers.

    Where n_par <= n_seq: T_par_max, delta_l, delta_r, continuous at both maxima. Otherwise
    T_par_max, T_par_max2, delta_r, with a step past n_par (equation 1).
    """
    n_par, n_seq = pairs[:, :1], pairs[:, 1:]
    continuous = np.stack(
        [
            np.ones((len(pairs), len(n))),
            -np.clip(np.minimum(n, n_seq) - n_par, 0, None),
            -np.clip(n - n_seq, 0, None),
        ],
        axis=2,
    ).astype(float)
    past = n > n_par
    stepped = np.stack([~past, past, -(n - n_seq) * past], axis=2).astype(float)
    basis: Array = np.where((n_par <= n_seq)[:, :, None], continuous, stepped)
    return basis


def candidates(
    c: Curves, b_comp: float, b_comm: float, t_seq: float | None
) -> Iterator[Parameters]:
    """Guesses for each n_seq_max: the best n_par_max, close before it, far before it, and after.

    If computations alone never saturate (`t_seq` is None) there is one guess, without n_seq_max.
    """
    numbers = [int(n) for n in np.unique(c.n)]
    n_seq_values = [numbers[-1]]
    if t_seq is not None:
        n_seq_values = [n for n in numbers if n >= int(t_seq / b_comp)] or n_seq_values
    pairs = np.array(
        [
            (n_par, n_seq)
            for n_seq in n_seq_values
            for n_par in numbers
            if _determined(numbers, n_par, n_seq)
        ]
    )
    gap = pairs[:, 1] - pairs[:, 0]
    inverted = (gap < 0) & (pairs[:, 0] < numbers[-1])
    kinds = (inverted, (gap >= 0) & (gap <= 1), gap > 1) if t_seq is not None else (gap >= 0,)
    trims = (False, True) if len(numbers) >= ENOUGH else (False,)
    found = [capacities(c, b_comp, b_comm, pairs, trimmed=trimmed) for trimmed in trims]
    for n_seq, kind in product(n_seq_values, kinds):
        guesses: list[Parameters] = []
        for solution, loss in found:
            mine = np.where((pairs[:, 1] == n_seq) & kind, loss, np.inf)
            best = int(np.argmin(mine))
            if np.isfinite(mine[best]):
                n_par = int(pairs[best, 0])
                guesses += _guesses(c, n_par, n_seq, solution[best], b_comp, b_comm, t_seq)
        if guesses:
            yield min(guesses, key=lambda p: float(bounded(residuals(p, c), NOISE).sum()))


def _determined(numbers: list[int], n_par: int, n_seq: int) -> bool:
    """Whether more numbers of cores were measured beyond the breaks than slopes and steps follow.

    Otherwise one measurement could decide one of them. Breaks at the last number have none beyond.
    """
    first, second = sorted((n_par, n_seq))
    beyond_first, beyond_second = (sum(n > at for n in numbers) for at in (first, second))
    if n_par > n_seq:  # a step and a slope
        return beyond_second == 0 or beyond_second > 2
    if beyond_second == 0:
        return beyond_first != 1
    return beyond_second > 1 and (beyond_first > 2 or first == second)


def _guesses(
    c: Curves,
    n_par: int,
    n_seq: int,
    solution: Array,
    b_comp: float,
    b_comm: float,
    t_seq: float | None,
) -> Iterator[Parameters]:
    t_par, second, delta_r = (float(x) for x in solution)
    inverted = n_par > n_seq
    open_ended = t_seq is None
    floor_from = n_seq if n_seq - n_par > 1 and not open_ended else 1
    t_par2 = second if inverted else t_par - second * (n_seq - n_par)
    without_share = Parameters(
        n_par_max=n_par,
        t_par_max_b_s=t_par,
        t_par_max2_b_s=None if open_ended else t_par2,
        n_seq_max=None if open_ended else n_seq,
        t_seq_max_b_s=t_seq,
        delta_l_b_s=0.0 if inverted else max(second, 0.0),
        delta_r_b_s=None if open_ended else delta_r,
        b_comp_seq_b_s=b_comp,
        b_comm_seq_b_s=b_comm,
        alpha=None,
    )
    for share in _shares(c, t_par, floor_from, b_comp, b_comm):
        yield replace(without_share, alpha=share)


def _shares(
    c: Curves, t_par: float, floor_from: int, b_comp: float, b_comm: float
) -> Iterator[float]:
    """Shares that communications may keep.

    Medians where they are at their floor, found iteratively from both ends: where few numbers of
    cores reach it, a wrong share at one of them may be the median from below.
    """
    seen = np.isfinite(c.comm_par)
    n, shares = c.n[seen], c.comm_par[seen] / b_comm if b_comm else np.ones(int(seen.sum()))
    for alpha in (0.0, 1.0):
        for _ in range(ROUNDS):
            floor = (n >= floor_from) & (n * b_comp + alpha * b_comm >= t_par)
            alpha = float(np.median(shares[floor if floor.any() else n == n.max()]))
        yield min(max(alpha, 0.0), 1.0)
