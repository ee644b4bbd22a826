"""`nimc plan`: what a campaign will run; runs nothing itself."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import click

from analysis.display.document import Table
from analysis.display.figures import NO_FIGURE, number, quantity
from analysis.display.lines import Line, broken, duration, wrapped
from nimc.campaign import allocations
from nimc.campaign.cases import omission_lines
from nimc.campaign.plan import RUN, Case, Plan, Request
from nimc.campaign.prepare import prepare, time_limit_warnings
from nimc.campaign.reach import Reach, Spreads, last_spreads, lines, reach, warnings
from nimc.campaign.scales import ScaleRow, scales, short_write_warnings
from nimc.cli.answer import Answer, Listing, answers, prose
from nimc.cli.options import campaign_argument, details_option, machine_option, results_option
from nimc.readiness.diagnosis import Feasibility
from nimc.run.folder import with_past_lengths
from records import marked_yaml
from records.arms import level_text
from records.checkout import ROOT
from records.commands import Shell, campaign_word, command
from records.daly import rule_text
from records.errors import InputError
from records.groups import grouped
from records.machine.site import load as load_machine
from records.units import plural

_SCALE_HEADER = ["scale", "arm", "writers", "writes/s", "a write", "a run", "of a link"]
_SCALE_FOOT = "writers: concurrent, and the ranks that they are computed for."
_FOLDED = "-v adds: ReFrame's command of each block"
#: ReFrame's options that stay in one line with their value.
_WITH_VALUE = ("-C", "-c", "-n", "-S")
_NO_WRITERS = (
    "0 writers: nothing is written, and the arm measures the same as 'aa'; docs/scale.md says from"
    " how many ranks on there are writers, and how to get more."
)
_NODES_UNKNOWN = "site/{}.yaml does not give 'nodes': the number of nodes was not checked."


@click.command()
@campaign_argument
@machine_option
@results_option
@answers(tables=True)
@details_option
def plan_command(campaign: Path, machine: str, results: Path, details: bool) -> Answer:
    """Show the cases of CAMPAIGN, their nodes and hours; with -v the ReFrame commands too.

    What cannot run is named and not counted. The exit code is 1 if nothing can run.
    """
    request = with_past_lengths(prepare(campaign, machine), results)
    feasibility = request.feasibility()
    every_scale = list(scales(request.campaign, request.machine))
    planned = request.plan(feasibility.omission_reasons)
    spreads = last_spreads(results, machine)
    # Verdicts hold over all cases requested, whether it can run or not.
    whole_plan = request.plan() if feasibility.omission_reasons else planned
    reached = reach(whole_plan, request.campaign, spreads)
    reached = [row for row in reached if row.case not in feasibility.omission_reasons]
    long = [
        *feasibility.doubts,
        *time_limit_warnings(planned, request.time_limit_s),
        *warnings(reached),
    ]
    long += short_write_warnings(every_scale)
    document = planned.as_dict() | {
        "machine_nodes": request.machine.nodes,
        "absent": [vars(omitted) for omitted in [*request.omissions, *feasibility.omissions]],
        "why": feasibility.why,
        "scales": [vars(row) for row in every_scale],
        "reach": [vars(row) for row in reached],
        "allocations": spreads.variation and vars(spreads.variation),
        "warnings": long,
        "matrix": [vars(cell) for cell in feasibility.matrix.cells],
    }

    def parts() -> Iterator[str | Table | Listing]:
        searched = [f"the layout is found first: {name}" for name in request.searches]
        before = request.lengths
        measured = [f"lengths of runs: as measured in {before.run}"] if before.run_s_by_case else []
        remarks = [*measured, *_left_out(request, feasibility), *searched, *long]
        yield from (f"{planned.campaign} on {machine}", "", _cases(planned, remarks), "")
        yield from _reach(reached, spreads)
        shown = {row.case for row in reached if not row.one_host}
        if effects := [case for case in planned.cases if case.case in shown]:
            yield from (wrapped(allocations.advice(spreads.variation, effects[0])), "")
        yield from ("What runs where:", "", feasibility.matrix.text, "")
        yield from _scales(every_scale, machine, request.machine.nodes)
        if planned.cases:
            yield from (*(_commands(planned) if details else [_FOLDED]), "")
        if feasibility.why:
            yield prose(f"{machine} cannot run it: {feasibility.why}", fg="red")
        else:
            shell = Shell.here()
            options = ("--machine", machine, *shell.results(results))
            yield broken(["Next:", *shell.words("run", campaign_word(campaign), *options)])

    return Answer(document, parts(), int(bool(feasibility.why)), schema=3)


# `nimc campaigns`: those of this checkout, how long they take on a machine, what they answer.


@click.command()
@machine_option
@results_option
@answers(tables=True)
def campaigns_command(machine: str, results: Path) -> Answer:
    """List the campaigns: how long each takes on a machine, and what it answers.

    Times are those of `nimc plan`: of a campaign that was measured, by the lengths of its runs.
    """
    load_machine(machine)  # one that is unknown, or wrong, is no reason of each campaign
    rows = [_listed(file, machine, results) for file in sorted((ROOT / "campaigns").glob("*.yaml"))]
    cells = [[row["campaign"], _about(row), row["title"]] for row in rows]
    table = Table(["campaign", "takes", "what it measures"], cells, [0, 2])
    parts: list[str | Table] = [prose(f"on {machine}", bold=True), table]
    if unable := next((row["campaign"] for row in rows if row["why"]), None):
        why = command("plan", unable, "--machine", machine)
        parts.append(prose(f"cannot run: `{why}` says why; so of the others"))
    parts.append(prose(_TAKES, dim=True))
    return Answer({"machine": machine, "campaigns": rows}, parts)


_TAKES = (
    "takes: from the fewest pairs of each case to the most, as its plan says; by the lengths of"
    " earlier runs, if there are any"
)
_DURATIONS = ("duration_least_s", "duration_most_s")


def _listed(file: Path, machine: str, results: Path) -> dict[str, Any]:
    """One campaign: its shortest and longest duration, or why it cannot run."""
    title = str(marked_yaml.load(file).data.get("title", ""))
    row = {"campaign": file.stem, "title": title, **dict.fromkeys(_DURATIONS)}
    try:
        request = with_past_lengths(prepare(file, machine), results)
        feasibility = request.feasibility()
        sums = request.plan(feasibility.omission_reasons).sums
    except InputError as error:
        return {**row, "why": str(error)}
    return {**row, **{name: sums[name] for name in _DURATIONS}, "why": feasibility.why}


def _about(row: dict[str, Any]) -> str:
    """The time that a campaign takes, in whole minutes or hours."""
    if row["why"]:
        return "cannot run"
    unit, unit_s = ("h", 3600) if row[_DURATIONS[1]] > 2 * 3600 else ("min", 60)
    return f"{range_text(*(str(ceil(row[name] / unit_s)) for name in _DURATIONS))} {unit}"


# `nimc plan`


def _left_out(request: Request, feasibility: Feasibility) -> list[str]:
    """Return what cannot run and why; of workloads that run nowhere, the matrix says it."""
    workload = {case.name: case.check for case in request.campaign.cases}
    nowhere = feasibility.matrix.nowhere
    shown = [
        replace(omitted, reason="runs nowhere, as below")
        if nowhere.get(workload[omitted.case]) == omitted.reason
        else omitted
        for omitted in feasibility.omissions
    ]
    return omission_lines([*request.omissions, *shown])


def _scales(rows: list[ScaleRow], machine: str, nodes: int | None) -> list[str | Table]:
    """Return how much is written at which scale, of campaigns with a timetable."""
    if not rows:
        return []
    parts: list[str | Table] = [Table(_SCALE_HEADER, list(map(_scale, rows)), [0, 1]), _SCALE_FOOT]
    rules = [rule_text(row.mtti_s, row.write_s) for row in rows if row.counted is not None]
    parts += map(wrapped, dict.fromkeys(rules))
    if any(row.writers == 0 for row in rows):
        parts.append(wrapped(_NO_WRITERS))
    if nodes is None:
        parts.append(wrapped(_NODES_UNKNOWN.format(machine)))
    return [*parts, ""]


def _commands(planned: Plan) -> list[str]:
    """ReFrame's command of each block that always runs."""
    parts = [f"ReFrame's commands ({RUN} is the folder of the run):"]
    for case in planned.cases:
        always = [block for block in case.blocks if block.needed == "always"]
        for block in always:
            parts.append(f"\n# {case.case}, block {block.block}: {block.pairs} pairs")
            parts.append(pasted(block.command))
        if more := len(case.blocks) - len(always):
            parts.append(f"# plus up to {more} more, while undecided")
    return parts


