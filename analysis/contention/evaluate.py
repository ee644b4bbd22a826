"""Prediction errors: mean absolute percentage errors, on what a model was fitted to or on the rest.

Errors are those of Table 2 of the paper: of computations and of communications with both running,
over the placements that the model was fitted to (samples), the others, and all. Computations alone,
which the paper's table leaves out, stand next to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np

from analysis.contention.parameters import Model
from analysis.contention.predict import Prediction, predict
from analysis.contention.sweep import Point, Sweep
from analysis.errors import InputError

#: Makes a model from measurements.
Fitter = Callable[[Sweep], Model]


@dataclass(frozen=True)
class Errors:
    """One row of Table 2, percent; None if nothing was measured."""

    comm_samples: float | None
    comm_nonsamples: float | None
    comm_all: float | None
    comp_samples: float | None
    comp_nonsamples: float | None
    comp_all: float | None
    #: Mean of `comm_all` and `comp_all`.
    average: float | None
    #: Of computations alone, over all placements.
    comp_alone: float | None = None

    def as_dict(self) -> dict[str, float | None]:
        """JSON form, with the unit in the keys."""
        return {f"{name}_percent": value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class PlacementErrors:
    """Errors on one placement, percent; None if nothing was measured or predicted there."""

    comp_node: int
    comm_node: int
    #: Whether the model was fitted to it.
    sample: bool
    comm_percent: float | None
    comp_percent: float | None


@dataclass(frozen=True)
class Deviation:
    """Predicted over measured rates of a point; None if one is unknown or both are zero.

    Infinite if zero was measured only: no error in percent, but off by all of the prediction.
    """

    at: tuple[int, int]
    sample: bool
    comp_par: float | None
    comm_par: float | None
    comp_alone: float | None


def evaluate(model: Model, sweep: Sweep) -> Errors:
    """Errors of the model on every point of the sweep that it can predict.

    A point counts if its rate was measured and is not zero, and its prediction is known.
    """
    return errors(_deviations(model, sweep.points, sweep.numa_per_socket))


def by_placement(model: Model, sweep: Sweep) -> list[PlacementErrors]:
    """The errors of `evaluate` on each placement that was measured."""
    found = _deviations(model, sweep.points, sweep.numa_per_socket)
    rows = []
    for at in sweep.placements():
        mine = [d for d in found if d.at == at]
        rows.append(
            PlacementErrors(
                *at,
                sample=_calibrated(*at, sweep.numa_per_socket),
                comm_percent=_percent([d.comm_par for d in mine]),
                comp_percent=_percent([d.comp_par for d in mine]),
            )
        )
    return rows


def without_cores(fitter: Fitter, sweep: Sweep, folds: int) -> list[Deviation]:
    """Deviations on calibration points whose numbers of cores were held out of the fit.

    The inner numbers of cores are split into `folds` groups in turn; each group is predicted from
    a fit without it. With at least as many folds as inner numbers, this is leave-one-out. The first
    and the last number are in every fit, because the model does not extrapolate.
    """
    samples = [
        p for p in sweep.points if _calibrated(p.comp_node, p.comm_node, sweep.numa_per_socket)
    ]
    inner = sorted({p.n for p in samples})[1:-1]
    found: list[Deviation] = []
    for fold in range(min(folds, len(inner))):
        held_out = set(inner[fold::folds])
        kept = [p for p in sweep.points if p.n not in held_out]
        model = fitter(replace(sweep, points=kept))
        out = [p for p in samples if p.n in held_out]
        found += _deviations(model, out, sweep.numa_per_socket)
    return found


def without_placements(fitter: Fitter, sweep: Sweep) -> list[Deviation]:
    """Deviations on placements, each predicted from a fit that has seen none of its points.

    The calibrated placements are in every fit: without them there are no parameters.
    """
    found: list[Deviation] = []
    for at in sweep.placements():
        if not _calibrated(*at, sweep.numa_per_socket):
            kept = [p for p in sweep.points if (p.comp_node, p.comm_node) != at]
            model = fitter(replace(sweep, points=kept))
            found += _deviations(model, sweep.at(*at), sweep.numa_per_socket)
    return found


def cross_validate(fitter: Fitter, sweep: Sweep, folds: int) -> Errors:
    """Errors on numbers of cores that were held out of the fit, see `without_cores`."""
    return errors(without_cores(fitter, sweep, folds))


def _calibrated(comp_node: int, comm_node: int, numa_per_socket: int) -> bool:
    return comp_node == comm_node and comp_node in (0, numa_per_socket)


def _deviations(model: Model, points: list[Point], numa_per_socket: int) -> list[Deviation]:
    predictions: dict[tuple[int, int], Prediction | None] = {}
    found = []
    for p in points:
        at = (p.comp_node, p.comm_node)
        if at not in predictions:
            predictions[at] = _predicted(model, at)
        rates = predictions[at]
        if rates is None or p.n > len(rates.n):
            continue
        found.append(
            Deviation(
                at=at,
                sample=_calibrated(*at, numa_per_socket),
                comp_par=_ratio(p.comp_par_b_s, float(rates.comp_par_b_s[p.n - 1])),
                comm_par=_ratio(p.comm_par_b_s, float(rates.comm_par_b_s[p.n - 1])),
                comp_alone=_ratio(p.comp_alone_b_s, float(rates.comp_alone_b_s[p.n - 1])),
            )
        )
    return found


def _predicted(model: Model, at: tuple[int, int]) -> Prediction | None:
    """The predicted rates; None, and hence no errors, for a placement unknown to the model."""
    try:
        return predict(model, *at)
    except InputError:
        return None


def _ratio(actual: float | None, predicted: float) -> float | None:
    if actual is None or np.isnan(predicted) or actual == predicted == 0:
        return None
    return predicted / actual if actual else math.inf


def _percent(ratios: list[float | None]) -> float | None:
    """Mean absolute percentage error."""
    known = [abs(1 - ratio) for ratio in ratios if ratio is not None and math.isfinite(ratio)]
    return 100 * float(np.mean(known)) if known else None


def errors(found: list[Deviation]) -> Errors:
    """The row of Table 2 that the deviations make."""

    def mean(rate: str, samples: bool | None) -> float | None:
        return _percent([getattr(d, rate) for d in found if samples is None or d.sample == samples])

    comm, comp = mean("comm_par", None), mean("comp_par", None)
    return Errors(
        comm_samples=mean("comm_par", True),
        comm_nonsamples=mean("comm_par", False),
        comm_all=comm,
        comp_samples=mean("comp_par", True),
        comp_nonsamples=mean("comp_par", False),
        comp_all=comp,
        average=None if comm is None or comp is None else (comm + comp) / 2,
        comp_alone=mean("comp_alone", None),
    )
