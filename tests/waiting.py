"""Waiting for a condition, as a busy host needs it."""

import subprocess
import time
from collections.abc import Callable
from typing import Any, TypeVar

Answer = TypeVar("Answer")


def wait_until(
    holds: Callable[[], Answer],
    most_s: float = 300.0,
    every_s: float = 0.02,
    process: subprocess.Popen[Any] | None = None,
) -> Answer:
    """Wait until `holds` returns something true, and return that; fail after `most_s`.

    If `process` ends before, it fails as well, and shows what the process printed.
    """
    deadline_s = time.monotonic() + most_s
    while not (answer := holds()):
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < deadline_s, f"waited {most_s:g} s in vain"
        time.sleep(every_s)
    return answer
