"""The store: all runs of all machines as Parquet, derived from the folders of runs.

    add_run(store, run)                       adds a run, or what it grew by
    load_runs(store, machine=M, campaign=C)   one row per run (`tables.RUNS`)
    load_nights(store, machine=M, ...)        one row per run and watched quantity (`tables.NIGHTS`)
    scan_samples(store, machine=M, ...)       the samples, lazily

Every file that cannot be used is left out, and named to `left_out` in one line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl

from analysis.history import files
from analysis.history.extract import nights_frame, run_row, samples_frame, samples_schema
from analysis.history.files import Naming, SpoiltError
from analysis.history.tables import NIGHTS, RUNS, Outcome
from analysis.report.data import RunData, load_run
from nimc.base.errors import InputError
from nimc.base.files import require_own
from nimc.base.text import visible
from nimc.records.run import RunHeader, load_header, plain_name
from nimc.records.run_folder import distrust_run, sha256_of, size_of

# The entries of a store: what is known of each run, whoever added it and how often.
#
# An entry is a file of `runs`, with the names of the run's other two files in its metadata; it is
# written last, so that nothing of an unfinished one is read. Of several entries of one run, the one
# that knows most counts: most samples, then the end of the run, then its outcome, then that its
# samples were pruned. No entry is ever changed.


_NIGHTS, _SAMPLES = "nights", "samples"
#: Columns of `RUNS` that an entry always has, and those that name files.
_ALWAYS = ("started_s", "digest", "samples", "rejected", "made", "nodes", "size_b", "sha256")
_NAMES = ("machine", "campaign", "run")
#: Those that entries of earlier versions lack.
_ADDED = ("head",)


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

    def has(self, sha256: str, finished_s: float | None) -> bool:
        """Whether it is of a run folder with these samples that ended then."""
        return (self.row["sha256"], self.row["finished_s"]) == (sha256, finished_s)

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

    Raises InputError if there is no store, it is another user's, or a file has another schema.
    """
    if not store.is_dir():
        raise InputError(f"{store}: there is no store; 'nimc store add' makes it")
    require_own(store, "store", or_root=True, team="owns")
    best: dict[tuple[str, str], StoreEntry] = {}
    paths = files.listed(store / "runs", machine, campaign, left_out)
    for entry in _read(store, paths, left_out):
        best[entry.run] = max(best.get(entry.run, entry), entry, key=lambda each: each.knows)
    return sorted(best.values(), key=lambda each: (each.row["started_s"], each.run))


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
    """The nights of a run. Raises SpoiltError, and InputError for another schema."""
    return _rows(NIGHTS, files.read(entry.nights))


def _entry(store: Path, path: Path) -> StoreEntry:
    file = files.read(path)
    rows = _rows(RUNS, file)
    if rows.height != 1:
        raise SpoiltError(f"{path}: has {rows.height} rows, must have one")
    row = rows.row(0, named=True)
    for name in (*_ALWAYS, *_NAMES):
        if row[name] is None:
            raise SpoiltError(f"{path}: {name}: null found; allowed: a value")
    try:
        for name in _NAMES:
            plain_name(row[name])
        place = files.partition(row["machine"], row["campaign"], row["started_s"])
    except (ValueError, OverflowError, OSError) as error:
        raise SpoiltError(f"{path}: {error}") from error
    if path.parent != store / "runs" / place:
        raise SpoiltError(f"{path}: must be in {store / 'runs' / place}")
    nights, samples = (file.metadata.get(key, "") for key in (_NIGHTS, _SAMPLES))
    if not nights or "/" in nights + samples:
        raise SpoiltError(f"{path}: its metadata names no files of nights and samples")
    return StoreEntry(
        path,
        row,
        store / "nights" / place / nights,
        store / "samples" / place / samples if samples else None,
    )


def _rows(columns: Mapping[str, pl.DataType], file: files.StoreFile) -> pl.DataFrame:
    frame = files.frame(file)
    lacking = (pl.lit(None).alias(name) for name in _ADDED if name not in frame.columns)
    try:
        return frame.with_columns(lacking).select(
            pl.col(name).cast(of) for name, of in columns.items()
        )
    except pl.exceptions.PolarsError as error:
        raise SpoiltError(f"{file.path}: {str(error).splitlines()[0]}") from error


