"""Nights of a calendar, worked out by hand; Berlin changes its clocks on 2026-03-29 and 10-25."""

from datetime import date, datetime, time, timezone
from zoneinfo import ZoneInfo

import pytest

from nimc.nights.description import NightWindow

BERLIN = ZoneInfo("Europe/Berlin")
WINDOW = NightWindow(start=time(22), end=time(5))


def utc(*moment: int) -> float:
    return datetime(*moment, tzinfo=timezone.utc).timestamp()


@pytest.mark.parametrize(
    ("night", "start", "hours"),
    [
        # CET is UTC+1, CEST UTC+2.
        (date(2026, 11, 20), utc(2026, 11, 20, 21), 7),
        (date(2026, 3, 28), utc(2026, 3, 28, 21), 6),  # 02:00 becomes 03:00
        (date(2026, 10, 24), utc(2026, 10, 24, 20), 8),  # 03:00 becomes 02:00
    ],
)
def test_a_night_is_an_hour_shorter_or_longer_if_clocks_change(
    night: date, start: float, hours: int
) -> None:
    found = WINDOW.night_on(night, BERLIN)
    assert (found.start_s, found.end_s - found.start_s) == (start, hours * 3600)


@pytest.mark.parametrize(
    ("zone", "start", "night", "hours"),
    [
        # 02:00 CET becomes 03:00 CEST at 01:00 UTC: cron starts what was skipped then, mktime makes
        # 03:30 CEST of 02:30.
        ("Europe/Berlin", (2, 30), (2026, 3, 29), (1, 1.5)),
        # Midnight becomes 01:00 EEST at 22:00 UTC of the day before.
        ("Africa/Cairo", (0, 15), (2026, 4, 24), (-2, -1.75)),
    ],
)
def test_a_start_that_the_clocks_skip_is_when_they_do(
    zone: str, start: tuple[int, int], night: tuple[int, int, int], hours: tuple[float, float]
) -> None:
    window = NightWindow(start=time(*start), end=time(6))
    midnight_s = utc(*night)
    found = window.night_on(date(*night), ZoneInfo(zone))
    assert found.start_s == midnight_s + 3600 * hours[0]
    for hour in hours:
        begun = window.night_at(midnight_s + 3600 * hour, ZoneInfo(zone))
        assert begun == found
    assert window.night_at(found.start_s - 1, ZoneInfo(zone)) is None


def test_a_start_that_the_clocks_show_twice_is_the_first() -> None:
    window = NightWindow(start=time(2, 30), end=time(6))
    found = window.night_on(date(2026, 10, 25), BERLIN)
    assert found.start_s == utc(2026, 10, 25, 0, 30)  # 02:30 CEST
    assert found.end_s == utc(2026, 10, 25, 5)


def test_after_midnight_it_is_still_the_night_of_the_day_before() -> None:
    friday = NightWindow(start=time(22), end=time(5), days=["fri"])
    for moment in (utc(2026, 11, 20, 21), utc(2026, 11, 21, 3, 59, 59)):
        night = friday.night_at(moment, BERLIN)
        assert night
        assert night.date == date(2026, 11, 20)
    for moment in (
        utc(2026, 11, 20, 20, 59, 59),  # a second too early
        utc(2026, 11, 21, 4),  # 05:00 on Saturday
        utc(2026, 11, 21, 21),  # 22:00 on Saturday
    ):
        assert friday.night_at(moment, BERLIN) is None


def test_a_window_within_a_day_and_one_of_a_whole_day() -> None:
    noon = NightWindow(start=time(12), end=time(13, 30), days=["sun"])
    found = noon.night_on(date(2026, 11, 22), BERLIN)
    assert found.end_s - found.start_s == 5400
    assert noon.length_s == 5400
    whole = NightWindow(start=time(6), end=time(6))
    assert whole.length_s == 86400
    assert whole.night_at(utc(2026, 11, 22, 4, 59), BERLIN).date == date(2026, 11, 21)  # type: ignore[union-attr]


def test_scheduled_nights_of_a_week() -> None:
    window = NightWindow(start=time(22), end=time(5), days=["mon", "sat"])
    nights = [each.date for each in window.nights(date(2026, 11, 16), date(2026, 11, 23), BERLIN)]
    assert nights == [date(2026, 11, 16), date(2026, 11, 21), date(2026, 11, 23)]


def test_a_night_made_up_for_has_its_length_and_its_date() -> None:
    night = WINDOW.night_on(date(2026, 11, 20), BERLIN).moved_to(1000.0)
    assert (night.date, night.start_s, night.end_s) == (date(2026, 11, 20), 1000.0, 26200.0)
