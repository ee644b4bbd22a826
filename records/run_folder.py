"""Folders of runs (layout: `records.run`): their owner, their size, and the outputs in them.

This module uses only the standard library, because outputs are kept on compute nodes that have
nothing else.
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
    """Folders of runs in `results`, sorted by name, without links and unreadable folders.

    Raises InputError if `results` is not a folder of runs.
    """
    require_results(results)
    return sorted(
        path
        for path in results.iterdir()
        # If a folder may not be searched, `os.path.exists` is False, and `Path.exists` raises.
        if not path.is_symlink() and os.path.exists(path / "run.json")
    )


def require_results(folder: Path) -> None:
    """Raise InputError if a folder is missing, or is itself a run and so contains no runs."""
    if not folder.is_dir():
        missing = f"{folder.absolute()}: there is no such folder of runs"
        raise InputError(f"{missing}; --results names another")
    if os.path.exists(folder / "run.json"):
        raise InputError(f"{folder}: is a run; allowed: the folder that it is in")


def reason_to_distrust_run(run: Path) -> str | None:
    """Return why another user may have made a part of a run; None if all parts are this user's."""
    samples = run / "samples"
    parts = [run, *(run / name for name in ("run.json", "counters", "provenance", "logs"))]
    with suppress(*_MISSING):
        parts += [samples, *samples.iterdir()]
    for part in parts:
        with suppress(*_MISSING):
            if reason := reason_to_distrust(part):
                return reason if part == run else f"is not all your own: {part.name} {reason}"
    return None


def run_size_b(run: Path) -> int:
    """Bytes of all files in the run's folder. A file that is removed meanwhile counts as empty."""
    size_b = 0
    for folder, _, names in os.walk(run):
        for name in names:
            with suppress(*_MISSING):
                size_b += Path(folder, name).lstat().st_size
    return size_b


# The outputs of an application that a run keeps.
#
# They are compressed in the folder in which they were written, so that `nimc verify` can read a
# figure of merit again. Two kinds of outputs are not compressed: those larger than `MAX_LOG_B`, and
# those for which `MAX_RUN_LOGS_B` leaves no room. Such an output stays as it was written if the
# sample was not accepted. If the sample was accepted, the output is removed.


#: Maximum size of an output that is compressed, and of all compressed outputs of a run, bytes.
MAX_LOG_B = 4 << 20
MAX_RUN_LOGS_B = 256 << 20
#: Ending that is added to the name of a compressed output.
COMPRESSED_ENDING = ".gz"


def log_stem(pair: int, arm: str, attempt: int) -> str:
    """Name, without ending, of an application run's files in the logs of its block."""
    return f"{pair}-{arm}-{attempt}"


class KeptLog(NamedTuple):
    """An output that a sample names: its path in the run, and its SHA-256."""

    name: str
    sha256: str
    #: True if the file must stay as it was written.
    stays: bool


class KeptLogs:
    """The outputs that the run in a folder keeps."""

    def __init__(self, run: Path) -> None:
        self._run = run
        stored = (run / "logs").glob(f"*/*/*{COMPRESSED_ENDING}")
        self._free_b = MAX_RUN_LOGS_B - sum(path.lstat().st_size for path in stored)

    def keep(self, path: Path, *, needed: bool) -> KeptLog:
        """Compress an output, and return what its sample states about it.

        An output that is too large, or for which no room is left, is not compressed. If it is
        `needed`, it must stay as it is. When the sample is on disk, the caller removes the outputs
        that need not stay. Until then they may be read again.
        """
        name = path.relative_to(self._run).as_posix()
        if path.stat().st_size > MAX_LOG_B:
            return KeptLog(name, file_digest(path), needed)
        content = path.read_bytes()
        sha256 = digest(content)
        # Without a time, so that equal outputs have equal files.
        compressed = gzip.compress(content, mtime=0)
        if len(compressed) > self._free_b:
            return KeptLog(name, sha256, needed)
        replace_bytes(path.with_name(path.name + COMPRESSED_ENDING), compressed)
        self._free_b -= len(compressed)
        return KeptLog(name, sha256, stays=False)


def read_log(run: Path, name: str) -> bytes:
    """The content of an output that a run keeps, compressed or not.

    Raises FileNotFoundError if the output is not kept, or is too large to be compressed. Raises
    InputError for a link, a damaged file, and a compressed file whose content is too large.
    """
    path = run / name
    compressed = path.with_name(path.name + COMPRESSED_ENDING)
    is_compressed = os.path.lexists(compressed)
    source = compressed if is_compressed else path
    try:
        with open_regular(source) as file:
            if is_compressed:
                # Compressing hardly lengthens any content, so a longer file is damaged.
                content = _uncompressed(file.read(2 * MAX_LOG_B))
            else:
                content = file.read(MAX_LOG_B + 1)
    except FileNotFoundError:
        raise
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{source}: cannot be read: {reason}") from None
    if len(content) > MAX_LOG_B:
        if is_compressed:
            raise InputError(f"{source}: is longer than allowed: {MAX_LOG_B >> 20} MiB")
        raise FileNotFoundError(str(source))
    return content


def _uncompressed(compressed: bytes) -> bytes:
    """Return the content, or its first `MAX_LOG_B` + 1 bytes, which show that it is too long.

    Raises zlib.error or EOFError for a damaged file.
    """
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)  # gzip's format
    content = stream.decompress(compressed, MAX_LOG_B + 1)
    if len(content) <= MAX_LOG_B and (not stream.eof or stream.unused_data):
        raise EOFError("not one whole file of gzip")
    return content
