"""Fits the ten parameters of the contention model to a sweep (rates over the number of cores).

Each pair of maxima (`n_par_max`, `n_seq_max`) among the measured numbers of cores gives first
guesses: the capacity that fits the totals best, and the share that communications keep. The best
guesses are refined by least squares of the relative differences from all four curves (computations
and communications, alone and together) with Cauchy's loss. The guess with the lowest information
criterion wins. The criterion has a penalty for each parameter and for each break, which is a number
of cores where the slope of the total rate changes. Parameters that the sweep does not determine are
None with a reason.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.optimize import least_squares

from analysis.contention.parameters import (
    UNKNOWN,
    CoreCounts,
    Model,
    Parameters,
    computations_alone,
    or_nan,
    rates_together,
)
from analysis.contention.sweep import Array, Curves, Point, Sweep, curves_of
from records.errors import InputError
from records.units import percentage

#: Cauchy's constant, in standard deviations: larger differences weigh little in a fit.
CAUCHY_DEVIATIONS = 2.385
#: Huber's constant, in standard deviations: when models are compared, larger differences count
#: linearly, not by their square.
HUBER_DEVIATIONS = 1.345
#: When models are compared, all differences beyond this many standard deviations have the same
#: loss, so that one measurement cannot justify another break.
OUTLIER_DEVIATIONS = 3.0
#: Relative noise that is assumed before it is estimated.
ASSUMED_NOISE = 0.02
#: Minimum of the estimated noise.
MIN_NOISE = 0.005
#: Minimum of the noise if there are few points. A fit can pass through all of them, and then the
#: differences do not show the noise.
MIN_NOISE_OF_FEW_POINTS = 0.02
#: Up to this many points count as few.
FEW_POINTS = 3
#: The median absolute difference, times this, estimates the standard deviation of normal noise.
MEDIAN_TO_DEVIATION = 1.4826
#: Number of rounds in which capacities and shares are computed again.
ROUNDS = 4
#: Largest number of pairs of maxima whose guesses are compared.
MAX_GUESSED_PAIRS = 60
#: Largest number of guesses that are refined.
MAX_REFINED_GUESSES = 5
#: Penalty for each core between n_seq_max and the knee, where the rate of computations alone stops
#: growing. The penalty decides between pairs of maxima with equal predictions.
TIE_BREAK_PENALTY = 0.05
#: Maximum penalty of the criterion for a parameter. A larger penalty would hide a capacity that
#: only the largest numbers of cores reach.
MAX_PARAMETER_PENALTY = 3.2

#: Parameters that least squares adjust; the numbers of cores are searched.
CONTINUOUS_PARAMETERS = (
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
RATES_ALONE = ("b_comp_seq_b_s", "b_comm_seq_b_s", "t_seq_max_b_s")


def fit_model(sweep: Sweep) -> Model:
    """Return the model that fits a sweep.

    The local parameters are for NUMA node 0, the remote ones for the first node of another socket.
    If no communications were measured, the model predicts only computations alone. Raises
    InputError if there is nothing to fit on node 0.
    """
    if not _can_be_fitted(sweep.points_at(0, 0)):
        raise InputError(
            f"{sweep.name}: comp_node 0, comm_node 0: no point has comp_par_b_s and comm_par_b_s:"
            " nothing to fit"
        )
    local, local_reasons = _fit_placement(sweep.points_at(0, 0))
    remote = None
    # Why parameters are undetermined: `local` or `remote` -> parameter, or `all` -> reason.
    reasons = {"local": local_reasons}
    remote_node = sweep.numa_per_socket  # the first one of the second socket
    if sweep.numa_nodes <= remote_node:
        reasons["remote"] = {"all": "the machine has no NUMA node on another socket"}
    elif not _can_be_fitted(sweep.points_at(remote_node, remote_node)):
        reasons["remote"] = {
            "all": f"node {remote_node}: no point has computations and communications together"
        }
    else:
        remote, reasons["remote"] = _fit_placement(sweep.points_at(remote_node, remote_node))
    calibrated_nodes = {"local": 0}
    if remote is not None:
        calibrated_nodes["remote"] = remote_node
    most_cores_measured = {
        name: max(point.n for point in sweep.points_at(node, node))
        for name, node in calibrated_nodes.items()
    }
    cores = max(most_cores_measured.values())
    return Model(
        name=sweep.name,
        cores=cores,
        numa_per_socket=sweep.numa_per_socket,
        numa_nodes=sweep.numa_nodes,
        local=local,
        remote=remote,
        reach={name: count for name, count in most_cores_measured.items() if count < cores},
        unidentified={name: by_parameter for name, by_parameter in reasons.items() if by_parameter},
        notes=sweep.notes,
    )


def _can_be_fitted(points: list[Point]) -> bool:
    """Return whether the points suffice for a fit.

    A point must have computations and communications together, or there are only computations.

    There are only computations if no point has a rate of communications, and one has a rate of
    computations alone.
    """
    if any(None not in (point.comp_par_b_s, point.comm_par_b_s) for point in points):
        return True
    if any(point.comm_par_b_s is not None or point.comm_alone_b_s is not None for point in points):
        return False
    return any(point.comp_alone_b_s for point in points)


def _fit_placement(points: list[Point]) -> tuple[Parameters, dict[str, str]]:
    """Return the parameters of a placement and, for each that is None, the reason."""
    curves = curves_of(points)
    return _without_undetermined(_best_parameters(curves), curves)


def _best_parameters(curves: Curves) -> Parameters:
    """Return the parameters with the lowest criterion of the best guesses and their refinements."""
    guesses = _guesses(curves)
    differences_of_guesses = (np.abs(relative_differences(p, curves)) for p in guesses)
    differences = min(differences_of_guesses, key=lambda absolute: float(absolute.sum()))
    # A difference of 0 means an unknown rate or an exact fit. Neither shows the noise.
    nonzero = differences[differences > 0]
    estimate = MEDIAN_TO_DEVIATION * float(np.median(nonzero)) if nonzero.size else 0.0
    noise = max(estimate, MIN_NOISE if len(curves.n) > FEW_POINTS else MIN_NOISE_OF_FEW_POINTS)
    uncontended = guesses[0]
    # The plateau is noisy, so a knee up to 0.1 above a whole number of cores counts as this number.
    knee = math.ceil(_knee(uncontended) - 0.1)

    def criterion(p: Parameters) -> float:
        return _criterion(p, curves, noise) + TIE_BREAK_PENALTY * abs((p.n_seq_max or knee) - knee)

    guesses.sort(key=criterion)
    # Least squares may end in a local minimum, so the unrefined guesses compete, too.
    refined = [_refined(p, curves, noise) for p in guesses[:MAX_REFINED_GUESSES]]
    return min(*guesses[:MAX_REFINED_GUESSES], *refined, key=criterion)


def _criterion(p: Parameters, curves: Curves, noise: float) -> float:
    """Return the Bayesian information criterion, with a bounded loss for the log-likelihood.

    The penalty for a parameter is bounded, too. A total rate cannot be negative.
    """
    if (p.t_par_max2_b_s or 0.0) < 0:
        return math.inf
    measurement_count = int(np.isfinite(curves.rates).sum())
    # Both maxima at the same number of cores are one break.
    breaks = {p.n_par_max, p.n_seq_max} - {None}
    parameter_count = len(_adjustable_parameters(p, curves.most_cores)) + len(breaks)
    penalty = min(math.log(measurement_count), MAX_PARAMETER_PENALTY)
    return 2 * _loss(relative_differences(p, curves), noise) + parameter_count * penalty


def relative_differences(p: Parameters, curves: Curves) -> Array:
    """Return the relative differences of the model from all four curves; 0 for unknown rates."""
    core_counts = np.arange(1, curves.most_cores + 1)
    communications_alone = np.full(core_counts.shape, p.b_comm_seq_b_s or 0.0)
    predicted = (
        computations_alone(p, core_counts),
        communications_alone,
        *rates_together(p, core_counts),
    )
    differences = [
        _relative_difference(rates[curves.n - 1], measured)
        for rates, measured in zip(predicted, curves.rates, strict=True)
    ]
    return np.nan_to_num(np.concatenate(differences), nan=0.0)


def _relative_difference(predicted: Array, measured: Array) -> Array:
    """Return the relative differences, which lie between -2 and 2.

    So a rate of zero cannot outweigh the others.
    """
    mean = (np.abs(predicted) + np.abs(measured)) / 2
    return (predicted - measured) / np.where(mean > 0, mean, 1.0)


def _loss(differences: Array, noise: float) -> float:
    """Return the sum of the losses of all relative differences."""
    return float(_losses(differences, noise).sum())


def _losses(differences: Array, noise: float) -> Array:
    """Return Huber's loss of each relative difference. It is constant beyond OUTLIER_DEVIATIONS.

    `noise` is the standard deviation of the relative differences.
    """
    deviations = np.minimum(np.abs(differences) / noise, OUTLIER_DEVIATIONS)
    linear = HUBER_DEVIATIONS * (deviations - HUBER_DEVIATIONS / 2)
    return np.where(deviations <= HUBER_DEVIATIONS, deviations * deviations / 2, linear)


# First guesses.


def _guesses(curves: Curves) -> list[Parameters]:
    """Return a guess without contention, and guesses for the pairs of maxima with the best fits."""
    alone_is_measured = np.isfinite(curves.comp_alone).any()
    comp = curves.comp_alone if alone_is_measured else curves.comp_par
    b_comp, t_seq = _slope_and_plateau(curves.n[np.isfinite(comp)], comp[np.isfinite(comp)])
    comm_alone = curves.comm_alone[np.isfinite(curves.comm_alone)]
    uncontended = replace(
        UNKNOWN,
        b_comp_seq_b_s=b_comp,
        t_seq_max_b_s=t_seq if alone_is_measured else None,
        b_comm_seq_b_s=float(np.median(comm_alone)) if comm_alone.size else None,
    )
    total = curves.comp_par + curves.comm_par
    measured = np.isfinite(total) & (total > 0)
    pairs = _pairs_of_maxima(curves, uncontended)
    if uncontended.b_comm_seq_b_s is None or b_comp <= 0 or not measured.any() or not len(pairs):
        return [uncontended]
    solutions, losses = _capacities(curves.n[measured], total[measured], uncontended, pairs)
    guesses = [uncontended]
    for index in np.argsort(losses, kind="stable")[:MAX_GUESSED_PAIRS]:
        if np.isfinite(losses[index]):
            n_par, n_seq = map(int, pairs[index])
            guesses += _with_shares(
                _with_capacity(uncontended, n_par, n_seq, solutions[index]), curves
            )
    return guesses


def _slope_and_plateau(n: CoreCounts, rates: Array) -> tuple[float, float | None]:
    """Return the slope through the origin and plateau of a rate that scales, then saturates.

    The numbers of cores are split where the loss is smallest. The slope is a median over the lower
    numbers, and the plateau a median over the higher numbers. The plateau is None if no split fits
    better than a straight line.
    """
    least_loss = math.inf
    best_slope, best_plateau = math.nan, None
    # The first split has all rates on one side, which gives the straight line.
    for split in np.unique(n)[::-1]:
        slope = float(np.median((rates / n)[n <= split]))
        beyond = rates[n > split]
        plateau = float(np.median(beyond)) if beyond.size else None
        fitted = np.minimum(n * slope, np.inf if plateau is None else plateau)
        loss = _loss(_relative_difference(fitted, rates), ASSUMED_NOISE)
        if plateau is not None:
            loss += 1  # the penalty of a further parameter
        if loss < least_loss:
            least_loss, best_slope, best_plateau = loss, slope, plateau
    return best_slope, best_plateau


def _pairs_of_maxima(curves: Curves, uncontended: Parameters) -> CoreCounts:
    """Return the pairs (n_par_max, n_seq_max) that the measured numbers of cores allow.

    `n_seq_max` is at least the knee of computations alone, rounded down. If `n_par_max` is larger
    than `n_seq_max`, the equations can predict the same rates with every `n_seq_max` beyond the
    knee, so only the first two numbers from the knee on are tried. If computations alone never
    saturate, `n_seq_max` is the largest measured number. The second largest number is never a
    maximum, since the single number beyond it shows no slope.
    """
    core_counts = [int(n) for n in np.unique(curves.n)]
    second_largest = core_counts[-2:-1]  # empty if only one number was measured
    candidates = [n for n in core_counts if n not in second_largest]
    if uncontended.t_seq_max_b_s is None:
        return np.array([(n, core_counts[-1]) for n in candidates])
    from_knee = [n for n in candidates if n >= int(_knee(uncontended))]
    ordered = [(n_par, n_seq) for n_seq in from_knee for n_par in candidates if n_par <= n_seq]
    inverted = [(n_par, n_seq) for n_seq in from_knee[:2] for n_par in candidates if n_par > n_seq]
    return np.array(ordered + inverted)


def _knee(uncontended: Parameters) -> float:
    """Return the number of cores at which computations alone reach their plateau.

    It is 0 if the plateau is unknown.
    """
    return (uncontended.t_seq_max_b_s or 0.0) / (uncontended.b_comp_seq_b_s or math.inf)


def _capacities(
    n: CoreCounts, totals: Array, uncontended: Parameters, pairs: CoreCounts
) -> tuple[Array, Array]:
    """Return three numbers for the capacity of each pair of maxima, and the loss on the totals.

    The total is min(demand, T(n)), whatever the share of communications. The capacity T is linear
    in the three numbers (`_basis`). So the numbers follow from least squares over the saturated
    totals, reweighted ROUNDS times for Cauchy's loss. The loss is infinite if the flat part of T
    has no saturated total, or if T exceeds its flat part by more than twice the assumed noise.
    """
    demand = n * or_nan(uncontended.b_comp_seq_b_s) + or_nan(uncontended.b_comm_seq_b_s)
    basis = _basis(n, pairs)
    # This is the median of the large totals, since a single outlier could hide the capacity.
    start = float(np.median(totals[totals >= 0.9 * np.quantile(totals, 0.75)]))
    capacity = np.full((len(pairs), len(n)), start)
    # All pairs at once. Axes: p is the pair, n the number of cores, i and j are the three numbers.
    for _ in range(ROUNDS):
        deviations = _relative_difference(capacity, totals) / ASSUMED_NOISE
        cauchy_weight = 1 / (1 + (deviations / CAUCHY_DEVIATIONS) ** 2)
        weight = np.where(demand > capacity, cauchy_weight, 0.0) / totals**2
        gram = np.einsum("pni,pn,pnj->pij", basis, weight, basis)
        # A small ridge, so that the matrix can be inverted even if all weights are 0.
        ridge = 1e-9 * np.trace(gram, axis1=1, axis2=2)[:, None, None] + 1e-300
        right_side = np.einsum("pni,pn,n->pi", basis, weight, totals)
        solution = np.linalg.solve(gram + ridge * np.eye(3), right_side[:, :, None])[:, :, 0]
        capacity = np.einsum("pni,pi->pn", basis, solution)
    differences = _relative_difference(np.minimum(demand, capacity), totals)
    loss = _losses(differences, ASSUMED_NOISE).sum(axis=1)
    flat = (demand > capacity) & (n <= pairs[:, :1])
    grows = capacity.max(axis=1) > (1 + 2 * ASSUMED_NOISE) * capacity[:, 0]
    return solution, np.where(flat.any(axis=1) & ~grows, loss, np.inf)


def _basis(n: CoreCounts, pairs: CoreCounts) -> Array:
    """Return the factors of the three numbers in which T(n) is linear, in shape (pairs, n, 3).

    If n_par <= n_seq, the numbers are T_par_max, delta_l and delta_r, and T is continuous at both
    maxima. Otherwise they are T_par_max, T_par_max2 and delta_r, with a step past n_par (equation
    1).
    """
    n_par, n_seq = pairs[:, :1], pairs[:, 1:]
    between = np.clip(np.minimum(n, n_seq) - n_par, 0, None)
    continuous = np.stack([np.ones(between.shape), -between, -np.clip(n - n_seq, 0, None)], axis=2)
    past = n > n_par
    stepped = np.stack([~past, past, -(n - n_seq) * past], axis=2).astype(float)
    basis: Array = np.where((n_par <= n_seq)[:, :, None], continuous, stepped)
    return basis


def _with_capacity(uncontended: Parameters, n_par: int, n_seq: int, solution: Array) -> Parameters:
    """Return the parameters with the two maxima, and with the three numbers of `_basis`.

    A negative delta_l becomes 0, since the total is largest at `n_par_max`. If computations alone
    reach no plateau, those that refer to `n_seq_max` stay None.
    """
    if n_par > n_seq:
        t_par, t_par2, delta_r = map(float, solution)
        delta_l = 0.0
    else:
        t_par, delta_l, delta_r = map(float, solution)
        delta_l = max(delta_l, 0.0)
        t_par2 = t_par - delta_l * (n_seq - n_par)
    guess = replace(uncontended, n_par_max=n_par, t_par_max_b_s=t_par, delta_l_b_s=delta_l)
    if uncontended.t_seq_max_b_s is None:
        return guess
    return replace(guess, t_par_max2_b_s=t_par2, n_seq_max=n_seq, delta_r_b_s=delta_r)


def _with_shares(guess: Parameters, curves: Curves) -> list[Parameters]:
    """Return the guess with each share (one or two) that communications may keep.

    A share is the median over the numbers of cores at which communications have their lowest rate.
    These numbers depend on the share, so the share is iterated, once from 0 and once from 1. The
    two results may differ if few numbers of cores have the lowest rate.
    """
    b_comp, b_comm = or_nan(guess.b_comp_seq_b_s), or_nan(guess.b_comm_seq_b_s)
    n_par, n_seq = guess.n_par_max or 1, guess.n_seq_max or 1
    # Between maxima that are more than one core apart, communications still fall (equation 5).
    floor_from = n_seq if n_seq - n_par > 1 else 1
    measured = np.isfinite(curves.comm_par)
    n, rates = curves.n[measured], curves.comm_par[measured]
    measured_shares = rates / b_comm if b_comm else np.ones_like(rates)
    alphas = []
    for first_share in (0.0, 1.0):
        share = first_share
        for _ in range(ROUNDS):
            demand = n * b_comp + share * b_comm
            at_floor = (n >= floor_from) & (demand >= or_nan(guess.t_par_max_b_s))
            if not at_floor.any():
                at_floor = n == n.max()
            share = float(np.median(measured_shares[at_floor]))
        alphas.append(min(max(share, 0.0), 1.0))
    return [replace(guess, alpha=alpha) for alpha in dict.fromkeys(alphas)]


# Least squares.


def _adjustable_parameters(p: Parameters, most_cores: int) -> list[str]:
    """Return the continuous parameters that sweeps of up to `most_cores` cores can show."""
    fixed = {name for name in CONTINUOUS_PARAMETERS if getattr(p, name) is None}
    if not p.b_comm_seq_b_s:
        fixed |= {"b_comm_seq_b_s", "alpha"}
    if p.n_par_max is not None and p.n_seq_max is not None:
        if p.n_par_max <= p.n_seq_max:
            fixed.add("t_par_max2_b_s")
        if p.n_par_max >= p.n_seq_max:
            fixed.add("delta_l_b_s")
        if max(p.n_par_max, p.n_seq_max) >= most_cores:
            fixed |= {"t_par_max2_b_s", "delta_r_b_s"}
    elif p.n_par_max == most_cores:
        fixed.add("delta_l_b_s")
    return [name for name in CONTINUOUS_PARAMETERS if name not in fixed]


def _refined(p: Parameters, curves: Curves, noise: float) -> Parameters:
    """Return the parameters, of which least squares with Cauchy's loss adjusts the continuous ones.

    The numbers of cores are fixed.
    """
    names = _adjustable_parameters(p, curves.most_cores)
    start = np.array([float(getattr(p, name)) for name in names])
    is_slope = np.array([name.startswith("delta_") for name in names])
    is_share = np.array([name == "alpha" for name in names])
    scale = np.where(is_share, 1.0, np.abs(start))
    scale = np.where(is_slope, (p.t_par_max_b_s or 1.0) / curves.most_cores, scale)
    scale = np.where(scale > 0, scale, 1.0)

    def parameters_of(scaled: Array) -> Parameters:
        parameters = dict(zip(names, map(float, scaled * scale), strict=True))
        return _with_total_at_n_seq(replace(p, **parameters))  # type: ignore[arg-type]

    # Each further core may take at most a third of the capacity t_par_max. delta_l cannot be
    # negative, since t_par_max is the largest total. Some published delta_r are negative.
    upper = np.where(is_slope, curves.most_cores / 3, np.where(is_share, 1.0, 3.0))
    lower = np.array([-curves.most_cores / 3 if name == "delta_r_b_s" else 0.0 for name in names])
    solved = least_squares(
        lambda scaled: relative_differences(parameters_of(scaled), curves),
        np.clip(start / scale, lower, upper),
        bounds=(lower, upper),
        loss="cauchy",
        f_scale=CAUCHY_DEVIATIONS * noise,
        max_nfev=40,
    )
    return parameters_of(solved.x)


def _with_total_at_n_seq(p: Parameters) -> Parameters:
    """Return the parameters with the `t_par_max2` that follows from the slope (equation 1)."""
    if p.n_seq_max is None or p.n_par_max is None or p.n_par_max > p.n_seq_max:
        return p
    lost_b_s = (p.delta_l_b_s or 0.0) * (p.n_seq_max - p.n_par_max)
    return replace(p, t_par_max2_b_s=or_nan(p.t_par_max_b_s) - lost_b_s)


# Parameters that a sweep does not determine.


def _without_undetermined(p: Parameters, curves: Curves) -> tuple[Parameters, dict[str, str]]:
    """Return the parameters, and why some are unknown.

    A parameter that the sweep does not determine is None. Each of them has its reason.
    """
    # The parameters of the capacity, and those that need it.
    capacity_parameters = [
        *(name for name in CONTINUOUS_PARAMETERS if name not in RATES_ALONE),
        "n_par_max",
        "n_seq_max",
    ]
    reasons: dict[str, str] = {}
    most_cores = curves.most_cores
    if p.t_seq_max_b_s is None:
        reason = (
            "computations alone still scale: their maximum lies beyond the largest measured number"
            f" of cores ({most_cores})"
            if np.isfinite(curves.comp_alone).any()
            else "computations alone were not measured"
        )
        names = ("n_seq_max", "t_seq_max_b_s", "t_par_max2_b_s", "delta_r_b_s")
        reasons |= dict.fromkeys(names, reason)
    elif p.t_par_max_b_s is not None:
        n = curves.n[np.isfinite(curves.comp_alone)]
        core_counts = np.arange(1, most_cores + 1)
        without_maximum = computations_alone(replace(p, t_seq_max_b_s=None), core_counts)
        lowered = computations_alone(p, core_counts) < without_maximum
        if not lowered[n - 1].any():
            reason = "the shared capacity limits computations alone before they reach this maximum"
            reasons["t_seq_max_b_s"] = reason
    if p.b_comm_seq_b_s is None:
        reason = "communications alone were not measured"
        reasons = dict.fromkeys((*capacity_parameters, "b_comm_seq_b_s"), reason) | reasons
    elif p.t_par_max_b_s is None:
        largest_losses = _largest_losses_text(curves)
        reason = (
            f"up to {most_cores} cores, a shared capacity fits no better than none{largest_losses}"
        )
        reasons = dict.fromkeys(capacity_parameters, reason) | reasons
    else:
        n_par, n_seq = p.n_par_max or most_cores, p.n_seq_max
        if n_seq is None and n_par >= most_cores:
            reasons["delta_l_b_s"] = f"no number of cores beyond n_par_max ({n_par}) was measured"
        if n_seq is not None and n_par >= n_seq:
            reasons["delta_l_b_s"] = f"n_par_max ({n_par}) is not below n_seq_max ({n_seq})"
        if n_seq is not None and max(n_par, n_seq) >= most_cores:
            reason = f"no number of cores beyond the larger maximum ({most_cores}) was measured"
            reasons["delta_r_b_s"] = reason
            if n_par > n_seq:
                reasons["t_par_max2_b_s"] = reason
    if p.b_comm_seq_b_s == 0:
        reasons["alpha"] = "the rate of communications alone is zero"
    return replace(p, **dict.fromkeys(reasons)), reasons


def _largest_losses_text(curves: Curves) -> str:
    """Return the largest loss of each side while the other runs, in words; empty if unmeasured.

    If losses are large but the capacity is unknown, the equations do not describe the machine.
    """
    sides = (
        ("computations", curves.comp_alone, curves.comp_par),
        ("communications", curves.comm_alone, curves.comm_par),
    )
    lost_shares = []
    for name, alone, together in sides:
        measured = np.isfinite(together) & (alone > 0)
        if measured.any():
            lost_share = 1 - float((together[measured] / alone[measured]).min())
            lost_shares.append(f"{name} {percentage(max(lost_share, 0.0))}")
    return f"; largest losses measured: {', '.join(lost_shares)}" if lost_shares else ""
