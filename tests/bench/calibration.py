"""The shortened calibration against full sweeps: runs spent, and error of the predictions.

python -m tests.bench.calibration      one line for each published set
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from analysis.contention import evaluate
from analysis.contention.calibrate import points_allowed
from analysis.contention.fit import fit
from analysis.contention.parameters import Model
from analysis.contention.predict import placements, predict
from analysis.contention.sweep import Point, Sweep
from studies.made_sweeps import calibrate, runs, sweep
from tests.bench import BenchRow

COMMAND = "python -m tests.bench calibration"
#: The paper found very little variability from run to run; the fit is also tested with 2 %.
NOISES = (0.005, 0.02)
SEEDS = range(3)
#: Errors are the same if they differ by no more than this, percentage points.
SAME = 0.5


@dataclass(frozen=True)
class Outcome:
    """Mean over seeds: share of the full sweep's runs, and mean errors of all predictions."""

    runs: float
    full_percent: float
    short_percent: float


def run() -> list[BenchRow]:
    """Runs and errors, as means over the nine sets, for each noise."""
    rows = []
    for noise in NOISES:
        found = [outcome(name, noise) for name in evaluate.published_names()]
        share = float(np.mean([f.runs for f in found]))
        more = float(np.mean([f.short_percent - f.full_percent for f in found]))
        label = f"shortened calibration, {100 * noise:g} % noise"
        aims = ("at most 0.333", f"at most {SAME}")
        rows += [
            BenchRow(
                f"{label}: runs of the full sweep", share, "", aims[0], share <= 1 / 3, COMMAND
            ),
            BenchRow(
                f"{label}: error above the full one's",
                more,
                "points",
                aims[1],
                more <= SAME,
                COMMAND,
            ),
        ]
    return rows


def outcome(name: str, noise: float) -> Outcome:
    """Both calibrations of one published machine, from the same measurements."""
    truth = evaluate.load_published(name)
    found = [_once(truth, seed, noise) for seed in SEEDS]
    return Outcome(*(float(np.mean(values)) for values in zip(*found, strict=True)))


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


if __name__ == "__main__":
    for noise in NOISES:
        for name in evaluate.published_names():
            print(f"{100 * noise:g} % {name:14} {outcome(name, noise)}")
