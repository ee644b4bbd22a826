"""What writers leave in shared memory if they are killed: the next agent removes it.

`ucx_perftest` and MPICH's programs keep their buffers in files that have a name for a few tenths of
a second, those of Open MPI in files that have one to their end. Killed then, they leave them, and
their memory is lost to the node. `ucx_perftest`, and Open MPI on one host, have their files in a
folder of their agent; the programs of an MPI may run on a node without that folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

from records import kernel_text

#: Set for writers: the folder, if there is one.
FOLDER_VARIABLE = "NIMC_SHARED_MEMORY"
_SHARED_MEMORY = Path("/dev/shm")
_PREFIX = "nimc-writers-"
#: Files of the programs of MPICH, of Open MPI up to version 4 and from version 5, of its windows.
_OF_MPI = ("mpich_sh*", "vader_segment.*", "sm_segment.*", "osc_rdma.*", "osc_sm.*")
#: A folder that is not locked yet, or a file that is not mapped yet, is younger than this, seconds.
_NEW_S = 1.0


@contextmanager
def folder(within: Path = _SHARED_MEMORY) -> Iterator[None]:
    """Have a folder for the writers that this process starts. Removes what dead ones have left.

    If none can be made, the writers use what they use by default; not all need shared memory.
    """
    for path in _old(within, [f"{_PREFIX}*"]):
        with suppress(OSError):  # its agent lives, or it is somebody else's
            os.close(_lock(path))
            shutil.rmtree(path, ignore_errors=True)
    if files := _old(within, _OF_MPI):
        used = _mapped()
        for path in files:
            if str(path) not in used:
                with suppress(OSError):
                    path.unlink()
    try:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=within))
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


def _old(within: Path, patterns: Iterable[str]) -> list[Path]:
    """What is ours there and not new."""
    paths = []
    for path in chain.from_iterable(map(within.glob, patterns)):
        with suppress(OSError):
            there = path.lstat()
            if there.st_uid == os.geteuid() and time.time() - there.st_mtime > _NEW_S:
                paths.append(path)
    return paths


def _mapped() -> set[str]:
    """Files in the memory of processes of ours."""
    texts = (kernel_text.read(path) for path in Path("/proc").glob("[0-9]*/maps"))
    return {line.split(maxsplit=5)[-1] for text in texts for line in text.splitlines()}


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
