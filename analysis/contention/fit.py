"""Fits the ten parameters to a sweep, robustly against noise and outliers.

The parameters minimise the sum of Huber losses of the relative deviations of all four curves at
once (computations and communications, alone and together), for every pair of maxima. Among pairs
the lowest information criterion wins, so that another break must improve the fit enough.
Parameters that the sweep does not determine are None with a reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from analysis.contention.parameters import UNKNOWN, Model, Parameters, alone, or_nan, total
from analysis.contention.sweep import (
    HUBER,
    OUTLIER,
    Array,
    Curves,
    Point,
    Sweep,
    bounded,
    curves,
    deviation,
    residuals,
)
from records.errors import InputError

# First guesses of the parameters: one for each plausible pair of maxima.
#
# The total is min(n B + C, T(n)) whatever the share of communications, so the capacity T is found
# first, from totals alone, by robust least squares for every pair (n_par_max, n_seq_max) at once.
# The share then follows from the communications.


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
    measured = np.isfinite(both) & (both > 0)
    if not measured.any():
        return np.zeros((len(pairs), 3)), np.full(len(pairs), np.inf)
    n, totals = c.n[measured], both[measured]
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


def candidates(c: Curves, base: Parameters) -> Iterator[Parameters]:
    """Guesses for each n_seq_max: the best n_par_max, close before it, far before it, and after.

    `base` has the rates of both sides alone. If its computations never saturate there is one
    guess, without n_seq_max.
    """
    b_comp, b_comm = or_nan(base.b_comp_seq_b_s), or_nan(base.b_comm_seq_b_s)
    t_seq = base.t_seq_max_b_s
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
    solved = [capacities(c, b_comp, b_comm, pairs, trimmed=trimmed) for trimmed in trims]
    for n_seq, kind in product(n_seq_values, kinds):
        guesses: list[Parameters] = []
        for solution, loss in solved:
            of_kind = np.where((pairs[:, 1] == n_seq) & kind, loss, np.inf)
            best = int(np.argmin(of_kind))
            if np.isfinite(of_kind[best]):
                n_par = int(pairs[best, 0])
                guesses += _guesses(c, base, n_par, n_seq, solution[best])
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
    c: Curves, base: Parameters, n_par: int, n_seq: int, solution: Array
) -> Iterator[Parameters]:
    """With each share that communications may keep.

    Medians where they are at their floor, found iteratively from both ends: where few numbers of
    cores reach it, a wrong share at one of them may be the median from below.
    """
    t_par, second, delta_r = (float(x) for x in solution)
    inverted = n_par > n_seq
    delta_l = 0.0 if inverted else max(second, 0.0)
    guess = replace(base, n_par_max=n_par, t_par_max_b_s=t_par, delta_l_b_s=delta_l)
    floor_from = 1
    if base.t_seq_max_b_s is not None:
        floor_from = n_seq if n_seq - n_par > 1 else 1
        t_par2 = second if inverted else t_par - second * (n_seq - n_par)
        guess = replace(guess, t_par_max2_b_s=t_par2, n_seq_max=n_seq, delta_r_b_s=delta_r)
    b_comp, b_comm = or_nan(base.b_comp_seq_b_s), or_nan(base.b_comm_seq_b_s)
    measured = np.isfinite(c.comm_par)
    n, rates = c.n[measured], c.comm_par[measured]
    shares = rates / b_comm if b_comm else np.ones_like(rates)
    for alpha in (0.0, 1.0):
        for _ in range(ROUNDS):
            floor = (n >= floor_from) & (n * b_comp + alpha * b_comm >= t_par)
            alpha = float(np.median(shares[floor if floor.any() else n == n.max()]))
        yield replace(guess, alpha=min(max(alpha, 0.0), 1.0))


#: Number of first guesses that are refined.
POLISHED = 5
#: Penalty for each core between n_seq_max and the knee of computations alone: tiny, but enough to
#: decide between pairs of maxima with equal predictions.
TIE_BREAK = 0.05
#: The most that the criterion takes for a parameter. A break or a capacity has two, so one wrong
#: measurement, which saves at most 6.26 (`OUTLIER`), cannot pay for it. More would hide a capacity
#: that only the last numbers of cores reach.
PRICE = 3.2
#: Up to this many numbers of cores, one of them may decide how much communications keep.
FEW = 3
#: The least standard deviation assumed of the relative noise.
NOISE_FLOOR = 0.005

#: Adjusted by least squares; the numbers of cores are searched.
CONTINUOUS = (
    "b_comp_seq_b_s",
    "b_comm_seq_b_s",
    "t_par_max_b_s",
    "t_par_max2_b_s",
    "t_seq_max_b_s",
    "delta_l_b_s",
    "delta_r_b_s",
    "alpha",
)
#: How far least squares may go, in multiples of the first guess. A slope may lose a third of the
#: capacity with one core.
_FARTHEST = {name: 3.0 for name in CONTINUOUS if not name.startswith("delta_")} | {"alpha": 1.0}
#: Rates that do not depend on the shared capacity.
ALONE = ("b_comp_seq_b_s", "b_comm_seq_b_s", "t_seq_max_b_s")


def fit(sweep: Sweep) -> Model:
    """The model of a sweep: local from node 0, remote from the first node of another socket.

    Where no communications were measured, it predicts computations alone. Raises InputError if
    there is nothing to fit on node 0.
    """
    local, unknown = _fit_placement(sweep, 0)
    unidentified, remote = {"local": unknown}, None
    node = sweep.numa_per_socket
    if sweep.numa_nodes <= node:
        unidentified["remote"] = {"all": "the machine has no NUMA node on another socket"}
    elif not _fits(sweep.at(node, node)):
        unidentified["remote"] = {"all": f"no point has both sides on node {node}"}
    else:
        remote, unidentified["remote"] = _fit_placement(sweep, node)
    nodes = {"local": 0} | ({} if remote is None else {"remote": node})
    reach = {name: max(p.n for p in sweep.at(at, at)) for name, at in nodes.items()}
    cores = max(reach.values())
    return Model(
        name=sweep.name,
        cores=cores,
        numa_per_socket=sweep.numa_per_socket,
        numa_nodes=sweep.numa_nodes,
        local=local,
        remote=remote,
        reach={name: last for name, last in reach.items() if last < cores},
        unidentified={placement: reason for placement, reason in unidentified.items() if reason},
        notes=sweep.notes,
    )


def _fits(points: list[Point]) -> bool:
    """Whether a point has both sides, or communications were measured nowhere at all."""
    if any(None not in (p.comp_par_b_s, p.comm_par_b_s) for p in points):
        return True
    silent = all(p.comm_par_b_s is None and p.comm_alone_b_s is None for p in points)
    return silent and any(p.comp_alone_b_s for p in points)


def _fit_placement(sweep: Sweep, node: int) -> tuple[Parameters, dict[str, str]]:
    """Parameters with both sides on `node` and, for each that is None, the reason."""
    points = sweep.at(node, node)
    if not _fits(points):
        raise InputError(
            f"{sweep.name}: comp_node {node}, comm_node {node}: no point has comp_par_b_s and"
            " comm_par_b_s: nothing to fit"
        )
    c = curves(points)
    return _known_only(contenders(c, POLISHED)[0][0], c)


def contenders(c: Curves, count: int) -> list[tuple[Parameters, float]]:
    """The `count` likeliest parameter sets, refined, best first, each with its criterion."""
    starts = _starts(c)
    full = starts[0].t_seq_max_b_s
    knee_at = None if full is None else math.ceil(full / (starts[0].b_comp_seq_b_s or full) - 0.1)
    least = min((residuals(p, c) for p in starts), key=lambda r: float(np.abs(r).sum()))
    # Standard deviation of the relative noise, from the median of what the best first guess is off.
    off = np.abs(least[least != 0])
    noise = 1.4826 * float(np.median(off)) if off.size else 0.0
    scale = max(noise, NOISE_FLOOR if len(c.n) > 3 else 4 * NOISE_FLOOR)

    def cost(p: Parameters) -> float:
        if _decided_by_one(p, c):
            return math.inf
        off = 0.0 if knee_at is None or p.n_seq_max is None else abs(p.n_seq_max - knee_at)
        return _criterion(p, c, scale) + TIE_BREAK * off

    starts.sort(key=cost)
    # Of each guess and what became of it, the best one: least squares may end elsewhere.
    refined = [min(_refined(p, c, scale), key=cost) for p in starts[:count]]
    return sorted(((p, cost(p)) for p in refined), key=lambda contender: contender[1])


def _starts(c: Curves) -> list[Parameters]:
    """First guesses, including one without contention."""
    measured = np.isfinite(c.comp_alone)
    if measured.any():
        b_comp, t_seq = knee(c.n[measured], c.comp_alone[measured])
    else:
        together = np.isfinite(c.comp_par)
        b_comp, t_seq = knee(c.n[together], c.comp_par[together])[0], None
    nominal = c.comm_alone[np.isfinite(c.comm_alone)]
    free = replace(
        UNKNOWN,
        b_comp_seq_b_s=b_comp,
        t_seq_max_b_s=t_seq,
        b_comm_seq_b_s=float(np.median(nominal)) if nominal.size else None,
    )
    if free.b_comm_seq_b_s is None or b_comp <= 0:
        return [free]
    return [free, *candidates(c, free)]


def _decided_by_one(p: Parameters, c: Curves) -> bool:
    """Whether at most one of many numbers of cores tells the share that communications keep."""
    if p.t_par_max_b_s is None or p.alpha is None:
        return False
    n = np.unique(c.n[np.isfinite(c.comm_par)])
    demand = n * or_nan(p.b_comp_seq_b_s) + p.alpha * or_nan(p.b_comm_seq_b_s)
    return len(n) > FEW and int((demand >= total(p, n)).sum()) < 2


def _criterion(p: Parameters, c: Curves, scale: float) -> float:
    """Bayesian information criterion up to PRICE, with a bounded loss for the log-likelihood."""
    count = int(np.isfinite(c.rates).sum())
    # Both maxima at the same number of cores are one break.
    breaks = {n for n in (p.n_par_max, p.n_seq_max) if n is not None}
    size = len(free(p, c.last)) + len(breaks)
    return 2 * float(bounded(residuals(p, c), scale).sum()) + size * min(math.log(count), PRICE)


def free(p: Parameters, last: int) -> list[str]:
    """The parameters that the measured points determine."""
    idle = {name for name in CONTINUOUS if getattr(p, name) is None}
    if not p.b_comm_seq_b_s:
        idle |= {"b_comm_seq_b_s", "alpha"}
    if p.n_par_max is not None and p.n_seq_max is not None:
        if p.n_par_max <= p.n_seq_max:
            idle.add("t_par_max2_b_s")
        if p.n_par_max >= p.n_seq_max:
            idle.add("delta_l_b_s")
        if max(p.n_par_max, p.n_seq_max) >= last:
            idle |= {"t_par_max2_b_s", "delta_r_b_s"}
    elif p.n_par_max == last:
        idle.add("delta_l_b_s")
    return [name for name in CONTINUOUS if name not in idle]


def _refined(p: Parameters, c: Curves, scale: float) -> Iterator[Parameters]:
    """A guess, what least squares make of it, and of that once more without its worst measurement.

    Where two measurements determine a parameter, one outlier shifts it.
    """
    yield p
    weights = np.ones(4 * len(c.n))
    polished = _polish(p, c, scale, weights)
    yield polished
    off = np.abs(residuals(polished, c))
    if off.max() > OUTLIER * scale and len(np.unique(c.n)) >= ENOUGH:
        weights[off.argmax()] = 0.0
        yield _polish(polished, c, scale, weights)


def _polish(p: Parameters, c: Curves, scale: float, weights: Array) -> Parameters:
    """Least squares of the continuous parameters with Huber's loss, numbers of cores fixed."""
    names = free(p, c.last)
    start = {name: float(getattr(p, name)) for name in names}
    unit = {name: abs(value) or 1.0 for name, value in start.items()}
    for name in ("delta_l_b_s", "delta_r_b_s"):
        unit[name] = (p.t_par_max_b_s or 1.0) / c.last
    unit["alpha"] = 1.0

    def build(x: Array) -> Parameters:
        values = {name: float(value) * unit[name] for name, value in zip(names, x, strict=True)}
        return tied(replace(p, **values))  # type: ignore[arg-type]

    # t_par_max is the largest total, so delta_l cannot be negative; some published delta_r are.
    upper = [_FARTHEST.get(name, c.last / 3) for name in names]
    lower = [-c.last / 3 if name == "delta_r_b_s" else 0.0 for name in names]
    solved = least_squares(
        lambda x: weights * residuals(build(x), c),
        np.clip([start[name] / unit[name] for name in names], lower, upper),
        bounds=(lower, upper),
        loss="huber",
        f_scale=HUBER * scale,
        max_nfev=40,
    )
    return build(solved.x)


