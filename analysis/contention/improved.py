"""Fits the improved model (`shape`) to a sweep.

The paper's model of the sweep is fitted first. Its parameters, the shape of each calibrated
placement and, if requested, the capacity of the groups of cores are then adjusted together. The
network's own rate is that of each node, if communications alone were measured with their data
there; the paper has one for each socket.
"""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
from scipy.optimize import least_squares

from analysis.contention import fit as paper_fit
from analysis.contention.parameters import (
    UNKNOWN,
    Groups,
    Model,
    Parameters,
    Shape,
    alone,
    share,
    together,
)
from analysis.contention.sweep import (
    HUBER,
    Array,
    Curves,
    Sweep,
    bounded,
    curves,
    differences,
    huber,
)
from nimc.base.groups import grouped

#: Standard deviation of the noise, as the loss assumes it.
NOISE = 0.02
#: Number of first guesses that are refined.
POLISHED = 2
#: A capacity that nothing reached starts this far above the largest rate.
UNREACHED = 1.2

_IN_GROUPS = "the capacity of each group of cores takes its place"


def fit(sweep: Sweep, groups: Groups | None = None) -> Model:
    """The improved model of a sweep; `groups` have a capacity each, next to the shared one.

    Raises InputError as `analysis.contention.fit.fit`.
    """
    base = paper_fit.fit(sweep)
    local, local_shape = _fit_placement(base.local, curves(sweep.at(0, 0)), groups)
    of_node = grouped(
        (p.comm_node, p.comm_alone_b_s) for p in sweep.points if p.comm_alone_b_s is not None
    )
    remote, remote_shape = None, None
    if base.remote is not None:
        node = base.numa_per_socket
        remote, remote_shape = _fit_placement(base.remote, curves(sweep.at(node, node)), groups)
    return replace(
        base,
        kind="improved",
        local=local,
        remote=remote,
        unidentified=base.unidentified if groups is None else _unidentified(base, local, remote),
        shapes={"local": local_shape, "remote": remote_shape},
        comm_alone_b_s={node: float(np.median(rates)) for node, rates in sorted(of_node.items())},
        groups=groups,
    )


def _unidentified(
    base: Model, local: Parameters, remote: Parameters | None
) -> dict[str, dict[str, str]]:
    """Why parameters are unknown, if groups have capacities of their own."""
    found = dict(base.unidentified)
    for name, p in (("local", local), ("remote", remote)):
        if p is not None:
            none = [f.name for f in fields(Parameters) if getattr(p, f.name) is None]
            reason = found.get(name, {})
            found[name] = {field: reason.get(field, _IN_GROUPS) for field in none}
    return {name: reason for name, reason in found.items() if reason}


def _fit_placement(
    p: Parameters, c: Curves, groups: Groups | None
) -> tuple[Parameters, Shape | None]:
    """The parameters, adjusted, and the shape; as given and None if there is no capacity."""
    if not p.b_comp_seq_b_s:
        return p, None
    if groups is None:
        reached = p.t_par_max_b_s is not None and p.alpha is not None
        quiet = p.t_par_max_b_s is None and p.b_comm_seq_b_s is None
        if not reached and not quiet:
            return p, None
        return _refine(_limited(p, c) if quiet else p, c, None)
    flat = _flat(p, c)
    free = replace(flat, n_par_max=None, t_par_max_b_s=None, t_seq_max_b_s=None)
    found = [_refine(each, c, groups) for each in (free, flat)]

    def cost(fitted: tuple[Parameters, Shape]) -> float:
        residual = _residuals(*fitted, c, groups)
        count = int(np.count_nonzero(residual))
        size = len(paper_fit.free(fitted[0], c.last))
        return 2 * float(bounded(residual, NOISE).sum()) + size * math.log(max(count, 2))

    return min(found, key=cost)


def _limited(p: Parameters, c: Curves) -> Parameters:
    """With a capacity for computations alone, so that a knee rounder than the paper's is found."""
    if p.t_seq_max_b_s is not None or np.isfinite(c.comp_alone).sum() < 3:
        return p
    return replace(p, t_seq_max_b_s=UNREACHED * float(np.nanmax(c.comp_alone)))


