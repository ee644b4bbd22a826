"""Fits the ten parameters to a sweep.

For every pair of maxima (`n_par_max`, `n_seq_max`) among the measured numbers of cores, the
capacity that explains the totals best, and the share that communications keep, make a first guess.
The likeliest guesses are refined by least squares of the relative deviations of all four curves
(computations and communications, alone and together) with Cauchy's loss. The lowest information
criterion wins, so that another break must improve the fit enough. Parameters that the sweep does
not determine are None with a reason.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from analysis.contention.parameters import UNKNOWN, Model, Parameters, alone, or_nan, rates_together
from analysis.contention.sweep import Array, Curves, Point, Sweep, curves
from records.errors import InputError

Counts = NDArray[np.int64]

#: Cauchy's and Huber's constants, in standard deviations: a residual that is larger weighs little
#: in a fit, and counts by less than its square when models are compared.
CAUCHY, HUBER = 2.385, 1.345
#: Residuals beyond this many standard deviations count alike when models are compared, so that one
#: measurement does not pay for another break.
OUTLIER = 3.0
#: Relative noise assumed before it is estimated, and the least that is assumed then.
NOISE, NOISE_FLOOR = 0.02, 0.005
#: Rounds of the weighted least squares of capacities and shares.
ROUNDS = 4
#: Pairs of maxima whose guesses are compared, and guesses that are refined.
GUESSED, REFINED = 60, 5
#: Penalty for each core between n_seq_max and the knee of computations alone: it decides between
#: pairs of maxima with equal predictions.
TIE_BREAK = 0.05
#: The most that the criterion takes for a parameter: more would hide a capacity that only the last
#: numbers of cores reach.
PRICE = 3.2

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
#: Rates that do not depend on the shared capacity.
ALONE = ("b_comp_seq_b_s", "b_comm_seq_b_s", "t_seq_max_b_s")


def fit_model(sweep: Sweep) -> Model:
    """The model of a sweep: local from node 0, remote from the first node of another socket.

    Where no communications were measured, it predicts computations alone. Raises InputError if
    there is nothing to fit on node 0.
    """
    if not _fits(sweep.points_at(0, 0)):
        raise InputError(
            f"{sweep.name}: comp_node 0, comm_node 0: no point has comp_par_b_s and comm_par_b_s:"
            " nothing to fit"
        )
    local, unknown = _fit_placement(sweep.points_at(0, 0))
    unidentified, remote = {"local": unknown}, None
    node = sweep.numa_per_socket
    if sweep.numa_nodes <= node:
        unidentified["remote"] = {"all": "the machine has no NUMA node on another socket"}
    elif not _fits(sweep.points_at(node, node)):
        unidentified["remote"] = {"all": f"no point has both sides on node {node}"}
    else:
        remote, unidentified["remote"] = _fit_placement(sweep.points_at(node, node))
    nodes = {"local": 0} | ({} if remote is None else {"remote": node})
    reach = {
        name: max(p.n for p in sweep.points_at(number, number)) for name, number in nodes.items()
    }
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
    """Return whether a point has both sides, or communications were measured nowhere at all."""
    if any(None not in (p.comp_par_b_s, p.comm_par_b_s) for p in points):
        return True
    silent = all(p.comm_par_b_s is None and p.comm_alone_b_s is None for p in points)
    return silent and any(p.comp_alone_b_s for p in points)


def _fit_placement(points: list[Point]) -> tuple[Parameters, dict[str, str]]:
    """Parameters of a placement and, for each that is None, the reason."""
    measured = curves(points)
    return _determined_only(_likeliest(measured), measured)


def _likeliest(c: Curves) -> Parameters:
    """The parameter set with the lowest criterion, among the likeliest guesses after refinement."""
    guesses = _guesses(c)
    # Standard deviation of the relative noise, from the median of what the best guess is off.
    least = min((np.abs(residuals(p, c)) for p in guesses), key=lambda off: float(off.sum()))
    off = least[least > 0]
    noise = 1.4826 * float(np.median(off)) if off.size else 0.0
    scale = max(noise, NOISE_FLOOR if len(c.n) > 3 else 4 * NOISE_FLOOR)

    knee = math.ceil(_saturated_at(guesses[0]) - 0.1)

    def criterion(p: Parameters) -> float:
        return _criterion(p, c, scale) + TIE_BREAK * abs((p.n_seq_max or knee) - knee)

    guesses.sort(key=criterion)
    # Least squares may end elsewhere than at the best place.
    refined = [_refined(p, c, scale) for p in guesses[:REFINED]]
    return min(*guesses[:REFINED], *refined, key=criterion)


def _criterion(p: Parameters, c: Curves, scale: float) -> float:
    """Bayesian information criterion up to PRICE, with a bounded loss for the log-likelihood."""
    measurements = int(np.isfinite(c.rates).sum())
    # Both maxima at the same number of cores are one break.
    breaks = {p.n_par_max, p.n_seq_max} - {None}
    size = len(_determined(p, c.most_cores)) + len(breaks)
    return 2 * _loss(residuals(p, c), scale) + size * min(math.log(measurements), PRICE)


def residuals(p: Parameters, c: Curves) -> Array:
    """Relative differences of the model from all four curves; 0 for rates not measured."""
    grid = np.arange(1, c.most_cores + 1)
    silent = np.full(grid.shape, p.b_comm_seq_b_s or 0.0)
    predicted = (alone(p, grid), silent, *rates_together(p, grid))
    parts = [
        _deviation(rate[c.n - 1], measured)
        for rate, measured in zip(predicted, c.rates, strict=True)
    ]
    return np.nan_to_num(np.concatenate(parts), nan=0.0)


def _deviation(predicted: Array, measured: Array) -> Array:
    """Relative difference, bounded to -2 .. 2 so that a rate of zero cannot outweigh the rest."""
    size = (np.abs(predicted) + np.abs(measured)) / 2
    return (predicted - measured) / np.where(size > 0, size, 1.0)


def _loss(residual: Array, scale: float) -> float:
    """Sum of Huber's losses, which no longer grow beyond OUTLIER."""
    return float(_losses(residual, scale).sum())


