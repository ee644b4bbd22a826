"""One night at a time on a machine: a lock in the folder of summaries."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from nimc.base.errors import NimcError
from nimc.base.files import private_lock, require_own

#: How long it is tried: `running` holds it for a moment, seconds.
_TRY_S = 1.0


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
    require_own(folder, "results", team="writes")
    with private_lock(folder / f"{machine}.lock") as lock:
        if not lock.take(_TRY_S):
            yield NightLock(None, lock.holder() or "an unknown process")
            return
        lock.sign(f"{name}, process {os.getpid()} on {os.uname().nodename}")
        yield NightLock(lock.handle)


def running(folder: Path, machine: str, name: str) -> bool:
    """Whether a night of the nightly `name` holds a machine's lock."""
    with (
        suppress(OSError, NimcError),
        private_lock(folder / f"{machine}.lock", create=False) as lock,
    ):
        return not lock.take(shared=True) and lock.holder().startswith(f"{name}, ")
    return False
