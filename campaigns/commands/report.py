"""`nimc report`: one self-contained HTML page a machine, and its data."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.report.make import make_reports
from analysis.table import console, results_table
from campaigns.document import print_document
from campaigns.options import force_option
from campaigns.run_path import RunPath


@click.command()
@click.argument("runs", nargs=-1, required=True, type=RunPath(), metavar="RUN...")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder to write to [default, for one run: RUN/report].",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
@force_option
def command(runs: tuple[Path, ...], output: Path | None, as_json: bool, force: bool) -> None:
    """Write one self-contained HTML page a machine, and its data, from the folders of runs."""
    reports = make_reports(runs, output, force=force)
    if as_json:
        print_document("report", {"reports": [report.document() for report in reports]})
        return
    terminal = console()
    for report in reports:
        for run in report.runs:
            terminal.print(run.header.run, style="bold")
            for line in run.integrity.lines():
                terminal.print(line, style="bold red", markup=False, highlight=False)
            terminal.print(results_table(run.results, run.contrasts))
        click.echo(f"report: {report.page}")
