"""`nimc report`: one self-contained HTML page a machine, and its data."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.report.make import make_reports
from analysis.table import console, results_table
from campaigns.document import Form, print_document
from campaigns.options import force_option, form_options, output_option
from campaigns.run_path import RunPath


@click.command()
@click.argument("runs", nargs=-1, required=True, type=RunPath(), metavar="RUN...")
@output_option("Folder to write to [default, for one run: RUN/report].", folder=True)
@form_options
@force_option
def command(runs: tuple[Path, ...], output: Path | None, form: Form | None, force: bool) -> None:
    """Write one self-contained HTML page a machine, and its data, from the folders of runs."""
    reports = make_reports(runs, output, force=force)
    if form:
        print_document("report", {"reports": [report.document() for report in reports]}, form)
        return
    terminal = console()
    for report in reports:
        for run in report.runs:
            terminal.print(run.header.run, style="bold")
            for line in run.integrity.lines():
                terminal.print(line, style="bold red", markup=False, highlight=False)
            terminal.print(results_table(run.results, run.contrasts))
        click.echo(f"report: {report.page}")
