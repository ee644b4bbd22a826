"""`nimc plan`: what a campaign will run; runs nothing itself."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path

import click

from analysis.subjects.writers import rule
from nimc.campaign.cases import Scale, omission_lines, scales
from nimc.campaign.matrix import Matrix
from nimc.campaign.plan import RUN, Case, Plan, lines_of
from nimc.campaign.prepare import prepare, too_long
from nimc.campaign.reach import Reach, Spreads, last_spreads, lines, reach, warnings
from nimc.cli.document import listing, show
from nimc.cli.options import campaign_argument, json_option, machine_option, results_option
from records.arms import level_text
from records.checkout import ROOT
from records.text import Line, aligned, broken, duration, wrapped
from records.units import NONE, number, plural, quantity

_SCALE_HEADER = [*("scale", "arm", "writers", "writes/s", "a write", "a run", "of a link")]
_SCALE_FOOT = "writers: concurrent, and the ranks that they are computed for."
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
@json_option
def plan_command(campaign: Path, machine: str, results: Path, as_json: bool) -> None:
    """Show the cases of CAMPAIGN, their nodes and hours, and the ReFrame command of each block."""
    request = prepare(campaign, machine)
    known = list(scales(request.campaign, request.machine))
    planned = request.plan()
    nodes = request.machine.nodes
    where = request.matrix()
    spreads = last_spreads(results, machine)
    reached = reach(planned, request.campaign, spreads)
    lacking = lines_of(request.without_writers())
    long = [*lacking, *too_long(planned, request.time_limit_s), *warnings(reached)]
    document = planned.as_dict() | {
        "machine_nodes": nodes,
        "absent": [asdict(each) for each in request.absent],
        "scales": [asdict(row) for row in known],
        "reach": [asdict(row) for row in reached],
        "warnings": [*long, *where.lines()],
        "matrix": [asdict(cell) for cell in where.cells],
    }
    remarks = [*omission_lines(request.absent), *long]
    text = _text(planned, known, nodes, where, remarks, _reach(reached, spreads))
    named = campaign.stem if campaign == ROOT / "campaigns" / campaign.name else str(campaign)
    following = broken(["Next:", "nimc", "run", shlex.quote(named), "--machine", machine])
    show("plan", document, as_json, f"{text}\n\n{following}")


def _text(
    planned: Plan,
    known: list[Scale],
    nodes: int | None,
    where: Matrix,
    remarks: list[str],
    reached: list[str],
) -> str:
    parts = [_cases(planned, remarks), "", *reached]
    parts += ["What runs where:", "", where.text]
    if where.nowhere:
        parts.append(wrapped(f"cannot run here: {', '.join(where.nowhere)}"))
    parts.append("")
    if known:
        parts += [aligned(_SCALE_HEADER, list(map(_scale, known))), _SCALE_FOOT]
        rules = [rule(row.mtti_s, row.write_s) for row in known if row.counted is not None]
        parts += map(wrapped, dict.fromkeys(rules))
        if any(row.writers == 0 for row in known):
            parts.append(wrapped(_NO_WRITERS))
        if nodes is None:
            parts.append(wrapped(_NODES_UNKNOWN.format(planned.machine)))
        parts.append("")
    parts.append(f"ReFrame's commands ({RUN} is the folder of the run):")
    for case in planned.cases:
        always = [block for block in case.blocks if block.needed == "always"]
        for block in always:
            parts.append(f"\n# {case.case}, block {block.block}: {block.pairs} pairs")
            parts.append(_shell(block.command))
        if not always:
            parts.append(f"\n# {case.case}: only if models of the other cases disagree")
        elif more := len(case.blocks) - len(always):
            parts.append(f"# plus up to {more} more, while undecided")
    return "\n".join(parts)


def _reach(reached: list[Reach], spreads: Spreads) -> list[str]:
    """What each case shows in nine of ten runs; nothing of a campaign without effects."""
    title = f"What is shown in 90 % of runs, with a spread of single runs {spreads.text}:"
    return [wrapped(title), "", *map(wrapped, lines(reached)), ""] if reached else []


def _cases(planned: Plan, remarks: list[str]) -> str:
    """A line for each case, and their sum; pairs that all cases share are in the legend."""
    sums = planned.as_dict()
    pairs = [_range(f"{case.pairs_least}", f"{case.pairs_most}") for case in planned.cases]
    shared = len(set(pairs)) == 1
    lines = [
        Line([*_row(case), "" if shared else f"{each} pairs"])
        for case, each in zip(planned.cases, pairs, strict=True)
    ]
    total = _lengths(
        *(sums["duration_least_s"], sums["duration_most_s"]),
        *(sums["node_hours_least"], sums["node_hours_most"]),
    )
    legend = "duration, node-hours, nodes" + (f"; {pairs[0]} pairs a case" if shared else ", pairs")
    return listing(
        "",
        [*lines, Line(["total", *total, "", ""])],
        [*_factors(planned.cases), *remarks],
        legend=legend,
        needed=4,
    )


def _factors(cases: list[Case]) -> list[str]:
    """Lines that list factors that change within a block, and those with a case for each level."""
    within: dict[str, list[str]] = {}
    between: dict[str, list[str]] = {}
    for case in cases:
        if case.factors_within:
            text = "; ".join(
                f"{name} {', '.join(map(level_text, each))}"
                for name, each in case.factors_within.items()
            )
            runs = f"{text} ({len(case.treatments)} runs a pair)"
            within.setdefault(runs, []).append(case.case)
        for name in case.factors_between:
            between.setdefault(name, []).append(case.case)
    return [
        *(f"change within a block: {text}: {', '.join(names)}" for text, names in within.items()),
        *(f"a case for each level: {text}: {', '.join(names)}" for text, names in between.items()),
    ]


def _row(case: Case) -> list[str]:
    targets = plural(case.target_nodes, "node")
    origins = f" and {plural(case.origin_nodes, 'origin')}" if case.origin_nodes else ", same host"
    length_s = (case.duration_least_s, case.duration_most_s)
    lengths = _lengths(*length_s, *(case.nodes * each / 3600 for each in length_s))
    return [case.case, *lengths, f"{targets}{origins}"]


def _lengths(least_s: float, most_s: float, least_h: float, most_h: float) -> tuple[str, str]:
    """Duration and node-hours."""
    hours = _range(number(least_h, 2), number(most_h, 2))
    return _range(duration(least_s), duration(most_s)), f"{hours} node-hours"


def _scale(row: Scale) -> list[str]:
    return [
        row.case,
        row.arm,
        f"{row.writers}" if row.counted is None else f"{row.writers} of {row.counted}",
        f"{row.writes_per_s:.3g}",
        quantity(row.write_b, "B", 3),
        quantity(row.run_b, "B", 3),
        NONE if row.link_share is None else f"{100 * row.link_share:.3g}%",
    ]


def _shell(words: list[str]) -> str:
    """A command line to paste, broken to 80 columns; `RUN` remains a shell variable."""
    parts: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        quoted = f'"{word}"' if RUN in word else shlex.quote(word)
        if before in _WITH_VALUE:
            parts[-1] += f" {quoted}"
        else:
            parts.append(quoted)
    return broken(parts)


def _range(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"
