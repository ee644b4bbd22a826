"""Pairs that would decide, and their node-hours, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.remedies.advice import next_allocations, next_pairs, pair_node_hours
from analysis.report.data import load_run
from analysis.statistics.interval import Estimate
from analysis.statistics.location import p_value
from tests.analysis.synthetic import LAMMPS, samples, write_run


def test_pairs_by_hand() -> None:
    """An interval that just holds 1: (1.96 + 1.2816)^2 / 1.96^2 = 2.735 times as many pairs."""
    net = Estimate(1.03, 1.0, 1.03**2, 0.95)
    found = next_pairs(10, net, 1, 0.02, 0.5)
    assert found.pairs == 28 - 10
    assert found.node_hours == pytest.approx(9.0)
    assert found.finds == pytest.approx(0.03)
    assert found.at_stake == pytest.approx(1 - 1 / 1.03**2)
    assert found.worth == pytest.approx(found.at_stake / 9.0)
    # Ten remedies: z of 0.0025 is 2.807 instead of 1.96.
    strict = next_pairs(10, net, 10, 0.02, 0.5)
    assert strict.pairs == np.ceil(10 * ((2.807 + 1.2816) / 1.96) ** 2) - 10


def test_an_estimate_near_one_asks_for_the_margin() -> None:
    found = next_pairs(10, Estimate(1.001, 0.98, 1.0225, 0.95), 1, 0.02, 1.0)
    assert found.finds == pytest.approx(0.02)


def test_as_many_pairs_as_holm_needs() -> None:
    """Six pairs pass 0.05, ten remedies need 2 / 2^n <= 0.005: nine."""
    assert next_pairs(4, None, 1, 0.02, 1.0).pairs == 2
    assert next_pairs(4, None, 10, 0.02, 1.0).pairs == 5
    assert p_value(np.linspace(1, 1.5, 9)) <= 0.005 < p_value(np.linspace(1, 1.5, 8))
    narrow = Estimate(1.2, 1.19, 1.21, 0.95)
    assert next_pairs(6, narrow, 10, 0.02, 1.0).pairs == 3


@pytest.mark.parametrize(
    ("allocations", "more", "pairs"), [(1, 2, 24), (2, 1, 6), (3, 1, 4), (5, 1, 3)]
)
def test_allocations_that_are_missing(allocations: int, more: int, pairs: int) -> None:
    """12 pairs in so many allocations: up to three of them, then one more, with as many each."""
    found = next_allocations(12, allocations, Estimate(1.2, 1.1, 1.25, 0.95), 0.5)
    assert (found.allocations, found.pairs, found.node_hours) == (more, pairs, pairs / 2)
    assert found.finds is None
    assert found.at_stake == pytest.approx(0.2)


def test_node_hours_of_a_pair(tmp_path: Path) -> None:
    """Two nodes, 20 runs of 18 s and 2 s of lead-in, in 5 pairs: 80 node-seconds x 2 each."""
    case = replace(LAMMPS, effects={"on": 1.0, "aa": 1.0, "spin": 1.0}, origin="origin-0")
    made = [
        replace(each, elapsed_s=18.0, lead_in_s=2.0, origin_nodes=["origin-0"])
        for each in samples(case, pairs=5)
        if each.pair >= 0
    ]
    clock = made[0].start_s
    made = [replace(each, start_s=clock + 25 * place) for place, each in enumerate(made)]
    run = load_run(write_run(tmp_path / "run", made), force=True)
    assert pair_node_hours(run.samples, "lammps") == pytest.approx(4 * 20 * 2 / 3600)