def _losses(residual: Array, scale: float) -> Array:
    off = np.minimum(np.abs(residual) / scale, OUTLIER)
    return np.where(off <= HUBER, off * off / 2, HUBER * (off - HUBER / 2))


# First guesses.


def _guesses(c: Curves) -> list[Parameters]:
    """A guess without contention, and those of the pairs of maxima that explain the totals best."""
    comp = c.comp_alone if np.isfinite(c.comp_alone).any() else c.comp_par
    b_comp, t_seq = _knee(c.n[np.isfinite(comp)], comp[np.isfinite(comp)])
    nominal = c.comm_alone[np.isfinite(c.comm_alone)]
    free = replace(
        UNKNOWN,
        b_comp_seq_b_s=b_comp,
        t_seq_max_b_s=t_seq if comp is c.comp_alone else None,
        b_comm_seq_b_s=float(np.median(nominal)) if nominal.size else None,
    )
    total = c.comp_par + c.comm_par
    measured = np.isfinite(total) & (total > 0)
    pairs = _pairs(c, free)
    if free.b_comm_seq_b_s is None or b_comp <= 0 or not measured.any() or not len(pairs):
        return [free]
    solutions, losses = _capacities(c.n[measured], total[measured], free, pairs)
    guesses = [free]
    for index in np.argsort(losses, kind="stable")[:GUESSED]:
        if np.isfinite(losses[index]):
            n_par, n_seq = map(int, pairs[index])
            guesses += _with_shares(_with_capacity(free, n_par, n_seq, solutions[index]), c)
    return guesses


def _knee(n: Counts, rate: Array) -> tuple[float, float | None]:
    """Slope through the origin and plateau of a rate that scales, then saturates.

    Medians on both sides of the split with the least loss; the plateau is None if no split fits
    better than a straight line.
    """
    splits: list[tuple[float, float, float | None]] = []
    for split in np.unique(n)[::-1]:
        slope = float(np.median((rate / n)[n <= split]))
        beyond = rate[n > split]
        plateau = float(np.median(beyond)) if beyond.size else None
        fitted = np.minimum(n * slope, np.inf if plateau is None else plateau)
        loss = _loss(_deviation(fitted, rate), NOISE) + (plateau is not None)
        splits.append((loss, slope, plateau))
    _, slope, plateau = min(splits, key=lambda split_loss: split_loss[0])
    return slope, plateau


def _pairs(c: Curves, free: Parameters) -> Counts:
    """Pairs (n_par_max, n_seq_max) that the measured numbers of cores allow.

    `n_seq_max` is no less than the knee of computations alone, and next to that knee if `n_par_max`
    is larger: the equations do not tell it otherwise. If computations alone never saturate it is
    the last number. No maximum is the last number but one: a single measurement has no slope.
    """
    numbers = [int(n) for n in np.unique(c.n)]
    maxima = [n for n in numbers if n not in numbers[-2:-1]]
    if free.t_seq_max_b_s is None:
        return np.array([(n, numbers[-1]) for n in maxima])
    later = [n for n in maxima if n >= int(_saturated_at(free))]
    pairs = [(n_par, n_seq) for n_seq in later for n_par in maxima if n_par <= n_seq]
    return np.array([*pairs, *((n_par, n) for n in later[:2] for n_par in maxima if n_par > n)])


