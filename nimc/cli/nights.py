"""The command `nimc nights`: runs one night of a campaign, and reads all nights.

A scheduler runs a campaign every night with `nimc nights run`. The other subcommands list how
nights ended, print alarms and write pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
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
from analysis.pages.render import PageNight, machine_state
from analysis.pages.write import machine_histories, write_pages
from nimc.cli import options
from nimc.cli.answer import Answer, Listing, log, prints_answer, prose
from nimc.nights import summary
from nimc.nights.night import NightRun, night_until
from nimc.nights.summary import Outcome, Summary
from records.commands import command
from records.errors import InputError
from records.files import require_owned
from records.groups import grouped
from records.run import load_header
from records.run_folder import require_results, run_folders
from records.text import one_line
from records.units import percentage, plural

#: Outcome of a night -> exit status. The exit status of other outcomes is 0. A night whose run was
#: stopped or refused before its first sample ends with 0 too, since its summary says why.
EXIT_STATUSES: dict[Outcome, int] = {"slower": 1, "machine failed": 3}
#: Columns of the table of a night's figures.
_FIGURES_HEADER = ("case", "arm", "quantity", "value", "interval, 95 %", "verdict")
#: Columns of this table that are left-aligned.
_TEXT_COLUMNS = ("case", "arm", "quantity", "verdict")
_QUANTITY_NAMES = {"fom": "figure of merit", "writer_rate": "writers' rate"}
_SERIES_LEGEND = (
    "finds: the loss that six nights show in half of all cases, or - if they show none as yet;"
    " spread, level: those of the nights"
)
#: Note about series of values that are not yet watched for changes; `{}` is their number.
_TOO_FEW_NIGHTS = (
    "too few nights: {} series, each of which is watched from"
    f" {MIN_NIGHTS_BEFORE + 1} nights at one level on; -v lists them"
)

#: Option `--results` of commands that can read several folders.
_folders_option = click.option(
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
    help="Shell command that gets the summary as JSON. If it fails, it is called again when the"
    " next night starts.",
)
@click.option(
    "--metrics", type=options.OutputPath(folder=True), help="Folder of node_exporter's text files."
)
@prints_answer()
def run(
    campaign: Path,
    machine: str,
    results: Path,
    until: str | None,
    tell: str,
    metrics: Path | None,
) -> Answer:
    """Run CAMPAIGN tonight, or continue tonight's run, and judge the night.

    If the night was killed, stopped by a signal or not run, or if the machine failed, the next call
    continues it. Otherwise it is done, and another call only prints its summary. The exit code is 1
    if the night is slower, and 3 if the machine failed. It is 0 if the night is inconclusive, or if
    its run was stopped or refused before the first sample.
    """
    options.require_writable_results(results)
    end_s, night = night_until(until, datetime.now())
    night_run = NightRun(
        campaign=campaign.absolute(),
        machine=machine,
        results=results.absolute(),
        log=log,
        end_s=end_s,
        night=night,
        tell_command=tell,
        metrics=metrics,
    )
    night_summary = night_run.run()
    parts = _night_parts(night_summary, night_run.path)
    status = EXIT_STATUSES.get(night_summary.outcome, 0)
    return Answer(night_summary.as_dict(), parts, status, schema=2)


def _night_parts(night_summary: Summary, path: Path) -> Iterator[str | Table]:
    """Yield the parts of a night's text: figures, alarms, and paths of run, report and summary."""
    if night_summary.figures:
        yield _figures_table(night_summary.figures)
    for alarm in night_summary.alarms:
        yield prose(alarm.text, fg="red")
    if night_summary.run:
        yield f"run:     {visible(night_summary.run)}"
        report = Path(night_summary.run) / "report" / "report.html"
        if report.exists():
            yield f"report:  {visible(str(report))}"
    yield f"summary: {visible(str(path))}"


