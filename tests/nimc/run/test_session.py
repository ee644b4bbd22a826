"""One session as a child process: how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nimc.base import processes
from nimc.base.interrupts import Interrupts, Stopped
from nimc.run import session

#: Says that it ignores SIGTERM, and stays for longer than any test waits.
_DEAF = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('deaf', flush=True); time.sleep(300)"
)


@pytest.mark.parametrize(("signals", "grace_s"), [(2, 60.0), (1, 0.1)])
def test_what_ignores_sigterm_is_killed_by_a_second_signal_or_after_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals: int, grace_s: float
) -> None:
    monkeypatch.setattr(session, "_GRACE_S", grace_s)
    log = tmp_path / "log"
    asked: list[float] = []

    def ask() -> None:
        """As the session's tick: all signals at once, as soon as the child is deaf."""
        if not asked and log.read_bytes():
            asked.append(time.monotonic())
            for _ in range(signals):
                os.kill(os.getpid(), signal.SIGTERM)

    with Interrupts() as interrupts, pytest.raises(Stopped, match="SIGTERM"):
        session.run_session([sys.executable, "-c", _DEAF], tmp_path, log, interrupts, ask)
    assert time.monotonic() - asked[0] < 40
    assert session.users_of(tmp_path) == []


def test_what_a_session_left_may_remove_its_files(tmp_path: Path) -> None:
    file = tmp_path / "temporary"
    loop = f"trap 'rm {file}; exit' TERM; touch {file}; while :; do sleep 0.1; done"
    with subprocess.Popen(["sh", "-c", loop]) as child:
        while not file.exists():
            assert child.poll() is None
            time.sleep(0.01)
        processes.end_descendants(60)
    assert not file.exists()


def test_what_a_session_left_is_killed_if_it_stays() -> None:
    with subprocess.Popen([sys.executable, "-c", _DEAF], stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        processes.end_descendants(0.1)
    assert child.returncode == -signal.SIGKILL
