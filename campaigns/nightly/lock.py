"""One night at a time on a machine: a lock in the folder of summaries."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from analysis.errors import MachineError
from analysis.trust import require_own

#: How often and how long it is tried: `running` holds it for a moment, seconds.
_TRIES, _TRY_S = 10, 0.1
#: Longest text on the holder.
_HOLDER_CHARS = 200


@dataclass(frozen=True)
class NightLock:
    """The lock, or who has it."""

    #: None if another process holds it. A child that inherits it keeps the lock.
    handle: int | None
    #: `NAME, process PID on HOST` of the holder.
    holder: str = ""


@contextmanager
def machine_lock(folder: Path, machine: str, name: str) -> Iterator[NightLock]:
    """Lock a machine for the nightly `name`, or say who has locked it; waits for nobody."""
    path = folder / f"{machine}.lock"
    require_own(folder, "results")
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        os.fchmod(handle, 0o600)
    except OSError as error:
        raise MachineError(f"{path}: {error.strerror}") from error
    with os.fdopen(handle, "r+", errors="replace") as file:
        try:
            got = any(_take(file) for _ in range(_TRIES))
        except OSError as error:
            raise MachineError(
                f"{path}: {error.strerror}: this file system has no locks (Lustre: mount option"
                " flock)"
            ) from error
        if not got:
            yield NightLock(None, file.read(_HOLDER_CHARS).strip() or "an unknown process")
            return
        with suppress(OSError):  # only for messages
            file.truncate(0)
            file.write(f"{name}, process {os.getpid()} on {os.uname().nodename}\n")
            file.flush()
        yield NightLock(handle)


def running(folder: Path, machine: str, name: str) -> bool:
    """Whether a night of the nightly `name` holds a machine's lock."""
    path = folder / f"{machine}.lock"
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    with os.fdopen(handle, errors="replace") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return file.read(_HOLDER_CHARS).startswith(f"{name}, ")
        except OSError:
            return False
    return False


def _take(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(_TRY_S)
        return False
    return True
