"""`nimc compare`: two sides of one night or several, of one machine or two."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.compare.judge import Comparison
from analysis.compare.page import write_page
from analysis.compare.side import METRICS, Side
from analysis.compare.sides import Compared, compare_sides
from analysis.errors import InputError
from analysis.numbers import count, effect
from analysis.report.data import load_run
from analysis.table import console
from campaigns.document import Form, print_document
from campaigns.options import force_option, form_options, output_option
from campaigns.run_path import RunPath

_RUN = RunPath()


@click.command()
@click.argument("runs", nargs=-1, required=True, type=_RUN, metavar="[RUN] RUN...")
@click.option(
    "--reference",
    "references",
    multiple=True,
    type=_RUN,
    metavar="RUN",
    help="A night of the reference; once for each. Without it, the first of two RUNs.",
)
@output_option("Folder for a page, compare.html, and its data, compare.json.", folder=True)
@click.option("--fail", is_flag=True, help="Exit with 1 if a figure is worse; not for two nights.")
@form_options
@force_option
def command(
    runs: tuple[Path, ...],
    references: tuple[Path, ...],
    output: Path | None,
    fail: bool,
    form: Form | None,
    force: bool,
) -> int:
    """Compare nights with reference nights: slowdowns and times, and what differs between them.

    A ratio above 1 is worse. A run is a night. With several nights a side, a change is named if it
    exceeds how nights differ, judged over all rows; five a side are a good start. With one night a
    side, the interval is that within the nights, and no change is named.
    """
    references, runs = _sides(references, runs)
    if fail and len(references) == len(runs) == 1:
        raise InputError(
            "--fail: two nights cannot tell a change from how nights differ; give more nights, the"
            " reference's with --reference"
        )
    sides = ([load_run(path, force=force) for path in side] for side in (references, runs))
    compared = compare_sides(*sides)
    page = write_page(output, compared) if output else None
    if form:
        print_document("compare", compared.document(), form)
    else:
        _print(console(), compared)
        if page:
            click.echo(f"page: {page}")
    return 1 if fail and compared.worse else 0


def _sides(
    references: tuple[Path, ...], runs: tuple[Path, ...]
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    if references:
        return references, runs
    if len(runs) < 2:
        raise InputError("RUN: give the reference and at least one more run")
    if len(runs) > 2:
        raise InputError(
            f"RUN: {len(runs)} runs without --reference; allowed: 2, or name the reference's nights"
            " with --reference, once for each"
        )
    return runs[:1], runs[1:]


def _print(terminal: Console, compared: Compared) -> None:
    def line(text: str, style: str = "") -> None:
        terminal.print(Text(text, style=style))

    for found in compared.untrusted:
        for text in found.lines():
            line(text, "bold red")
    line(f"{_named(compared.this)} against {_named(compared.reference)}", "bold")
    for fact in compared.differing:
        line(f"{fact.what} differs: {fact.reference} -> {fact.this}", "yellow")
    if compared.unknown:
        line(f"not known of the nodes: {', '.join(compared.unknown)}", "dim")
    for dose in compared.doses:
        line(f"{dose.case} {dose.arm}: dose differs: {dose.text}", "yellow")
    for text in compared.emulations:
        line(text, "yellow")
    line("")
    if compared.rows:
        terminal.print(_table(compared.rows))
    line(compared.summary)
    for fact in compared.others:
        line(f"{fact.what}: {fact.reference} -> {fact.this}", "dim")


def _named(side: Side) -> str:
    if len(side.runs) == 1:
        return side.names[0]
    return f"{count(len(side.runs), 'night')} of {side.campaign} on {side.machine}"


def _table(rows: list[Comparison]) -> Table:
    judged = any(row.p_adjusted is not None for row in rows)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("workload", overflow="fold", min_width=8)
    table.add_column("figure")
    for name in ("ratio", "interval", *(["adjusted p"] if judged else [])):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict")
    for row in rows:
        p = "-" if row.p_adjusted is None else f"{row.p_adjusted:.2g}"
        table.add_row(
            row.case if row.arm in ("on", "off") else f"{row.case} {row.arm}",
            METRICS[row.metric],
            *effect(row.ratio, row.ratio_low, row.ratio_high),
            *([p] if judged else []),
            row.text,
        )
    return table
