"""Prediction errors: mean absolute percentage errors and cross-validation.

Errors are those of Table 2 of the paper: of computations and of communications with both running,
over the placements that the model was fitted to (samples), the others, and all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np

from analysis.contention.predict import Prediction
from analysis.contention.sweep import Point, Sweep
from analysis.errors import InputError

#: A model as a function from a placement (comp_node, comm_node) to its rates. Raises InputError
#: for a placement that it does not know.
Predictor = Callable[[int, int], Prediction]
#: Makes a predictor from measurements.
Fitter = Callable[[Sweep], Predictor]


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
class _Deviation:
    at: tuple[int, int]
    sample: bool
    comp: float | None
    comm: float | None


def evaluate(predictor: Predictor, sweep: Sweep) -> Errors:
    """Errors of the predictor on every point of the sweep that it can predict.

    A point counts if its rate was measured and is not zero, and its prediction is known.
    """
    return _errors(_deviations(predictor, sweep.points, sweep.numa_per_socket))


def by_placement(predictor: Predictor, sweep: Sweep) -> list[PlacementErrors]:
    """The errors of `evaluate` on each placement that was measured."""
    found = _deviations(predictor, sweep.points, sweep.numa_per_socket)
    rows = []
    for at in sweep.placements():
        mine = [d for d in found if d.at == at]
        rows.append(
            PlacementErrors(
                *at,
                sample=_calibrated(*at, sweep.numa_per_socket),
                comm_percent=_mean([d.comm for d in mine]),
                comp_percent=_mean([d.comp for d in mine]),
            )
        )
    return rows


def cross_validate(fitter: Fitter, sweep: Sweep, folds: int) -> Errors:
    """Errors on calibration points that were held out of the fit.

    The inner numbers of cores are split into `folds` groups in turn; each group is predicted from
    a fit without it. With at least as many folds as inner numbers, this is leave-one-out. The first
    and the last number are in every fit, because the model does not extrapolate.
    """
    samples = [
        p for p in sweep.points if _calibrated(p.comp_node, p.comm_node, sweep.numa_per_socket)
    ]
    inner = sorted({p.n for p in samples})[1:-1]
    found: list[_Deviation] = []
    for fold in range(min(folds, len(inner))):
        held_out = set(inner[fold::folds])
        kept = [p for p in sweep.points if p.n not in held_out]
        predictor = fitter(replace(sweep, points=kept))
        out = [p for p in samples if p.n in held_out]
        found += _deviations(predictor, out, sweep.numa_per_socket)
    return _errors(found)


def _calibrated(comp_node: int, comm_node: int, numa_per_socket: int) -> bool:
    return comp_node == comm_node and comp_node in (0, numa_per_socket)


def _deviations(
    predictor: Predictor, points: list[Point], numa_per_socket: int
) -> list[_Deviation]:
    predictions: dict[tuple[int, int], Prediction | None] = {}
    found = []
    for p in points:
        at = (p.comp_node, p.comm_node)
        if at not in predictions:
            predictions[at] = _predicted(predictor, at)
        rates = predictions[at]
        if rates is None or p.n > len(rates.n):
            continue
        found.append(
            _Deviation(
                at=at,
                sample=_calibrated(*at, numa_per_socket),
                comp=_percent(p.comp_par_b_s, float(rates.comp_par_b_s[p.n - 1])),
                comm=_percent(p.comm_par_b_s, float(rates.comm_par_b_s[p.n - 1])),
            )
        )
    return found


def _predicted(predictor: Predictor, at: tuple[int, int]) -> Prediction | None:
    """The predicted rates; None, and hence no errors, for a placement unknown to the model."""
    try:
        return predictor(*at)
    except InputError:
        return None


def _percent(actual: float | None, predicted: float) -> float | None:
    if not actual or np.isnan(predicted):
        return None
    return 100 * abs(actual - predicted) / actual


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _errors(found: list[_Deviation]) -> Errors:
    def mean(side: str, samples: bool | None) -> float | None:
        return _mean([getattr(d, side) for d in found if samples is None or d.sample == samples])

    comm, comp = mean("comm", None), mean("comp", None)
    return Errors(
        comm_samples=mean("comm", True),
        comm_nonsamples=mean("comm", False),
        comm_all=comm,
        comp_samples=mean("comp", True),
        comp_nonsamples=mean("comp", False),
        comp_all=comp,
        average=None if comm is None or comp is None else (comm + comp) / 2,
    )
