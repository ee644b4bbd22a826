"""`nimc store`: all runs of all machines, for history."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from analysis import units
from analysis.errors import InputError, MachineError
from analysis.escape import visible
from analysis.history.check import check_store
from analysis.history.entries import read_entries
from analysis.history.retention import (
    Limits,
    Stored,
    give_up_samples,
    inventory,
    lacking,
    leftovers,
    to_prune,
)
from analysis.history.store import Added, add_run, require_store
from analysis.numbers import count, quantity
from analysis.run_folder import run_folders
from campaigns.document import print_document
from campaigns.options import history_options, json_option
from campaigns.run_path import RunPath
from campaigns.running.folder import remove_run


@click.group()
def command() -> None:
    """Keep the store: all runs of all machines as Parquet, for their history."""


@command.command()
@click.argument("runs", nargs=-1, type=RunPath(), metavar="[RUN]...")
@history_options
@json_option
def add(runs: tuple[Path, ...], results: Path, store: Path, as_json: bool) -> int:
    """Add each RUN, or all runs of the results folder, that is new or grew.

    A run that cannot be added is named with the reason; the exit code is 2 if it was given.
    """
    added: list[Added] = []
    refused: list[str] = []
    for run in runs or run_folders(results):
        try:
            added.append(add_run(store, run))
        except InputError as error:
            refused.append(str(error))
            _name(str(error))
    changed = [each for each in added if each.state != "known"]
    if as_json:
        runs_added = [asdict(each) for each in added]
        print_document("store add", {"runs": runs_added, "left_out": refused})
    else:
        for each in changed:
            click.echo(visible(f"{each.run}: {each.state}, {count(each.samples, 'sample')}"))
        known = len(added) - len(changed)
        click.echo(f"{count(len(changed), 'run')} added, {known} known, {len(refused)} left out")
    return 2 if runs and refused else 0


@command.command()
@history_options
@json_option
def check(results: Path, store: Path, as_json: bool) -> int:
    """Verify every file of the store, and that each run of the results folder is in it.

    The exit code is 1 if anything is wrong.
    """
    require_store(store)
    found = check_store(store, results)
    if as_json:
        print_document("store check", {"found": found})
    else:
        for line in found:
            _name(line)
        click.echo(f"{store}: {count(len(found), 'fault')}" if found else f"{store}: sound")
    return int(bool(found))


@command.command()
@history_options
@json_option
@click.option("--older-than", "age", metavar="TIME", help="Runs that started longer ago: 400d.")
@click.option("--larger-than", "size", metavar="SIZE", help="The oldest runs beyond: 50GiB.")
@click.option("--yes", is_flag=True, help="Remove them; without it they are only shown.")
def prune(
    results: Path, store: Path, as_json: bool, age: str | None, size: str | None, yes: bool
) -> int:
    """Remove old runs: their folders, and their samples in the store.

    History stays: what each night measured is kept for ever. So are runs that an alarm rests on,
    and those of which the store does not have everything.
    """
    require_store(store)
    unread: list[str] = []
    entries = read_entries(store, None, None, unread.append)
    for line in unread:
        _name(line)
    chosen = to_prune(inventory(store, entries, results), _limits(age, size))
    held = {each.entry.run: why for each in chosen if (why := each.held or lacking(each))}
    going = [each for each in chosen if each.entry.run not in held]
    # What an entry names that cannot be read is not known.
    old = [] if unread else list(leftovers(store, entries, time.time()))
    for each in going if yes else ():
        if why := _remove(store, each):
            held[each.entry.run] = why
    for path in old if yes else ():
        path.unlink(missing_ok=True)
    gone = [each for each in going if each.entry.run not in held]
    if as_json:
        print_document("store prune", _document(gone, held, old, yes))
    else:
        _show(gone, held, old, yes)
    return 0


def _limits(age: str | None, size: str | None) -> Limits:
    if age is None and size is None:
        raise InputError("--older-than, --larger-than: one of them is required")
    return Limits(
        None if age is None else time.time() - units.duration_s(age, "--older-than"),
        None if size is None else round(units.size_b(size, "--larger-than")),
    )


def _remove(store: Path, each: Stored) -> str | None:
    """Remove a run; why it stays, if it does."""
    try:
        if each.folder:
            remove_run(each.folder)
        give_up_samples(store, each.entry)
    except (InputError, MachineError) as error:
        return str(error)
    return None


def _document(
    gone: Sequence[Stored], held: dict[tuple[str, str], str], old: Sequence[Path], yes: bool
) -> dict[str, object]:
    return {
        "removed": yes,
        "runs": [
            {"machine": each.entry.run[0], "run": each.entry.run[1], "size_b": each.size_b}
            for each in gone
        ],
        "held": [
            {"machine": machine, "run": run, "reason": why} for (machine, run), why in held.items()
        ],
        "leftover_files": [str(path) for path in old],
    }


def _show(
    gone: Sequence[Stored], held: dict[tuple[str, str], str], old: Sequence[Path], yes: bool
) -> None:
    for each in gone:
        click.echo(visible(f"{each.entry.run[1]}: {quantity(each.size_b, 'B', 3)}"))
    for (_, run), why in held.items():
        click.echo(visible(f"{run}: stays: {why}"))
    size = quantity(sum(each.size_b for each in gone), "B", 3)
    what = f"{count(len(gone), 'run')} ({size}) and {count(len(old), 'leftover file')}"
    click.echo(f"removed: {what}" if yes else f"would remove with --yes: {what}")


def _name(line: str) -> None:
    click.echo(f"nimc: {visible(line)}", err=True)
