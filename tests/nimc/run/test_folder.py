"""Holding a run's folder, where the file system has its limits."""

from __future__ import annotations

import errno
import fcntl
import os
from dataclasses import replace
from pathlib import Path

import pytest

from nimc.base.checkout import ROOT
from nimc.base.errors import MachineError
from nimc.campaign.prepare import prepare
from nimc.records.run import RunHeader
from nimc.run.folder import foreign_runs, new_header, open_run


@pytest.fixture(scope="module")
def header() -> RunHeader:
    return new_header(prepare(ROOT / "campaigns/quick.yaml", "localhost"))


def test_a_file_system_without_locks_is_not_taken_for_another_nimc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: RunHeader
) -> None:
    # What flock() answers on Lustre that is mounted without the option flock.
    def flock(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(MachineError, match=r"lock: Function not implemented: .*option flock"):
        open_run(tmp_path, header).__enter__()


def make(results: Path, header: RunHeader) -> Path:
    """An unfinished run of that campaign, as `nimc run` leaves it."""
    with open_run(results, header) as folder:
        (folder.path / "samples").mkdir()
        (folder.path / "samples/lammps.jsonl").touch()
    return folder.path


def test_ones_own_run_is_resumed(tmp_path: Path, header: RunHeader) -> None:
    path = make(tmp_path, header)
    assert foreign_runs(tmp_path, header) == []
    with open_run(tmp_path, header) as folder:
        assert (folder.path, folder.resumed) == (path, True)


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ("", "belongs to nobody"),
        ("run.json", "is not all your own: run.json belongs to nobody"),
        ("samples/lammps.jsonl", "is not all your own: lammps.jsonl belongs to nobody"),
    ],
)
def test_a_planted_run_is_refused(tmp_path: Path, header: RunHeader, part: str, why: str) -> None:
    """A stranger's samples gave a slowdown with exit 0."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    path = make(tmp_path, header)
    os.chown(path / part, 65534, 65534)
    assert foreign_runs(tmp_path, header) == [f"{path} {why}"]
    with open_run(tmp_path, header) as folder:
        assert not folder.resumed
        assert folder.path != path


def test_latest_leads_to_the_run_that_was_opened_last(tmp_path: Path, header: RunHeader) -> None:
    first = make(tmp_path, header)
    assert os.readlink(tmp_path / "latest") == first.name
    later = replace(header, started_s=header.started_s + 1)
    with open_run(tmp_path, later, fresh=True) as folder:
        assert (tmp_path / "latest").resolve() == folder.path
    make(tmp_path, later)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_symlink()) == ["latest"]


def test_a_folder_named_latest_stays(tmp_path: Path, header: RunHeader) -> None:
    (tmp_path / "latest").mkdir()
    make(tmp_path, header)
    assert not (tmp_path / "latest").is_symlink()


def test_a_run_that_others_can_write_to_is_refused(tmp_path: Path, header: RunHeader) -> None:
    path = make(tmp_path, header)
    (path / "samples").chmod(0o775)
    (line,) = foreign_runs(tmp_path, header)
    assert line.endswith("samples can be written by others (mode 775)")
    with open_run(tmp_path, header) as folder:
        assert not folder.resumed


def test_a_link_to_a_run_is_refused(tmp_path: Path, header: RunHeader) -> None:
    path = make(tmp_path / "elsewhere", header)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / path.name).symlink_to(path)
    with open_run(tmp_path / "results", header) as folder:
        assert not folder.resumed


def test_no_stranger_can_hold_the_lock(tmp_path: Path, header: RunHeader) -> None:
    path = make(tmp_path, header)
    assert (path / "lock").stat().st_mode & 0o777 == 0o600
