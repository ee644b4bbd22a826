"""A folder in shared memory for an agent's writers, removed whatever ends them.

`ucx_perftest` keeps its buffers in files that have a name for a few tenths of a second. Killed
then, it leaves them, and their memory is lost to the node.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Set for writers: the folder, if there is one.
FOLDER_VARIABLE = "NIMC_SHARED_MEMORY"
_SHARED_MEMORY = Path("/dev/shm")
_PREFIX = "nimc-writers-"


@contextmanager
def folder(within: Path = _SHARED_MEMORY) -> Iterator[None]:
    """Have a folder for the writers that this process starts. Removes those of dead agents.

    If none can be made, the writers use what they use by default; not all need shared memory.
    """
    _remove_abandoned(within)
    try:
        path, handle = _make(within)
    except OSError:
        yield
        return
    os.environ[FOLDER_VARIABLE] = str(path)
    try:
        yield
    finally:
        del os.environ[FOLDER_VARIABLE]
        shutil.rmtree(path, ignore_errors=True)
        os.close(handle)


def _make(within: Path) -> tuple[Path, int]:
    """A new folder, locked as long as this process lives and the handle is open."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=within))
        handle = _lock(path)
        if handle is not None and path.exists():
            return path, handle
        if handle is not None:  # another agent took it for abandoned
            os.close(handle)


def _remove_abandoned(within: Path) -> None:
    for path in within.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            found = path.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                continue
            if (handle := _lock(path)) is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(handle)


def _lock(path: Path) -> int | None:
    """None if another process has the lock, or the folder is gone."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle
