"""`nimc nights`: one night of a campaign under a scheduler, alarms and pages of all nights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from analysis.display.document import Table
from analysis.display.figures import NO_FIGURE, divisor_and_unit, number, quantity
from analysis.display.lines import Line, visible
from analysis.history.alarms import (
    MIN_NIGHTS_BEFORE,
    Alarm,
    BelowReference,
    Survey,
    WatchedSeries,
    survey,
)
from analysis.history.nights import nights_of, read_results, rows_of_machine
from analysis.pages.render import PageNight, state_of
from analysis.pages.write import gather, write_pages
from nimc.cli import options
from nimc.cli.answer import Answer, Listing, answers, log, prose
from nimc.nights import summary
from nimc.nights.night import NightRun, night_until
from nimc.nights.summary import Outcome, Summary
from records.errors import InputError
from records.files import require_owned
from records.groups import grouped
from records.run_folder import require_results
from records.text import one_line
from records.units import plural

#: Exit status of a night; of others 0. One that was not run is no failure: its summary says why.
EXIT: dict[Outcome, int] = {"slower": 1, "machine failed": 3}
#: Columns of the night's figures; those that are texts; and its quantities in words.
_FIGURES = ("case", "arm", "quantity", "value", "interval, 95 %", "verdict")
_TEXTS = ("case", "arm", "quantity", "verdict")
_QUANTITIES = {"fom": "figure of merit", "writer_rate": "writers' rate"}
_LEGEND = (
    "finds: the loss that six nights show in half of all cases; spread and level of the nights"
)

_TOO_FEW = (
    "too few nights: {} series, each of which is watched from"
    f" {MIN_NIGHTS_BEFORE + 1} nights at one level on; -v lists them"
)

#: `--results` of commands that read the runs of several folders.
_results = click.option(
    "--results",
    "folders",
    type=options.ResultsPath(),
    multiple=True,
    default=(Path("results"),),
    help="Folder of runs. May be repeated.",
)


@click.group()
def nights_command() -> None:
    """Run a campaign every night: one night, how nights ended, alarms, and pages."""


@nights_command.command()
@options.campaign_argument
@options.machine_option
@options.results_option
@click.option("--until", metavar="HH:MM", help="Stop at this time of day.")
@click.option(
    "--tell",
    metavar="COMMAND",
    default="",
    show_default=False,
    help="Shell command that gets the summary as JSON. If it fails, the next start tells it again.",
)
@click.option(
    "--metrics", type=options.OutputPath(folder=True), help="Folder of node_exporter's text files."
)
@answers()
def run(
    campaign: Path,
    machine: str,
    results: Path,
    until: str | None,
    tell: str,
    metrics: Path | None,
) -> Answer:
    """Run CAMPAIGN tonight, or go on with tonight's run, and judge the night.

    If a night was killed, stopped by a signal, or could not run, the next call continues it. A
    night that ended by itself, or at --until after the first sample, is done: another call only
    prints its summary. The exit code is 0 if the night is inconclusive or was not run, and 1 if it
    is slower.
    """
    end_s, night = night_until(until, datetime.now())
    night_run = NightRun(
        campaign=campaign.absolute(),
        machine=machine,
        results=results.absolute(),
        log=log,
        end_s=end_s,
        night=night,
        tell=tell,
        metrics=metrics,
    )
    ended = night_run.run()
    parts = _night_parts(ended, night_run.path)
    return Answer(ended.as_dict(), parts, EXIT.get(ended.outcome, 0), schema=2)


def _night_parts(ended: Summary, path: Path) -> Iterator[str | Table]:
    """The night's figures and alarms, and where its run, report and summary are."""
    if ended.figures:
        yield _filled(_FIGURES, list(map(_figure, ended.figures)))
    yield from (prose(alarm.text, fg="red") for alarm in ended.alarms)
    if ended.run:
        yield f"run:     {visible(ended.run)}"
        report = Path(ended.run) / "report" / "report.html"
        yield from [f"report:  {visible(str(report))}"] if report.exists() else []
    yield f"summary: {visible(str(path))}"


