"""Holding a run's folder, where the file system has its limits."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from analysis.errors import MachineError
from analysis.run import RunHeader
from campaigns.ask import ask
from campaigns.describe import new_header
from campaigns.folder import open_run
from reframe_tests.machine import ROOT


@pytest.fixture(scope="module")
def header() -> RunHeader:
    return new_header(ask(ROOT / "campaigns/quick.yaml", "localhost"))


def test_a_file_system_without_locks_is_not_taken_for_another_nimc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: RunHeader
) -> None:
    # What flock() answers on Lustre that is mounted without the option flock.
    def flock(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(MachineError, match=r"lock: Function not implemented: .*option flock"):
        open_run(tmp_path, header).__enter__()
