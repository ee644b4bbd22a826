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
def locked(path: Path) -> Iterator[None]:
    """Lock a file, unless it is gone; a line is printed if that takes long."""
    while path.exists():
        with _held(path, os.O_RDWR) as is_current:
            if is_current:
                yield
                return
    yield


@contextmanager
def locked_host() -> Iterator[None]:
    """One change of this host's network at a time; the lock file is removed afterwards."""
    while True:
        with _held(HOST, os.O_RDWR | os.O_CREAT) as is_current:
            if is_current:
                try:
                    yield
                finally:
                    HOST.unlink()
                return


@contextmanager
def _held(path: Path, flags: int) -> Iterator[bool]:
    """Lock a file; whether it is still the one at `path`, since its holder may have removed it."""
    require_own(path, "lock")
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        yield False
        return
    try:
        os.fchmod(handle, 0o600)
        _lock(handle, path)
        yield path.exists() and os.path.samestat(os.fstat(handle), path.stat())
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
