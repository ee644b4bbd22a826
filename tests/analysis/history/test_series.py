"""Series from tables of nights."""

import math
from datetime import date

import pytest

from analysis.history.tables import nights_a_year, series_of
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


@pytest.mark.parametrize(
    ("began_h", "runs"),
    [
        # The first of several runs counts, whatever the order of the rows.
        ([2, 1, 24, 48], [1, 2, 3]),
        # Nights begin at 22:00; repeats at 1:00 belong to the night before.
        ([22, 25, 46, 49, 70], [0, 2, 4]),
        # A night that begins late, at 0:10, does not hide the next one at 23:30.
        ([23.5, 48 + 1 / 6, 71.5], [0, 1, 2]),
        # 18 hours are a night.
        ([0, 17.9, 18, 35.9], [0, 2]),
    ],
)
def test_the_first_run_of_a_night_counts(began_h: list[float], runs: list[int]) -> None:
    (first,) = night_rows([1.0])
    rows = [
        {**first, "run": str(n), "value": n + 1.0, "started_s": first["started_s"] + hours * 3600}
        for n, hours in enumerate(began_h)
    ]
    (series,) = series_of(nights_table(*rows))
    assert series.runs == [str(n) for n in runs]
    assert series.worse.tolist() == pytest.approx([math.log(n + 1) for n in runs])


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
