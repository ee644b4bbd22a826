"""Holding a run's folder, where the file system has its limits."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from analysis.checkout import ROOT
from analysis.errors import MachineError
from analysis.run import RunHeader
from campaigns.planning.prepare import prepare
from campaigns.running.folder import open_run
from campaigns.running.header import new_header


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
