"""The summary's document, who holds a machine's lock, and the calendar of nights."""

import json
import os
from dataclasses import replace
from datetime import date, datetime, time
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from nimc.base.errors import InputError
from nimc.nights.description import NightWindow
from nimc.nights.summary import (
    UNFINISHED,
    Summary,
    calendar,
    earlier,
    load,
    machine_lock,
    path_of,
    running,
    summaries,
    summary_text,
    write,
)
from tests.nimc.nights.made import SUMMARY, summary


def test_a_summary_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = path_of(tmp_path, "box", SUMMARY.night)
    assert path.name == "box-2026-11-20.json"
    write(path, summary_text(SUMMARY))
    assert load(path) == SUMMARY
    document = json.loads(path.read_text())
    assert (document["schema"], document["night"]) == (1, "2026-11-20")
    assert document["figures"][1] == {
        **{"case": "stream", "arm": "on", "quantity": "slowdown", "unit": "1", "better": "lower"},
        **{"value": 2.0, "low": 1.9, "high": 2.1, "count": 6, "verdict": "memory contention"},
    }
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"schema": 2}, "schema: 2 found; allowed: at most 1; written by a newer nimc"),
        ({"machine": "../x"}, "machine: "),
        ({"figures": [{}]}, "figures.0"),
    ],
)
def test_what_is_no_summary_is_refused(
    tmp_path: Path, change: dict[str, object], what: str
) -> None:
    path = tmp_path / "box-2026-11-20.json"
    path.write_text(json.dumps(json.loads(summary_text(SUMMARY)) | change))
    with pytest.raises(InputError, match=what):
        load(path)


def test_summaries_of_a_nightly_are_its_own(tmp_path: Path) -> None:
    names = ["box-2026-11-21.json", "box-2026-11-20.json", "box-2-2026-11-20.json", "box-x.json"]
    for name in [*names, "box-2026-99-99.json"]:
        (tmp_path / name).touch()
    assert [night for night, _ in summaries(tmp_path, "box")] == [day(20), day(21)]
    path_of(tmp_path, "box", day(20)).write_text(summary_text(SUMMARY))
    assert earlier(tmp_path, "box", day(20), 3) == []
    assert earlier(tmp_path, "box", day(22), 3) == [SUMMARY]  # the last one cannot be read
    assert earlier(tmp_path, "box", day(22), 1) == []


def test_one_case_of_it() -> None:
    of_lammps = summary().of_case("lammps")
    assert [each.case for each in of_lammps.figures] == ["lammps"]
    assert (of_lammps.alarms, of_lammps.failures) == ([], [])
    with pytest.raises(InputError, match="'hpl' found; allowed: stream, lammps, snap"):
        summary().of_case("hpl")


def test_a_night_is_running_only_under_its_own_name(tmp_path: Path) -> None:
    assert not running(tmp_path, "m", "box")
    with machine_lock(tmp_path, "m", "box") as (handle, _):
        assert handle is not None
        assert running(tmp_path, "m", "box")
        assert not running(tmp_path, "m", "bo")
        assert not running(tmp_path, "other", "box")
        with machine_lock(tmp_path, "m", "bo") as (other, holder):
            assert (other, holder.startswith(f"box, process {os.getpid()} on ")) == (None, True)
    assert not running(tmp_path, "m", "box")
    tmp_path.chmod(0o777)
    with pytest.raises(InputError, match="can be written by others"):
        machine_lock(tmp_path, "m", "box").__enter__()


def test_what_others_plant_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.lock")
    (tmp_path / "link.lock").symlink_to("fifo.lock")
    assert not running(tmp_path, "fifo", "box")
    assert not running(tmp_path, "link", "box")


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


def test_nights_without_a_summary_were_not_run_once_their_window_ended() -> None:
    assert look({}, 12, at=18) == [(16, "not run"), (17, "not run")]
    assert look({}, 22, first=20) == look({}, 23, first=20) == [(20, None)]
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
