"""`nimc store`, `nimc alarms`, `nimc pages`: all runs of all machines."""

from __future__ import annotations

import os
import shlex
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import date
from functools import partial
from pathlib import Path

import click
import polars as pl

from analysis.history.alarms import (
    LONGEST_REASON,
    REPEATS,
    Acknowledgement,
    Alarm,
    SeriesWatch,
    Survey,
    acknowledge,
    acknowledged,
    confirmation,
    survey,
)
from analysis.history.files import Naming
from analysis.history.monitor import POWER, WITHIN_NIGHTS
from analysis.history.store import (
    Added,
    Stored,
    add_run,
    check_store,
    give_up_samples,
    inventory,
    lacking,
    leftovers,
    load_nights,
    load_runs,
    read_entries,
    to_prune,
    to_stderr,
)
from analysis.history.tables import Watched
from analysis.pages.alarms import AlarmGroup, alarm_groups, shown_alarms
from analysis.pages.data import MachineHistory, PageNight, ReportedNights, history_of
from analysis.pages.render import ordered
from analysis.pages.write import FILES, gather, write_pages
from analysis.statistics.interval import CONFIDENCE, Estimate, bracketed
from nimc.base import units
from nimc.base.checkout import ROOT
from nimc.base.errors import InputError, MachineError
from nimc.base.files import require_own, user_name
from nimc.base.text import WIDTH, Line, broken, one_line, visible, wrapped
from nimc.base.units import NONE, plural, quantity
from nimc.cli import options
from nimc.cli.document import Form, listing, log, prose, ratio_of, show
from nimc.machine.site import load as load_machine
from nimc.nights import description, summary
from nimc.nights.references import patch, proposed
from nimc.nights.summary import Summary, calendar
from nimc.records.run_folder import run_folders
from nimc.run.folder import remove_run


@click.group()
def store_command() -> None:
    """Keep the store: all runs of all machines as Parquet, for their history."""


@store_command.command()
@click.argument("runs", nargs=-1, type=options.RunPath(), metavar="[RUN]...")
@options.history_options
@options.json_option
def add(runs: tuple[Path, ...], results: Path, store: Path, form: Form | None) -> int:
    """Add each RUN, or all runs of the results folder, that is new or grew.

    A run that cannot be added is named with the reason; the exit code is 2 if it was given.
    """
    added: list[Added] = []
    refused: list[str] = []
    for run in runs or run_folders(results):
        try:
            added.append(add_run(store, run))
        except InputError as error:
            refused.append(str(error))
            log(refused[-1])
    changed = [each for each in added if each.state != "known"]
    lines = [f"{each.run}: {each.state}, {plural(each.samples, 'sample')}" for each in changed]
    known = len(added) - len(changed)
    lines.append(f"{plural(len(changed), 'run')} added, {known} known, {len(refused)} left out")
    document = {"runs": [asdict(each) for each in added], "left_out": refused}
    show("store add", document, form, visible("\n".join(lines)))
    return 2 if runs and refused else 0


@store_command.command()
@options.history_options
@options.json_option
def check(results: Path, store: Path, form: Form | None) -> int:
    """Verify every file of the store, and that each run of the results folder is in it.

    The exit code is 1 if anything is wrong.
    """
    found = check_store(store, results)
    for line in () if form else found:
        log(line)
    text = f"{store}: {plural(len(found), 'fault')}" if found else f"{store}: sound"
    show("store check", {"found": found}, form, text)
    return int(bool(found))


@store_command.command()
@options.history_options
@options.json_option
@click.option("--older-than", "age", metavar="TIME", help="Runs that started longer ago: 400d.")
@click.option("--larger-than", "size", metavar="SIZE", help="The oldest runs beyond: 50GiB.")
@click.option("--yes", is_flag=True, help="Remove them; without it they are only shown.")
def prune(
    results: Path, store: Path, form: Form | None, age: str | None, size: str | None, yes: bool
) -> int:
    """Remove old runs: their folders, and their samples in the store.

    History stays: what each night measured is kept for ever. So are runs that an alarm rests on,
    and those of which the store does not have everything.
    """
    if age is None and size is None:
        raise InputError("--older-than, --larger-than: one of them is required")
    unread: list[str] = []
    entries = read_entries(store, None, None, unread.append)
    for line in unread:
        log(line)
    oldest_s = None if age is None else time.time() - units.duration_s(age, "--older-than")
    most_b = None if size is None else units.size_b(size, "--larger-than")
    # What an entry names that cannot be read is not known.
    old = [] if unread else list(leftovers(store, entries, time.time()))
    gone: list[Stored] = []
    held: dict[tuple[str, str], str] = {}
    stored = inventory(store, entries, results)
    for each in to_prune(stored, oldest_s, most_b):
        reason = each.held or lacking(each) or (yes and _remove(store, each))
        if reason:
            held[each.entry.run] = reason
        else:
            gone.append(each)
    for path in old if yes else ():
        path.unlink(missing_ok=True)
    document = {
        "removed": yes,
        "runs": [
            {"machine": each.entry.run[0], "run": each.entry.run[1], "size_b": each.size_b}
            for each in gone
        ],
        "held": [
            {"machine": machine, "run": run, "reason": reason}
            for (machine, run), reason in held.items()
        ],
        "leftover_files": [str(path) for path in old],
    }
    lines = [f"{each.entry.run[1]}: {quantity(each.size_b, 'B', 3)}" for each in gone]
    lines += [f"{run}: stays: {reason}" for (_, run), reason in held.items()]
    total = quantity(sum(each.size_b for each in gone), "B", 3)
    what = f"{plural(len(gone), 'run')} ({total}) and {plural(len(old), 'leftover file')}"
    lines.append(f"removed: {what}" if yes else f"would remove with --yes: {what}")
    show("store prune", document, form, visible("\n".join(lines)))
    return 0


