"""Fits the ten parameters to a sweep, robustly against noise and outliers.

The parameters minimise the sum of Huber losses of the relative deviations of all four curves at
once (computations and communications, alone and together), for every pair of maxima. Among pairs
the lowest information criterion wins, so that another break must improve the fit enough.
Parameters that the sweep does not determine are None with a reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, replace

import numpy as np
from scipy.optimize import least_squares

from analysis.contention.candidates import ENOUGH, candidates, knee
from analysis.contention.curves import (
    HUBER,
    OUTLIER,
    Array,
    Curves,
    bounded,
    curves,
    residuals,
    spread,
)
from analysis.contention.equations import alone, known, total
from analysis.contention.parameters import Model, Parameters
from analysis.contention.sweep import Point, Sweep
from analysis.errors import InputError

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
    local, unknown = fit_placement(sweep.at(0, 0), f"{sweep.name}: comp_node 0, comm_node 0")
    unidentified = {"local": unknown}
    remote = None
    node = sweep.numa_per_socket
    if sweep.numa_nodes <= node:
        unidentified["remote"] = {"all": "the machine has no NUMA node on another socket"}
    elif not _fits(sweep.at(node, node)):
        unidentified["remote"] = {"all": f"no point has both sides on node {node}"}
    else:
        remote, unidentified["remote"] = fit_placement(
            sweep.at(node, node), f"{sweep.name}: comp_node {node}, comm_node {node}"
        )
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
        unidentified={placement: why for placement, why in unidentified.items() if why},
        notes=sweep.notes,
    )


def _fits(points: list[Point]) -> bool:
    """Whether a point has both sides, or communications were measured nowhere at all."""
    if any(None not in (p.comp_par_b_s, p.comm_par_b_s) for p in points):
        return True
    silent = all(p.comm_par_b_s is None and p.comm_alone_b_s is None for p in points)
    return silent and any(p.comp_alone_b_s for p in points)


def fit_placement(points: list[Point], where: str) -> tuple[Parameters, dict[str, str]]:
    """Parameters of one placement and, for each that is None, the reason.

    Raises InputError, naming `where`, if there is nothing to fit.
    """
    if not _fits(points):
        raise InputError(f"{where}: no point has comp_par_b_s and comm_par_b_s: nothing to fit")
    c = curves(points)
    return _known_only(contenders(c, POLISHED)[0][0], c)


def contenders(c: Curves, count: int) -> list[tuple[Parameters, float]]:
    """The `count` likeliest parameter sets, refined, best first, each with its criterion."""
    starts = _starts(c)
    full = starts[0].t_seq_max_b_s
    knee_at = None if full is None else math.ceil(full / (starts[0].b_comp_seq_b_s or full) - 0.1)
    scale = _noise(c, min((residuals(p, c) for p in starts), key=lambda r: float(np.abs(r).sum())))

    def cost(p: Parameters) -> float:
        if _decided_by_one(p, c):
            return math.inf
        off = 0.0 if knee_at is None or p.n_seq_max is None else abs(p.n_seq_max - knee_at)
        return _criterion(p, c, scale) + TIE_BREAK * off

    starts.sort(key=cost)
    # Of each guess and what became of it, the best one: least squares may end elsewhere.
    refined = [min(_refined(p, c, scale), key=cost) for p in starts[:count]]
    return sorted(((p, cost(p)) for p in refined), key=lambda found: found[1])


def _starts(c: Curves) -> list[Parameters]:
    """First guesses, including one without contention."""
    measured = np.isfinite(c.comp_alone)
    if measured.any():
        b_comp, t_seq = knee(c.n[measured], c.comp_alone[measured])
    else:
        together = np.isfinite(c.comp_par)
        b_comp, t_seq = knee(c.n[together], c.comp_par[together])[0], None
    nominal = c.comm_alone[np.isfinite(c.comm_alone)]
    nothing = Parameters(**{field.name: None for field in fields(Parameters)})
    free = replace(
        nothing,
        b_comp_seq_b_s=b_comp,
        t_seq_max_b_s=t_seq,
        b_comm_seq_b_s=float(np.median(nominal)) if nominal.size else None,
    )
    if free.b_comm_seq_b_s is None or b_comp <= 0:
        return [free]
    return [free, *candidates(c, b_comp, free.b_comm_seq_b_s, t_seq)]


def _noise(c: Curves, residual: Array) -> float:
    """Standard deviation of the relative noise, from the deviations of the best first guess."""
    seen = residual[residual != 0]
    return max(spread(seen), NOISE_FLOOR if len(c.n) > 3 else 4 * NOISE_FLOOR)


def _decided_by_one(p: Parameters, c: Curves) -> bool:
    """Whether at most one of many numbers of cores tells the share that communications keep."""
    if p.t_par_max_b_s is None or p.alpha is None:
        return False
    n = np.unique(c.n[np.isfinite(c.comm_par)])
    demand = n * known(p.b_comp_seq_b_s) + p.alpha * known(p.b_comm_seq_b_s)
    return len(n) > FEW and int((demand >= total(p, n)).sum()) < 2


def _criterion(p: Parameters, c: Curves, scale: float) -> float:
    """Bayesian information criterion up to PRICE, with a bounded loss for the log-likelihood."""
    curves_seen = (c.comp_alone, c.comm_alone, c.comp_par, c.comm_par)
    count = sum(int(np.isfinite(curve).sum()) for curve in curves_seen)
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

    Where two measurements determine a parameter, a wrong one holds it off the right one.
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


def _binds(p: Parameters, c: Curves) -> bool:
    """Whether t_seq_max limits computations alone at any measured point."""
    grid = np.arange(1, c.last + 1)
    free = alone(replace(p, t_seq_max_b_s=None), grid)
    return bool((alone(p, grid) < free)[c.n[np.isfinite(c.comp_alone)] - 1].any())


def _losses(c: Curves) -> str:
    """The largest loss of each side to the other, in words; empty if none was measured.

    Large losses with an unknown capacity mean that the equations do not describe the machine.
    """
    sides = {
        "computations": (c.comp_alone, c.comp_par),
        "communications": (c.comm_alone, c.comm_par),
    }
    found = []
    for name, (by_itself, together) in sides.items():
        seen = np.isfinite(together) & (by_itself > 0)
        if seen.any():
            lost = 1 - float((together[seen] / by_itself[seen]).min())
            found.append(f"{name} {max(lost, 0.0):.0%}")
    return ", ".join(found)


def _known_only(p: Parameters, c: Curves) -> tuple[Parameters, dict[str, str]]:
    """Drops parameters that the sweep does not determine, with reasons."""
    why: dict[str, str] = {}
    last = c.last
    beyond = f"lies beyond the largest measured number of cores ({last})"
    if p.t_seq_max_b_s is None:
        measured = np.isfinite(c.comp_alone).any()
        text = "computations alone were not measured"
        text = f"computations alone still scale: their maximum {beyond}" if measured else text
        why |= dict.fromkeys(("n_seq_max", "t_seq_max_b_s", "t_par_max2_b_s", "delta_r_b_s"), text)
    elif p.t_par_max_b_s is not None and not _binds(p, c):
        why["t_seq_max_b_s"] = "the shared capacity already limits computations alone, below it"
    # The capacity, and every parameter but the rates alone, which need it.
    together = (*CONTINUOUS, "n_par_max", "n_seq_max")
    with_capacity = [name for name in together if name not in ALONE]
    if p.b_comm_seq_b_s is None:
        text = "communications alone were not measured"
        why = dict.fromkeys((*with_capacity, "b_comm_seq_b_s"), text) | why
    elif p.t_par_max_b_s is None:
        losses = _losses(c)
        lost = f"; largest losses measured: {losses}" if losses else ""
        text = f"no capacity up to {last} cores fits better than noise alone{lost}"
        why = dict.fromkeys(with_capacity, text) | why
    else:
        n_par, n_seq = p.n_par_max or last, p.n_seq_max
        if n_seq is not None and n_par >= n_seq:
            why["delta_l_b_s"] = (
                f"no number of cores lies between n_par_max and n_seq_max ({n_seq})"
            )
        if n_seq is None and n_par >= last:
            why["delta_l_b_s"] = f"no number of cores beyond n_par_max ({n_par}) was measured"
        if n_seq is not None and max(n_par, n_seq) >= last:
            why["delta_r_b_s"] = f"no number of cores beyond both maxima ({last}) was measured"
    if p.b_comm_seq_b_s == 0:
        why["alpha"] = "the rate of communications alone is zero"
    return replace(p, **dict.fromkeys(why)), why
