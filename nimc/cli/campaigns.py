"""The command `nimc campaigns`, which lists the campaigns of this checkout.

For each campaign it prints how long it takes on a machine, and what it measures.
"""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import Any

import click

from analysis.display.document import Table
from nimc.campaign.request import load_request
from nimc.cli.answer import Answer, prints_answer, prose
from nimc.cli.options import machine_option, results_option
from nimc.cli.plan import range_text
from nimc.run.folder import with_past_lengths
from records import yaml_file
from records.checkout import ROOT
from records.commands import command
from records.errors import InputError
from records.machine.site import load as load_machine

_DURATION_LEGEND = (
    "takes: from the time with the fewest pairs of each case to that with the most, as"
    " planned; computed from the lengths of earlier runs, if there are any"
)
_DURATION_KEYS = ("duration_least_s", "duration_most_s")


@click.command()
@machine_option
@results_option
@prints_answer(tables=True)
def campaigns_command(machine: str, results: Path) -> Answer:
    """List the campaigns: how long each takes on a machine, and what it answers.

    Times are those of `nimc plan`. If a campaign was measured before, they follow from the lengths
    of its runs.
    """
    load_machine(machine)  # an invalid machine fails here once, instead of once for each campaign
    files = sorted((ROOT / "campaigns").glob("*.yaml"))
    rows = [_campaign_row(file, machine, results) for file in files]
    table_rows = [[row["campaign"], _duration_text(row), row["title"]] for row in rows]
    table = Table(["campaign", "takes", "what it measures"], table_rows, left_aligned=(0, 2))
    parts: list[str | Table] = [prose(f"on {machine}", bold=True), table]
    if cannot_run := [row["campaign"] for row in rows if row["why"]]:
        plan_command = command("plan", cannot_run[0], "--machine", machine)
        others = "; for each other campaign, give its name" if cannot_run[1:] else ""
        parts.append(prose(f"cannot run: `{plan_command}` says why{others}"))
    parts.append(prose(_DURATION_LEGEND, dim=True))
    return Answer({"machine": machine, "campaigns": rows}, parts)


def _campaign_row(file: Path, machine: str, results: Path) -> dict[str, Any]:
    """Return a row: a campaign's shortest and longest duration, and why it cannot run, if so.

    The durations are None if the campaign's file is invalid or asks for what does not exist.
    """
    row = {"campaign": file.stem, "title": "", **dict.fromkeys(_DURATION_KEYS)}
    try:
        row["title"] = str(yaml_file.load_mapping(file).data.get("title", ""))
        request = with_past_lengths(load_request(file, machine), results)
        feasibility = request.feasibility()
        sums = request.plan(feasibility.omission_reasons).sums
    except InputError as error:
        return {**row, "why": str(error)}
    return {**row, **{name: sums[name] for name in _DURATION_KEYS}, "why": feasibility.why}


def _duration_text(row: dict[str, Any]) -> str:
    """Return the time that a campaign takes, in words.

    It is rounded up to whole minutes, or to whole hours if it may exceed two hours.
    """
    if row["why"]:
        return "cannot run"
    least_s, most_s = (row[name] for name in _DURATION_KEYS)
    unit, unit_s = ("h", 3600) if most_s > 2 * 3600 else ("min", 60)
    return f"{range_text(str(ceil(least_s / unit_s)), str(ceil(most_s / unit_s)))} {unit}"
