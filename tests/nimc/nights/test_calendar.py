"""Nights that ran and nights that did not, from the calendar alone."""

from dataclasses import replace
from datetime import date, datetime, time
from zoneinfo import ZoneInfo

from nimc.nights.description import NightWindow
from nimc.nights.summary import UNFINISHED, Summary, calendar
from tests.nimc.nights.made import summary

BERLIN = ZoneInfo("Europe/Berlin")
WINDOW = NightWindow(start=time(22), end=time(5), days=["mon", "tue", "wed", "thu", "fri"])


def day(number: int) -> date:
    return date(2026, 11, number)


def look(
    known: dict[date, Summary], hour: int, *, at: int = 20, first: int = 16, running: bool = False
) -> list[tuple[int, str | None]]:
    """Day and outcome; the 16th is a Monday, the 20th a Friday."""
    now_s = datetime(2026, 11, at, hour, tzinfo=BERLIN).timestamp()
    found = calendar(WINDOW, known, day(first), now_s, running=running, zone=BERLIN)
    return [(each.night.day, each.outcome) for each in found]


def test_a_scheduled_night_without_a_summary_was_not_run() -> None:
    known = {day(17): summary(night=day(17), outcome="measured")}
    rows = look(known, 12)
    # Monday is before the first summary; Friday's night has not begun.
    assert rows == [(17, "measured"), (18, "not run"), (19, "not run")]


def test_a_nightly_that_never_ran_is_seen() -> None:
    assert look({}, 12, at=18) == [(16, "not run"), (17, "not run")]


def test_tonight_is_open_until_its_window_ends() -> None:
    assert look({}, 23, first=20) == [(20, None)]
    assert look({}, 4, at=21, first=20) == [(20, None)]
    assert look({}, 5, at=21, first=20) == [(20, "not run")]
    assert look({}, 23, at=21, first=21) == []  # Saturday


def test_a_killed_night_is_not_running() -> None:
    begun = summary(night=day(19), finished_s=None, outcome="machine failed", reason=UNFINISHED)
    assert look({day(19): begun}, 23, at=19, running=True) == [(19, None)]
    assert look({day(19): begun}, 12, at=20) == [(19, "machine failed")]
    later = replace(begun, night=day(20), started_s=begun.started_s + 86400)
    both = {day(19): begun, day(20): later}
    assert look(both, 23, at=20, running=True) == [(19, "machine failed"), (20, None)]


def test_a_night_made_up_for_on_a_day_off_is_listed() -> None:
    known = {day(15): summary(night=day(15), outcome="measured")}  # a Sunday
    assert look(known, 12, at=16, first=15) == [(15, "measured")]
    assert look(known, 12, at=17, first=16) == [(16, "not run")]
