"""Tests the estimators of Groves, Grant and Arnold; all figures are worked out by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.questions.question import answer
from analysis.subjects.paper_estimators import ESTIMATORS, paper_estimates
from tests.analysis.subjects.made_paper_tables import (
    OFF_S,
    ON_S,
    load,
    runs,
    under,
)


def test_estimators_of_the_paper_of_a_case(tmp_path: Path) -> None:
    run = load(tmp_path, runs("lammps", OFF_S, ON_S))
    (row,) = answer(ESTIMATORS, run).to_dicts()
    means = {"off_mean": 11.0, "on_mean": 22.0, "of_means": 2.0, "slowdown": 2.0}
    # The best of the first five are 10 and 20. The median of the first five `on` is 22.
    best = {"off_best": 10.0, "on_best": 20.0, "of_best": 2.0, "best_against_median": 2.2}
    expected = means | best | {"off_sd": (6 / 9) ** 0.5, "on_sd": (18 / 9) ** 0.5}
    assert {name: row[name] for name in expected} == pytest.approx(expected)


def test_writes_at_less_than_full_rate_have_no_estimators_of_the_paper(tmp_path: Path) -> None:
    at_full_rate = runs("lammps", OFF_S, ON_S)
    slowed = [
        replace(sample, writers=[replace(writer, asked_b_s=4e9) for writer in sample.writers])
        for sample in runs("hpccg", OFF_S, ON_S)
    ]
    rows = answer(ESTIMATORS, load(tmp_path, at_full_rate, slowed))
    assert rows["case"].to_list() == ["lammps"]


@pytest.mark.parametrize("arm", ["daly", "constant"])
def test_estimators_of_the_paper_at_scale(tmp_path: Path, arm: str) -> None:
    """Of six runs, the sixth is the best, but only five are used. A mean needs ten runs."""
    times_s = [10.0, 12, 11, 10, 12, 1], [15.0, 18, 16, 17, 20, 2]
    runs = under(arm, "lammps_scaling", *times_s)
    (row,) = answer(ESTIMATORS, load(tmp_path, runs)).to_dicts()
    assert (row["off_best"], row["on_best"], row["off_mean"]) == (10.0, 15.0, None)
    assert (row["of_best"], row["best_against_median"]) == pytest.approx((1.5, 1.7))


def test_rates_by_hand_and_too_few_runs() -> None:
    estimates = paper_estimates([4.0, 4.0, 5.0, 4.0, 4.0], [2.0, 2.5, 2.0, 2.0, 2.0], "higher")
    assert estimates["of_best"] == pytest.approx(2.0)  # 5 / 2.5
    assert estimates["best_against_median"] == pytest.approx(2.5)  # 5 / 2
    assert (estimates["off_mean"], estimates["of_means"]) == (None, None)
    few = paper_estimates([1.0] * 4, [1.0] * 9, "lower")
    assert {name for name, value in few.items() if value} == {"on_best"}