def _saturated_at(free: Parameters) -> float:
    """The number of cores whose demand is all that computations alone get; 0 if unknown."""
    return (free.t_seq_max_b_s or 0.0) / (free.b_comp_seq_b_s or math.inf)


def _capacities(n: Counts, totals: Array, free: Parameters, pairs: Counts) -> tuple[Array, Array]:
    """The capacity of each pair of maxima, and its loss on the totals.

    The total is min(wanted, T(n)) whatever the share of communications, and T is linear in three
    numbers (`_basis`): weighted least squares over the saturated totals. The loss is infinite if
    the flat part of T holds no saturated total, or if T grows with more cores.
    """
    wanted = n * or_nan(free.b_comp_seq_b_s) + or_nan(free.b_comm_seq_b_s)
    basis = _basis(n, pairs)
    # Not the largest total: one that is too high would hide the capacity.
    first = float(np.median(totals[totals >= 0.9 * np.quantile(totals, 0.75)]))
    capacity = np.full((len(pairs), len(n)), first)
    for _ in range(ROUNDS):
        off = _deviation(capacity, totals) / NOISE
        weight = np.where(wanted > capacity, 1 / (1 + (off / CAUCHY) ** 2), 0.0) / totals**2
        gram = np.einsum("pni,pn,pnj->pij", basis, weight, basis)
        ridge = 1e-9 * np.trace(gram, axis1=1, axis2=2)[:, None, None] + 1e-300
        right = np.einsum("pni,pn,n->pi", basis, weight, totals)
        solution = np.linalg.solve(gram + ridge * np.eye(3), right[:, :, None])[:, :, 0]
        capacity = np.einsum("pni,pi->pn", basis, solution)
    loss = _losses(_deviation(np.minimum(wanted, capacity), totals), NOISE).sum(axis=1)
    flat = (wanted > capacity) & (n <= pairs[:, :1])
    grown = capacity.max(axis=1) > (1 + 2 * NOISE) * capacity[:, 0]
    return solution, np.where(flat.any(axis=1) & ~grown, loss, np.inf)


def _basis(n: Counts, pairs: Counts) -> Array:
    """Shape (pairs, n, 3): T(n) is linear in three numbers.

    Where n_par <= n_seq: T_par_max, delta_l, delta_r, continuous at both maxima. Otherwise
    T_par_max, T_par_max2, delta_r, with a step past n_par (equation 1).
    """
    n_par, n_seq = pairs[:, :1], pairs[:, 1:]
    between = np.clip(np.minimum(n, n_seq) - n_par, 0, None)
    continuous = np.stack([np.ones(between.shape), -between, -np.clip(n - n_seq, 0, None)], axis=2)
    past = n > n_par
    stepped = np.stack([~past, past, -(n - n_seq) * past], axis=2).astype(float)
    basis: Array = np.where((n_par <= n_seq)[:, :, None], continuous, stepped)
    return basis


def _with_capacity(free: Parameters, n_par: int, n_seq: int, solution: Array) -> Parameters:
    t_par, second, delta_r = (float(value) for value in solution)
    inverted = n_par > n_seq
    guess = replace(
        free,
        n_par_max=n_par,
        t_par_max_b_s=t_par,
        delta_l_b_s=0.0 if inverted else max(second, 0.0),
    )
    if free.t_seq_max_b_s is None:
        return guess
    t_par2 = second if inverted else t_par - second * (n_seq - n_par)
    return replace(guess, t_par_max2_b_s=t_par2, n_seq_max=n_seq, delta_r_b_s=delta_r)


