"""The command `nimc plan`, which prints what a campaign will run. It runs nothing itself."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from analysis.display.document import Table
from analysis.display.figures import NO_FIGURE, number, quantity
from analysis.display.lines import Line, broken_command, duration, wrapped
from nimc.campaign import allocations, layouts, reach
from nimc.campaign.cases import omission_lines
from nimc.campaign.plan import RUN_PLACEHOLDER, Case, Plan, Request
from nimc.campaign.reach import Reach
from nimc.campaign.request import load_request, time_limit_warnings
from nimc.campaign.scales import ScaleRow, scales, short_write_warnings
from nimc.cli.answer import Answer, Listing, prints_answer, prose
from nimc.cli.options import (
    campaign_argument,
    case_option,
    details_option,
    machine_option,
    results_option,
)
from nimc.cli.pairs import pairs_option, require_floor
from nimc.readiness.diagnosis import Feasibility
from nimc.run.folder import with_past_lengths
from records.arms import level_text
from records.commands import Shell, campaign_word
from records.daly import daly_rule_text
from records.groups import grouped
from records.units import percentage, plural

_SCALE_HEADER = ["scale", "arm", "writers", "writes/s", "a write", "a run", "of a link"]
_SCALE_LEGEND = "writers: how many write at once, of the ranks that they are computed for."
#: What the option -v adds to the text.
_DETAILS = "ReFrame's command of each block"
#: ReFrame's options that are printed on one line with their value.
_OPTIONS_WITH_VALUE = ("-C", "-c", "-n", "-S")
_NO_WRITERS = (
    "0 writers: nothing is written, and the arm measures the same as 'aa'; docs/scale.md says how"
    " many ranks it takes to have writers, and how to get more."
)
_NODES_UNKNOWN = "site/{}.yaml does not give 'nodes': the number of nodes was not checked."


@click.command()
@campaign_argument
@machine_option
@results_option
@prints_answer(tables=True)
@details_option(_DETAILS)
@pairs_option("instead of the campaign's")
@case_option
def plan_command(
    campaign: Path,
    machine: str,
    results: Path,
    details: bool,
    pairs: int | None,
    cases: tuple[str, ...],
) -> Answer:
    """Show the cases of CAMPAIGN with their nodes and hours, and with -v the ReFrame commands.

    Cases that cannot run are named, but not counted. The exit code is 1 if nothing can run now, and
    2 if the site file rules out every case.
    """
    request = with_past_lengths(load_request(campaign, machine, case_names=cases), results)
    if pairs is not None:
        require_floor(request, pairs)
        request = request.with_pairs_cap(pairs)
    feasibility = request.feasibility()
    scale_rows = list(scales(request.campaign, request.machine))
    planned = request.plan(feasibility.omission_reasons)
    past = reach.past_runs(results, machine, request.campaign.cases)
    # The probability of a wrong verdict is bounded over all requested cases together, even cases
    # that cannot run. So the reach of a case is computed from the plan of all cases.
    whole_plan = request.plan() if feasibility.omission_reasons else planned
    reaches = [
        case_reach
        for case_reach in reach.reaches_of(whole_plan, request.campaign, past)
        if case_reach.case not in feasibility.omission_reasons
    ]
    all_warnings = [
        *feasibility.doubts,
        *time_limit_warnings(planned, request.time_limit_s),
        *reach.warnings(reaches),
        *short_write_warnings(scale_rows),
    ]
    document = planned.as_dict() | {
        "machine_nodes": request.machine.nodes,
        # In the document, omitted cases and levels are called absent.
        "absent": [vars(omission) for omission in [*request.omissions, *feasibility.omissions]],
        "why": feasibility.why,
        "scales": [vars(row) for row in scale_rows],
        "reach": [vars(case_reach) for case_reach in reaches],
        "allocations": past.variation and past.variation.as_dict(),
        "warnings": all_warnings,
        "matrix": [vars(cell) for cell in feasibility.matrix.cells],
    }

    def parts() -> Iterator[str | Table | Listing]:
        remarks = []
        if request.lengths.run_s_by_case:
            remarks.append(f"lengths of runs: as measured in {request.lengths.run}")
        remarks += _omission_lines(request, feasibility)
        remarks += [
            f"{case}: a search for its layout runs first{_left_out_text(request, case)}"
            for case in request.searches
            if case not in feasibility.omission_reasons
        ]
        remarks += all_warnings
        yield from (f"{planned.campaign} on {machine}", "", _case_listing(planned, remarks), "")
        yield from _reach_lines(reaches)
        multi_node_names = {case_reach.case for case_reach in reaches if not case_reach.one_host}
        if multi_node_cases := [case for case in planned.cases if case.case in multi_node_names]:
            # All cases have the same numbers of pairs and blocks, so advice for one case is enough.
            yield from (wrapped(allocations.advice(past.variation, multi_node_cases[0])), "")
        yield from ("What runs where:", "", feasibility.matrix.text, "")
        yield from _scale_parts(scale_rows, machine, request.machine.nodes)
        if planned.cases:
            yield from _command_lines(planned) if details else [f"-v adds: {_DETAILS}"]
            yield ""
        if feasibility.why:
            yield prose(f"{machine} cannot run it: {feasibility.why}", fg="red")
        else:
            shell = Shell.here()
            words = ["--machine", machine, *shell.results_option(results)]
            words += ["--pairs", str(pairs)] if pairs is not None else []
            words += [word for case in cases for word in ("--case", case)]
            yield broken_command(["Next:", *shell.words("run", campaign_word(campaign), *words)])

    return Answer(document, parts(), int(bool(feasibility.why)), schema=3)


def _left_out_text(request: Request, case_name: str) -> str:
    """Return which layouts of a case the search leaves out, and why; empty if none."""
    case = next(entry for entry in request.campaign.cases if entry.name == case_name)
    left_out = layouts.uncountable(case, request.check(case), request.machine)
    if not left_out:
        return ""
    return f", without {', '.join(left_out)}: more points a rank than are counted in 32 bits"


def _omission_lines(request: Request, feasibility: Feasibility) -> list[str]:
    """Return lines that say which cases and levels cannot run, and why.

    If a workload can run nowhere, the reason is only in the table of what runs where.
    """
    workload_by_case = {case.name: case.check for case in request.campaign.cases}
    omissions = list(request.omissions)
    for omission in feasibility.omissions:
        workload = workload_by_case[omission.case]
        runs_nowhere = feasibility.matrix.why_nowhere.get(workload) == omission.reason
        omissions.append(
            replace(omission, reason="runs nowhere, as below") if runs_nowhere else omission
        )
    return omission_lines(omissions)


def _scale_parts(rows: list[ScaleRow], machine: str, nodes: int | None) -> list[str | Table]:
    """Return a table of the short writes at each scale (number of nodes), with explanations.

    Returns an empty list if no writes of the campaign follow a timetable. `nodes` is the number of
    nodes of the machine; None if it is unknown.
    """
    if not rows:
        return []
    table = Table(_SCALE_HEADER, list(map(_scale_cells, rows)), left_aligned=(0, 1))
    parts: list[str | Table] = [table, _SCALE_LEGEND]
    rules = [daly_rule_text(row.mtti_s, row.write_s) for row in rows if row.counted is not None]
    parts += map(wrapped, dict.fromkeys(rules))
    if any(row.writers == 0 for row in rows):
        parts.append(wrapped(_NO_WRITERS))
    if nodes is None:
        parts.append(wrapped(_NODES_UNKNOWN.format(machine)))
    return [*parts, ""]


def _command_lines(planned: Plan) -> list[str]:
    """Return lines with ReFrame's command for each block that is always run."""
    lines = [
        wrapped(
            f"ReFrame's commands in a run, whose folder is {RUN_PLACEHOLDER}. They are not for"
            " typing, since the run first makes the files that they name."
        )
    ]
    for case in planned.cases:
        certain_blocks = [block for block in case.blocks if block.needed == "always"]
        for block in certain_blocks:
            lines.append(f"\n# {case.case}, block {block.block}: {plural(block.pairs, 'pair')}")
            lines.append(command_to_paste(block.command))
        if more := len(case.blocks) - len(certain_blocks):
            lines.append(f"# plus up to {more} more, while undecided")
    return lines


