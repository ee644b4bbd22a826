"""Files of the store, each complete and named by what it holds.

    STORE/TABLE/machine=M/campaign=C/month=YYYY-MM/RUN-DIGEST.parquet

TABLE is `runs`, `nights` or `samples`, and DIGEST the start of the file's own SHA-256. A file is
written under a temporary name, which begins with a dot, and renamed when it is on disk: readers see
all of it or nothing, two writers of the same content make the same file, and nobody needs a lock.
"""

from __future__ import annotations

import hashlib
import io
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import polars as pl

from analysis.history.tables import SCHEMA_VERSION
from analysis.samples.columns import parquet
from nimc.base.errors import InputError, MachineError
from nimc.base.files import PARTIAL, distrust, replace, share_as_above
from nimc.base.text import one_line

TABLES = ("runs", "nights", "samples")
#: Key of the schema's number in a file's metadata.
SCHEMA = "nimc_schema"
#: Called with a line for each file that is left out.
Naming = Callable[[str], None]

_DIGITS = 16
_NAME = re.compile(r"[^/]+-([0-9a-f]{16})\.parquet")


class SpoiltError(InputError):
    """A file of the store that is torn, tampered with or another user's."""


@dataclass(frozen=True)
class StoreFile:
    """A file that was read: its content is what its name says."""

    path: Path
    text: bytes
    metadata: Mapping[str, str]


def partition(machine: str, campaign: str, started_s: float) -> Path:
    """The folder of a run within a table."""
    month = time.strftime("%Y-%m", time.gmtime(started_s))
    return Path(_level("machine", machine), _level("campaign", campaign), f"month={month}")


def write(folder: Path, run: str, frame: pl.DataFrame, metadata: Mapping[str, str]) -> Path:
    """Write a table's part of a run into `folder`. Raises MachineError if that fails."""
    text = parquet(frame, {**metadata, SCHEMA: str(SCHEMA_VERSION)})
    path = folder / f"{_escaped(run)}-{_digest(text)}.parquet"
    try:
        _make(folder)
        replace(path, text)
    except OSError as error:
        raise MachineError(f"{path}: {error.strerror}") from error
    return path


def read(path: Path) -> StoreFile:
    """A file with its metadata.

    Raises SpoiltError if it is not the user's own or not what its name says, and InputError if its
    schema is another.
    """
    named = _NAME.fullmatch(path.name)
    if named is None:
        raise SpoiltError(f"{path}: not a file of the store")
    try:
        if reason := distrust(path, or_root=True, team="owns"):
            raise SpoiltError(f"{path}: {reason}")
        text = path.read_bytes()
    except OSError as error:
        raise SpoiltError(f"{path}: {error.strerror}") from error
    if _digest(text) != named[1]:
        raise SpoiltError(f"{path}: its content is not what its name says: torn, or changed")
    try:
        metadata = pl.read_parquet_metadata(io.BytesIO(text))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise SpoiltError(f"{path}: not Parquet: {_first_line(error)}") from error
    number = metadata.get(SCHEMA, "")
    if not re.fullmatch("[0-9]{1,9}", number):
        raise SpoiltError(f"{path}: its metadata has no schema")
    if int(number) != SCHEMA_VERSION:
        raise InputError(
            f"{path}: schema: {number} found; allowed: {SCHEMA_VERSION}; use the nimc that wrote it"
        )
    return StoreFile(path, text, metadata)


def frame(file: StoreFile) -> pl.DataFrame:
    """The rows of a file. Raises SpoiltError."""
    try:
        return pl.read_parquet(io.BytesIO(file.text))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise SpoiltError(f"{file.path}: {_first_line(error)}") from error


def listed(
    table: Path, machine: str | None, campaign: str | None, left_out: Naming
) -> Iterator[Path]:
    """Files of a table, in order of their names; folders that are not the user's own are named."""
    folders = [table] if table.exists() else []
    for level in (_level("machine", machine), _level("campaign", campaign), "month=*"):
        trusted = (folder for folder in folders if _trusted(folder, left_out))
        folders = [each for folder in trusted for each in _matching(folder, level)]
    for folder in folders:
        if _trusted(folder, left_out):
            yield from (each for each in _matching(folder, "*") if not _is_partial(each))


def listed_of(folder: Path, run: str) -> list[Path]:
    """Files of one run in a partition."""
    return _matching(folder, f"{_escaped(run)}-*") if folder.is_dir() else []


def unfinished(table: Path, older_s: float) -> Iterator[Path]:
    """Temporary files that writers left when they were killed before the Unix time `older_s`."""
    for path in filter(_is_partial, table.glob("*/*/*/.*")):
        with suppress(OSError):
            if not distrust(path, team="writes") and path.lstat().st_mtime < older_s:
                yield path


def _level(key: str, name: str | None) -> str:
    """Name of a partition's folder; of all of them without `name`."""
    return f"{key}=*" if name is None else f"{key}={_escaped(name)}"


def _escaped(name: str) -> str:
    """As other readers of such trees expect it: `%3D` for `=`."""
    return quote(name, safe=" @+,")


def _matching(folder: Path, level: str) -> list[Path]:
    """Entries of a folder with that name, or all with its beginning if it ends in `*`."""
    if not level.endswith("*"):
        return [folder / level] if (folder / level).exists() else []
    return sorted(path for path in folder.iterdir() if path.name.startswith(level[:-1]))


def _is_partial(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(PARTIAL)


def _trusted(folder: Path, left_out: Naming) -> bool:
    reason = distrust(folder, or_root=True, team="owns")
    if reason is None and not folder.is_dir():
        reason = "is not a folder of the store"
    if reason:
        left_out(one_line(f"{folder}: {reason}"))
    return reason is None


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:_DIGITS]


def _make(folder: Path) -> None:
    """Create the folder and those above it such that nobody who is not trusted writes to them."""
    for each in (*reversed(folder.parents), folder):
        if not each.is_dir():
            each.mkdir(mode=0o755, exist_ok=True)
            share_as_above(each)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
