"""`nimc report`, `nimc compare`, `nimc advise`: what runs say."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from analysis.compare.page import write_page
from analysis.compare.side import METRICS, Side
from analysis.compare.sides import Compared, Comparison, compare_sides
from analysis.remedies.advice import Advice, Assumed, RemedyAdvice, Standing, advise
from analysis.remedies.sentences import advice_document, per_byte, sentences, where
from analysis.remedies.throttling import Throttling
from analysis.report.data import RunData, load_run
from analysis.report.make import make_reports
from analysis.statistics.interval import Estimate, effect
from nimc.base.errors import InputError
from nimc.base.tables import blocks, folded
from nimc.base.units import plural
from nimc.cli.document import Form, show
from nimc.cli.options import RunPath, force_option, form_options, output_option
from nimc.cli.table import bold, prose, results_table

#: Most characters of a line of a workload's name.
_NAME = 20


@click.command()
@click.argument("runs", nargs=-1, required=True, type=RunPath(), metavar="RUN...")
@output_option("Folder to write to [default, for one run: RUN/report].", folder=True)
@form_options
@force_option
def report_command(
    runs: tuple[Path, ...], output: Path | None, form: Form | None, force: bool
) -> None:
    """Write one self-contained HTML page a machine, and its data, from the folders of runs."""
    reports = make_reports(runs, output, force=force)
    lines = []
    for report in reports:
        for run in report.runs:
            lines += [prose(run.header.run, bold=True), *_faults(run.integrity.lines())]
            lines.append(results_table(run.results, run.contrasts))
        lines.append(f"report: {report.page}")
    document = {"reports": [report.document() for report in reports]}
    show("report", document, form, "\n".join(lines))


def _faults(lines: Iterable[str]) -> list[str]:
    """What must not be overlooked."""
    return [prose(line, fg="red", bold=True) for line in lines]


# `nimc compare`: two sides of one night or several, of one machine or two.


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
@click.option(
    "--fail", is_flag=True, help="Exit with 1 if a figure is worse; not with too few nights."
)
@form_options
@force_option
def compare_command(
    runs: tuple[Path, ...],
    references: tuple[Path, ...],
    output: Path | None,
    fail: bool,
    form: Form | None,
    force: bool,
) -> int:
    """Compare nights with reference nights: slowdowns and times, and what differs between them.

    A ratio above 1 is worse. A run is a night. With several nights on both sides, a change is named
    if it exceeds how nights differ, judged over all rows and as far as neighbouring nights may
    correlate; seven a side are a good start. With one night on a side, no change is named.
    """
    references, runs = _sides(references, runs)
    sides = ([load_run(path, force=force) for path in side] for side in (references, runs))
    compared = compare_sides(*sides)
    if fail and compared.too_few_nights:
        raise InputError(f"--fail: {compared.too_few_nights} Give the reference's with --reference")
    page = write_page(output, compared) if output else None
    lines = [*comparison_lines(compared), *([f"page: {page}"] if page else [])]
    show("compare", compared.document(), form, "\n".join(lines))
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


def comparison_lines(compared: Compared) -> Iterator[str]:
    """The comparison as text: what differs, and the table."""
    yield from _faults(text for found in compared.untrusted for text in found.lines())
    yield prose(f"{_named(compared.this)} against {_named(compared.reference)}", bold=True)
    for fact in compared.differing:
        yield prose(f"{fact.what} differs: {fact.reference} -> {fact.this}", fg="yellow")
    if compared.unknown:
        yield prose(f"not known of the nodes: {', '.join(compared.unknown)}", dim=True)
    for dose in compared.doses:
        yield prose(f"{dose.case} {dose.arm}: dose differs: {dose.text}", fg="yellow")
    for text in compared.emulations:
        yield prose(text, fg="yellow")
    yield ""
    if compared.rows:
        yield _comparison_table(compared.rows)
    yield prose(compared.summary)
    for fact in compared.others:
        yield prose(f"{fact.what}: {fact.reference} -> {fact.this}", dim=True)


def _named(side: Side) -> str:
    if len(side.runs) == 1:
        return side.names[0]
    return f"{plural(len(side.runs), 'night')} of {side.campaign} on {side.machine}"


def _comparison_table(rows: list[Comparison]) -> str:
    judged = any(row.p_adjusted is not None for row in rows)
    cells = []
    for row in rows:
        name = row.case if row.arm in ("on", "off") else f"{row.case} {row.arm}"
        p = "-" if row.p_adjusted is None else f"{row.p_adjusted:.2g}"
        figures = [*effect(row.ratio), *([p] if judged else [])]
        cells.append([folded(name, _NAME), METRICS[row.metric], *figures, row.text])
    titles = ["workload", "figure", "ratio", "interval", *(["adjusted p"] if judged else [])]
    header, *lines = blocks([*titles, "verdict"], cells, left=(0, 1, len(titles)))
    return "\n".join([bold(header), *lines])


# `nimc advise`: which remedy, what it costs, what is not decided.


_COLOUR = {Standing.BETTER: "green", Standing.WORSE: "red"}
_REMEDIES = ["workload\nand traffic", "remedy", "price", "gain", "net", "writes", "standing"]
#: Most characters of a line of the cells with text among these.
_CELL = 12
_LEGEND = (
    "price: time with the remedy / without, off; gain: time without / with, on; net: speed"
    " with / without, at the share of traffic; next: its interval for the next allocation; writes:"
    " their rate with / without"
)


@click.command()
@click.argument("runs", nargs=-1, required=True, type=RunPath(), metavar="RUN...")
@click.option(
    "--nodes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Nodes of the machine, for node-hours a month. [default: losses per node-hour]",
)
@click.option(
    "--traffic-share",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="SHARE",
    help="Share of time with traffic as measured, above 0. [default: all the time]",
)
@form_options
@force_option
def advise_command(
    runs: tuple[Path, ...],
    nodes: int | None,
    traffic_share: float | None,
    form: Form | None,
    force: bool,
) -> None:
    """Say which remedy is worth its price on the machines of RUN..., and what is not decided.

    A remedy is recommended only if the whole interval of its net benefit in the next allocation is
    on the better side, over all remedies tried, and never from emulated traffic. What costs
    something without traffic needs a --traffic-share. This and --nodes are assumptions about the
    machine; nothing of them is measured.
    """
    if traffic_share is not None and math.isnan(traffic_share):
        raise InputError("--traffic-share: nan found; allowed: above 0, at most 1")
    of_machine: dict[str, list[RunData]] = {}
    for path in dict.fromkeys(runs):
        run = load_run(path, force=force)
        of_machine.setdefault(run.header.machine, []).append(run)
    assumed = Assumed(nodes, traffic_share)
    found = {machine: advise(own, assumed) for machine, own in of_machine.items()}
    documents = [advice_document(each) for each in found.values()]
    all_runs = [run for own in of_machine.values() for run in own]
    faults = {str(run.path): lines for run in all_runs if (lines := run.integrity.faults)}
    text = []
    for machine, advice in found.items():
        text.append(prose(machine, bold=True))
        text += _faults(line for run in of_machine[machine] for line in run.integrity.lines())
        text += _advice(advice)
    document = {"advice": documents, "integrity_faults": faults}
    show("advise", document, form, "\n".join(text))


def _advice(advice: Advice) -> Iterator[str]:
    yield from map(prose, sentences(advice))
    if advice.remedies:
        header, *lines = blocks(_REMEDIES, map(_cells, advice.remedies), left=(0, 1, 6))
        yield f"\n{bold(header)}"
        for text, row in zip(lines, advice.remedies, strict=True):
            yield click.style(text, fg=_COLOUR.get(row.standing, "yellow"))
        yield prose(_LEGEND, dim=True)
    for _, sweep in advice.sweeps:
        yield from map(prose, _sweep(sweep))
    for note in dict.fromkeys(note for row in advice.losses for note in row.emulated):
        yield prose(note, fg="yellow")


def _cells(row: RemedyAdvice) -> list[str]:
    of = row.effect
    standing = textwrap.fill(row.standing, _CELL)
    standing += f"\n{row.next.pairs} more" if row.next else ""
    standing += "\nemulated" if of.emulated else ""
    return [
        f"{folded(of.case, _CELL)}\n{folded(of.traffic, _CELL)}",
        folded(of.remedy, _CELL) + ("" if of.paired else "\nunpaired"),
        *(_figure(each) for each in (of.price, of.gain)),
        "\n".join([_figure(row.net), *_next_allocation(row)]),
        "" if of.written is None else f"{of.written.value:.2f}",
        standing,
    ]


def _next_allocation(row: RemedyAdvice) -> list[str]:
    if row.next_allocation is None:
        return []
    low, high = row.next_allocation
    return ["next", f"{low:.2f}-{high:.2f}"]


def _figure(of: Estimate | None) -> str:
    return "\n".join(effect(of)) if of else "-"


def _sweep(sweep: Throttling) -> list[str]:
    """Loss per byte written, and the crossover, of a sweep."""
    if sweep.slope is None:
        return []
    at = "".join(f", {name.replace('_', ' ')} {level}" for name, level in sweep.at.items())
    value, low, high, unit = per_byte(sweep)
    if not sweep.line_fits:
        return [f"{sweep.case}{at}: the loss is curved, so no line gives a loss per byte"]
    text = f"{sweep.case}{at}: lost per byte written {value} [{low}, {high}] {unit}"
    if sweep.reserved is not None:
        found = where(sweep.crossover_b_s, "B/s")
        text += f"; equals the price of reserved_cores={sweep.reserved}: {found}"
    return [text]
