"""`nimc` as a child of `nimc`: how it is called, and how it is stopped."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Collection

from analysis.start_python import python_main

#: `nimc` with this Python, whatever is installed.
NIMC = tuple(python_main("campaigns.cli"))
#: How long `nimc run` may take to stop, seconds.
_STOP_S = 120.0


def stop(children: Collection[subprocess.Popen[bytes]], within_s: float = _STOP_S) -> None:
    """End the children, each of which cancels its own jobs; kill those that take too long."""
    for child in children:
        child.terminate()
    until_s = time.monotonic() + within_s
    for child in children:
        try:
            child.wait(max(until_s - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