def tied(p: Parameters) -> Parameters:
    """The parameters with the total at n_seq_max cores as the slope gives it (equation 1)."""
    if p.n_seq_max is None or p.n_par_max is None or p.n_par_max > p.n_seq_max:
        return p
    assert p.t_par_max_b_s is not None
    return replace(
        p, t_par_max2_b_s=p.t_par_max_b_s - (p.delta_l_b_s or 0.0) * (p.n_seq_max - p.n_par_max)
    )


def _losses(c: Curves) -> str:
    """The largest loss of each side to the other, in words; empty if none was measured.

    Large losses with an unknown capacity mean that the equations do not describe the machine.
    """
    losses = []
    for name, by_itself, together in (
        ("computations", c.comp_alone, c.comp_par),
        ("communications", c.comm_alone, c.comm_par),
    ):
        measured = np.isfinite(together) & (by_itself > 0)
        if measured.any():
            lost = 1 - float((together[measured] / by_itself[measured]).min())
            losses.append(f"{name} {max(lost, 0.0):.0%}")
    return f"; largest losses measured: {', '.join(losses)}" if losses else ""


def _known_only(p: Parameters, c: Curves) -> tuple[Parameters, dict[str, str]]:
    """Drops parameters that the sweep does not determine, with reasons."""
    reason: dict[str, str] = {}
    last = c.last
    if p.t_seq_max_b_s is None:
        text = (
            "computations alone still scale: their maximum lies beyond the largest measured number"
            f" of cores ({last})"
            if np.isfinite(c.comp_alone).any()
            else "computations alone were not measured"
        )
        names = ("n_seq_max", "t_seq_max_b_s", "t_par_max2_b_s", "delta_r_b_s")
        reason |= dict.fromkeys(names, text)
    elif p.t_par_max_b_s is not None:
        grid = np.arange(1, last + 1)
        lowered = alone(p, grid) < alone(replace(p, t_seq_max_b_s=None), grid)
        if not lowered[c.n[np.isfinite(c.comp_alone)] - 1].any():
            text = "the shared capacity already limits computations alone, below it"
            reason["t_seq_max_b_s"] = text
    # The capacity, and every parameter but the rates alone, which need it.
    together = (*CONTINUOUS, "n_par_max", "n_seq_max")
    with_capacity = [name for name in together if name not in ALONE]
    if p.b_comm_seq_b_s is None:
        text = "communications alone were not measured"
        reason = dict.fromkeys((*with_capacity, "b_comm_seq_b_s"), text) | reason
    elif p.t_par_max_b_s is None:
        text = f"no capacity up to {last} cores fits better than noise alone{_losses(c)}"
        reason = dict.fromkeys(with_capacity, text) | reason
    else:
        n_par, n_seq = p.n_par_max or last, p.n_seq_max
        if n_seq is None and n_par >= last:
            reason["delta_l_b_s"] = f"no number of cores beyond n_par_max ({n_par}) was measured"
        if n_seq is not None and n_par >= n_seq:
            between = f"no number of cores lies between n_par_max and n_seq_max ({n_seq})"
            reason["delta_l_b_s"] = between
        if n_seq is not None and max(n_par, n_seq) >= last:
            reason["delta_r_b_s"] = f"no number of cores beyond both maxima ({last}) was measured"
    if p.b_comm_seq_b_s == 0:
        reason["alpha"] = "the rate of communications alone is zero"
    return replace(p, **dict.fromkeys(reason)), reason
