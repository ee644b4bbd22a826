"""The store: all runs of all machines as Parquet, derived from the folders of runs.

    add_run(store, run)                       adds a run, or what it grew by
    load_runs(store, machine=M, campaign=C)   one row per run (`tables.RUNS`)
    load_nights(store, machine=M, ...)        one row per run and watched quantity (`tables.NIGHTS`)
    scan_samples(store, machine=M, ...)       the samples, lazily

Every file that cannot be used is left out, and named to `left_out` in one line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
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
from nimc.base.files import distrust, require_own
from nimc.base.json_limits import read_json
from nimc.base.text import visible
from nimc.records.run import RunHeader, load_header, plain_name
from nimc.records.run_folder import distrust_run, run_folders, sha256_of, size_of

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


# Which runs a store and its results folder give up, and whether a store is sound.
#
# A run is given up as a whole: its folder, and its samples in the store. Its rows of `runs` and
# `nights` stay for ever.


#: Files that no entry names stay for so long: another process may be adding them.
_SETTLED_S = 86_400.0


@dataclass(frozen=True)
class Stored:
    """What there is of one run besides its rows."""

    entry: StoreEntry
    #: Its folder; None if the results folder does not have it.
    folder: Path | None
    #: Bytes of the folder and of its samples in the store.
    size_b: int
    #: Why it has to stay; None if it may go.
    held: str | None


def to_prune(stored: Sequence[Stored], oldest_s: float | None, most_b: int | None) -> list[Stored]:
    """Runs that started before `oldest_s` (Unix time), and the oldest beyond `most_b` bytes in all.

    Oldest first; whoever removes them leaves those that are held. None is no limit.
    """
    rest_b = sum(each.size_b for each in stored)
    chosen = []
    for each in sorted(stored, key=lambda each: float(each.entry.row["started_s"])):
        old = oldest_s is not None and each.entry.row["started_s"] < oldest_s
        large = most_b is not None and rest_b > most_b
        if (old or large) and each.size_b:
            chosen.append(each)
            rest_b -= 0 if each.held else each.size_b
    return chosen


def inventory(store: Path, entries: Sequence[StoreEntry], results: Path) -> list[Stored]:
    """What there is of each run of the store, and why it has to stay."""
    alarmed = alarmed_runs(store)
    folders = dict(_folders(results))
    found = []
    for entry in entries:
        folder = folders.get(entry.run)
        size_b = size_of(folder) if folder else 0
        if entry.samples and entry.samples.exists():
            size_b += entry.samples.lstat().st_size
        held = "an alarm rests on it" if entry.run in alarmed else _kept(entry, folder)
        found.append(Stored(entry, folder, size_b, held))
    return found


def alarmed_runs(store: Path) -> set[tuple[str, str]]:
    """Machine and name of each run that an alarm rests on.

    Raises InputError for an alarm that cannot be read: what it rests on is not known then.
    """
    found: set[tuple[str, str]] = set()
    require_own(store / "alarms", "alarms", or_root=True, team="owns")
    for path in sorted((store / "alarms").glob("*.json")):
        require_own(path, "alarms", or_root=True, team="owns")
        alarm = read_json(path)
        named = alarm if isinstance(alarm, dict) else {}
        machine, runs = named.get("machine"), named.get("runs")
        if not isinstance(machine, str) or not isinstance(runs, list):
            raise InputError(f"{path}: allowed: a list of objects with 'machine' and a list 'runs'")
        found |= {(machine, str(run)) for run in runs}
    return found


def lacking(stored: Stored) -> str | None:
    """Why a run may not go: the store does not have all that history needs of it."""
    entry, folder = stored.entry, stored.folder
    try:
        read_nights(entry)
        if folder is None:
            return None
        same = entry.has(sha256_of(folder), load_header(folder).finished_s)
    except InputError as error:  # and SpoiltError
        return str(error)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return None if same else "differs from what the store has of it"


def give_up_samples(store: Path, entry: StoreEntry) -> None:
    """Remove a run's samples from the store; a new entry says so."""
    if entry.samples is None:
        return
    write_entry(store, entry.row, entry.nights.name, None)
    for path in (entry.path, entry.samples):
        path.unlink(missing_ok=True)


def leftovers(store: Path, entries: Sequence[StoreEntry], now_s: float) -> Iterator[Path]:
    """Files that no entry of a run uses any more: of earlier entries, and of killed writers."""
    used = {path for each in entries for path in (each.path, each.nights, each.samples)}
    settled_s = now_s - _SETTLED_S
    for table in files.TABLES:
        yield from files.unfinished(store / table, settled_s)
        for path in files.listed(store / table, None, None, lambda _: None):
            if (
                path not in used
                and not distrust(path, team="writes")
                and path.lstat().st_mtime < settled_s
            ):
                yield path


def _folders(results: Path) -> Iterator[tuple[tuple[str, str], Path]]:
    """Machine and name of each run in `results`, and its folder."""
    for path in run_folders(results):
        try:
            header = load_header(path)
        except InputError:
            continue  # never in the store
        yield (header.machine, header.run), path


def _kept(entry: StoreEntry, folder: Path | None) -> str | None:
    """Why it is another user's to remove: of the trusted group, too."""
    if folder and (reason := distrust_run(folder, "writes")):
        return reason
    for path in filter(None, (entry.path, entry.samples)):
        with suppress(FileNotFoundError):
            if reason := distrust(path, or_root=True, team="writes"):
                return f"{path.name} {reason}"
    return None


def check_store(store: Path, results: Path | None) -> list[str]:
    """What is wrong with the store, and which runs of `results` it lacks; a line each.

    Raises InputError if there is no store, or for a file of another schema.
    """
    found: list[str] = []
    entries = read_entries(store, None, None, found.append)
    for table in ("nights", "samples"):
        for path in files.listed(store / table, None, None, found.append):
            found += _fault(files.read, path)
    for entry in entries:
        for path in filter(None, (entry.nights, entry.samples)):
            if not path.exists():
                found.append(f"{path}: is missing; 'nimc store add' makes it again from the run")
        if entry.nights.exists():
            found += _fault(read_nights, entry)
    known = {entry.run: entry for entry in entries}
    for run in run_folders(results) if results else ():
        found += _of_run(run, known)
    return list(dict.fromkeys(found))


def _fault(read: Callable[[Any], object], what: Path | StoreEntry) -> Iterator[str]:
    try:
        read(what)
    except SpoiltError as error:
        yield str(error)


def _of_run(run: Path, known: dict[tuple[str, str], StoreEntry]) -> Iterator[str]:
    if reason := distrust_run(run):
        yield f"{run}: {reason}"
        return
    try:
        header = load_header(run)
    except InputError as error:
        yield str(error)
        return
    entry = known.get((header.machine, header.run))
    if entry is None:
        yield f"{run}: is not in the store"
    elif not entry.has(sha256_of(run), header.finished_s):
        yield f"{run}: differs from what the store has of it"