def _reach(reached: list[Reach], spreads: Spreads) -> list[str]:
    """Return what each case shows in nine of ten runs; nothing of a campaign without effects."""
    title = f"What is shown in 90 % of runs, with a spread of single runs {spreads.source}:"
    return [wrapped(title), "", *map(wrapped, lines(reached)), ""] if reached else []


def _cases(planned: Plan, remarks: list[str]) -> Listing:
    """A line for each case, and their sum."""
    sums = planned.sums
    lines = [
        Line([*_row(case), range_text(f"{case.pairs_least}", f"{case.pairs_most}")])
        for case in planned.cases
    ]
    total = _lengths(
        sums["duration_least_s"],
        sums["duration_most_s"],
        sums["node_hours_least"],
        sums["node_hours_most"],
    )
    return Listing(
        header=("case", "duration", "node-hours", "nodes", "pairs"),
        lines=[*lines, Line(["total", *total, "", ""])] if lines else [],
        notes=[*_core_hours(planned), *_factors(planned.cases), *remarks],
        needed=4,
    )


def _core_hours(planned: Plan) -> list[str]:
    """The sum as papers and allocations count it."""
    least, most = (planned.sums[f"core_hours_{end}"] for end in ("least", "most"))
    hours = range_text(number(least, 2), number(most, 2))
    cores = f"{plural(planned.node_cores, 'core')} a node"
    return [f"core-hours in all: {hours}, with {cores}"] if planned.cases else []


