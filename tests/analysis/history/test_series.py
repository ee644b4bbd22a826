"""Series from tables of nights."""

import math
from datetime import date, timedelta

import pytest

from analysis.history.series import nights_a_year, series_of
from tests.analysis.history.nights_table import night_rows, nights_table


def test_worse_is_up_whatever_is_better() -> None:
    times = night_rows([1.0, math.e])
    rates = night_rows([1.0, math.e], quantity="writer_rate", better="higher")
    time, rate = series_of(nights_table(*times, *rates))
    assert time.worse.tolist() == pytest.approx([0.0, 1.0])
    assert rate.worse.tolist() == pytest.approx([0.0, -1.0])
    assert rate.value(-1.0) == pytest.approx(math.e)


def test_gaps_stay_gaps() -> None:
    (series,) = series_of(nights_table(*night_rows([1.0, None, None, 2.0])))
    assert series.nights == [date(2025, 1, 6), date(2025, 1, 9)]
    assert series.runs == ["run000", "run003"]


def test_of_several_runs_in_a_night_the_first_counts() -> None:
    rows = night_rows([4.0])
    again = [
        {**rows[0], "run": f"again{n}", "started_s": rows[0]["started_s"] + n, "value": value}
        for n, value in ((2, 8.0), (1, 2.0))
    ]
    (series,) = series_of(nights_table(*again, *rows))
    assert series.worse.tolist() == pytest.approx([math.log(4.0)])
    assert series.runs == ["run000"]


def test_repeats_after_midnight_belong_to_the_night_before() -> None:
    rows = night_rows([1.0, 2.0, 3.0])
    late_s = 20 * 3600  # the nights begin at 22:00, and the repeats at 1:00
    nights = [{**row, "started_s": row["started_s"] + late_s} for row in rows]
    repeats = [
        {**row, "run": "again", "started_s": row["started_s"] + 3 * 3600 - 86400, "value": 9.0}
        for row in nights[1:]
    ]
    (series,) = series_of(nights_table(*nights, *repeats))
    assert series.runs == ["run000", "run001", "run002"]
    assert [night.day for night in series.nights] == [6, 7, 8]


def test_a_night_that_began_late_does_not_hide_the_next_one() -> None:
    rows = night_rows([1.0, 2.0, 3.0])
    # 23:30, 0:10 two days later, and 23:30 of the same day.
    begins_s = (23.5 * 3600, 24 * 3600 + 600, 23.5 * 3600)
    days = (0, 1, 0)
    nights = [
        {
            **row,
            "started_s": row["started_s"] + begin_s,
            "night": row["night"] + timedelta(days=later),
        }
        for row, begin_s, later in zip(rows, begins_s, days, strict=True)
    ]
    (series,) = series_of(nights_table(*nights))
    assert series.runs == ["run000", "run001", "run002"]


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_values_without_a_logarithm_are_left_out(value: float) -> None:
    (series,) = series_of(nights_table(*night_rows([1.0, value, 2.0])))
    assert len(series.nights) == 2


def test_a_new_unit_begins_a_new_series() -> None:
    old = night_rows([5.0, 5.0], unit="s")
    new = night_rows([None, None, 7.0], unit="1/s", better="higher")
    (series,) = series_of(nights_table(*old, *new))
    assert (series.unit, series.nights) == ("1/s", [date(2025, 1, 8)])


def test_machines_and_arms_are_separate() -> None:
    rows = [night_rows([1.0], machine=m, arm=a)[0] for m in ("a", "b") for a in ("off", "on")]
    named = [(each.machine, each.arm) for each in series_of(nights_table(*rows))]
    assert named == [("a", "off"), ("a", "on"), ("b", "off"), ("b", "on")]


def test_nights_a_year_follow_the_calendar() -> None:
    weekly = [1.0 if day % 7 == 0 else None for day in range(70)]
    series = series_of(nights_table(*night_rows(weekly)))
    assert nights_a_year(series, date(2025, 3, 17)) == pytest.approx(365 / 7)
    assert nights_a_year(series, date(2025, 1, 6)) == 365
