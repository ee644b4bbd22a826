"""The command `nimc runs`, which lists the runs of campaigns in a folder of results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from analysis.display.document import Table
from analysis.display.figures import NO_FIGURE, quantity
from analysis.samples.columns import read_run
from analysis.samples.pairs import judge_samples
from nimc.cli import options
from nimc.cli.answer import Answer, prints_answer, prose
from records.commands import command
from records.errors import InputError
from records.failed_cases import load_failures
from records.run import load_header
from records.run_folder import run_folders, run_size_b

_RUN = options.RunPath()
#: Keys of a row whose values come from the header of the run.
_HEADER_KEYS = ("machine", "campaign", "started_s")
#: Keys of a row whose values come from the samples of the run.
_SAMPLE_KEYS = ("samples", "rejected")


@click.command()
@options.results_option
@prints_answer(tables=True)
def runs_command(results: Path) -> Answer:
    """List the runs of the results folder, the oldest first.

    A run is 'failed' if a case failed when it was last measured, and 'unfinished' if it is being
    measured or was stopped.
    """
    rows = sorted(map(_run_row, run_folders(results)), key=lambda row: row["started_s"] or 0.0)
    header = ["run", "samples", "rejected", "size", "state"]
    table = Table(header, list(map(_run_cells, rows)), left_aligned=(0, 4))
    unreadable = [prose(f"{row['run']}: {row['state']}") for row in rows if row["machine"] is None]
    if not rows:
        elsewhere = command("runs", "--results", "FOLDER")
        no_runs = prose(f"no runs in {results.absolute()}; in another folder: `{elsewhere}`")
        return Answer({"runs": rows}, [no_runs])
    return Answer({"runs": rows}, [table, *unreadable])


def _run_row(run: Path) -> dict[str, Any]:
    """Return a row with the facts about a run. Facts that cannot be read are None."""
    row: dict[str, Any] = {"run": run.name, **dict.fromkeys([*_HEADER_KEYS, *_SAMPLE_KEYS])}
    try:
        _RUN.convert(str(run), None, None)  # pipes that another user has planted are not opened
        header = load_header(run)
        samples = judge_samples(read_run(run).frame)
    except InputError as error:
        row["state"] = f"unreadable: {str(error).splitlines()[0]}"
    except OSError as error:
        row["state"] = f"unreadable: {error.filename}: {error.strerror}"
    else:
        row |= {key: getattr(header, key) for key in _HEADER_KEYS}
        row["samples"] = samples.height
        row["rejected"] = samples.filter(status="rejected").height
        row["state"] = "finished"
        if header.finished_s is None:
            row["state"] = "failed" if load_failures(run) else "unfinished"
    return {**row, "size_b": run_size_b(run)}


def _run_cells(row: dict[str, Any]) -> list[str]:
    """Return the cells of a run. Campaign, machine and start are in the run's name."""
    state = row["state"].partition(":")[0]  # why a run is unreadable is printed below the table
    cells = (row["run"], row["samples"], row["rejected"], quantity(row["size_b"], "B", 3), state)
    return [NO_FIGURE if cell is None else str(cell) for cell in cells]
