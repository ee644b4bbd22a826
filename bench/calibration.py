"""Compares sweeps over few numbers of cores with full sweeps: their points, and their errors.

The error of a sweep is the error of the contention model that is fitted to it.
"""

from dataclasses import replace

import numpy as np

from analysis.contention import evaluate
from analysis.contention.fit import fit_model
from analysis.contention.parameters import Model, placements, predict
from analysis.contention.sweep import Sweep
from bench import BenchRow, row_with_upper_limit
from nimc.campaign.cases import evenly_spaced
from records.units import percentage
from tests.analysis.contention.made_sweeps import noisy_sweep

#: Relative noise of a point. The study of the contention model found very little noise, so 2 % is a
#: harder case.
NOISES = (0.005, 0.02)
SEEDS = range(3)
#: Largest error that a short sweep may add, percentage points.
MAX_ADDED_ERROR = 0.5


def run() -> list[BenchRow]:
    """Compare points and errors, as means over the nine published machines, for each noise."""
    rows = []
    for noise in NOISES:
        comparisons = [comparison(name, noise) for name in evaluate.published_names()]
        points_share, full_error, short_error = np.mean(comparisons, axis=0).tolist()
        added_error = short_error - full_error
        name = f"few cores, {percentage(noise, 'g')} noise"
        rows.append(
            row_with_upper_limit(f"{name}: points of the full sweep", points_share, "", 1 / 2)
        )
        rows.append(
            row_with_upper_limit(
                f"{name}: error above the full one's", added_error, "points", MAX_ADDED_ERROR
            )
        )
    return rows


def comparison(name: str, noise: float) -> list[float]:
    """Compare the short sweep of a published machine with the full sweep, as means over seeds.

    Returns the share of the full sweep's points that the short sweep has, the error of the full
    sweep, and the error of the short sweep. Errors are in percent.
    """
    truth = evaluate.load_published(name)
    comparisons = [_comparison_of_seed(truth, seed, noise) for seed in SEEDS]
    return [float(mean) for mean in np.mean(comparisons, axis=0)]


def _comparison_of_seed(truth: Model, seed: int, noise: float) -> tuple[float, float, float]:
    full = noisy_sweep(truth, seed, noise, [(node, node) for node in truth.calibrated_nodes()])
    core_counts = evenly_spaced(truth.cores)
    short = replace(full, points=[point for point in full.points if point.n in core_counts])
    return len(short.points) / len(full.points), _error(truth, full), _error(truth, short)


def _error(truth: Model, sweep: Sweep) -> float:
    """Return the mean relative error of the model fitted to a sweep, percent."""
    model = fit_model(sweep)
    differences = []
    for placement in placements(truth):
        true, fitted = predict(truth, *placement), predict(model, *placement)
        differences += [
            np.abs(fitted.comp_par_b_s / true.comp_par_b_s - 1),
            np.abs(fitted.comm_par_b_s / true.comm_par_b_s - 1),
        ]
    return 100 * float(np.mean(differences))
