"""A folder in shared memory for an agent's writers, removed whatever ends them.

`ucx_perftest` keeps its buffers in files that have a name for a few tenths of a second. Killed
then, it leaves them, and their memory is lost to the node.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from nimc.base.errors import NimcError
from nimc.base.files import distrust, private_lock

#: Set for writers: the folder, if there is one.
FOLDER_VARIABLE = "NIMC_SHARED_MEMORY"
_SHARED_MEMORY = Path("/dev/shm")
_PREFIX = "nimc-writers-"
#: File in the folder that is locked as long as its agent lives.
_LOCK = "lock"


@contextmanager
def folder(within: Path = _SHARED_MEMORY) -> Iterator[None]:
    """Have a folder for the writers that this process starts. Removes those of dead agents.

    If none can be made, the writers use what they use by default; not all need shared memory.
    """
    _remove_abandoned(within)
    with ExitStack() as opened:
        try:
            path = _make(within, opened)
        except OSError:
            yield
            return
        opened.callback(shutil.rmtree, path, ignore_errors=True)
        os.environ[FOLDER_VARIABLE] = str(path)
        opened.callback(os.environ.pop, FOLDER_VARIABLE)
        yield


def _make(within: Path, opened: ExitStack) -> Path:
    """A new folder, locked until `opened` ends."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=within))
        with suppress(NimcError):  # another agent took it for abandoned
            lock = opened.enter_context(private_lock(path / _LOCK))
            if lock.take() and lock.path.exists():
                return path


def _remove_abandoned(within: Path) -> None:
    for path in within.glob(f"{_PREFIX}*"):
        with suppress(OSError, NimcError):
            if distrust(path) is None:
                with private_lock(path / _LOCK) as lock:
                    if lock.take():
                        shutil.rmtree(path, ignore_errors=True)