def _with_shares(guess: Parameters, c: Curves) -> list[Parameters]:
    """With each share that communications may keep.

    Medians where they are at their floor, sought from both ends: where few numbers of cores reach
    it, a wrong share at one of them may be the median from below.
    """
    b_comp, b_comm = or_nan(guess.b_comp_seq_b_s), or_nan(guess.b_comm_seq_b_s)
    n_par, n_seq = guess.n_par_max or 1, guess.n_seq_max or 1
    floor_from = n_seq if n_seq - n_par > 1 else 1
    measured = np.isfinite(c.comm_par)
    n, rates = c.n[measured], c.comm_par[measured]
    shares = rates / b_comm if b_comm else np.ones_like(rates)
    alphas: dict[float, None] = {}
    for alpha in (0.0, 1.0):
        for _ in range(ROUNDS):
            wanted = n * b_comp + alpha * b_comm
            floor = (n >= floor_from) & (wanted >= or_nan(guess.t_par_max_b_s))
            alpha = float(np.median(shares[floor if floor.any() else n == n.max()]))
        alphas[min(max(alpha, 0.0), 1.0)] = None
    return [replace(guess, alpha=alpha) for alpha in alphas]


# Least squares.


def _determined(p: Parameters, last: int) -> list[str]:
    """The continuous parameters that points up to `last` cores determine."""
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


def _refined(p: Parameters, c: Curves, scale: float) -> Parameters:
    """Least squares of the continuous parameters with Cauchy's loss, numbers of cores fixed."""
    names = _determined(p, c.most_cores)
    start = np.array([float(getattr(p, name)) for name in names])
    slopes = np.array([name.startswith("delta_") for name in names])
    share = np.array([name == "alpha" for name in names])
    unit = np.where(
        slopes, (p.t_par_max_b_s or 1.0) / c.most_cores, np.where(share, 1.0, np.abs(start))
    )
    unit = np.where(unit > 0, unit, 1.0)

    def build(x: Array) -> Parameters:
        values = dict(zip(names, map(float, x * unit), strict=True))
        return _tied(replace(p, **values))  # type: ignore[arg-type]

    # A slope may lose a third of the capacity with one core. t_par_max is the largest total, so
    # delta_l cannot be negative; some published delta_r are.
    upper = np.where(slopes, c.most_cores / 3, np.where(share, 1.0, 3.0))
    lower = np.array([-c.most_cores / 3 if name == "delta_r_b_s" else 0.0 for name in names])
    solved = least_squares(
        lambda x: residuals(build(x), c),
        np.clip(start / unit, lower, upper),
        bounds=(lower, upper),
        loss="cauchy",
        f_scale=CAUCHY * scale,
        max_nfev=40,
    )
    return build(solved.x)


def _tied(p: Parameters) -> Parameters:
    """The parameters with the total at n_seq_max cores as the slope gives it (equation 1)."""
    if p.n_seq_max is None or p.n_par_max is None or p.n_par_max > p.n_seq_max:
        return p
    fallen = (p.delta_l_b_s or 0.0) * (p.n_seq_max - p.n_par_max)
    return replace(p, t_par_max2_b_s=or_nan(p.t_par_max_b_s) - fallen)


# Parameters that a sweep does not determine.


def _determined_only(p: Parameters, c: Curves) -> tuple[Parameters, dict[str, str]]:
    """Without the parameters that the sweep does not determine, and why."""
    # The capacity, and every parameter but the rates alone, which need it.
    capacity_parameters = [
        *(name for name in CONTINUOUS if name not in ALONE),
        "n_par_max",
        "n_seq_max",
    ]
    reason: dict[str, str] = {}
    last = c.most_cores
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
        n = c.n[np.isfinite(c.comp_alone)]
        grid = np.arange(1, last + 1)
        lowered = alone(p, grid) < alone(replace(p, t_seq_max_b_s=None), grid)
        if not lowered[n - 1].any():
            text = "the shared capacity already limits computations alone, below it"
            reason["t_seq_max_b_s"] = text
    if p.b_comm_seq_b_s is None:
        text = "communications alone were not measured"
        reason = dict.fromkeys((*capacity_parameters, "b_comm_seq_b_s"), text) | reason
    elif p.t_par_max_b_s is None:
        text = f"no capacity up to {last} cores fits better than noise alone{_largest_losses(c)}"
        reason = dict.fromkeys(capacity_parameters, text) | reason
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


def _largest_losses(c: Curves) -> str:
    """The largest loss of each side to the other, in words; empty if none was measured.

    Large losses with an unknown capacity mean that the equations do not describe the machine.
    """
    sides = (
        ("computations", c.comp_alone, c.comp_par),
        ("communications", c.comm_alone, c.comm_par),
    )
    losses = []
    for name, by_itself, together in sides:
        measured = np.isfinite(together) & (by_itself > 0)
        if measured.any():
            lost = 1 - float((together[measured] / by_itself[measured]).min())
            losses.append(f"{name} {max(lost, 0.0):.0%}")
    return f"; largest losses measured: {', '.join(losses)}" if losses else ""
