"""Waits for a condition, with a time limit that is long enough for a busy host."""

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
    """Call `holds` until it returns a true value, and return that value.

    Fails after `most_s` seconds. Also fails if `process` ends earlier, and then shows what the
    process printed.
    """
    deadline_s = time.monotonic() + most_s
    while not (answer := holds()):
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < deadline_s, f"waited {most_s:g} s in vain"
        time.sleep(every_s)
    return answer