def _filled(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """The columns that have a cell; without pairs there are no intervals and verdicts."""
    columns = [column for column in range(len(header)) if any(row[column] for row in rows)]
    names = [header[column] for column in columns]
    cells = [[row[column] for column in columns] for row in rows]
    return Table(names, cells, [names.index(name) for name in names if name in _TEXTS])


def _figure(figure: Mapping[str, Any]) -> list[str]:
    """A row of the night's figures (`nimc.nights.summary.FIGURE`)."""
    value, low, high, unit = (figure[name] for name in ("value", "low", "high", "unit"))
    divisor, _ = divisor_and_unit(value, unit)
    ends = [] if low is None or high is None else [number(end / divisor, 3) for end in (low, high)]
    shown = quantity(value, unit, 3).removesuffix(" 1")
    measured = _QUANTITIES.get(figure["quantity"], figure["quantity"])
    return [
        figure["case"],
        figure["arm"],
        measured,
        shown,
        " to ".join(ends),
        figure["verdict"] or "",
    ]


@nights_command.command("list")
@_results
@answers()
def list_nights(folders: tuple[Path, ...]) -> Answer:
    """List how nights ended, the oldest first."""
    for folder in folders:
        require_results(folder)
    summaries, left_out = summary.load_all(folders)
    for line in left_out:
        log(f"left out: {line}")
    cells = [
        [str(night.night), night.machine, night.campaign, night.outcome, one_line(night.reason)]
        for night in summaries
    ]
    table = Table(["night", "machine", "campaign", "outcome", "reason"], cells)
    document = {"nights": [night.as_dict() for night in summaries]}
    return Answer(document, [table if summaries else "no nights"])


@nights_command.command()
@_results
@click.option("--machine", metavar="M", shell_complete=options.machines, help="Only this machine.")
@answers()
@options.details_option
def alarms(folders: tuple[Path, ...], machine: str | None, details: bool) -> Answer:
    """Show what became worse, and the loss that each series would show.

    The exit code is 1 if an alarm is open.
    """
    results, left_out = read_results(folders)
    for line in left_out:
        log(f"left out: {line}")
    results = rows_of_machine(results, machine, "--machine")
    surveyed = survey(nights_of(results), results)
    if surveyed.watched or surveyed.below_reference:
        text = "\n\n".join(_alarm_texts(surveyed, details=details))
    else:
        summaries, _ = summary.load_all(folders)
        count = sum(machine in (None, night.machine) for night in summaries)
        text = prose(_without_series(count, finished=results["finished_s"].is_not_null().any()))
    return Answer(asdict(surveyed), [text], int(surveyed.is_open))


def _without_series(nights: int, *, finished: bool) -> str:
    """What is said of so many nights if no series has a value yet."""
    if finished:
        return "no alarms yet: each finished run has integrity faults, or no figures"
    if nights:
        return f"{plural(nights, 'night')}, no run finished: no alarms yet"
    return "no nights: no run in the results has finished"


def _alarm_texts(surveyed: Survey, *, details: bool) -> list[str]:
    notes = [
        f"changed at the same time: {fact.name}:"
        f" {fact.before or NO_FIGURE} -> {fact.after or NO_FIGURE}"
        for alarm in surveyed.alarms
        if alarm.open
        for fact in alarm.changed
    ]
    became = ("what became worse", "state", "", "campaign")
    lines = [*map(_below, surveyed.below_reference), *map(_alarm, surveyed.alarms)]
    listed = Listing(header=became, lines=lines, notes=notes, details=details)
    header = ("series", "finds", "spread", "level", "", "campaign")
    young = [series for series in surveyed.watched if series.level is None]
    shown = [series for series in surveyed.watched if details or series not in young]
    series = Listing(
        header=header,
        lines=list(map(_watched, shown)),
        notes=[] if details or not young else [_TOO_FEW.format(len(young))],
        legend=_LEGEND,
        needed=2,
        details=details,
    )
    return [str(listed) or "no alarms", str(series)]


def _below(case: BelowReference) -> Line:
    cells = [f"{case.machine}: {case.case}: {case.text}", "open", f"raised {case.night}"]
    return Line([*cells, case.campaign], colour="red")


def _alarm(alarm: Alarm) -> Line:
    state, colour = ("open", "red") if alarm.open else ("ended", "yellow")
    cells = [f"{alarm.machine}: {alarm.text}", state, f"raised {alarm.night}", alarm.campaign]
    return Line(cells, colour=colour)


def _watched(series: WatchedSeries) -> Line:
    name = f"{series.machine} {series.case} {series.arm} {series.quantity}"
    figures = ["too few nights", "", ""]
    if series.level is not None and series.spread is not None and series.detectable is not None:
        level = quantity(series.level, series.unit, 3).removesuffix(" 1")
        figures = [f"{series.detectable:.1%}", f"{series.spread:.1%}", level]
    return Line([name, *figures, plural(series.nights, "night"), series.campaign])


@nights_command.command()
@_results
@options.output_option("Folder for the pages [default: pages in the first results].", folder=True)
@answers()
def pages(folders: tuple[Path, ...], output: Path | None) -> Answer:
    """Write a page for every machine, and one over all machines.

    OUTPUT/index.html is the page over all, OUTPUT/MACHINE/index.html that of a machine, each one
    file with the data of its figures next to it.
    """
    if output is None:
        output = folders[0] / "pages"
        require_owned(output, "--output")
    histories, left_out = gather(folders, output)
    summaries, unread = summary.load_all(folders)
    for line in [*left_out, *unread]:
        log(f"left out: {line}")
    if not histories:
        raise InputError(f"{folders[0]}: no run has a report")
    nights = grouped((night.machine, _page_night(night)) for night in summaries)
    page = write_pages(output, histories, nights)
    states = [state_of(history, nights.get(history.machine, ())) for history in histories]
    lines = [
        f"{state['machine']}: {state['state']}; {plural(state['nights'], 'night')}"
        for state in states
    ]
    document = {"page": str(page), "machines": states}
    return Answer(document, map(visible, [*lines, f"page: {page}"]))


def _page_night(night: Summary) -> PageNight:
    run = Path(night.run).name if night.run else ""
    return PageNight(night.night, night.campaign, night.outcome, one_line(night.reason), run)