def _remove(store: Path, each: Stored) -> str | None:
    """Remove a run; why it stays, if it does."""
    try:
        if each.folder:
            remove_run(each.folder)
        give_up_samples(store, each.entry)
    except (InputError, MachineError) as error:
        return str(error)
    return None


# `nimc alarms`: what got worse, and what would be noticed how soon.


#: Before a command to paste.
_COMMAND = "    "
_RATIO = (
    "ratio of times or slowdowns to the nights before with its interval of 95 %, above 1 is worse"
)
_MORE = "what does not fit into a line"
_WATCHED = (
    "level of the nights, and their spread; finds: the loss that is found within"
    f" {WITHIN_NIGHTS} nights with a probability of {POWER:.0%}; unwatched: too few nights"
)


@click.command()
@click.option("--machine", metavar="M", help="Only this machine.")
@click.option(
    "--references",
    is_flag=True,
    help="Print a patch of site/M.yaml with references from the nights; writes nothing.",
)
@click.option(
    "--acknowledge",
    "seen",
    metavar="ALARM",
    help="Store that you have seen an open alarm, and those that are one with it: its name, or the"
    " beginning of it.",
)
@click.option(
    "--reason", metavar="TEXT", default="", show_default=False, help="Why, to acknowledge."
)
@options.history_options
@options.form_options
@options.details_option
def alarms_command(
    results: Path,  # noqa: ARG001  # where the store is by default
    store: Path,
    machine: str | None,
    references: bool,
    seen: str | None,
    reason: str,
    form: Form | None,
    details: bool,
) -> int:
    """Show alarms, and the loss that each watched series would show within 5 nights.

    The exit code is 1 if there is a suspected or confirmed alarm of the last night that nobody has
    acknowledged.
    """
    if seen is None:
        options.useless_without("--acknowledge", "--reason")
    else:
        options.only_with("--acknowledge", "--reason", "--machine", "--store", "--results")
    if references:
        options.only_with("--references", "--machine", "--store", "--results")
        if machine is None:
            raise InputError("--references: give --machine as well, the machine to propose for")
        load_machine(machine)
    nights, runs = load_nights(store, machine=machine), load_runs(store, machine=machine)
    surveyed = survey(nights, runs)
    if references:
        path = f"site/{machine}.yaml"
        text = (ROOT / path).read_text(encoding="utf-8-sig")
        click.echo(patch(text, path, proposed(surveyed.watches)), nl=False)
        return 0
    surveyed = replace(surveyed, alarms=acknowledged(store, surveyed.alarms, to_stderr))
    groups = _groups(surveyed, nights, runs)
    if seen is not None:
        _acknowledge(store, groups, seen, reason)
        return 0
    found = surveyed.alarms
    document = {
        "alarms": [asdict(each) for each in found],
        "confirmations": [confirmation(each) for each in found if each.state == "suspected"],
        "watched": [asdict(each) for each in surveyed.watches],
        "within_nights": WITHIN_NIGHTS,
        "power": POWER,
    }
    text = "\n\n".join(filter(None, _text(groups, surveyed.watches, machine, details=details)))
    show("alarms", document, form, text)
    last = {each.machine: each.last for each in sorted(surveyed.watches, key=lambda w: w.last)}
    return int(
        any(
            each.state != "dismissed" and each.night == last[each.machine] and not each.acknowledged
            for each in found
        )
    )


def _groups(surveyed: Survey, nights: pl.DataFrame, runs: pl.DataFrame) -> list[AlarmGroup]:
    """The alarms that belong together, machine by machine."""
    return [
        group
        for name in dict.fromkeys(alarm.machine for alarm in surveyed.alarms)
        for group in alarm_groups(
            shown_alarms(history_of(name, surveyed, nights, runs, time.time()))
        )
    ]


