"""Prediction errors: mean absolute percentage errors, on what a model was fitted to or on the rest.

Errors are those of Table 2 of the paper: of computations and of communications with both running,
over the placements that the model was fitted to (samples), the others, and all. Computations alone,
which the paper's table leaves out, stand next to them.
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

#: Makes a model from measurements.
Fitter = Callable[[Sweep], Model]
#: Groups into which numbers of cores are split, to be held out in turn.
FOLDS = 8
RATES = {
    "comp_par": "computations",
    "comm_par": "communications",
    "comp_alone": "computations alone",
}
#: Rate -> mean relative deviation beyond which the equations do not describe a machine: the largest
#: that the paper has for a machine which they describe by its own judgement (Table 2, both grvingt;
#: of the communications of billy and pyxis, 0.11 and 0.13 off, it says that they do not).
BOUNDS = {"comp_par": 0.0448, "comm_par": 0.0806, "comp_alone": 0.0448}
#: Of the interval whose lower end must lie beyond it: few or jumping measurements say little.
_CONFIDENCE = 0.95
#: The most that a measurement counts as off, relative to its prediction.
_FARTHEST = 10.0


@dataclass(frozen=True, kw_only=True)
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
    #: True if the model was fitted to it.
    sample: bool
    comm_percent: float | None
    comp_percent: float | None


#: Predicted over measured rates, a row a point: its placement, whether a model is fitted to that
#: (`sample`), and a column a rate; null if one is unknown or both are zero, infinite if zero was
#: measured only: no error in percent, but off by all of the prediction.
Deviations = pl.DataFrame
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("comp_node", "comm_node"), pl.Int64),
    "sample": pl.Boolean,
    **dict.fromkeys(RATES, pl.Float64),
}


def deviations(model: Model, sweep: Sweep, points: Sequence[Point]) -> Deviations:
    """Deviations of the points that the model can predict."""
    predicted = {
        placement: predict(model, *placement)
        for placement in {p.placement for p in points} & {*placements(model)}
    }
    rows = []
    for p in points:
        rates = predicted.get(p.placement)
        if rates is not None and p.n <= len(rates.n):
            ratios = [
                _ratio(getattr(p, f"{rate}_b_s"), getattr(rates, f"{rate}_b_s")[p.n - 1])
                for rate in RATES
            ]
            rows.append((*p.placement, sweep.is_calibrated(p.placement), *ratios))
    return pl.DataFrame(rows, schema=_TYPES, orient="row")


def _ratio(actual: float | None, predicted: float) -> float | None:
    if actual is None or np.isnan(predicted) or actual == predicted == 0:
        return None
    return float(predicted / actual) if actual else math.inf


def evaluate(model: Model, sweep: Sweep) -> Errors:
    """Errors of the model on every point of the sweep that it can predict.

    A point counts if its rate was measured and is not zero, and its prediction is known.
    """
    return errors(deviations(model, sweep, sweep.points))


def by_placement(model: Model, sweep: Sweep) -> list[PlacementErrors]:
    """The errors of `evaluate` on each placement that was measured."""
    off = deviations(model, sweep, sweep.points)
    rows = []
    for comp, comm in sweep.placements():
        placement_rows = off.filter(comp_node=comp, comm_node=comm)
        sides = _percent(placement_rows["comm_par"]), _percent(placement_rows["comp_par"])
        rows.append(PlacementErrors(comp, comm, sweep.is_calibrated((comp, comm)), *sides))
    return rows


def errors(off: Deviations) -> Errors:
    """The row of Table 2 that the deviations make."""
    parts = {"samples": off.filter("sample"), "nonsamples": off.filter(~pl.col("sample"))}
    percent = {
        f"{side}_{part}": _percent(rows[f"{side}_par"])
        for side in ("comm", "comp")
        for part, rows in {**parts, "all": off}.items()
    }
    comm, comp = percent["comm_all"], percent["comp_all"]
    average = None if comm is None or comp is None else (comm + comp) / 2
    return Errors(**percent, average=average, comp_alone=_percent(off["comp_alone"]))


def _percent(ratios: pl.Series) -> float | None:
    """Mean absolute percentage error."""
    mean = (1 - ratios.filter(ratios.is_finite())).abs().mean()
    return 100 * mean if isinstance(mean, float) else None


# Placements and cores that a fit had not seen.


def without_cores(fitter: Fitter, sweep: Sweep, folds: int = FOLDS) -> Deviations:
    """Deviations on calibration points whose numbers of cores were held out of the fit.

    The inner numbers of cores are split into `folds` groups in turn; each group is predicted from
    a fit without it. With at least as many folds as inner numbers, this is leave-one-out. The first
    and the last number are in every fit, because the model does not extrapolate.
    """
    samples = [p for p in sweep.points if sweep.is_calibrated(p.placement)]
    inner = sorted({p.n for p in samples})[1:-1]
    parts = [pl.DataFrame(schema=_TYPES)]
    for fold in range(min(folds, len(inner))):
        held_out = set(inner[fold::folds])
        model = fitter(replace(sweep, points=[p for p in sweep.points if p.n not in held_out]))
        parts.append(deviations(model, sweep, [p for p in samples if p.n in held_out]))
    return pl.concat(parts)


def without_placements(fitter: Fitter, sweep: Sweep) -> Deviations:
    """Deviations on placements, each predicted from a fit that has seen none of its points.

    The calibrated placements are in every fit: without them there are no parameters.
    """
    parts = [pl.DataFrame(schema=_TYPES)]
    for placement in sweep.placements():
        if not sweep.is_calibrated(placement):
            model = fitter(
                replace(sweep, points=[p for p in sweep.points if p.placement != placement])
            )
            parts.append(deviations(model, sweep, sweep.points_at(*placement)))
    return pl.concat(parts)


@dataclass(frozen=True)
class Calibration:
    """A model, and the deviations of what was held out of its fit."""

    model: Model
    without_cores: Deviations
    without_placements: Deviations


def calibrated(sweep: Sweep) -> Calibration:
    """The model of a sweep, whose notes say if it is none. Raises InputError as `fit.fit`."""
    model = fit_model(sweep)
    cores, placed = without_cores(fit_model, sweep), without_placements(fit_model, sweep)
    notes = [*model.notes, *misfits(pl.concat([cores, placed]))]
    return Calibration(replace(model, notes=notes), cores, placed)


def misfits(held_out: Deviations) -> list[str]:
    """A sentence for each rate that the equations do not describe; empty if they describe all."""
    sentences = []
    for rate, words in RATES.items():
        off = (1 / held_out[rate].drop_nulls() - 1).abs().clip(upper_bound=_FARTHEST).to_numpy()
        if len(off) < 2:
            continue
        # Lower end of the one-sided interval of the mean.
        error = off.std(ddof=1) / math.sqrt(len(off))
        if off.mean() - float(stdtrit(len(off) - 1, _CONFIDENCE)) * error > BOUNDS[rate]:
            sentences.append(
                f"these equations do not describe this machine: {words} that were held out of the"
                f" fit are {off.mean():.1%} off on average; where the paper holds them valid, at"
                f" most {BOUNDS[rate]:.1%}"
            )
    return sentences


# The nine published parameter sets (Tables 3 to 11) and prediction errors (Table 2).


def published_names() -> list[str]:
    """Names of the published machines."""
    return list(_document()["platforms"])


def load_published(name: str) -> Model:
    """The published model of one machine. Raises InputError for an unknown name."""
    if name not in published_names():
        raise InputError(f"--platform: {name} found; allowed: {', '.join(published_names())}")
    facts = _document()["platforms"][name]
    return Model(
        name=name,
        cores=facts["cores_per_socket"],
        numa_per_socket=facts["numa_per_socket"],
        numa_nodes=2 * facts["numa_per_socket"],  # all have two sockets
        local=_parameters(facts["local"]),
        remote=_parameters(facts["remote"]),
        published=True,
    )


def errors_percent(name: str) -> dict[str, float | None]:
    """The published mean absolute percentage errors of one machine (Table 2 and section 4.2)."""
    return dict(_document()["mape_percent"][name])


def _parameters(row: dict[str, float]) -> Parameters:
    # The tables give MB/s with one decimal, which is exact in whole bytes.
    si = {
        name.replace("_mb_s", "_b_s"): float(round(value * 1e6)) if "_mb_s" in name else value
        for name, value in row.items()
    }
    return Parameters(**si)  # type: ignore[arg-type]


def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(Path(__file__).with_name("published.json").read_text())
    return document
