"""The measured curves of one placement, and how far a model is from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.contention.equations import alone, shared
from analysis.contention.parameters import Parameters
from analysis.contention.sweep import Point

Array = NDArray[np.float64]

#: Huber's constant: residuals up to this many standard deviations count by their square.
HUBER = 1.345
#: Residuals beyond this many standard deviations count alike when models are compared, so that one
#: measurement cannot pay for another break (its two parameters cost as much).
OUTLIER = 3.0


@dataclass(frozen=True)
class Curves:
    """One value per measured point, NaN if a rate was not measured; bytes per second."""

    n: NDArray[np.int64]
    comp_alone: Array
    comm_alone: Array
    comp_par: Array
    comm_par: Array

    @property
    def last(self) -> int:
        """The largest measured number of cores."""
        return int(self.n.max())


def curves(points: list[Point]) -> Curves:
    """The points of one placement as arrays."""

    def column(name: str) -> Array:
        rates = [getattr(p, name) for p in points]
        return np.array([np.nan if rate is None else rate for rate in rates], dtype=float)

    return Curves(
        n=np.array([p.n for p in points]),
        comp_alone=column("comp_alone_b_s"),
        comm_alone=column("comm_alone_b_s"),
        comp_par=column("comp_par_b_s"),
        comm_par=column("comm_par_b_s"),
    )


def deviation(predicted: Array, measured: Array) -> Array:
    """Relative difference, bounded to -2 .. 2 so that a rate of zero cannot outweigh the rest."""
    size = (np.abs(predicted) + np.abs(measured)) / 2
    return (predicted - measured) / np.where(size > 0, size, 1.0)


def residuals(p: Parameters, c: Curves) -> Array:
    """Relative differences of all four curves; 0 for rates that were not measured."""
    grid = np.arange(1, c.last + 1)
    at = c.n - 1
    comp, comm = shared(p, grid)
    silent = np.full(c.n.shape, p.b_comm_seq_b_s or 0.0)
    parts = (
        deviation(alone(p, grid)[at], c.comp_alone),
        deviation(silent, c.comm_alone),
        deviation(comp[at], c.comp_par),
        deviation(comm[at], c.comm_par),
    )
    return np.nan_to_num(np.concatenate(parts), nan=0.0)


def huber(residual: Array, scale: float) -> Array:
    """Huber's loss of residuals whose standard deviation is `scale`."""
    r = np.abs(residual) / scale
    return np.where(r <= HUBER, r * r / 2, HUBER * (r - HUBER / 2))


def bounded(residual: Array, scale: float) -> Array:
    """Huber's loss that no longer grows beyond OUTLIER."""
    return huber(np.clip(residual, -OUTLIER * scale, OUTLIER * scale), scale)


def spread(residual: Array) -> float:
    """Standard deviation estimated from the median absolute deviation; 0 without values."""
    return float(1.4826 * np.median(np.abs(residual))) if residual.size else 0.0
