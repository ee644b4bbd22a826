"""Effects by factor: layout, figures and tables, of runs whose effects are known.

What the figure of effects by factor draws, and where.
"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.effects.estimate import Result
from analysis.report.data import RunData, load_run
from analysis.report.factors import (
    Axis,
    Layout,
    Line,
    Plotted,
    draw,
    factors_view,
    lay_out,
)
from analysis.report.page import render
from analysis.report.plots import View
from analysis.statistics.interval import Estimate, Interval
from records.arms import level_text, named_level
from records.sample import Level
from tests.analysis.remedies.sweeps import sweep, swept
from tests.analysis.synthetic import STREAM, result, samples, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    found = swept(sweep(noise=0.0, transport="tcp"), pairs=6)
    return load_run(write_run(tmp_path_factory.mktemp("sweep") / "run", found))


@pytest.fixture(scope="module")
def page(run: RunData) -> str:
    return render([run])


def view_of(run: RunData) -> View:
    view = factors_view(run.results, run.pairs, run.contrasts, "x")
    assert view is not None
    return view


@pytest.mark.parametrize(
    ("varied", "expected"),
    [
        # More than two levels come before numbers, numbers before words, then the order holds.
        ({"reserved_cores": [0, 1], "rate": [0, "25%", "full"]}, ("rate", "reserved_cores", [])),
        ({"load": ["read", "write", "idle"], "rate": [0, "full"]}, ("load", "rate", [])),
        ({"tool": ["none", "perf_stat"], "reserved_cores": [0, 1]}, ("reserved_cores", "tool", [])),
        ({"tool": ["none", "perf_stat"]}, ("tool", None, [])),
        (
            {"a": ["x", "y"], "b": ["x", "y"], "c": ["x", "y"], "arm": ["on", "daly", "full"]},
            ("a", "b", ["c", "arm"]),
        ),
        # A truth value and sizes are no numbers on an axis.
        ({"pinned": [False, True], "share": ["5%", "10%"]}, ("share", "pinned", [])),
        ({"message": ["4KiB", "1MiB"], "limit": ["1GB/s", "2GB/s"]}, ("limit", "message", [])),
    ],
)
def test_which_factor_is_on_the_axis(
    varied: dict[str, list[Level]], expected: tuple[str, str | None, list[str]]
) -> None:
    assert lay_out(varied) == Layout(*expected)


def test_the_axis_is_the_rate_that_was_reached_and_every_pair_a_point(run: RunData) -> None:
    view = view_of(run)
    (figure,) = view.figures
    assert figure.axis == "rate"
    assert "writers' rate in GB/s, as measured" in figure.svg
    assert figure.lines == ["reserved cores 0", "reserved cores 1"]
    ticks = [float(text) for text in re.findall(r"<text[^>]*>(\d+(?:\.\d+)?)</text>", figure.svg)]
    assert max(ticks) < 25  # GB/s: no per cent among them
    # 8 GB/s times 0.9: beyond 7 on the axis, where 8 or 100 are not.
    assert 7 in ticks
    groups = re.findall(r'<g id="x0-pairs-\d+-\d+">.*?</g>\s*</g>', figure.svg, re.DOTALL)
    assert len(groups) == 8
    places = [[float(x) for x in re.findall(r'<use [^>]*x="(.+?)"', group)] for group in groups]
    assert [len(each) for each in places] == [6] * 8
    # Each at the rate of its own pair.
    for row, found in zip(view.rows[:8], places, strict=True):
        own = run.samples.filter(arm=row.arm, status="counts").sort("pair")["writer_rate_b_s"]
        assert np.argsort(found).tolist() == np.argsort(own).tolist()


def test_the_table_has_a_row_a_treatment_in_order_of_levels(run: RunData) -> None:
    view = view_of(run)
    assert view.factors == ["reserved_cores", "rate"]
    rows = [
        (row.role, *(level_text(row.factors[name]) for name in view.factors)) for row in view.rows
    ]
    assert rows == [
        *(("effect", cores, rate) for cores in "01" for rate in ("25%", "50%", "75%", "full")),
        ("floor", "0", "0"),
        ("floor", "1", "0"),
    ]
    found = {row.arm: row.slowdown.value for row in view.rows}
    # 12.8 GB/s without writes, less a tenth of 0.5 x 0.9 x 8 GB/s.
    assert found["on@reserved_cores=1,rate=50%"] == pytest.approx(12.8 / (12.8 - 0.36))


def test_names_with_signs_make_no_invalid_ids_and_figures_are_marked(page: str) -> None:
    assert "on@reserved_cores=1,rate=25%" in page.replace("<wbr>", "")
    names = re.findall(r'\b(?:id|href)="#?([^"]*)"', page) + re.findall(r"var\(--([^)]*)\)", page)
    assert not [name for name in names if not re.fullmatch(r"[\w.-]*|data:,", name)]
    declared = re.findall(r"--([^:;{}]+):", page.split("</style>")[0])
    assert {*re.findall(r"var\(--([^)]*)\)", page)} - {"columns"} <= {*declared}
    captions = re.findall(r"<figcaption>.*?</figcaption>", page, re.DOTALL)
    (by_factor,) = (each for each in captions if "Slowdown against rate" in each)
    assert "Emulated RDMA, not RDMA hardware." in by_factor


def test_a_figure_each_for_further_factors_six_at_most(tmp_path: Path) -> None:
    effects: dict[str, float] = {"aa": 1.0}
    factors: dict[str, dict[str, Level]] = {}
    for load in ("read", "write", "nt_write", "copy", "scale", "add", "triad"):
        for place in ("nic", "other"):
            for node in (0, 1, 2):
                name = f"on@load={load},place={place},node={node}"
                effects[name] = 1.1
                factors[name] = {"node": node, "place": place, "load": load}
    case = replace(STREAM, effects=effects, factors=factors)
    run = load_run(write_run(tmp_path / "run", samples(case, pairs=6)))
    view = view_of(run)
    assert [(figure.axis, figure.at) for figure in view.figures] == [
        ("node", f"load {load}") for load in ("add", "copy", "nt_write", "read", "scale", "triad")
    ]
    assert view.combinations == 7
    assert view.figures[0].lines == ["place nic", "place other"]
    assert len(view.rows) == 42 + 1


def figure_of(folder: Path, factor: str, levels: list[Level]) -> View:
    names = ["on", *(f"on@{factor}={named_level(level)}" for level in levels[1:])]
    own = {name: {factor: level} for name, level in zip(names, levels, strict=True)}
    case = replace(STREAM, effects=dict.fromkeys(names, 1.2), factors=own)
    (figure,) = view_of(load_run(write_run(folder / "run", samples(case, pairs=6)))).figures
    return figure


@pytest.mark.parametrize(
    ("factor", "levels", "ticks"),
    [
        ("tool", ["none", "perf_stat"], ["none", "perf_stat"]),
        ("pinned", [False, True], ["false", "true"]),
        ("message", ["4KiB", "1MiB", "64KiB"], ["4KiB", "64KiB", "1MiB"]),
        ("cores", [1, 128, 2], ["1", "2", "128"]),
    ],
)
def test_levels_are_ticks_in_their_order(
    tmp_path: Path, factor: str, levels: list[Level], ticks: list[str]
) -> None:
    figure = figure_of(tmp_path, factor, levels)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", figure.svg)
    assert texts[: len(ticks)] == ticks
    assert figure.lines == []


@pytest.mark.parametrize(
    ("levels", "second_place"),
    [
        ([1, 2, 13], 1 / 12),  # in proportion: 2 lies a twelfth of the way from 1 to 13
        ([1, 2, 14], 1 / 2),  # evenly: 13 is more than 12 times the least distance
        ([0, 6, 8], 3 / 4),
    ],
)
def test_numbers_are_spaced_in_proportion_unless_they_are_far_apart(
    tmp_path: Path, levels: list[Level], second_place: float
) -> None:
    figure = figure_of(tmp_path, "cores", levels)
    ticks = re.findall(r'-xtick_\d+">.*?<text [^>]* x="(.+?)"', figure.svg, re.DOTALL)
    groups = re.findall(r'-pairs-0-\d+">.*?<use [^>]* x="(.+?)"', figure.svg, re.DOTALL)
    for places in (ticks, groups):
        first, second, third = map(float, places)
        assert (second - first) / (third - first) == pytest.approx(second_place, abs=1e-3)


def test_one_level_of_everything_makes_no_section(tmp_path: Path) -> None:
    plain = load_run(write_run(tmp_path / "plain", samples(STREAM, pairs=6)))
    assert factors_view(plain.results, plain.pairs, [], "x") is None
    levels: dict[str, dict[str, Level]] = {"on": {"rate": "full"}, "aa": {"rate": 0}}
    on_off = replace(STREAM, factors=levels)
    run = load_run(write_run(tmp_path / "run", samples(on_off, pairs=6)))
    assert factors_view(run.results, run.pairs, [], "x") is None


MEASURED = Axis("writers' rate", None, numeric=True)


def of(slowdown: float, floor: tuple[float, float] = (0.99, 1.01)) -> Result:
    """An interval a tenth below and two above."""
    estimate = Estimate(slowdown, slowdown - 0.1, slowdown + 0.2, 0.95)
    return result(slowdown=estimate, noise_floor=Interval(*floor))


def drawn(axes: Axes, prefix: str) -> list[Line2D]:
    return [line for line in axes.get_lines() if str(line.get_gid()).startswith(prefix)]


def bars(axes: Axes) -> list[tuple[list[float], list[float]]]:
    """Places and ends of the intervals, which are the thick lines."""
    thick = [line for line in axes.get_lines() if line.get_linewidth() == 3]
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in thick]


def test_pairs_have_their_own_places_and_intervals_theirs() -> None:
    points = [
        Plotted(of(1.2), 2.0, [1.9, 2.1], [1.1, 1.3]),
        Plotted(of(1.5), 4.0, [3.8, 4.2], [1.4, 1.6]),
    ]
    axes = draw(Figure(), [Line("", "on", "^", points)], MEASURED)
    one, two = drawn(axes, "pairs-0-")
    assert (list(one.get_xdata()), list(one.get_ydata())) == ([1.9, 2.1], [1.1, 1.3])
    assert list(two.get_xdata()) == [3.8, 4.2]
    assert bars(axes) == [
        ([2.0, 2.0], [pytest.approx(1.1), pytest.approx(1.4)]),
        ([4.0, 4.0], [pytest.approx(1.4), pytest.approx(1.7)]),
    ]
    assert axes.get_xlim()[0] == 0
    assert axes.get_xlim()[1] > 4.2
    assert axes.get_ylim()[0] < 1.0
    # A pair far off is within the limits.
    points = [Plotted(of(1.2), 2.0, [2.0, 2.0], [1.1, 9.0])]
    axes = draw(Figure(), [Line("", "on", "^", points)], MEASURED)
    assert axes.get_ylim()[1] > 9


def test_lines_stand_beside_one_another_at_the_same_level() -> None:
    axis = Axis("tool", {0.0: "none", 1.0: "perf_stat"}, numeric=False)
    lines = [
        Line(label, colour, "o", [Plotted(of(1.2), 0.0, None, [1.1, 1.3])])
        for label, colour in (("rate 50%", "level0"), ("rate full", "level1"))
    ]
    axes = draw(Figure(), lines, axis)
    (first, _), (second, _) = bars(axes)
    # Half the distance between levels is shared by both, a quarter each.
    assert first[0] == pytest.approx(-0.125)
    assert second[0] == pytest.approx(0.125)
    for line, place in zip(drawn(axes, "pairs-"), (-0.125, 0.125), strict=True):
        assert all(place < x < place + 0.125 for x in line.get_xdata())


def test_one_noise_floor_is_a_band_over_the_width_and_several_are_one_each() -> None:
    axis = Axis("reserved cores", {0.0: "0", 1.0: "1"}, numeric=True)

    def bands(*floors: tuple[float, float]) -> tuple[int, int]:
        points = [Plotted(of(1.2, floor), float(x), None, []) for x, floor in enumerate(floors)]
        axes = draw(Figure(), [Line("", "on", "^", points)], axis)
        return len(axes.patches), len(axes.collections)

    assert bands((0.9, 1.1), (0.9, 1.1)) == (1, 0)
    assert bands((0.9, 1.1), (0.8, 1.1)) == (0, 2)
    # A treatment without an estimate shows its pairs alone.
    short = Plotted(result(pairs=2), 1.0, [1.0, 1.0], [1.2, 1.3])
    axes = draw(Figure(), [Line("", "on", "^", [short])], MEASURED)
    assert bars(axes) == []
    assert len(drawn(axes, "pairs-")) == 1
    assert (len(axes.patches), len(axes.collections)) == (0, 0)
