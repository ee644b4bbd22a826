"""`nimc nightly init`: what it captures, refuses and installs."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.nimc.conftest import call
from tests.nimc.nights.conftest import Box

NIMC = str(Path(sys.executable).parent / "nimc")
KINDS = ("--cron", "--scrontab", "--systemd", "--gitlab")


def init(box: Box, kind: str, *more: str, **variables: str) -> tuple[int, str, str]:
    return box.call("init", str(box.file), kind, *more, **variables)


@pytest.mark.parametrize("kind", KINDS)
def test_it_keeps_path_without_what_depends_on_a_folder(box: Box, kind: str) -> None:
    folders = f"/opt/slurm 1/bin:{os.environ['PATH']}:.::bin:/opt/slurm 1/bin"
    status, out, err = init(box, kind, PATH=folders)
    assert status == 0, err
    kept = list(dict.fromkeys(["/opt/slurm 1/bin", *os.environ["PATH"].split(":")]))
    whole = f"PATH={':'.join(kept)}"
    assert (f'"{whole}"' if kind == "--systemd" else shlex.quote(whole)) in out
    assert NIMC in out


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_break_in_a_path_begins_no_other_line(box: Box, kind: str) -> None:
    folder = box.folder / "a\n* * * * * date"
    folder.mkdir()
    shutil.copy(box.file, folder / "box.yaml")
    status, out, err = call(["nightly", "init", "box.yaml", kind], folder)
    assert (status, out) == (2, "")
    path = str(folder / "box.yaml")
    assert err == f"nimc: init: {path!r} found; allowed: paths of printable characters\n"


@pytest.mark.parametrize("kind", ["--cron", "--scrontab"])
def test_a_folder_of_logs_that_others_have_planted_is_refused(box: Box, kind: str) -> None:
    """Before the night asks, the shell of cron or Slurm would write its log there."""
    nights = box.nimc.results / "nights"
    nights.mkdir(parents=True)
    nights.chmod(0o777)
    assert init(box, kind)[2].startswith(f"nimc: results: {nights} can be written by others")
    nights.rmdir()
    nights.symlink_to(box.folder)
    status, out, err = init(box, kind)
    assert (status, out) == (2, "")
    assert err.startswith(f"nimc: results: {nights} is a symbolic link; allowed: ")


@pytest.fixture
def set_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Moves this process to a time zone."""

    def move(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


def test_systemd_starts_the_night_whose_start_clocks_skip(
    box: Box, set_zone: Callable[[str], None]
) -> None:
    box.describe(window='{start: "02:30", end: "06:00"}')
    days = "Mon,Tue,Wed,Thu,Fri,Sat,Sun"
    for zone, more in (
        ("UTC", []),
        ("Europe/Berlin", ["OnCalendar=Sun *-03-* 03:00:00"]),
        ("Australia/Sydney", ["OnCalendar=Sun *-10-* 03:00:00"]),
    ):
        set_zone(zone)
        status, out, err = init(box, "--systemd")
        assert status == 0, err
        lines = [line for line in out.splitlines() if line.startswith("OnCalendar=")]
        assert lines == [f"OnCalendar={days} *-*-* 02:30:00", *more]
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze: the starts were not given to systemd")
    starts = [line.removeprefix("OnCalendar=") for line in (lines[0], "Sun *-03-* 03:00:00")]
    command = ["systemd-analyze", "calendar", "--base-time=2026-03-28 12:00", *starts]
    environment = {**os.environ, "TZ": "Europe/Berlin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = [line.split(": ")[1] for line in done.stdout.splitlines() if "Next elapse" in line]
    assert found == ["Mon 2026-03-30 02:30:00 CEST", "Sun 2026-03-29 03:00:00 CEST"]


@pytest.mark.parametrize(("kind", "says"), [("--cron", ">&2"), ("--scrontab", "")])
def test_a_first_table_is_installed(box: Box, kind: str, says: str) -> None:
    """crontab says on standard error that there is none, scrontab on standard output."""
    program = box.folder / "bin" / {"--cron": "crontab", "--scrontab": "scrontab"}[kind]
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\n[ "$1" != -l ] || {{ echo no crontab for me {says}; exit 1; }}\n'
        f'cp "$1" {box.folder}/table\n'
    )
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    status, _, err = init(box, kind, "--install", PATH=path)
    assert status == 0, err
    assert (box.folder / "table").read_text() == init(box, kind, PATH=path)[1]