def _reach_lines(reaches: list[Reach]) -> list[str]:
    """Return lines with the smallest effect of each case that 90 % of runs of the campaign show.

    There are no lines if no case has effects.
    """
    if not reaches:
        return []
    title = "What 90 % of runs of the campaign show:"
    sources = reach.spread_sources(reaches)
    return [title, "", *map(wrapped, reach.lines(reaches)), "", *map(wrapped, sources), ""]


def _case_listing(planned: Plan, remarks: list[str]) -> Listing:
    """Return a table with a line for each case and a line with the total. `remarks` follow it."""
    header = ("case", "duration", "node-hours", "nodes", "pairs")
    if not planned.cases:
        return Listing(header=header, lines=[], notes=remarks, min_columns=4)
    sums = planned.sums
    duration_and_node_hours = _duration_and_node_hours(
        sums["duration_least_s"],
        sums["duration_most_s"],
        sums["node_hours_least"],
        sums["node_hours_most"],
    )
    total = Line(["total", *duration_and_node_hours, "", ""])
    return Listing(
        header=header,
        lines=[*map(_case_line, planned.cases), total],
        notes=[_core_hours_text(planned), *_factor_lines(planned.cases), *remarks],
        min_columns=4,
    )


def _core_hours_text(planned: Plan) -> str:
    least, most = (planned.sums[f"core_hours_{end}"] for end in ("least", "most"))
    hours = range_text(number(least, 2), number(most, 2))
    return f"core-hours in all: {hours}, with {plural(planned.node_cores, 'core')} a node"