def _acknowledge(store: Path, groups: Iterable[AlarmGroup], name: str, reason: str) -> None:
    if not 0 < len(reason) <= LONGEST_REASON:
        allowed = f"allowed: 1 to {LONGEST_REASON} characters"
        raise InputError(f"--reason: {len(reason)} characters found; {allowed}")
    still = [group for group in groups if group.until is None]
    named = [g for g in still if any(each.alarm.name.startswith(name) for each in g.alarms)]
    if len(named) != 1:
        known = ", ".join(group.lead.alarm.name for group in still) or "none, no alarm is open"
        raise InputError(f"--acknowledge: {name!r} found; allowed: the beginning of one of {known}")
    given = Acknowledgement(user_name(os.geteuid()), one_line(reason), time.time())
    found = [each.alarm for each in named[0].alarms if each.until is None]
    acknowledge(store, found, given)
    for alarm in found:
        click.echo(visible(f"{_series(alarm)}: acknowledged by {given.by}"))


def _text(
    groups: Sequence[AlarmGroup],
    watches: Sequence[SeriesWatch],
    machine: str | None,
    *,
    details: bool,
) -> Iterator[str]:
    if not groups:
        yield "no alarms"
    machines = {each.machine for each in watches}
    # Of one machine its name is said once.
    of = f"{visible(machines.pop())}: " if len(machines) == 1 else ""
    name = _on_machine if of else _series
    alarms = [_alarm(group, name(group.lead.alarm)) for group in groups]
    notes = [note for group in groups for note in _about(group)]
    listed = partial(listing, needed=2, details=details)
    more = f"{_MORE}, and the night that raised an alarm"
    yield listed("ratio", alarms, notes, legend=f"{of}{_RATIO}", more=more)
    if watches:
        lines = [_watch(each, name(each)) for each in watches]
        swings = filter(None, map(_swing, watches))
        yield listed("", lines, swings, legend=f"{of}{_WATCHED}", more=_MORE)
    else:
        yield prose(f"no nights of {machine or 'any machine'} in the store")
    for group in groups:
        if not (group.until or group.acknowledged):
            alarm = group.lead.alarm
            words = ["nimc", "alarms", "--acknowledge", alarm.name, "--reason", "TEXT"]
            yield _next(f"when you have seen {_series(alarm)}", words)
    confirmed_by: dict[tuple[str, ...], list[str]] = {}
    for alarm in (each.alarm for group in groups if not group.until for each in group.alarms):
        if alarm.state == "suspected":
            confirmed_by.setdefault(_confirming(alarm), []).append(_series(alarm))
    for command, series in confirmed_by.items():
        what = ", ".join(dict.fromkeys(series))
        yield _next(f"to confirm {what}, {REPEATS} times in one night", command)


def _alarm(group: AlarmGroup, name: str) -> Line:
    """Alarms of one beginning and one changed fact, as the one that is shown first."""
    alarm = group.lead.alarm
    interval = alarm.interval
    ratio = Estimate(alarm.ratio, *interval, CONFIDENCE) if interval else None
    until = f" until {group.until}" if group.until else ""
    seen = f", acknowledged by {group.acknowledged.by}" if group.acknowledged else ""
    return Line(
        [
            name,
            bracketed(ratio) if ratio else f"{alarm.ratio:.3f}",
            alarm.state,
            f"worse since {group.since}{until}{seen}",
            alarm.campaign,
        ],
        ratio_of(ratio),
        details=group.states,
        colour="yellow" if group.until or group.acknowledged else "red",
    )


def _on_machine(of: Watched) -> str:
    return f"{of.case} {of.arm} {of.quantity}"


def _series(of: Watched) -> str:
    return f"{of.machine} {_on_machine(of)}"


def _about(group: AlarmGroup) -> Iterator[str]:
    """A sentence an alarm, and what changed at the same time."""
    yield from group.sentences
    for fact in group.changed:
        change = f"{fact.before or NONE} -> {fact.after or NONE}"
        yield f"changed at the same time: {fact.name}: {change}"
    for node in group.nodes:
        ratio = f"ratio {node.ratio:.3f} to the others ({plural(node.nights, 'night')})"
        yield f"worst node: {node.node}, {ratio}"


def _confirming(alarm: Alarm) -> tuple[str, ...]:
    """The command that confirms an alarm or dismisses it."""
    nodes = ["--nodelist", ",".join(alarm.nodes)] if alarm.nodes else []
    at = ("--machine", alarm.machine, "--case", alarm.case)
    return "nimc", "run", alarm.campaign, *at, "--fresh", *nodes