def _factors(cases: list[Case]) -> list[str]:
    """Lines that list factors that change within a block, and those with a case for each level."""
    within = grouped((_within(case), case.case) for case in cases if case.factors_within)
    between = grouped((name, case.case) for case in cases for name in case.factors_between)
    return [
        *(f"change within a block: {text}: {', '.join(names)}" for text, names in within.items()),
        *(f"a case for each level: {text}: {', '.join(names)}" for text, names in between.items()),
    ]


def _within(case: Case) -> str:
    levels = "; ".join(
        f"{name} {', '.join(map(level_text, levels))}"
        for name, levels in case.factors_within.items()
    )
    return f"{levels} ({len(case.treatments)} runs a pair)"


def _row(case: Case) -> list[str]:
    targets = plural(case.target_nodes, "node")
    origins = f" and {plural(case.origin_nodes, 'origin')}" if case.origin_nodes else ", same host"
    length_s = (case.duration_least_s, case.duration_most_s)
    lengths = _lengths(*length_s, *(case.nodes * seconds / 3600 for seconds in length_s))
    return [case.case, *lengths, f"{targets}{origins}"]


def _lengths(least_s: float, most_s: float, least_h: float, most_h: float) -> tuple[str, str]:
    """Duration and node-hours."""
    hours = range_text(number(least_h, 2), number(most_h, 2))
    return range_text(duration(least_s), duration(most_s)), hours


def _scale(row: ScaleRow) -> list[str]:
    return [
        row.case,
        row.arm,
        f"{row.writers}" if row.counted is None else f"{row.writers} of {row.counted}",
        f"{row.writes_per_s:.3g}",
        quantity(row.write_b, "B", 3),
        quantity(row.run_b, "B", 3),
        NO_FIGURE if row.link_share is None else f"{100 * row.link_share:.3g}%",
    ]


def pasted(words: list[str]) -> str:
    """A command line to paste, broken to 80 columns; `RUN` remains a shell variable."""
    parts: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        quoted = f'"{word}"' if RUN in word else shlex.quote(word)
        if before in _WITH_VALUE:
            parts[-1] += f" {quoted}"
        else:
            parts.append(quoted)
    return broken(parts)


def range_text(least: str, most: str) -> str:
    """Both figures; one if they are the same."""
    return least if least == most else f"{least} to {most}"
