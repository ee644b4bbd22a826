"""The shortened calibration: which points it takes, and what a fit of them is worth."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.contention import evaluate
from analysis.contention.fit import fit, next_n, points_allowed
from analysis.contention.parameters import predict
from analysis.contention.sweep import Point, Sweep
from studies.made_sweeps import calibrate, sweep


def bench_of(sweep_points):
    by_n = {p.n: p for p in sweep_points}
    return lambda n, comm_alone: by_n[n] if comm_alone else replace(by_n[n], comm_alone_b_s=None)


def test_ends_first_and_nothing_when_all_is_measured_or_spent():
    # Full: three runs a point. Shortened: two a point, and communications alone twice.
    assert all(2 * points_allowed(cores) + 2 <= 3 * cores / 3 for cores in (14, 16, 18, 32, 64))
    points = [Point(n, 0, 0, 5e9 * n, 4e9, 5e9 * n, 4e9) for n in range(1, 5)]
    assert (next_n([], 16, 7), next_n(points[:1], 16, 7)) == (1, 16)
    assert next_n(points, 4, 9) is None
    assert next_n(points, 16, 4) is None
    assert next_n([points[0]], 1, 9) is None


def test_a_straight_line_needs_few_points():
    def measure(n, comm_alone):
        return Point(n, 0, 0, 5e9 * n, 4e9 if comm_alone else None, 5e9 * n, 4e9)

    points = calibrate(measure, 32, points_allowed(32))
    assert len(points) <= 6
    assert {1, 32} <= {p.n for p in points}


@pytest.mark.parametrize("name", ["dahu", "henri-subnuma"])
def test_predicts_what_it_has_not_measured(name):
    truth = evaluate.load_published(name)
    node = truth.numa_per_socket
    points = []
    for at in (0, node):
        measured = sweep(truth, 0, 0.0, [(at, at)]).points
        points += calibrate(bench_of(measured), truth.cores, points_allowed(truth.cores))
    short = fit(Sweep(name, truth.cores, truth.numa_per_socket, truth.numa_nodes, points))
    for at in (0, node):
        true, got = predict(truth, at, at), predict(short, at, at)
        assert np.abs(got.comp_par_b_s / true.comp_par_b_s - 1).mean() < 0.01
        assert np.abs(got.comm_par_b_s / true.comm_par_b_s - 1).mean() < 0.01
