"""Locks of files that no other user can open: a stranger who holds one would block `up`."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from analysis.trust import require_own

#: How long to wait for another process without a word, seconds.
_SILENT_S = 5.0
#: Of changes to this host's network.
HOST = Path("/run/nimc-minicluster.lock")


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Lock a file, which is made if it does not exist; a line is printed if that takes long."""
    require_own(path, "lock")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(handle, 0o600)
        _lock(handle, path)
        yield handle
    finally:
        os.close(handle)


def _lock(handle: int, path: Path) -> None:
    until_s = time.monotonic() + _SILENT_S
    while time.monotonic() < until_s:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        else:
            return
    print(
        f"nimc: waits for another 'minicluster up' or 'down', which holds {path}",
        file=sys.stderr,
        flush=True,
    )
    fcntl.flock(handle, fcntl.LOCK_EX)
