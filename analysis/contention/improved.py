"""A model that removes three limits stated in the paper (section 4.3.1).

- Communications lose bandwidth before the capacity is reached: their loss runs from a first to a
  last number of cores, which are fitted instead of following from the capacity.
- Cores scale imperfectly near the capacity: demand and capacity meet in a rounded knee,
  (a^-k + b^-k)^(-1/k), instead of at min(a, b).
- The network's own rate depends on the placement: it is the rate of communications alone on each
  node, if that was measured.

For k to infinity and the loss placed by the paper's equations, this is the paper's model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares

from analysis.contention import fit as paper_fit
from analysis.contention.curves import HUBER, Array, Curves, curves, deviation, huber
from analysis.contention.parameters import Model, Parameters
from analysis.contention.predict import Cores, Prediction, Rates, check_node, predict, side, total
from analysis.contention.sweep import Sweep

#: Standard deviation of the noise, as the loss assumes it.
NOISE = 0.02
#: Number of first guesses that are refined.
POLISHED = 2


@dataclass(frozen=True)
class Shape:
    """The model's additions to the ten parameters of a placement."""

    #: 1 / k: 0 is a sharp knee.
    softness: float
    #: Numbers of cores at which the loss of communications begins and ends.
    loss_from: float
    loss_to: float


@dataclass(frozen=True)
class ImprovedModel:
    """The published model, refitted, with the shape of each calibrated placement.

    A placement without a shape (no contention measured there) is predicted by the paper's model.
    """

    base: Model
    shapes: dict[str, Shape | None]
    #: NUMA node -> rate of communications alone with their data there, bytes per second.
    comm_alone_b_s: dict[int, float]

    def predict(self, comp_node: int, comm_node: int) -> Prediction:
        """Rates of a placement; the calibration is chosen as in the paper's model."""
        for option, node in (("--comp-node", comp_node), ("--comm-node", comm_node)):
            check_node(self.base, node, option)
        published = predict(self.base, comp_node, comm_node)
        nominal = self.comm_alone_b_s.get(comm_node, float(published.comm_alone_b_s[0]))
        same = comp_node == comm_node
        comp_at = self._calibration(comp_node)
        comm_at = comp_at if same else "local"
        comm_alone = np.full(published.n.shape, nominal)
        comp_shape, comm_shape = self.shapes[comp_at], self.shapes[comm_at]
        if comm_shape is None:
            scale = nominal / published.comm_alone_b_s[0] if published.comm_alone_b_s[0] else 1.0
            comm = published.comm_par_b_s * scale
        else:
            alpha = (self.base.remote if comm_at == "remote" else self.base.local).alpha  # type: ignore[union-attr]
            comm = nominal * share(comm_shape, alpha or 0.0, published.n)
        # Unknown beyond the measured numbers of cores, as in the paper's model.
        comm = np.where(np.isnan(published.comm_par_b_s), np.nan, comm)
        parameters = side(self.base, comp_node)
        if comp_shape is None:
            return replace(published, comm_par_b_s=comm, comm_alone_b_s=comm_alone)
        comp_alone = alone(parameters, comp_shape, published.n)
        comp_alone = np.where(np.isnan(published.comp_alone_b_s), np.nan, comp_alone)
        return Prediction(
            comp_node=comp_node,
            comm_node=comm_node,
            n=published.n,
            comp_par_b_s=together(parameters, comp_shape, published.n, comm)
            if same
            else comp_alone,
            comm_par_b_s=comm,
            comp_alone_b_s=comp_alone,
            comm_alone_b_s=comm_alone,
        )

    def _calibration(self, node: int) -> str:
        return "remote" if side(self.base, node) is self.base.remote else "local"


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


def share(shape: Shape, alpha: float, n: Cores) -> Rates:
    """Share of their own rate that communications keep with `n` computing cores."""
    lost = (n - shape.loss_from) / max(shape.loss_to - shape.loss_from, 1e-6)
    kept: Rates = 1 - (1 - alpha) * np.clip(lost, 0.0, 1.0)
    return kept


def alone(p: Parameters, shape: Shape, n: Cores) -> Rates:
    """Rate of computations without communications."""
    limit = np.inf if p.t_seq_max_b_s is None else p.t_seq_max_b_s
    capacity = np.clip(total(p, n), 0.0, limit)
    return soft_minimum(_wanted(p, n), capacity, shape.softness)


