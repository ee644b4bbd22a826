import re
from datetime import date, timedelta

import numpy as np
import pytest

from analysis.pages.svg import Bar, Mark, NightsFigure, bars_svg, nights_svg

FIRST, LAST = date(2025, 1, 1), date(2025, 1, 10)
DAYS = [FIRST + timedelta(each) for each in range(10)]


def _figure(values: list[float], **changes: object) -> NightsFigure:
    none = np.full(len(values), np.nan)
    fields: dict[str, object] = {
        "days": DAYS[: len(values)],
        "values": np.array(values, dtype=float),
        "low": none,
        "high": none,
        "colour": "on",
        "alt": "text",
        **changes,
    }
    return NightsFigure(**fields)  # type: ignore[arg-type]


def _path(svg: str, name: str) -> str:
    return re.findall(rf'<path class="{name}"[^>]* d="([^"]*)"', svg)[0]


def _points(svg: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"M(\S+) (\S+?)h0", _path(svg, "dots"))]


def test_every_night_is_a_point_in_order_of_time_and_larger_values_are_higher() -> None:
    values = [3.0, 1.0, 2.0, 2.0, 2.5, 1.5, 2.0, 2.0, 2.0, 2.0]
    points = _points(nights_svg(_figure(values), FIRST, LAST))
    assert len(points) == 10
    steps = np.diff([x for x, _ in points])
    assert steps == pytest.approx(steps[0], abs=0.11)  # coordinates have one decimal
    ups = [-y for _, y in points]
    assert np.argsort(ups, kind="stable").tolist() == np.argsort(values, kind="stable").tolist()


def test_a_span_just_below_a_power_of_ten_has_ticks() -> None:
    """Half of 1.16 times this is 999.9999999999999, whose logarithm is rounded to 3."""
    svg = nights_svg(_figure([0.0, 1724.1379310344826]), FIRST, LAST)
    assert ">0</text>" in svg
    assert ">1000</text>" in svg


def test_a_night_that_was_not_measured_leaves_a_gap() -> None:
    figure = _figure([1.0, 2.0, 1.5], days=[DAYS[0], DAYS[1], DAYS[9]])
    (a, b, c) = (x for x, _ in _points(nights_svg(figure, FIRST, LAST)))
    assert (c - a) / (b - a) == pytest.approx(9, rel=0.02)


def test_what_is_far_out_is_a_cross_at_the_edge_and_the_others_keep_their_room() -> None:
    svg = nights_svg(_figure([10, 10.1, 9.9, 10, 10.1, 9.9, 10, 10.05, 9.95, 99]), FIRST, LAST)
    assert len(_points(svg)) == 9
    assert _path(svg, "far").count("M") == 1
    ups = [y for _, y in _points(svg)]
    assert max(ups) - min(ups) > 20


def test_only_whole_intervals_are_drawn() -> None:
    low, high = np.array([0.9, np.nan, 1.8]), np.array([1.1, 2.1, 2.2])
    svg = nights_svg(_figure([1.0, 2.0, 2.0], low=low, high=high), FIRST, LAST)
    assert _path(svg, "bars").count("V") == 2


def test_changes_are_marked_at_their_night_and_escaped() -> None:
    marks = [Mark(DAYS[5], "worse", "a <b>"), Mark(DAYS[2], "made", "kernel")]
    svg = nights_svg(_figure([1.0] * 10, marks=marks), FIRST, LAST)
    x = float(re.findall(r'class="mark worse" d="M(\S+) ', svg)[0])
    points = _points(svg)
    assert points[4][0] < x < points[5][0]
    assert "a &lt;b&gt;" in svg
    assert 'class="mark made"' in svg


@pytest.mark.parametrize(
    ("first", "last", "labels"),
    [
        (date(2025, 3, 2), date(2025, 7, 9), ["Apr", "May", "Jun", "Jul"]),
        (date(2024, 10, 1), date(2025, 9, 30), ["Nov", "2025", "Mar", "May", "Jul", "Sep"]),
        (date(2022, 3, 1), date(2025, 2, 28), ["Jul", "2023", "Jul", "2024", "Jul", "2025"]),
        (date(2010, 3, 1), date(2025, 2, 28), ["2013", "2016", "2019", "2022", "2025"]),
        (date(2025, 3, 2), date(2025, 3, 9), ["2025-03-02"]),
    ],
)
def test_up_to_six_months_are_named_and_january_is_the_year(
    first: date, last: date, labels: list[str]
) -> None:
    svg = nights_svg(_figure([1.0], days=[first]), first, last)
    assert re.findall(r">([^<>]+)</text>", svg)[-len(labels) :] == labels


def test_one_night_and_equal_nights_have_a_figure() -> None:
    assert len(_points(nights_svg(_figure([0.0]), FIRST, FIRST))) == 1
    assert len(_points(nights_svg(_figure([5.0] * 10, level=5.0), FIRST, LAST))) == 10


def test_bars_lie_where_their_values_are() -> None:
    svg = bars_svg([Bar("a", 1.5, 1.4, 1.6), Bar("b", 1.1, 0.9, 1.3)], "text", "slowdown")
    ends = [
        tuple(map(float, each))
        for each in re.findall(r'class="bar"[^>]* d="M(\S+) \S+?H(\S+?)"', svg)
    ]
    one = float(re.findall(r'class="axis" d="M(\S+) ', svg)[0])
    assert ends[1][0] < one < ends[1][1] < ends[0][1]
    scale = (ends[0][1] - ends[0][0]) / 0.2
    assert one == pytest.approx(ends[0][0] - 0.4 * scale, abs=1.5)
