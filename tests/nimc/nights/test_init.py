"""`nimc nightly init`: what it captures, refuses and installs."""

import os
import shlex
import shutil
import sys
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
