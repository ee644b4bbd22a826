"""The shortened calibration against full sweeps: runs spent, and error of the predictions."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from analysis.contention import evaluate
from analysis.contention.fit import fit, points_allowed
from analysis.contention.parameters import Model, placements, predict
from analysis.contention.sweep import Point, Sweep
from tests.analysis.contention.made_sweeps import calibrate, runs, sweep
from tests.bench import BenchRow, below

#: The paper found very little variability from run to run; the fit is also tested with 2 %.
NOISES = (0.005, 0.02)
SEEDS = range(3)
#: Errors are the same if they differ by less than this, percentage points.
SAME = 0.5


def run() -> list[BenchRow]:
    """Runs and errors, as means over the nine sets, for each noise."""
    rows = []
    for noise in NOISES:
        found = [outcome(name, noise) for name in evaluate.published_names()]
        share, full, short = np.mean(found, axis=0).tolist()
        name = f"shortened calibration, {100 * noise:g} % noise"
        rows.append(below(f"{name}: runs of the full sweep", share, "", 1 / 3))
        rows.append(below(f"{name}: error above the full one's", short - full, "points", SAME))
    return rows


def outcome(name: str, noise: float) -> list[float]:
    """Of one published machine, mean over seeds: share of the full sweep's runs, its mean error
    and that of the shortened one, percent."""
    truth = evaluate.load_published(name)
    found = [_once(truth, seed, noise) for seed in SEEDS]
    return [float(np.mean(values)) for values in zip(*found, strict=True)]


def _once(truth: Model, seed: int, noise: float) -> tuple[float, float, float]:
    nodes = truth.calibrated_nodes()
    full = sweep(truth, seed, noise, [(node, node) for node in nodes])
    points = [p for node in nodes for p in _shortened(full.at(node, node), truth.cores)]
    short = replace(full, points=points)
    return runs(points) / runs(full.points), _error(truth, full), _error(truth, short)


def _shortened(measured: Iterable[Point], cores: int) -> list[Point]:
    by_n = {p.n: p for p in measured}

    def measure(n: int, comm_alone: bool) -> Point:
        return by_n[n] if comm_alone else replace(by_n[n], comm_alone_b_s=None)

    return calibrate(measure, cores, points_allowed(cores))


def _error(truth: Model, measured: Sweep) -> float:
    """Mean relative difference from the truth, both sides and all placements, percent."""
    model = fit(measured)
    differences = []
    for at in placements(truth):
        true, got = predict(truth, *at), predict(model, *at)
        differences += [
            np.abs(got.comp_par_b_s / true.comp_par_b_s - 1),
            np.abs(got.comm_par_b_s / true.comm_par_b_s - 1),
        ]
    return 100 * float(np.mean(differences))