def together(p: Parameters, shape: Shape, n: Cores, comm: Rates) -> Rates:
    """Rate of computations while communications take `comm`."""
    left = np.maximum(total(p, n) - comm, 0.0)
    return soft_minimum(_wanted(p, n), left, shape.softness)


def _wanted(p: Parameters, n: Cores) -> Rates:
    return n.astype(np.float64) * (p.b_comp_seq_b_s or 0.0)


def fit(sweep: Sweep) -> ImprovedModel:
    """The improved model of a sweep. Raises InputError as `analysis.contention.fit.fit`."""
    base = paper_fit.fit(sweep)
    nodes = {p.comm_node for p in sweep.points}
    nominal = {
        node: [p.comm_alone_b_s for p in sweep.points if p.comm_node == node] for node in nodes
    }
    known = {node: [r for r in rates if r is not None] for node, rates in nominal.items()}
    local, local_shape = _fit_placement(base.local, curves(sweep.at(0, 0)))
    remote, remote_shape = None, None
    if base.remote is not None:
        node = base.numa_per_socket
        remote, remote_shape = _fit_placement(base.remote, curves(sweep.at(node, node)))
    return ImprovedModel(
        base=replace(base, local=local, remote=remote),
        shapes={"local": local_shape, "remote": remote_shape},
        comm_alone_b_s={node: float(np.median(r)) for node, r in known.items() if r},
    )


def _fit_placement(p: Parameters, c: Curves) -> tuple[Parameters, Shape | None]:
    """Least squares of all continuous parameters, for several positions of the loss."""
    if p.t_par_max_b_s is None or p.alpha is None or not p.b_comp_seq_b_s:
        return p, None
    reached = (p.t_par_max_b_s - p.alpha * (p.b_comm_seq_b_s or 0.0)) / p.b_comp_seq_b_s
    ends = {reached, float(p.n_seq_max or reached), float(c.last)}
    starts = [(first * end, end) for end in ends for first in (0.5, 0.8, 0.95)]
    names = [name for name in paper_fit.free(p, c.last) if name != "alpha"]
    unit = {name: abs(float(getattr(p, name))) or p.t_par_max_b_s / c.last for name in names}

    def build(x: Array) -> tuple[Parameters, Shape]:
        values = {n: float(v) * unit[n] for n, v in zip(names, x[4:], strict=True)}
        fitted = paper_fit.tied(replace(p, alpha=float(x[0]), **values))  # type: ignore[arg-type]
        first, width = float(x[2]) * c.last, float(x[3]) * c.last
        return fitted, Shape(softness=float(x[1]), loss_from=first, loss_to=first + width)

    lower = [0.0, 0.0, 0.0, 0.0] + [-np.inf if n == "delta_r_b_s" else 0.0 for n in names]
    upper = [1.0, 0.5, 1.5, 1.5] + [np.inf] * len(names)

    def start(first: float, end: float) -> Array:
        place = [first / c.last, max(end - first, 0.5) / c.last]
        values = (float(getattr(p, name)) / unit[name] for name in names)
        x: Array = np.clip([p.alpha, 0.05, *place, *values], lower, upper)
        return x

    def loss(x: Array) -> float:
        return float(huber(_residuals(*build(x), c), NOISE).sum())

    polished = [
        least_squares(
            lambda x: _residuals(*build(x), c),
            x0,
            bounds=(lower, upper),
            loss="huber",
            f_scale=HUBER * NOISE,
            max_nfev=30,
        ).x
        for x0 in sorted((start(*place) for place in starts), key=loss)[:POLISHED]
    ]
    return build(min(polished, key=loss))


def _residuals(p: Parameters, shape: Shape, c: Curves) -> Array:
    grid = np.arange(1, c.last + 1)
    at = c.n - 1
    nominal = p.b_comm_seq_b_s or 0.0
    comm = nominal * share(shape, p.alpha or 0.0, grid)
    parts = (
        deviation(alone(p, shape, grid)[at], c.comp_alone),
        deviation(np.full(c.n.shape, nominal), c.comm_alone),
        deviation(together(p, shape, grid, comm)[at], c.comp_par),
        deviation(comm[at], c.comm_par),
    )
    return np.nan_to_num(np.concatenate(parts), nan=0.0)
