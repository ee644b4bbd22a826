"""`nimc alarms`: what got worse, and what would be noticed how soon."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from analysis.checkout import ROOT
from analysis.errors import InputError
from analysis.escape import visible
from analysis.history.alarm import POWER, WITHIN_NIGHTS, Alarm, SeriesWatch
from analysis.history.alarms import survey
from analysis.history.confirm import confirmation
from analysis.history.store import load_nights, load_runs
from analysis.numbers import NONE, interval, quantity
from campaigns.document import Form, print_document
from campaigns.options import form_options, history_options, only_with
from campaigns.planning import references as site_references
from campaigns.text import WIDTH, aligned, broken, wrapped
from injection.machine import machine as machines

#: Before a command to paste.
_COMMAND = "    "


@click.command()
@click.option("--machine", metavar="M", help="Only this machine.")
@click.option(
    "--references",
    is_flag=True,
    help="Print a patch of site/M.yaml with references from the nights; writes nothing.",
)
@history_options
@form_options
def command(
    results: Path,  # noqa: ARG001  # where the store is by default
    store: Path,
    machine: str | None,
    references: bool,
    form: Form | None,
) -> int:
    """Show alarms, and the loss that each watched series would show within 5 nights.

    The exit code is 1 if there is a suspected or confirmed alarm of the last night.
    """
    if references:
        only_with("--references", "--machine", "--store", "--results")
        if machine is None:
            raise InputError("--references: give --machine as well, the machine to propose for")
        machines.load(machine)
    surveyed = survey(load_nights(store, machine=machine), load_runs(store, machine=machine))
    if references:
        _print_patch(machine or "", surveyed.watches)
        return 0
    if form:
        print_document("alarms", _document(surveyed.alarms, surveyed.watches), form)
    else:
        click.echo(wrapped(visible("\n".join(_text(surveyed.alarms, surveyed.watches, machine)))))
    return int(any(_is_open(alarm, surveyed.watches) for alarm in surveyed.alarms))


def _is_open(alarm: Alarm, watches: Iterable[SeriesWatch]) -> bool:
    """Whether an alarm is of its machine's last night and not dismissed."""
    last = max(each.last for each in watches if each.machine == alarm.machine)
    return alarm.state != "dismissed" and alarm.night == last


def _print_patch(machine: str, watches: Iterable[SeriesWatch]) -> None:
    path = f"site/{machine}.yaml"
    proposed = site_references.proposed(watches)
    text = (ROOT / path).read_text(encoding="utf-8-sig")
    click.echo(site_references.patch(text, path, proposed), nl=False)


def _document(alarms: Sequence[Alarm], watches: Sequence[SeriesWatch]) -> dict[str, object]:
    return {
        "alarms": [each.as_dict() for each in alarms],
        "confirmations": [
            confirmation(each).as_dict() for each in alarms if each.state == "suspected"
        ],
        "watched": [each.as_dict() for each in watches],
        "within_nights": WITHIN_NIGHTS,
        "power": POWER,
    }


def _text(
    alarms: Sequence[Alarm], watches: Sequence[SeriesWatch], machine: str | None
) -> list[str]:
    lines = [line for alarm in alarms for line in _alarm(alarm)] or ["no alarms"]
    if not watches:
        of = f" of {machine}" if machine else ""
        return [*lines, "", f"no nights{of} in the store"]
    header = ["machine", "campaign", "case", "arm", "quantity", "nights", "level", "spread"]
    rows = [_row(each) for each in watches]
    return [
        *lines,
        "",
        aligned([*header, "changes", "found soon"], rows),
        f"found soon: the loss that is found within {WITHIN_NIGHTS} nights with a probability of"
        f" {POWER:.0%}; - while there are too few nights.",
    ]


def _alarm(alarm: Alarm) -> list[str]:
    what = f"{alarm.machine}: {alarm.case} {alarm.arm} {alarm.quantity} ({alarm.campaign})"
    ratio = f"{alarm.ratio:.3f} ({interval(alarm.ratio_low, alarm.ratio_high)})"
    lines = [f"{alarm.night} {alarm.state}: {what} worse by the ratio {ratio} since {alarm.since}"]
    for fact in alarm.changed:
        change = f"{fact.before or NONE} -> {fact.after or NONE}"
        lines.append(f"  changed at the same time: {fact.name}: {change}")
    if node := alarm.worst_node:
        lines.append(
            f"  worst node: {node.node}, ratio {node.ratio:.3f} to the others"
            f" ({node.nights} nights)"
        )
    if alarm.state == "suspected":
        asked = confirmation(alarm)
        words = ["nimc", "run", asked.campaign, "--machine", asked.machine, "--case", asked.case]
        words += ["--fresh", *(["--nodelist", ",".join(asked.nodes)] if asked.nodes else [])]
        lines.append(f"  to confirm, {asked.repeats} times in one night:")
        command = broken(map(shlex.quote, words), WIDTH - len(_COMMAND))
        lines += textwrap.indent(command, _COMMAND).splitlines()
    return lines


def _row(each: SeriesWatch) -> list[str]:
    return [
        *(each.machine, each.campaign, each.case, each.arm, each.quantity, str(each.nights)),
        quantity(each.level, each.unit, 3),
        _percent(each.spread),
        str(len(each.changes)),
        _percent(each.detectable),
    ]


def _percent(share: float | None) -> str:
    return NONE if share is None else f"{share:.1%}"
