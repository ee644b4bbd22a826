"""Fits a model of either kind, with the error bands of what was held out of the fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from analysis.contention import fit, improved
from analysis.contention.evaluate import (
    Deviation,
    Fitter,
    bands,
    mean_deviation,
    misfits,
    without_cores,
    without_placements,
)
from analysis.contention.parameters import Groups, Model
from analysis.contention.sweep import Sweep

#: Groups into which numbers of cores are split, to be held out in turn.
FOLDS = 8
#: The simplest of the improved models is taken whose error is at most this times the least.
ENOUGH = 1.05


@dataclass(frozen=True)
class Calibration:
    """A model with its bands, and the deviations that they follow from."""

    model: Model
    without_cores: list[Deviation]
    without_placements: list[Deviation]

    @property
    def error(self) -> float:
        """Mean relative deviation of all that was held out."""
        return mean_deviation(self.without_cores + self.without_placements)


def calibrated(kind: str, sweep: Sweep, folds: int = FOLDS) -> Calibration:
    """The model of a kind (one of KINDS) of a sweep. Raises InputError as `fit.fit`.

    If the sweep states groups of cores, the improved model has one capacity, or also one for each
    group, whose cores are independent or in step: whichever predicts best what was held out.
    """
    if kind == "paper":
        return _calibrated(fit.fit, sweep, folds)
    found = {"with one capacity": _calibrated(improved.fit, sweep, folds)}
    if sweep.groups is not None and sweep.groups < sweep.cores:
        independent = Groups(sweep.groups, sweep.cores // sweep.groups, sweep.order)
        for words, groups in (
            ("with one for each group", independent),
            ("with one for each group and cores in step", replace(independent, in_step=True)),
        ):
            found[words] = _calibrated(partial(improved.fit, groups=groups), sweep, folds)
    most = ENOUGH * min(each.error for each in found.values())
    best = next(words for words, each in found.items() if each.error <= most)
    chosen = found[best]
    if len(found) == 1:
        return chosen
    others = ", ".join(f"{100 * each.error:.2f} % {words}" for words, each in found.items())
    note = (
        f"groups of {sweep.groups} cores, {sweep.order}: predicted {best}; on what was held out"
        f" off by {others}"
    )
    return replace(chosen, model=replace(chosen.model, notes=[*chosen.model.notes, note]))


def _calibrated(fitter: Fitter, sweep: Sweep, folds: int) -> Calibration:
    model = fitter(sweep)
    cores = without_cores(fitter, sweep, folds)
    placements = without_placements(fitter, sweep)
    notes = [*model.notes, *misfits(cores, placements, sweep)]
    model = replace(model, bands=bands(cores, placements, sweep), notes=notes)
    return Calibration(model, cores, placements)
