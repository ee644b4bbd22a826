"""A sweep of few cores against full sweeps: points measured, and error of the predictions."""

from dataclasses import replace

import numpy as np

from analysis.contention import evaluate
from analysis.contention.fit import fit_model
from analysis.contention.parameters import Model, placements, predict
from analysis.contention.sweep import Sweep
from bench import BenchRow, below
from nimc.campaign.cases import evenly_spaced
from tests.analysis.contention.made_sweeps import sweep

#: The paper found very little variability from run to run; the fit is also tested with 2 %.
NOISES = (0.005, 0.02)
SEEDS = range(3)
#: Errors are the same if they differ by less than this, percentage points.
SAME = 0.5


def run() -> list[BenchRow]:
    """Points and errors, as means over the nine sets, for each noise."""
    rows = []
    for noise in NOISES:
        outcomes = [outcome(name, noise) for name in evaluate.published_names()]
        share, full, short = np.mean(outcomes, axis=0).tolist()
        name = f"few cores, {100 * noise:g} % noise"
        rows.append(below(f"{name}: points of the full sweep", share, "", 1 / 2))
        rows.append(below(f"{name}: error above the full one's", short - full, "points", SAME))
    return rows


def outcome(name: str, noise: float) -> list[float]:
    """Of one published machine, mean over seeds: share of the full sweep's points, its mean error
    and that of the shortened one, percent."""
    truth = evaluate.load_published(name)
    outcomes = [_once(truth, seed, noise) for seed in SEEDS]
    return [float(np.mean(values)) for values in zip(*outcomes, strict=True)]


def _once(truth: Model, seed: int, noise: float) -> tuple[float, float, float]:
    full = sweep(truth, seed, noise, [(node, node) for node in truth.calibrated_nodes()])
    numbers = evenly_spaced(truth.cores)
    short = replace(full, points=[point for point in full.points if point.n in numbers])
    return len(short.points) / len(full.points), _error(truth, full), _error(truth, short)


def _error(truth: Model, measured: Sweep) -> float:
    """Mean relative difference from the truth, both sides and all placements, percent."""
    model = fit_model(measured)
    differences = []
    for placement in placements(truth):
        true, fitted = predict(truth, *placement), predict(model, *placement)
        differences += [
            np.abs(fitted.comp_par_b_s / true.comp_par_b_s - 1),
            np.abs(fitted.comm_par_b_s / true.comm_par_b_s - 1),
        ]
    return 100 * float(np.mean(differences))
