"""Descriptions: what is refused, with file, line and field; nights, worked out by hand.

Berlin changes its clocks on 2026-03-29 and 10-25.
"""

from datetime import date, datetime, time, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from nimc.base.errors import InputError
from nimc.nights.description import NightWindow, load
from tests.nimc.nights.made import TEXT, nightly

KNOWN = TEXT.format(campaign="c.yaml", results="r")


def test_a_description_holds_si_units(tmp_path: Path) -> None:
    found = nightly(
        tmp_path, fresh_after="90min", retention="{age: 1d, size: 1GiB}", job="[--partition=cron]"
    )
    assert (found.fresh_after_s, found.budget_node_h) == (5400, 2)
    assert (found.retention.age_s, found.retention.size_b) == (86400, 2**30)
    assert (found.window.start, found.window.end) == (time(22), time(5))
    assert (found.name, found.longest_s) == ("box", 7 * 3600 + 900)
    assert found.folder == tmp_path / "results" / "nights"


def test_the_shipped_one_is_valid_and_names_a_campaign_that_exists() -> None:
    found = load("example")
    assert found.campaign.is_file()
    assert found.target == "example"


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (KNOWN.replace("22:00", "24:00"), 3, "window.start: '24:00' found; allowed: a time of day"),
        (KNOWN.replace("tue", "tues"), 3, "window.days.1: 'tues' found; allowed:"),
        (KNOWN.replace("tue", "mon"), 3, "window.days: a list found; allowed: each day once"),
        (KNOWN.replace("budget: 2", "budget: 0"), 4, "budget: 0 found; allowed: greater than 0"),
        (KNOWN + "fresh_after: 0s\n", 6, "fresh_after: '0s' found; allowed: greater than 0"),
        (KNOWN + "bugdet: 2\n", 6, "bugdet: unknown key; allowed: machine, campaign, window,"),
        (KNOWN + "tell: {mail: ['a b']}\n", 6, "tell.mail.0: 'a b' found; allowed: a mail address"),
        (KNOWN + "tell: {webhook: 'file:///x'}\n", 6, "tell.webhook: 'file:///x' found; allowed:"),
        (KNOWN + "pages: ''\n", 6, "pages: '' found; allowed: a path"),
        (KNOWN + 'pages: "a\\nb"\n', 6, "pages: 'a\\nb' found; allowed: a path"),
        (KNOWN + 'tell: {webhook: "$A\\n"}\n', 6, "tell.webhook: '$A\\n' found; allowed:"),
        (KNOWN + "job: ['a b']\n", 6, "job.0: 'a b' found"),
        (KNOWN.replace("localhost", "../x"), 1, "machine: '../x' found; allowed: a word"),
        (KNOWN.replace("machine: localhost\n", ""), 1, "machine: missing"),
    ],
)
def test_faults_name_file_line_and_field(tmp_path: Path, text: str, line: int, what: str) -> None:
    with pytest.raises(InputError) as error:
        nightly(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path}/box.yaml:{line}: {what}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [("nothing", "known nightlies"), *((n, "invalid name") for n in ("../a", "a b", ""))],
)
def test_a_name_that_is_no_file_is_refused(name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load(name)


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
    # A start that the clocks show twice is the first.
    window = NightWindow(start=time(2, 30), end=time(6))
    found = window.night_on(date(2026, 10, 25), BERLIN)
    assert found.start_s == utc(2026, 10, 25, 0, 30)  # 02:30 CEST
    assert found.end_s == utc(2026, 10, 25, 5)


def test_after_midnight_it_is_still_the_night_of_the_day_before() -> None:
    friday = NightWindow(start=time(22), end=time(5), days=["fri"])
    for moment in (utc(2026, 11, 20, 21), utc(2026, 11, 21, 3, 59, 59)):
        night = friday.night_at(moment, BERLIN)
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
    sundays = noon.nights(date(2026, 11, 15), date(2026, 11, 29), BERLIN)  # both included
    assert [each.date.day for each in sundays] == [15, 22, 29]
    whole = NightWindow(start=time(6), end=time(6))
    assert whole.length_s == 86400
    assert whole.night_at(utc(2026, 11, 22, 4, 59), BERLIN).date == date(2026, 11, 21)  # type: ignore[union-attr]
