"""`nimc runs`: the runs of a results folder."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from analysis.columns import read_run
from analysis.errors import InputError
from analysis.escape import visible
from analysis.numbers import quantity
from analysis.pairs import judged
from analysis.run import load_header
from analysis.run_folder import distrust_run, run_folders, size_of
from campaigns.document import Form, print_document
from campaigns.options import form_options, results_option
from campaigns.text import aligned


@dataclass(frozen=True)
class ListedRun:
    """One run; what cannot be read of it is null."""

    run: str
    machine: str | None
    campaign: str | None
    started_s: float | None
    samples: int | None
    rejected: int | None
    #: `finished`, `unfinished` or `unreadable: ...`.
    state: str
    size_b: int


@click.command()
@results_option
@form_options
def command(results: Path, form: Form | None) -> None:
    """List the runs of the results folder, the oldest first."""
    rows = sorted(map(_listed, run_folders(results)), key=lambda row: row.started_s or 0.0)
    if form:
        print_document("runs", {"runs": [asdict(row) for row in rows]}, form)
    elif rows:
        header = ["run", "machine", "campaign", "started (UTC)", "samples", "rejected", "size"]
        cells = [_cells(row) for row in rows]
        click.echo(visible(aligned([*header, "state"], cells)))
    else:
        click.echo(f"{results}: no runs")


def _listed(run: Path) -> ListedRun:
    size_b = size_of(run)
    try:
        if why := distrust_run(run):
            raise InputError(why)
        header = load_header(run)
        samples = judged(read_run(run).frame)
    except InputError as error:
        state = f"unreadable: {str(error).splitlines()[0]}"
        return ListedRun(run.name, None, None, None, None, None, state, size_b)
    return ListedRun(
        run.name,
        header.machine,
        header.campaign,
        header.started_s,
        samples.height,
        samples.filter(status="rejected").height,
        "unfinished" if header.finished_s is None else "finished",
        size_b,
    )


def _cells(row: ListedRun) -> list[str]:
    started = "-" if row.started_s is None else _moment(row.started_s)
    shown = (row.machine, row.campaign, started, row.samples, row.rejected)
    return [
        row.run,
        *("-" if value is None else str(value) for value in shown),
        quantity(row.size_b, "B", 3),
        row.state,
    ]


def _moment(moment_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(moment_s))