def to_stderr(line: str) -> None:
    """Name what is left out where no table is in the way."""
    print(f"nimc: {visible(line)}", file=sys.stderr)


@dataclass(frozen=True)
class Added:
    """What adding a run did."""

    machine: str
    campaign: str
    run: str
    #: `known`: all of it was in the store.
    state: Literal["new", "grew", "known"]
    samples: int


def add_run(store: Path, run: Path, *, outcome: Outcome | None = None) -> Added:
    """Add the run in folder `run`, with how its night ended, if known.

    Raises InputError, with the reason in one line, for a run that cannot be added: one with
    integrity faults, another user's, one that is being measured, or one that has lost samples.
    """
    require_own(store, "store", or_root=True, team="owns")
    if reason := distrust_run(run):
        raise InputError(f"{run}: {reason}")
    header = load_header(run)
    sha256 = sha256_of(run)
    known = entry_of(store, header)
    judged = known and (outcome is None or known.row["outcome"] is not None)
    if known and judged and known.has(sha256, header.finished_s) and _is_whole(known):
        return Added(header.machine, header.campaign, header.run, "known", known.row["samples"])
    try:
        data = load_run(run)
    except InputError as error:
        raise InputError("; ".join(str(error).splitlines()[:2])) from error
    if sha256_of(run) != sha256 or load_header(run) != data.header:
        raise InputError(f"{run}: was written to while it was read; add it again")
    row = run_row(data, sha256, size_of(run), outcome)
    if known and known.row["sha256"] != sha256 and data.samples.height <= known.row["samples"]:
        raise InputError(
            f"{run}: its samples are not those that the store has of it ({data.samples.height}, and"
            f" {known.row['samples']} in the store)"
        )
    put(store, data, row)
    state: Literal["new", "grew"] = "grew" if known else "new"
    return Added(header.machine, header.campaign, header.run, state, data.samples.height)


def put(store: Path, data: RunData, row: Mapping[str, Any]) -> None:
    """Write the three files of a run, its row of `runs` last."""
    header = data.header
    place = files.partition(header.machine, header.campaign, header.started_s)
    nights = files.write(store / "nights" / place, header.run, nights_frame(data), {})
    samples = files.write(store / "samples" / place, header.run, samples_frame(data), {})
    write_entry(store, row, nights.name, samples.name)


def load_runs(
    store: Path,
    *,
    machine: str | None = None,
    campaign: str | None = None,
    left_out: Naming = to_stderr,
) -> pl.DataFrame:
    """All runs, or those of a machine or campaign, in order of their start (`tables.RUNS`).

    Raises InputError as `read_entries`.
    """
    rows = [entry.row for entry in read_entries(store, machine, campaign, left_out)]
    return pl.DataFrame(rows, schema=RUNS)


def load_nights(
    store: Path,
    *,
    machine: str | None = None,
    campaign: str | None = None,
    left_out: Naming = to_stderr,
) -> pl.DataFrame:
    """Rows of all nights (`tables.NIGHTS`), in order of their start; raises as `read_entries`."""
    found = [pl.DataFrame(schema=NIGHTS)]
    for entry in read_entries(store, machine, campaign, left_out):
        try:
            found.append(read_nights(entry))
        except SpoiltError as error:
            left_out(str(error))
    return pl.concat(found)


def scan_samples(
    store: Path,
    *,
    machine: str | None = None,
    campaign: str | None = None,
    left_out: Naming = to_stderr,
) -> pl.LazyFrame:
    """Samples of all runs that were not pruned; raises as `read_entries`.

    Columns are those of `nimc report`'s samples.parquet, with machine, campaign and run.
    """
    paths: list[Path] = []
    for entry in read_entries(store, machine, campaign, left_out):
        try:
            paths += [files.read(entry.samples).path] if entry.samples else []
        except SpoiltError as error:
            left_out(str(error))
    present = samples_schema()
    if not paths:
        return pl.LazyFrame(schema=present)
    # Older files may lack columns that were added since.
    added: dict[str, Any] = {"missing_columns": "insert", "extra_columns": "ignore"}
    return pl.scan_parquet(paths, schema=present, hive_partitioning=False, glob=False, **added)


def _is_whole(entry: StoreEntry) -> bool:
    try:
        read_nights(entry)
    except SpoiltError:
        return False
    return entry.samples is None or entry.samples.exists()
