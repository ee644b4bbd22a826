"""Which runs a store and its results folder give up, and whether a store is sound.

A run is given up as a whole: its folder, and its samples in the store. Its rows of `runs` and
`nights` stay for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.history import files
from analysis.history.files import SpoiltError
from analysis.history.store import StoreEntry, read_entries, read_nights, write_entry
from nimc.base.errors import InputError
from nimc.base.files import distrust, require_own
from nimc.base.json_limits import read_json
from nimc.records.run import load_header
from nimc.records.run_folder import distrust_run, run_folders, sha256_of, size_of

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
