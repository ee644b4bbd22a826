"""Folders of runs (layout: `records.run`): whose they are, how large, what outputs they keep.

Standard library only, because outputs are kept on compute nodes that have nothing else.
"""

from __future__ import annotations

import gzip
import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from records.chain import digest, file_digest
from records.errors import InputError
from records.files import open_regular, reason_to_distrust, replace_bytes

_MISSING = (FileNotFoundError, NotADirectoryError)


def run_folders(results: Path) -> list[Path]:
    """Folders of runs in `results`, in order of their names; links and other folders are not.

    Nor are those that others have closed to this user.

    Raises InputError if `results` is no folder of runs.
    """
    require_results(results)
    return sorted(
        path
        for path in results.iterdir()
        if not path.is_symlink() and os.path.exists(path / "run.json")  # without an error
    )


def require_results(folder: Path) -> None:
    """Raise InputError for what is no folder of runs, as a run, in which there would be none."""
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder of runs")
    if os.path.exists(folder / "run.json"):
        raise InputError(f"{folder}: is a run; allowed: the folder that it is in")


def reason_to_distrust_run(run: Path) -> str | None:
    """Return why another user may have made a part of a run; None if all is the user's own."""
    samples = run / "samples"
    parts = [
        run,
        *(run / name for name in ("run.json", "checks", "counters", "provenance", "logs")),
    ]
    with suppress(*_MISSING):
        parts += [samples, *samples.iterdir()]
    for part in parts:
        with suppress(*_MISSING):
            if reason := reason_to_distrust(part):
                return reason if part == run else f"is not all your own: {part.name} {reason}"
    return None


def run_size_b(run: Path) -> int:
    """Bytes of all files in the run's folder; one that is removed in the meantime has none."""
    size_b = 0
    for folder, _, names in os.walk(run):
        for name in names:
            with suppress(*_MISSING):
                size_b += Path(folder, name).lstat().st_size
    return size_b


# The outputs of an application that a run keeps: compressed, next to where they were written.
#
# So `nimc verify` can read a figure of merit again. An output larger than `MAX_LOG_B` is not kept
# once its figure was read, nor is one for which `MAX_RUN_LOGS_B` leaves no room.


#: Largest output that is kept, and most that those of a run take once compressed, bytes.
MAX_LOG_B = 4 << 20
MAX_RUN_LOGS_B = 256 << 20
#: Added to the name of an output that is kept.
COMPRESSED_ENDING = ".gz"


def log_stem(pair: int, arm: str, attempt: int) -> str:
    """Name of a run's files in the logs of its block, without ending."""
    return f"{pair}-{arm}-{attempt}"


class KeptLog(NamedTuple):
    """An output that a sample names: its path in the run, and its SHA-256."""

    name: str
    sha256: str
    #: True if it is kept as it was written.
    stays: bool


class KeptLogs:
    """The outputs that the run in a folder keeps."""

    def __init__(self, run: Path) -> None:
        self._run = run
        stored = (run / "logs").glob(f"*/*/*{COMPRESSED_ENDING}")
        self._left_b = MAX_RUN_LOGS_B - sum(path.lstat().st_size for path in stored)

    def keep(self, path: Path, *, needed: bool) -> KeptLog:
        """Compress an output, which its sample then names.

        One that is too large is not kept compressed; it stays as it is if it is `needed`. The
        caller removes the others once their sample is on disk: until then they may be read again.
        """
        name = path.relative_to(self._run).as_posix()
        if path.stat().st_size > MAX_LOG_B:
            sha256, text = file_digest(path), None
        else:
            content = path.read_bytes()
            # Without a time, so that equal outputs have equal files.
            sha256, text = digest(content), gzip.compress(content, mtime=0)
        if text is not None and len(text) <= self._left_b:
            replace_bytes(path.with_name(path.name + COMPRESSED_ENDING), text)
            self._left_b -= len(text)
            needed = False
        return KeptLog(name, sha256, needed)


def read_log(run: Path, name: str) -> bytes:
    """The content of an output that a run keeps, compressed or not.

    Raises FileNotFoundError if it is not kept, or stays as it was because it is too large, and
    InputError for what no run keeps: a link, a damaged or an endless file.
    """
    path = run / name
    compressed = path.with_name(path.name + COMPRESSED_ENDING)
    packed = os.path.lexists(compressed)
    source = compressed if packed else path
    try:
        with open_regular(source) as file:
            content = _unpacked(file.read(2 * MAX_LOG_B)) if packed else file.read(MAX_LOG_B + 1)
    except FileNotFoundError:
        raise
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{source}: cannot be read: {reason}") from None
    if len(content) > MAX_LOG_B:
        if packed:
            raise InputError(f"{source}: is longer than allowed: {MAX_LOG_B >> 20} MiB")
        raise FileNotFoundError(str(source))
    return content


def _unpacked(packed: bytes) -> bytes:
    """At most a byte more than is allowed. Raises zlib.error or EOFError for a damaged file."""
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)  # of gzip's format
    content = stream.decompress(packed, MAX_LOG_B + 1)
    if len(content) <= MAX_LOG_B and (not stream.eof or stream.unused_data):
        raise EOFError("not one whole file of gzip")
    return content