def _next(title: str, words: Iterable[str]) -> str:
    command = broken(map(shlex.quote, words), WIDTH - len(_COMMAND))
    return visible(f"{wrapped(f'Next: {title}:')}\n{textwrap.indent(command, _COMMAND)}")


def _watch(each: SeriesWatch, name: str) -> Line:
    nights = plural(each.nights, "night")
    nights += f", {plural(len(each.changes), 'change')}" if each.changes else ""
    if each.spread is None or each.detectable is None:
        return Line([name, NONE, "unwatched", "", nights, each.campaign])
    shares = [f"spread {each.spread:.1%}", f"finds {each.detectable:.1%}"]
    level = quantity(each.level, each.unit, 3)
    return Line([name, level, nights, *shares, each.campaign])


def _swing(each: SeriesWatch) -> str | None:
    """That a level is worse than a month ago, and how it was a year ago; no alarm."""
    if each.month is None or each.month.low <= 1:
        return None
    text = f"{_series(each)} ({each.campaign}): {each.month.value - 1:.1%} worse than a month ago"
    if each.year is None:
        return text
    if each.year.low <= 1 <= each.year.high:
        return f"{text}, as a year ago"
    than = "worse" if each.year.value > 1 else "better"
    return f"{text}, {abs(each.year.value - 1):.1%} {than} than a year ago"


# Pages of all machines, from a store, the folder of runs and the summaries of their nights.


def make_pages(
    store: Path, results: Path, output: Path | None, left_out: Naming
) -> tuple[Path, list[MachineHistory]]:
    """Write the pages; returns the page over all machines, and what is known of each.

    Without `output` they are in the folder `pages` of the results, which must be the user's own.
    What cannot be read is named to `left_out`, each line once. Raises InputError if there is no
    store or no machine, and OSError if a file cannot be written.
    """
    if output is None:
        output = results / "pages"
        require_own(output, "--output", team="owns")
    lines: list[str] = []
    outcomes = _outcomes(results / "nights", lines.append)
    histories = []
    for each in gather(store, results, output, outcomes, lines.append):
        if each.machine in FILES:
            lines.append(f"machine {each.machine}: left out, a file of the pages has this name")
        else:
            histories.append(each)
    for line in dict.fromkeys(lines):
        left_out(line)
    if not histories:
        raise InputError(f"{store}: no runs, and {results}/nights: no summaries of nights")
    return write_pages(output, histories), histories


def _outcomes(folder: Path, left_out: Naming) -> dict[str, ReportedNights]:
    """Machine -> its nights with how they ended."""
    require_own(folder, "results", or_root=True, team="owns")
    nightlies: dict[str, dict[date, Summary]] = {}
    for path in sorted(folder.glob("*-????-??-??.json")):
        try:
            found = summary.load(path)
        except InputError as error:
            left_out(str(error))
        else:
            nightlies.setdefault(found.nightly, {})[found.night] = found
    outcomes: dict[str, ReportedNights] = {}
    for name, known in nightlies.items():
        last = known[max(known)]
        reported = outcomes.setdefault(last.machine, ReportedNights())
        window, running = None, False
        with suppress(InputError):  # a nightly that is still described has a calendar
            nightly = description.load(name)
            if nightly.folder.resolve() == folder.resolve():
                window = nightly.window
                running = summary.running(folder, last.machine, name)
                reported.schedules.append(name)
        reported.nights.extend(
            PageNight(
                each.night,
                known.get(each.night, last).campaign,
                each.outcome,
                one_line(each.reason),
                Path(each.run).name if each.run else "",
            )
            for each in calendar(window, known, min(known), time.time(), running=running)
            if each.outcome is not None
        )
    return outcomes


# `nimc pages`: static pages of every machine's nights, and one over all machines.


@click.command()
@options.history_options
@options.json_option
@options.output_option("Folder for the pages [default: RESULTS/pages].", folder=True)
def pages_command(results: Path, store: Path, output: Path | None, form: Form | None) -> None:
    """Write a page for every machine of the store, and one over all machines.

    OUTPUT/index.html is the page over all, OUTPUT/MACHINE/index.html that of a machine, each one
    file with the data of its figures next to it. Nights that were not run come from the summaries
    in RESULTS/nights.
    """
    page, histories = make_pages(store, results, output, to_stderr)
    states = ordered(histories)
    lines = []
    for each in states:
        night = f"last night {each.last_night}, {each.outcome}" if each.last_night else "no night"
        missed = f"not measured: {each.missed} of {each.expected}"
        seen = f" ({each.acknowledged} acknowledged)" if each.acknowledged else ""
        lines.append(f"{each.machine}: {night}; open alarms: {each.open_alarms}{seen}; {missed}")
    document = {"page": str(page), "machines": [asdict(each) for each in states]}
    show("pages", document, form, visible("\n".join([*lines, f"page: {page}"])))
