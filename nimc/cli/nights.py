"""`nimc nights`: one night of a campaign under a scheduler, alarms and pages of all nights."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from analysis.history.alarms import Alarm, BelowReference, Survey, WatchedSeries, survey
from analysis.history.nights import nights_of, of_machine, read_results
from analysis.pages.render import PageNight, state_of
from analysis.pages.write import gather, write_pages
from nimc.cli import options
from nimc.cli.document import Answer, Listing, Table, answers, log, prose
from nimc.nights import summary
from nimc.nights.night import NightRun, night_until
from nimc.nights.summary import Outcome, Summary
from records.errors import InputError
from records.files import require_own
from records.groups import grouped
from records.run_folder import require_results
from records.text import Line, one_line, visible
from records.units import NONE, plural, quantity

#: Exit status of a night; of others 0. One that was not run is no failure: its summary says why.
EXIT: dict[Outcome, int] = {"slower": 1, "machine failed": 3}
_LEGEND = (
    "finds: the loss that six nights show in half of all cases; spread and level of the nights"
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
    """Run CAMPAIGN tonight, or resume an unfinished run, and judge the night.

    A night that is inconclusive or was not run ends with exit code 0, a slower one with 1.
    """
    ended = NightRun(
        campaign.absolute(),
        machine,
        results.absolute(),
        log,
        *night_until(until, datetime.now()),
        tell,
        metrics,
    ).run()
    return Answer(ended.as_dict(), [], EXIT.get(ended.outcome, 0), schema=2)


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
    results = of_machine(results, machine, "--machine")
    surveyed = survey(nights_of(results), results)
    text = "\n\n".join(_alarm_texts(surveyed, details=details))
    return Answer(asdict(surveyed), [text], int(surveyed.is_open))


def _alarm_texts(surveyed: Survey, *, details: bool) -> list[str]:
    if not surveyed.watched and not surveyed.below_reference:
        return [prose("no nights: no run in the results has finished")]
    notes = [
        f"changed at the same time: {fact.name}: {fact.before or NONE} -> {fact.after or NONE}"
        for alarm in surveyed.alarms
        if alarm.open
        for fact in alarm.changed
    ]
    became = ("what became worse", "state", "", "campaign")
    lines = [*map(_below, surveyed.below_reference), *map(_alarm, surveyed.alarms)]
    listed = Listing(became, lines, notes, details=details)
    header = ("series", "finds", "spread", "level", "", "campaign")
    watched = list(map(_watched, surveyed.watched))
    series = Listing(header, watched, legend=_LEGEND, needed=2, details=details)
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
        require_own(output, "--output")
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
