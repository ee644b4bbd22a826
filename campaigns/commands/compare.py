"""`nimc compare`: two runs, or two machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.compare import Comparison, Difference, compare, differences
from analysis.errors import InputError
from analysis.numbers import effect, interval
from analysis.report.data import load_run
from analysis.table import console
from campaigns.run_path import RunPath


@click.command()
@click.argument("runs", nargs=-1, required=True, type=RunPath(), metavar="RUN RUN...")
@click.option("--fail", is_flag=True, help="Exit with 1 if a figure is worse.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def command(runs: tuple[Path, ...], fail: bool, as_json: bool) -> int:
    """Compare each run with the first: slowdowns and times, and differences in provenance.

    A ratio above 1 is worse. It counts as a change only if its whole interval lies beyond 1 and
    beyond the noise floors of both runs.
    """
    if len(runs) < 2:
        raise InputError("RUN RUN...: give the reference and at least one more run")
    reference = load_run(runs[0])
    sections = []
    for path in runs[1:]:
        run = load_run(path)
        sections.append((run.header, compare(reference, run), differences(reference, run)))
    worse = sum(row.verdict == "worse" for _, rows, _ in sections for row in rows)
    if as_json:
        document = {
            "reference": reference.header.run,
            "runs": [
                {
                    "run": header.run,
                    "machine": header.machine,
                    "campaign": header.campaign,
                    "comparisons": [row.as_dict() for row in rows],
                    "differences": [asdict(difference) for difference in differs],
                }
                for header, rows, differs in sections
            ],
            "worse": worse,
        }
        click.echo(json.dumps(document, indent=1))
    else:
        terminal = console()
        for header, rows, differs in sections:
            name = Text(header.run, style="bold")
            terminal.print(name, "against", reference.header.run)
            _print(terminal, rows, differs)
    return 1 if fail and worse else 0


def _print(terminal: Console, rows: Sequence[Comparison], differs: Sequence[Difference]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("workload")
    table.add_column("figure")
    for name in ("ratio", "interval", "noise floors"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for row in rows:
        label = "slowdown" if row.metric == "slowdown" else f"time {row.metric}"
        table.add_row(
            row.case if row.arm == "on" else f"{row.case} {row.arm}",
            label,
            *effect(row.ratio, row.ratio_low, row.ratio_high),
            interval(row.noise_floor_low, row.noise_floor_high),
            row.verdict,
        )
    terminal.print(table if rows else "no case in common")
    for difference in differs:
        terminal.print(
            f"{difference.what}: {difference.reference} -> {difference.this}",
            style="dim",
        )