def _flat(p: Parameters, c: Curves) -> Parameters:
    """One capacity that does not depend on the number of cores, for the groups together."""
    flat = replace(UNKNOWN, b_comp_seq_b_s=p.b_comp_seq_b_s, b_comm_seq_b_s=p.b_comm_seq_b_s)
    both = c.comp_par + c.comm_par
    if not p.b_comm_seq_b_s or not np.isfinite(both).any():
        return _limited(flat, c)
    least = float(np.nanmin(c.comm_par)) / p.b_comm_seq_b_s
    return replace(
        flat,
        n_par_max=c.last,
        t_par_max_b_s=UNREACHED * float(np.nanmax(both)),
        alpha=min(max(least, 0.0), 1.0),
    )


def _refine(p: Parameters, c: Curves, groups: Groups | None) -> tuple[Parameters, Shape]:
    """Least squares of all continuous parameters, for several positions of the loss.

    Each variable, of the parameters or of the shape, is scaled to about 1.
    """
    names = paper_fit.free(p, c.last)
    scale = {name: abs(float(getattr(p, name))) or _top(p, c) / c.last for name in names}
    scale |= {"alpha": 1.0, "softness": 1.0, "loss_from": c.last, "width": c.last}
    bounds = dict.fromkeys(names, (0.0, np.inf))
    bounds |= {"delta_r_b_s": (-np.inf, np.inf)} if "delta_r_b_s" in names else {}
    bounds |= {"softness": (0.0, 1.0)}
    first = {name: float(getattr(p, name)) for name in names} | {"softness": 0.05}
    places = [(0.0, 1.0)]
    if p.alpha is not None:
        bounds |= {"alpha": (0.0, 1.0), "loss_from": (0.0, 1.5), "width": (0.0, 1.5)}
        places = _places(p, c)
    if groups is not None:
        scale |= {"group_b_s": _top(p, c) / groups.count}
        scale |= {"group_loss_b_s": scale["group_b_s"] / groups.size}
        first |= {"group_b_s": scale["group_b_s"], "group_loss_b_s": 0.0}
        bounds |= {"group_b_s": (0.0, np.inf), "group_loss_b_s": (-0.2, 1.0)}
    variables = list(bounds)
    lower, upper = (np.array([bounds[name][i] for name in variables]) for i in (0, 1))

    def build(x: Array) -> tuple[Parameters, Shape]:
        found = {n: float(v) * scale[n] for n, v in zip(variables, x, strict=True)}
        fitted = replace(p, **{name: found[name] for name in names})  # type: ignore[arg-type]
        start = found.get("loss_from", 0.0)
        return paper_fit.tied(fitted), Shape(
            softness=found["softness"],
            loss_from=start,
            loss_to=start + found.get("width", 0.0),
            group_b_s=found.get("group_b_s"),
            group_loss_b_s=found.get("group_loss_b_s", 0.0),
        )

    def start(at: tuple[float, float]) -> Array:
        here = first | {"loss_from": at[0], "width": max(at[1] - at[0], 0.5)}
        x: Array = np.array([here[name] / scale[name] for name in variables])
        return np.clip(x, lower, upper)

    def loss(x: Array) -> float:
        return float(huber(_residuals(*build(x), c, groups), NOISE).sum())

    polished = [
        least_squares(
            lambda x: _residuals(*build(x), c, groups),
            x0,
            bounds=(lower, upper),
            loss="huber",
            f_scale=HUBER * NOISE,
            max_nfev=30,
        ).x
        for x0 in sorted((start(at) for at in places), key=loss)[:POLISHED]
    ]
    return build(min(polished, key=loss))


def _places(p: Parameters, c: Curves) -> list[tuple[float, float]]:
    """Numbers of cores at which the loss of communications may begin and end."""
    capacity = p.t_par_max_b_s or _top(p, c)
    reached = (capacity - (p.alpha or 0.0) * (p.b_comm_seq_b_s or 0.0)) / (p.b_comp_seq_b_s or 1.0)
    ends = sorted({reached, float(p.n_seq_max or reached), float(c.last)})
    return [(part * end, end) for end in ends for part in (0.5, 0.8, 0.95)]


def _top(p: Parameters, c: Curves) -> float:
    """A rate of the size of the capacity."""
    rates = np.concatenate((c.comp_alone, c.comp_par))
    return p.t_par_max_b_s or float(np.nanmax(rates)) or 1.0


def _residuals(p: Parameters, shape: Shape, c: Curves, groups: Groups | None) -> Array:
    grid = np.arange(1, c.last + 1)
    silent = np.full(grid.shape, p.b_comm_seq_b_s or 0.0)
    comm = silent * share(shape, p.alpha, grid)
    both = together(p, grid, comm, shape, groups)
    return differences((alone(p, grid, shape, groups), silent, both, comm), c)
