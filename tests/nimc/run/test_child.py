"""Children that are to stop."""

from __future__ import annotations

import signal
import subprocess
import sys

from nimc.run.session import stop

#: Prints once it can be signalled.
OBEYS = "import time; print(flush=True); time.sleep(600)"
IGNORES = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {OBEYS}"


def start(program: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline() == b"\n"
    return child


def test_children_are_asked_to_end_and_killed_if_they_do_not() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    children = [ended, start(IGNORES), start(OBEYS)]
    stop(children[2:])
    stop(children, within_s=0.2)
    assert [each.returncode for each in children] == [0, -signal.SIGKILL, -signal.SIGTERM]
