"""A folder in shared memory for the buffers of an agent's writers.

Buffers of `ucx_perftest`, and of `mpi_put` with MPICH, are files that have a name for a few tenths
of a second. Buffers of Open MPI's programs have a name until the programs end. If a program is
killed while its file has a name, the file stays, and its memory is lost to the node. So each agent
removes the folders of killed agents. It removes nothing else from shared memory, since other files
may belong to anybody.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Environment variable of writers that holds the path of the folder, if there is one.
FOLDER_VARIABLE = "NIMC_SHARED_MEMORY"
_SHARED_MEMORY = Path("/dev/shm")
_PREFIX = "nimc-writers-"
#: An agent locks its new folder within this time, seconds.
_LOCKED_WITHIN_S = 1.0


@contextmanager
def folder(parent: Path = _SHARED_MEMORY) -> Iterator[None]:
    """Make a folder for the writers of this process, and remove it at the end.

    Removes the folders of killed agents first. If no folder can be made, the writers use their own
    defaults, since not all of them need shared memory.
    """
    for path in _old_folders(parent):
        with suppress(OSError):  # its agent is alive, or it belongs to another user
            os.close(_lock(path))
            shutil.rmtree(path, ignore_errors=True)
    try:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        handle = _lock(path)
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


def _old_folders(parent: Path) -> list[Path]:
    """Return the folders of this user's writers that are older than `_LOCKED_WITHIN_S`."""
    paths = []
    for path in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            status = path.lstat()
            if status.st_uid == os.geteuid() and time.time() - status.st_mtime > _LOCKED_WITHIN_S:
                paths.append(path)
    return paths


def _lock(path: Path) -> int:
    """Lock a folder of this user until the handle is closed. Raises OSError if that fails."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(handle).st_uid != os.geteuid():
            raise PermissionError(path)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle
