"""The entries of a store: what is known of each run, whoever added it and how often.

An entry is a file of `runs`, with the names of the run's other two files in its metadata; it is
written last, so that nothing of an unfinished one is read. Of several entries of one run, the one
that knows most counts: most samples, then the end of the run, then its outcome, then that its
samples were pruned. No entry is ever changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from analysis.history import files
from analysis.history.files import Naming, SpoiltError
from analysis.history.migrate import migrated
from analysis.history.tables import RUNS
from analysis.records import plain_name
from analysis.run import RunHeader

_NIGHTS, _SAMPLES = "nights", "samples"
#: Columns of `RUNS` that an entry always has, and those that name files.
_ALWAYS = ("started_s", "digest", "samples", "rejected", "made", "nodes", "size_b", "sha256")
_NAMES = ("machine", "campaign", "run")


@dataclass(frozen=True)
class StoreEntry:
    """One entry."""

    #: The file of `runs`.
    path: Path
    #: Column of `RUNS` -> value.
    row: dict[str, Any]
    nights: Path
    #: None once the samples were pruned.
    samples: Path | None

    @property
    def run(self) -> tuple[str, str]:
        """Machine and name of the run."""
        return self.row["machine"], self.row["run"]

    @property
    def knows(self) -> tuple[object, ...]:
        """Larger for an entry that replaces another one of the same run."""
        row = self.row
        return (
            row["samples"],
            row["finished_s"] or 0.0,
            row["outcome"] is not None,
            self.samples is None,
            self.path.name,
        )


def read_entries(
    store: Path, machine: str | None, campaign: str | None, left_out: Naming
) -> list[StoreEntry]:
    """The entry of each run, in order of their start; names each file that is left out.

    Raises InputError for a file of a newer schema.
    """
    best: dict[tuple[str, str], StoreEntry] = {}
    for entry in all_entries(store, machine, campaign, left_out):
        best[entry.run] = max(best.get(entry.run, entry), entry, key=lambda each: each.knows)
    return sorted(best.values(), key=lambda each: (each.row["started_s"], each.run))


def all_entries(
    store: Path, machine: str | None, campaign: str | None, left_out: Naming
) -> Iterator[StoreEntry]:
    """Every entry, those that others replace as well."""
    return _read(store, files.listed(store / "runs", machine, campaign, left_out), left_out)


def entry_of(store: Path, header: RunHeader) -> StoreEntry | None:
    """The entry of one run."""
    place = files.partition(header.machine, header.campaign, header.started_s)
    paths = files.listed_of(store / "runs" / place, header.run)
    entries = _read(store, paths, lambda _: None)
    same = (each for each in entries if each.row["run"] == header.run)
    return max(same, key=lambda each: each.knows, default=None)


def _read(store: Path, paths: Iterable[Path], left_out: Naming) -> Iterator[StoreEntry]:
    for path in paths:
        try:
            yield _entry(store, path)
        except SpoiltError as error:
            left_out(str(error))


def write_entry(store: Path, row: Mapping[str, Any], nights: str, samples: str | None) -> None:
    """Write an entry with the names of the run's other files."""
    place = files.partition(row["machine"], row["campaign"], row["started_s"])
    named = {_NIGHTS: nights, _SAMPLES: samples or ""}
    files.write(store / "runs" / place, row["run"], pl.DataFrame([row], schema=RUNS), named)


def read_nights(entry: StoreEntry) -> pl.DataFrame:
    """The nights of a run. Raises SpoiltError, and InputError for a newer schema."""
    return _rows("nights", files.read(entry.nights))


def _entry(store: Path, path: Path) -> StoreEntry:
    file = files.read(path)
    rows = _rows("runs", file)
    if rows.height != 1:
        raise SpoiltError(f"{path}: has {rows.height} rows, must have one")
    row = rows.row(0, named=True)
    for name in (*_ALWAYS, *_NAMES):
        if row[name] is None:
            raise SpoiltError(f"{path}: field '{name}' is null, must be a value")
    try:
        for name in _NAMES:
            plain_name(row[name])
        place = files.partition(row["machine"], row["campaign"], row["started_s"])
    except (ValueError, OverflowError, OSError) as error:
        raise SpoiltError(f"{path}: {error}") from error
    if path.parent != store / "runs" / place:
        raise SpoiltError(f"{path}: must be in {store / 'runs' / place}")
    nights, samples = (file.metadata.get(key, "") for key in (_NIGHTS, _SAMPLES))
    for key, name in ((_NIGHTS, nights), (_SAMPLES, samples)):
        if "/" in name or (key == _NIGHTS and not name):
            raise SpoiltError(f"{path}: its metadata names no file of {key}")
    return StoreEntry(
        path,
        row,
        store / "nights" / place / nights,
        store / "samples" / place / samples if samples else None,
    )


def _rows(table: str, file: files.StoreFile) -> pl.DataFrame:
    try:
        return migrated(table, file.schema, files.frame(file).lazy()).collect()
    except pl.exceptions.PolarsError as error:
        raise SpoiltError(f"{file.path}: {str(error).splitlines()[0]}") from error
