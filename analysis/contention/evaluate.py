"""Mean absolute percentage errors of a contention model's predictions, as in Table 2 of the paper.

The paper is RR-9451 by Denis, Jeannot and Swartvagher. The errors are of the rates of computations
and of communications while both run. They are means over the placements that the model was fitted
to (samples), over the other placements, and over all placements. Table 2 does not have errors of
computations without communications; they are added here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.special import stdtrit

from analysis.contention.fit import fit_model
from analysis.contention.parameters import Model, Parameters, placements, predict
from analysis.contention.sweep import Point, Sweep
from records.errors import InputError
from records.units import percentage

#: Makes a model from measurements.
Fitter = Callable[[Sweep], Model]
#: Number of groups into which numbers of cores are split. Each group in turn is held out of a fit.
FOLDS = 8
#: Rate -> its name in sentences.
RATE_NAMES = {
    "comp_par": "computations",
    "comm_par": "communications",
    "comp_alone": "computations alone",
}
#: Rate -> mean relative deviation above which the equations do not describe a machine. It is the
#: largest deviation in Table 2 among the machines that the paper calls well described. This machine
#: is grvingt, for computations and for communications. The paper does not call billy and pyxis well
#: described. Their communications deviate by 0.11 and 0.13. Table 2 does not have computations
#: alone, so they have the limit of computations.
MAX_VALID_DEVIATIONS = {"comp_par": 0.0448, "comm_par": 0.0806, "comp_alone": 0.0448}
#: Confidence of the one-sided interval of a mean deviation. Its lower end must lie above
#: MAX_VALID_DEVIATIONS, so that few or scattered measurements are not called a misfit.
_CONFIDENCE = 0.95
#: Limit of a deviation, relative to the prediction. Larger deviations count as this limit.
_DEVIATION_CAP = 10.0


@dataclass(frozen=True, kw_only=True)
class Errors:
    """The errors in a row of Table 2, percent; a field is None if nothing was measured."""

    comm_samples: float | None
    comm_nonsamples: float | None
    comm_all: float | None
    comp_samples: float | None
    comp_nonsamples: float | None
    comp_all: float | None
    #: Mean of `comm_all` and `comp_all`.
    average: float | None
    #: Error of computations alone, over all placements.
    comp_alone: float | None = None

    def as_dict(self) -> dict[str, float | None]:
        """Return the errors as JSON, with the unit in the keys."""
        return {f"{name}_percent": value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class PlacementErrors:
    """Errors on one placement, percent; None if nothing was measured or predicted there."""

    comp_node: int
    comm_node: int
    #: True if the model was fitted to this placement.
    sample: bool
    comm_percent: float | None
    comp_percent: float | None


#: Predicted / measured rates, with a row for each point. The columns are the point's placement,
#: whether a model is fitted to this placement (`sample`), and a ratio for each rate. A ratio is
#: null if either rate is unknown or both are zero. It is infinite if only the measured rate is
#: zero. An infinite ratio has no error in percent, but counts as a deviation of 100 % of the
#: prediction.
Deviations = pl.DataFrame
_COLUMN_TYPES: dict[str, Any] = {
    **dict.fromkeys(("comp_node", "comm_node"), pl.Int64),
    "sample": pl.Boolean,
    **dict.fromkeys(RATE_NAMES, pl.Float64),
}


def deviations(model: Model, sweep: Sweep, points: Sequence[Point]) -> Deviations:
    """Return predicted / measured rates of the points that the model can predict."""
    predictable = {point.placement for point in points} & set(placements(model))
    predictions = {placement: predict(model, *placement) for placement in predictable}
    rows = []
    for point in points:
        prediction = predictions.get(point.placement)
        if prediction is not None and point.n <= len(prediction.n):
            ratios = [
                _ratio(
                    getattr(point, f"{rate}_b_s"),
                    getattr(prediction, f"{rate}_b_s")[point.n - 1],
                )
                for rate in RATE_NAMES
            ]
            rows.append((*point.placement, sweep.is_calibrated(point.placement), *ratios))
    return pl.DataFrame(rows, schema=_COLUMN_TYPES, orient="row")


def _ratio(measured: float | None, predicted: float) -> float | None:
    if measured is None or np.isnan(predicted) or measured == predicted == 0:
        return None
    return float(predicted / measured) if measured else math.inf


def evaluate(model: Model, sweep: Sweep) -> Errors:
    """Return the errors of the model on every point of the sweep that it can predict.

    A point is used if its rate was measured and is not zero, and its prediction is known.
    """
    return percentage_errors(deviations(model, sweep, sweep.points))


def errors_by_placement(model: Model, sweep: Sweep) -> list[PlacementErrors]:
    """Return the errors on each placement that was measured, as `evaluate` computes them."""
    ratios = deviations(model, sweep, sweep.points)
    errors = []
    for comp, comm in sweep.placements():
        placement_ratios = ratios.filter(comp_node=comp, comm_node=comm)
        errors.append(
            PlacementErrors(
                comp_node=comp,
                comm_node=comm,
                sample=sweep.is_calibrated((comp, comm)),
                comm_percent=_mean_error_percent(placement_ratios["comm_par"]),
                comp_percent=_mean_error_percent(placement_ratios["comp_par"]),
            )
        )
    return errors


def percentage_errors(ratios: Deviations) -> Errors:
    """Return the errors that follow from the ratios, as in a row of Table 2."""
    groups = {
        "samples": ratios.filter("sample"),
        "nonsamples": ratios.filter(~pl.col("sample")),
        "all": ratios,
    }
    errors_percent = {
        f"{side}_{group}": _mean_error_percent(group_ratios[f"{side}_par"])
        for side in ("comm", "comp")
        for group, group_ratios in groups.items()
    }
    comm, comp = errors_percent["comm_all"], errors_percent["comp_all"]
    average = None if comm is None or comp is None else (comm + comp) / 2
    return Errors(
        **errors_percent, average=average, comp_alone=_mean_error_percent(ratios["comp_alone"])
    )


def _mean_error_percent(ratios: pl.Series) -> float | None:
    """Return the mean absolute error of the finite ratios, percent; None if there are none."""
    mean = (1 - ratios.filter(ratios.is_finite())).abs().mean()
    return 100 * mean if isinstance(mean, float) else None


# Deviations on points that were held out of a fit.


def held_out_cores(fitter: Fitter, sweep: Sweep, folds: int = FOLDS) -> Deviations:
    """Return the ratios on calibrated placements, at numbers of cores held out of the fit.

    The inner numbers of cores are dealt to `folds` groups in turn. Each group is predicted from a
    fit without this group. With at least as many folds as inner numbers, this is leave-one-out. The
    first and the last number are in every fit, because the model does not extrapolate. A group
    without which no model can be fitted is left out.
    """
    samples = [point for point in sweep.points if sweep.is_calibrated(point.placement)]
    inner = sorted({point.n for point in samples})[1:-1]
    tables = [pl.DataFrame(schema=_COLUMN_TYPES)]
    for fold in range(min(folds, len(inner))):
        held_out = set(inner[fold::folds])
        fitted_points = [point for point in sweep.points if point.n not in held_out]
        held_out_points = [point for point in samples if point.n in held_out]
        try:
            model = fitter(replace(sweep, points=fitted_points))
        except InputError:
            continue
        tables.append(deviations(model, sweep, held_out_points))
    return pl.concat(tables)


def held_out_placements(fitter: Fitter, sweep: Sweep) -> Deviations:
    """Return the ratios on placements that are not calibrated.

    All of them are predicted from one fit, to the calibrated placements: a fit uses no others.
    """
    calibrated_points = [point for point in sweep.points if sweep.is_calibrated(point.placement)]
    held_out_points = [point for point in sweep.points if not sweep.is_calibrated(point.placement)]
    if not held_out_points:
        return pl.DataFrame(schema=_COLUMN_TYPES)
    model = fitter(replace(sweep, points=calibrated_points))
    return deviations(model, sweep, held_out_points)


@dataclass(frozen=True)
class Calibration:
    """A model, and its deviations on points that were held out of the fit."""

    model: Model
    held_out_cores: Deviations
    held_out_placements: Deviations


def calibrate(sweep: Sweep) -> Calibration:
    """Fit a model to a sweep. The model's notes say if the equations do not describe the machine.

    Raises InputError, as `fit_model` does.
    """
    model = fit_model(sweep)
    cores = held_out_cores(fit_model, sweep)
    other_placements = held_out_placements(fit_model, sweep)
    notes = [*model.notes, *misfit_notes(pl.concat([cores, other_placements]))]
    return Calibration(replace(model, notes=notes), cores, other_placements)


def misfit_notes(held_out: Deviations) -> list[str]:
    """Return a sentence for each rate that the equations do not describe."""
    sentences = []
    for rate, rate_name in RATE_NAMES.items():
        ratios = held_out[rate].drop_nulls()
        relative_deviations = (1 / ratios - 1).abs().clip(upper_bound=_DEVIATION_CAP).to_numpy()
        if len(relative_deviations) < 2:
            continue
        mean = float(relative_deviations.mean())
        standard_error = float(relative_deviations.std(ddof=1)) / math.sqrt(
            len(relative_deviations)
        )
        lower_end = (
            mean - float(stdtrit(len(relative_deviations) - 1, _CONFIDENCE)) * standard_error
        )
        if lower_end > MAX_VALID_DEVIATIONS[rate]:
            sentences.append(
                f"these equations do not describe this machine: {rate_name} that were held out of"
                f" the fit are {percentage(mean, '.1f')} off on average; in the cases that the"
                f" paper calls valid, at most {percentage(MAX_VALID_DEVIATIONS[rate], '.1f')}"
            )
    return sentences


# The nine published parameter sets (Tables 3 to 11) and prediction errors (Table 2).


def published_names() -> list[str]:
    """Return the names of the published machines."""
    return list(_document()["platforms"])


def load_published(name: str) -> Model:
    """Return the published model of one machine. Raises InputError for an unknown name."""
    if name not in published_names():
        raise InputError(f"--platform: {name} found; allowed: {', '.join(published_names())}")
    facts = _document()["platforms"][name]
    return Model(
        name=name,
        cores=facts["cores_per_socket"],
        numa_per_socket=facts["numa_per_socket"],
        # All published machines have two sockets.
        numa_nodes=2 * facts["numa_per_socket"],
        local=_parameters(facts["local"]),
        remote=_parameters(facts["remote"]),
        published=True,
    )


def published_errors(name: str) -> dict[str, float | None]:
    """Return the published mean absolute percentage errors of a machine (Table 2, section 4.2)."""
    return dict(_document()["mape_percent"][name])


def _parameters(row: dict[str, float]) -> Parameters:
    fields = {}
    for name, value in row.items():
        if name.endswith("_mb_s"):
            # The tables give MB/s with one decimal, which is exact in whole bytes.
            fields[name.replace("_mb_s", "_b_s")] = float(round(value * 1e6))
        else:
            fields[name] = value
    return Parameters(**fields)  # type: ignore[arg-type]


def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(Path(__file__).with_name("published.json").read_text())
    return document
