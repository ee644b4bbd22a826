"""`nimc advise`: which remedy, what it costs, what is not decided."""

from __future__ import annotations

import math
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.errors import InputError
from analysis.numbers import effect
from analysis.remedies.advice import Advice, Assumed, advise
from analysis.remedies.sentences import advice_document, per_byte, sentences, where
from analysis.remedies.standing import RemedyAdvice, Standing
from analysis.remedies.throttling import Throttling
from analysis.report.data import RunData, load_run
from analysis.statistics.interval import Estimate
from analysis.table import console
from campaigns.document import Form, print_document
from campaigns.options import force_option, form_options
from campaigns.run_path import RunPath

_STYLE = {Standing.BETTER: "green", Standing.WORSE: "red"}


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
def command(
    runs: tuple[Path, ...],
    nodes: int | None,
    traffic_share: float | None,
    form: Form | None,
    force: bool,
) -> None:
    """Say which remedy is worth its price on the machines of RUN..., and what is not decided.

    A remedy is recommended only if the whole interval of its net benefit is on the better side,
    over all remedies tried, and never from emulated traffic. --nodes and --traffic-share are
    assumptions about the machine; nothing of them is measured.
    """
    if traffic_share is not None and math.isnan(traffic_share):
        raise InputError("--traffic-share: nan found; allowed: above 0, at most 1")
    of_machine: dict[str, list[RunData]] = {}
    for path in dict.fromkeys(runs):
        run = load_run(path, force=force)
        of_machine.setdefault(run.header.machine, []).append(run)
    assumed = Assumed(nodes, traffic_share)
    found = {machine: advise(own, assumed) for machine, own in of_machine.items()}
    if form:
        documents = [advice_document(each) for each in found.values()]
        all_runs = (run for own in of_machine.values() for run in own)
        faults = {str(run.path): lines for run in all_runs if (lines := run.integrity.faults)}
        print_document("advise", {"advice": documents, "integrity_faults": faults}, form)
        return
    terminal = console()
    for machine, advice in found.items():
        terminal.print(machine, style="bold")
        for run in of_machine[machine]:
            for line in run.integrity.lines():
                terminal.print(Text(line, style="bold red"))
        _print(terminal, advice)


def _print(terminal: Console, advice: Advice) -> None:
    for text in sentences(advice):
        terminal.print(Text(text))
    if advice.remedies:
        terminal.print(Text())
        terminal.print(_table(advice))
        legend = (
            "price: time with the remedy / without, off; gain: time without / with, on; net: speed"
            " with / without, at the share of traffic; writes: their rate with / without"
        )
        terminal.print(Text(legend, style="dim"))
    for _, sweep in advice.sweeps:
        for line in _sweep(sweep):
            terminal.print(Text(line))
    emulated = dict.fromkeys(note for row in advice.losses for note in row.emulated)
    for note in emulated:
        terminal.print(Text(note, style="yellow"))


def _table(advice: Advice) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("workload\nand traffic", overflow="fold", max_width=17)
    table.add_column("remedy", overflow="fold", max_width=14)
    for name in ("price", "gain", "net", "writes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("standing", max_width=11)
    for row in advice.remedies:
        table.add_row(*_cells(row))
    return table


def _cells(row: RemedyAdvice) -> list[Text | str]:
    of = row.effect
    standing = Text(str(row.standing), style=_STYLE.get(row.standing, "yellow"))
    if row.next:
        standing.append(f"\n{row.next.pairs} more", style="dim")
    if of.emulated:
        standing.append("\nemulated", style="dim")
    unpaired = "" if of.paired else "\nunpaired"
    written = "" if of.written is None else f"{of.written.value:.2f}"
    figures = (_figure(each) for each in (of.price, of.gain, row.net))
    return [f"{of.case}\n{of.traffic}", of.remedy + unpaired, *figures, written, standing]


def _figure(of: Estimate | None) -> str:
    return "\n".join(effect(of.value, of.low, of.high)) if of else "-"


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
