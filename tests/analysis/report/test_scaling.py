"""Run time against ranks: what is drawn, and both estimates beside."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from analysis.report.data import RunData, load_run
from analysis.report.page import render
from analysis.subjects.paper_tables import best_of_five, scaling_view
from tests.analysis.synthetic import Case, reject, samples, write_run

EFFECTS = {"daly": 1.5, "constant": 1.2, "aa": 1.0}


def scale(ranks: int, base: float) -> Case:
    name = f"lammps_scaling@{ranks}"
    return Case(name, "s", "lower", base, EFFECTS, noise=0.001, pair_noise=0.0)


def run_of(tmp_path: Path, *ranks: int) -> RunData:
    found = [
        replace(sample, fom_extra={"ranks": float(count)})
        for count in ranks
        for sample in samples(scale(count, 10.0), pairs=6)
    ]
    found[5] = reject(found[5], "rejected", "too late")
    return load_run(write_run(tmp_path / "run", found))


def test_both_estimates_of_every_scale(tmp_path: Path) -> None:
    view = scaling_view(run_of(tmp_path, 64, 16), "f")
    assert view is not None
    assert [(row.ranks, row.result.arm) for row in view.rows] == [
        (ranks, arm) for ranks in (16, 64) for arm in ("constant", "daly")
    ]
    for row in view.rows:
        truth = EFFECTS[row.result.arm]
        assert row.paper.of_best == pytest.approx(truth, rel=0.01)
        if row.result.slowdown is not None:
            assert row.result.slowdown == pytest.approx(truth, rel=0.01)
    assert view.published == 3


def test_one_scale_makes_no_figure(tmp_path: Path) -> None:
    assert scaling_view(run_of(tmp_path, 16), "f") is None


def test_every_run_is_drawn(tmp_path: Path) -> None:
    view = scaling_view(run_of(tmp_path, 16, 64), "f")
    assert view is not None
    # Two scales of six pairs with off, daly and constant, rejected ones included.
    assert view.svg.count("<use ") >= 2 * 6 * 3
    assert "published: up to 3 x off at 8,192 ranks" in view.svg


def test_the_paper_takes_the_best_of_the_first_five() -> None:
    points = pl.DataFrame({"arm": "off", "ranks": 4.0, "fom": [5.0, 4.0, 6.0, 7.0, 8.0, 1.0]})
    assert best_of_five(points)["fom"].to_list() == [4.0]


def test_the_page_shows_it(tmp_path: Path) -> None:
    page = render([run_of(tmp_path, 16, 64)])
    assert "Run time against ranks" in page
    assert "best of 5" in page
    captions = re.findall("<figcaption>.*?</figcaption>", page)
    assert all("Emulated RDMA, not RDMA hardware." in caption for caption in captions)
