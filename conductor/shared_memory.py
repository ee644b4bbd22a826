"""A folder in shared memory for an agent's writers: the next agent removes that of a killed one.

`ucx_perftest` and `mpi_put` with MPICH keep their buffers in files that have a name for a few
tenths of a second, programs of Open MPI in files that have one until they end. If a program is
killed while its file has a name, the file stays, and its memory is lost to the node. Other files
there may belong to anybody, so nothing else is removed.
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

#: Set for writers: the folder, if there is one.
FOLDER_VARIABLE = "NIMC_SHARED_MEMORY"
_SHARED_MEMORY = Path("/dev/shm")
_PREFIX = "nimc-writers-"
#: A folder that is not locked yet is younger than this, seconds.
_NEW_S = 1.0


@contextmanager
def folder(parent: Path = _SHARED_MEMORY) -> Iterator[None]:
    """Have a folder for the writers that this process starts. Removes those of dead agents.

    If none can be made, the writers use what they use by default; not all need shared memory.
    """
    for path in _old_folders(parent):
        with suppress(OSError):  # its agent lives, or it is somebody else's
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
    """Folders of this user's writers that are older than `_NEW_S`."""
    paths = []
    for path in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            status = path.lstat()
            if status.st_uid == os.geteuid() and time.time() - status.st_mtime > _NEW_S:
                paths.append(path)
    return paths


def _lock(path: Path) -> int:
    """Lock a folder of ours until the handle is closed. Raises OSError if it cannot be."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(handle).st_uid != os.geteuid():
            raise PermissionError(path)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle
