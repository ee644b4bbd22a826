"""What the figure of effects by factor draws, and where."""

from __future__ import annotations

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.effects.estimate import Result
from analysis.report.factors import Axis, Line, Plotted, draw

MEASURED = Axis("writers' rate", None, numeric=True)


def result(slowdown: float, floor: tuple[float, float] = (0.99, 1.01)) -> Result:
    """An interval a tenth below and two above."""
    return Result(
        *("stream", "stream", "on", 6, 0, 1.0, 1.0, "s"),
        *(slowdown, slowdown - 0.1, slowdown + 0.2, *floor),
        *(None, None, None, None, "inconclusive", [], []),
        role="effect",
        baseline="off",
        better="lower",
    )


def drawn(axes: Axes, prefix: str) -> list[Line2D]:
    return [line for line in axes.get_lines() if str(line.get_gid()).startswith(prefix)]


def bars(axes: Axes) -> list[tuple[list[float], list[float]]]:
    """Places and ends of the intervals, which are the thick lines."""
    thick = [line for line in axes.get_lines() if line.get_linewidth() == 3]
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in thick]


def test_pairs_have_their_own_places_and_intervals_theirs() -> None:
    points = [
        Plotted(result(1.2), 2.0, [1.9, 2.1], [1.1, 1.3]),
        Plotted(result(1.5), 4.0, [3.8, 4.2], [1.4, 1.6]),
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


def test_a_pair_far_off_is_within_the_limits() -> None:
    points = [Plotted(result(1.2), 2.0, [2.0, 2.0], [1.1, 9.0])]
    axes = draw(Figure(), [Line("", "on", "^", points)], MEASURED)
    assert axes.get_ylim()[1] > 9


def test_lines_stand_beside_one_another_at_the_same_level() -> None:
    axis = Axis("tool", {0.0: "none", 1.0: "perf_stat"}, numeric=False)
    lines = [
        Line(label, colour, "o", [Plotted(result(1.2), 0.0, None, [1.1, 1.3])])
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
        points = [Plotted(result(1.2, floor), float(x), None, []) for x, floor in enumerate(floors)]
        axes = draw(Figure(), [Line("", "on", "^", points)], axis)
        return len(axes.patches), len(axes.collections)

    assert bands((0.9, 1.1), (0.9, 1.1)) == (1, 0)
    assert bands((0.9, 1.1), (0.8, 1.1)) == (0, 2)


def test_a_treatment_without_an_estimate_shows_its_pairs_alone() -> None:
    short = Result(
        *("stream", "stream", "on", 2, 0, 1.0, 1.0, "s", None, None, None, None, None),
        *(None, None, None, None, "too few pairs", [], []),
        role="effect",
        baseline="off",
        better="lower",
    )
    axes = draw(
        Figure(), [Line("", "on", "^", [Plotted(short, 1.0, [1.0, 1.0], [1.2, 1.3])])], MEASURED
    )
    assert bars(axes) == []
    assert len(drawn(axes, "pairs-")) == 1
    assert (len(axes.patches), len(axes.collections)) == (0, 0)