def _factor_lines(cases: list[Case]) -> list[str]:
    """Return lines with the factors of cases.

    Some lines name factors whose levels change within a block, the others name factors that have a
    case for each level.
    """
    cases_by_levels = grouped(
        (_levels_text(case), case.case) for case in cases if case.factors_within
    )
    cases_by_factor = grouped(
        (factor, case.case) for case in cases for factor in case.factors_between
    )
    return [
        *(
            f"change within a block: {levels}: {', '.join(names)}"
            for levels, names in cases_by_levels.items()
        ),
        *(
            f"a case for each level: {factor}: {', '.join(names)}"
            for factor, names in cases_by_factor.items()
        ),
    ]


def _levels_text(case: Case) -> str:
    """Return in words the factors that change within a case's blocks, with their levels."""
    factor_texts = "; ".join(
        f"{factor} {', '.join(map(level_text, levels))}"
        for factor, levels in case.factors_within.items()
    )
    return f"{factor_texts} ({len(case.treatments)} runs a pair)"


def _case_line(case: Case) -> Line:
    targets = plural(case.target_nodes, "node")
    origins = f" and {plural(case.origin_nodes, 'origin')}" if case.origin_nodes else ", same host"
    duration_and_node_hours = _duration_and_node_hours(
        case.duration_least_s,
        case.duration_most_s,
        case.nodes * case.duration_least_s / 3600,
        case.nodes * case.duration_most_s / 3600,
    )
    pairs = range_text(f"{case.pairs_least}", f"{case.pairs_most}")
    return Line([case.case, *duration_and_node_hours, f"{targets}{origins}", pairs])


def _duration_and_node_hours(
    least_s: float, most_s: float, least_node_hours: float, most_node_hours: float
) -> tuple[str, str]:
    """Return two cells: durations and node-hours. Each is a range from the least to the most."""
    node_hours = range_text(number(least_node_hours, 2), number(most_node_hours, 2))
    return range_text(duration(least_s), duration(most_s)), node_hours


def _scale_cells(row: ScaleRow) -> list[str]:
    return [
        row.case,
        row.arm,
        f"{row.writers}" if row.counted is None else f"{row.writers} of {row.counted}",
        f"{row.writes_per_s:.3g}",
        quantity(row.write_b, "B", 3),
        quantity(row.run_b, "B", 3),
        NO_FIGURE if row.link_share is None else percentage(row.link_share, ".3g"),
    ]


def command_to_paste(words: list[str]) -> str:
    """Return a command line in 80 columns that can be pasted into a shell.

    `RUN_PLACEHOLDER` is quoted so that the shell replaces it as one of its variables.
    """
    option_texts: list[str] = []
    for previous, word in zip(["", *words], words, strict=False):
        quoted = f'"{word}"' if RUN_PLACEHOLDER in word else shlex.quote(word)
        if previous in _OPTIONS_WITH_VALUE:
            option_texts[-1] += f" {quoted}"
        else:
            option_texts.append(quoted)
    return broken_command(option_texts)


def range_text(least: str, most: str) -> str:
    """Return the range from `least` to `most`, or one figure if they are equal."""
    return least if least == most else f"{least} to {most}"