def _figures_table(figures: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of a night's figures, without empty columns.

    If the night has no pairs of runs, the columns of intervals and verdicts are empty.
    """
    rows = list(map(_figure_cells, figures))
    columns = [column for column in range(len(_FIGURES_HEADER)) if any(row[column] for row in rows)]
    header = [_FIGURES_HEADER[column] for column in columns]
    shown_rows = [[row[column] for column in columns] for row in rows]
    left_aligned = [column for column, name in enumerate(header) if name in _TEXT_COLUMNS]
    return Table(header, shown_rows, left_aligned=left_aligned)


def _figure_cells(figure: Mapping[str, Any]) -> list[str]:
    """Return the cells of a figure, which has the keys `nimc.nights.summary.FIGURE_KEYS`."""
    value, low, high, unit = (figure[name] for name in ("value", "low", "high", "unit"))
    divisor, _ = divisor_and_unit(value, unit)
    interval = ""
    if low is not None and high is not None:
        interval = f"{number(low / divisor, 3)} to {number(high / divisor, 3)}"
    return [
        figure["case"],
        figure["arm"],
        _QUANTITY_NAMES.get(figure["quantity"], figure["quantity"]),
        quantity(value, unit, 3).removesuffix(" 1"),
        interval,
        figure["verdict"] or "",
    ]


@nights_command.command("list")
@_folders_option
@prints_answer()
def list_nights(folders: tuple[Path, ...]) -> Answer:
    """List how nights ended, the oldest first."""
    for folder in folders:
        require_results(folder)
    summaries, left_out = summary.load_all(folders)
    for line in left_out:
        log(f"left out: {line}")
    rows = [
        [str(night.night), night.machine, night.campaign, night.outcome, one_line(night.reason)]
        for night in summaries
    ]
    table = Table(["night", "machine", "campaign", "outcome", "reason"], rows)
    document = {"nights": [night.as_dict() for night in summaries]}
    return Answer(document, [table if summaries else "no nights"])


@nights_command.command()
@_folders_option
@click.option(
    "--machine", metavar="M", shell_complete=options.complete_machine, help="Only this machine."
)
@prints_answer()
@options.details_option("series that have too few nights")
def alarms(folders: tuple[Path, ...], machine: str | None, details: bool) -> Answer:
    """Show what became worse, and the loss that each series would show.

    The exit code is 1 if an alarm is open.
    """
    results, left_out = read_results(folders)
    for line in left_out:
        log(f"left out: {line}")
    results = rows_of_machine(results, machine, argument="--machine")
    alarm_survey = survey(nights_of(results), results)
    if alarm_survey.watched or alarm_survey.below_reference:
        text = "\n\n".join(_alarm_texts(alarm_survey, details=details))
    else:
        summaries, _ = summary.load_all(folders)
        night_count = sum(machine in (None, night.machine) for night in summaries)
        any_finished = results["finished_s"].is_not_null().any()
        without_report = _finished_without_report(folders)
        if without_report and not any_finished:
            report_command = command("report", without_report[0])
            runs = plural(len(without_report), "finished run")
            text = prose(f"no alarms yet: {runs} without a report; make each: `{report_command}`")
        else:
            text = prose(_no_series_text(night_count, any_finished=any_finished))
    return Answer(asdict(alarm_survey), [text], int(alarm_survey.is_open))


def _finished_without_report(folders: Sequence[Path]) -> list[Path]:
    """Return the folders of the finished runs that have no report."""
    without_report = []
    for run in [run for folder in folders for run in run_folders(folder)]:
        with suppress(InputError):  # the run's header is invalid
            if not (run / "report").exists() and load_header(run).finished_s is not None:
                without_report.append(run)
    return without_report


def _no_series_text(night_count: int, *, any_finished: bool) -> str:
    """Return a sentence that says why there is no value to compare yet."""
    if any_finished:
        return "no alarms yet: each finished run has integrity faults, or no figures"
    if night_count:
        return f"{plural(night_count, 'night')}, no run finished: no alarms yet"
    return "no nights: no run in the results has finished"


def _alarm_texts(alarm_survey: Survey, *, details: bool) -> list[str]:
    """Return two tables as texts: alarms, and the series of values that are watched."""
    notes = [
        f"changed at the same time: {fact.name}:"
        f" {fact.before or NO_FIGURE} -> {fact.after or NO_FIGURE}"
        for alarm in alarm_survey.alarms
        if alarm.open
        for fact in alarm.changed
    ]
    alarm_listing = Listing(
        header=("what became worse", "state", "", "campaign"),
        lines=[
            *map(_below_reference_line, alarm_survey.below_reference),
            *map(_alarm_line, alarm_survey.alarms),
        ],
        notes=notes,
        details=details,
    )
    shown_series = alarm_survey.watched
    series_notes = []
    if not details:
        shown_series = [series for series in alarm_survey.watched if series.level is not None]
        if unshown_count := len(alarm_survey.watched) - len(shown_series):
            series_notes.append(_TOO_FEW_NIGHTS.format(unshown_count))
    series_listing = Listing(
        header=("series", "finds", "spread", "level", "", "campaign"),
        lines=list(map(_series_line, shown_series)),
        notes=series_notes,
        legend=_SERIES_LEGEND,
        min_columns=2,
        details=details,
    )
    return [str(alarm_listing) or "no alarms", str(series_listing)]


def _below_reference_line(case: BelowReference) -> Line:
    text = f"{case.machine}: {case.case}: {case.text}"
    return Line([text, "open", f"raised {case.night}", case.campaign], colour="red")


def _alarm_line(alarm: Alarm) -> Line:
    state, colour = ("open", "red") if alarm.open else ("ended", "yellow")
    cells = [f"{alarm.machine}: {alarm.text}", state, f"raised {alarm.night}", alarm.campaign]
    return Line(cells, colour=colour)


def _series_line(series: WatchedSeries) -> Line:
    name = f"{series.machine} {series.case} {series.arm} {series.quantity}"
    figures = ["too few nights", "", ""]
    if series.level is not None and series.spread is not None:
        level = quantity(series.level, series.unit, 3).removesuffix(" 1")
        detectable = series.detectable
        finds = NO_FIGURE if detectable is None else percentage(detectable, ".1f")
        figures = [finds, percentage(series.spread, ".1f"), level]
    return Line([name, *figures, plural(series.nights, "night"), series.campaign])


@nights_command.command()
@_folders_option
@options.output_option("Folder for the pages [default: pages in the first results].", folder=True)
@prints_answer()
def pages(folders: tuple[Path, ...], output: Path | None) -> Answer:
    """Write a page for every machine, and one about all machines.

    OUTPUT/index.html is about all machines, and OUTPUT/MACHINE/index.html about one. Each page is
    one file, with the data of its figures next to it.
    """
    if output is None:
        output = folders[0] / "pages"
        require_owned(output, "--output")
    histories, left_out = machine_histories(folders, output)
    summaries, left_out_summaries = summary.load_all(folders)
    for line in [*left_out, *left_out_summaries]:
        log(f"left out: {line}")
    if not histories:
        raise InputError(f"{folders[0]}: no run has a report")
    nights_by_machine = grouped((night.machine, _page_night(night)) for night in summaries)
    page = write_pages(output, histories, nights_by_machine)
    machines = [
        machine_state(history, nights_by_machine.get(history.machine, ())) for history in histories
    ]
    lines = [
        f"{machine['machine']}: {machine['state']}; {plural(machine['nights'], 'night')}"
        for machine in machines
    ]
    document = {"page": str(page), "machines": machines}
    return Answer(document, map(visible, [*lines, f"page: {page}"]))


def _page_night(night: Summary) -> PageNight:
    run_name = Path(night.run).name if night.run else ""
    return PageNight(night.night, night.campaign, night.outcome, one_line(night.reason), run_name)
