"""What `up` and `down` lock."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from analysis.locking import private_lock

#: How long to wait for another process without a word, seconds.
_SILENT_S = 5.0
#: Of changes to this host's network.
HOST = Path("/run/nimc-minicluster.lock")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file, unless it is gone; a line is printed if that takes long."""
    while path.exists():
        with _held(path, create=False) as is_current:
            if is_current:
                yield
                return
    yield


@contextmanager
def locked_host() -> Iterator[None]:
    """One change of this host's network at a time; the lock file is removed afterwards."""
    while True:
        with _held(HOST, create=True) as is_current:
            if is_current:
                try:
                    yield
                finally:
                    HOST.unlink()
                return


@contextmanager
def _held(path: Path, *, create: bool) -> Iterator[bool]:
    """Lock a file; whether it is still the one at `path`, since its holder may have removed it."""
    with ExitStack() as opened:
        try:
            file = opened.enter_context(private_lock(path, create=create))
        except FileNotFoundError:
            yield False
            return
        if not file.take(_SILENT_S):
            print(
                f"nimc: waits for another 'minicluster up' or 'down', which holds {path}",
                file=sys.stderr,
                flush=True,
            )
            file.take(None)
        yield path.exists() and os.path.samestat(os.fstat(file.handle), path.stat())
