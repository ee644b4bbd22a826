"""Tests the picture of run time over numbers of ranks, with made runs of known times."""

import re
from pathlib import Path

import polars as pl
import pytest

from analysis.compare import page as comparison
from analysis.compare.sides import compare_sides
from analysis.subjects.scaling_section import best_of_five, scaling_view
from tests.analysis.subjects.made_scaling import EFFECTS, run_of


@pytest.mark.parametrize(("ranks", "workload"), [([16], "lammps_scaling"), ([16, 64], "minife")])
def test_one_scale_and_other_workloads_make_no_figure(
    tmp_path: Path, ranks: list[int], workload: str
) -> None:
    assert scaling_view(run_of(tmp_path, *ranks, workload=workload)) is None


def test_the_paper_takes_the_best_of_the_first_five() -> None:
    first = pl.DataFrame({"arm": "off", "ranks": 4.0, "fom": [5.0, 4.0, 6.0, 7.0, 8.0, 1.0]})
    few = pl.DataFrame({"arm": "daly", "ranks": 4.0, "fom": [5.0, 4.0, 6.0, 7.0]})
    assert best_of_five(pl.concat([first, few])).rows() == [("off", 4.0, 4.0)]


@pytest.mark.usefixtures("undrawn")
def test_two_machines_are_in_one_picture(tmp_path: Path) -> None:
    """As in figure 6a, writes cost nothing on the machine whose network interface offloads."""
    spared = dict.fromkeys(EFFECTS, 1.0)
    loses = run_of(tmp_path / "a", 16, 64)
    sides = [loses, run_of(tmp_path / "b", 16, 64, effects=spared, later_s=1e6)]
    page = comparison.render(compare_sides(sides[:1], sides[1:]))
    series = re.search(r"Run time against ranks, best of five in s: ([^<\"]*)", page)[1]
    shown = dict(point.rsplit(" ", 1) for point in series.strip().split("; "))
    daly = {f"daly, {side}, 64 ranks": time for side, time in SIDES.items()}
    off = {f"off, {side}, 16 ranks": 10.0 for side in SIDES}
    assert len(shown) == 2 * 2 * 3
    for name, time_s in {**daly, **off}.items():
        assert float(shown[name]) == pytest.approx(time_s, rel=0.01)
    one = [run_of(tmp_path / "c", 16, later_s=1e6)]
    assert "Run time against ranks" not in comparison.render(compare_sides(sides[:1], one))


SIDES = {"reference": 15.0, "this side": 10.0}


def test_the_page_shows_every_run_and_what_was_published(tmp_path: Path) -> None:
    view = scaling_view(run_of(tmp_path, 16, 64))
    assert view
    (picture,) = view.pictures
    svg = picture.svg("f")
    # There are two scales with six pairs of off, daly and constant; one run was rejected.
    points = re.findall(r'<g id="f-line2d_\d+">\s*<defs>.*?</g>\s*</g>', svg, re.DOTALL)
    assert sorted(svg.count("<use ") for svg in points)[-3:] == [11, 12, 12]
    assert svg.count('id="f-published"') == 2
    ticks = re.findall(r"<text[^>]*>([\d,]+)</text>", svg)
    assert ticks[:3] == ["16", "64", "8,192"]
    best = re.search(r"best of five in s: ([^\"]*)", svg)[1]
    known = {name: float(value) for name, value in re.findall(r"(\w+, \d+) ranks ([\d.]+)", best)}
    truth = {"off": 10.0, "constant": 12.0, "daly": 15.0}
    assert known == pytest.approx(
        {f"{arm}, {ranks}": value for arm, value in truth.items() for ranks in (16, 64)}, rel=0.01
    )
