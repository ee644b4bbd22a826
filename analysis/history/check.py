"""Whether a store is sound: every file what its name says, every run of `results` in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from analysis.errors import InputError
from analysis.history import files
from analysis.history.entries import StoreEntry, read_entries, read_nights
from analysis.history.files import SpoiltError
from analysis.run import load_header
from analysis.run_folder import distrust_run, run_folders, sha256_of


def check_store(store: Path, results: Path | None) -> list[str]:
    """What is wrong with the store, and which runs of `results` it lacks; a line each.

    Raises InputError for a file of a newer schema.
    """
    found: list[str] = []
    entries = read_entries(store, None, None, found.append)
    for table in ("nights", "samples"):
        for path in files.listed(store / table, None, None, found.append):
            try:
                files.read(path)
            except SpoiltError as error:
                found.append(str(error))
    for entry in entries:
        found += _of_entry(entry)
    known = {entry.run: entry for entry in entries}
    for run in run_folders(results) if results else ():
        found += _of_run(run, known)
    return list(dict.fromkeys(found))


def _of_entry(entry: StoreEntry) -> Iterator[str]:
    for path in (entry.nights, *([entry.samples] if entry.samples else [])):
        if not path.exists():
            yield f"{path}: is missing; 'nimc store add' makes it again from the run"
    if entry.nights.exists():
        try:
            read_nights(entry)
        except SpoiltError as error:
            yield str(error)


def _of_run(run: Path, known: dict[tuple[str, str], StoreEntry]) -> Iterator[str]:
    if why := distrust_run(run):
        yield f"{run}: {why}"
        return
    try:
        header = load_header(run)
    except InputError as error:
        yield str(error)
        return
    entry = known.get((header.machine, header.run))
    if entry is None:
        yield f"{run}: is not in the store"
    elif (entry.row["sha256"], entry.row["finished_s"]) != (sha256_of(run), header.finished_s):
        yield f"{run}: differs from what the store has of it"
