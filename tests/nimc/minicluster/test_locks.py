"""Locks that no stranger can hold, and whose wait is reported."""

import fcntl
import os
from pathlib import Path

import pytest

from testbed import state


def test_only_the_owner_can_open_it(tmp_path: Path) -> None:
    (tmp_path / "lock").touch(mode=0o644)
    with state.locked(tmp_path / "lock"):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600


def test_a_long_wait_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The holder lets go when the waiting process asks without a time limit."""
    monkeypatch.setattr(state, "_SILENT_S", 0.2)
    holder = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    real = fcntl.flock
    real(holder, fcntl.LOCK_EX)

    def flock(handle: int, how: int) -> None:
        if how == fcntl.LOCK_EX:
            os.close(holder)
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with state.locked(tmp_path / "lock"):
        pass
    said = capsys.readouterr().err
    assert said == (
        f"nimc: waits for another 'minicluster up' or 'down', which holds {tmp_path}/lock\n"
    )
