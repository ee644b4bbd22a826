"""Lock files that no other user can open: a stranger who holds one would block their owner."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from analysis.errors import MachineError
from analysis.trust import require_own

_POLL_S = 0.05
#: Longest text on the holder.
_HOLDER_B = 200


@dataclass(frozen=True)
class PrivateLock:
    """An open lock file."""

    path: Path
    #: A child that inherits it keeps the lock.
    handle: int

    def take(self, within_s: float | None = 0.0, *, shared: bool = False) -> bool:
        """Whether it could be locked within that time; released when the file is closed.

        None waits without a limit. Raises MachineError if the file system has no locks.
        """
        began_s = time.monotonic()
        how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        how |= fcntl.LOCK_NB if within_s is not None else 0
        while True:
            try:
                fcntl.flock(self.handle, how)
                return True
            except BlockingIOError:
                if time.monotonic() - began_s >= (within_s or 0.0):
                    return False
                time.sleep(_POLL_S)
            except OSError as error:
                raise MachineError(
                    f"{self.path}: {error.strerror}: this file system has no locks (Lustre: mount"
                    " option flock)"
                ) from error

    def holder(self) -> str:
        """What the holder wrote of itself."""
        return os.pread(self.handle, _HOLDER_B, 0).decode(errors="replace").strip()

    def sign(self, text: str) -> None:
        """Write who holds it, which is only for messages."""
        with suppress(OSError):
            os.ftruncate(self.handle, 0)
            os.pwrite(self.handle, f"{text}\n".encode(), 0)


@contextmanager
def private_lock(path: Path, *, create: bool = True) -> Iterator[PrivateLock]:
    """A lock file, not yet locked, which is closed when the context ends.

    Raises InputError if it is somebody else's, MachineError if it cannot be opened, and, unless
    `create`, FileNotFoundError.
    """
    require_own(path, "lock")
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags | (os.O_CREAT if create else 0), 0o600)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not create:
            raise
        raise MachineError(f"{path}: {error.strerror}") from error
    try:
        os.fchmod(handle, 0o600)
        yield PrivateLock(path, handle)
    finally:
        os.close(handle)
