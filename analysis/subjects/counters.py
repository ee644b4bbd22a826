"""Sections on the counts of tools and nodes, and on what was not counted.

Roles are quantities, such as misses of a cache, that processors count by different events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from analysis.questions.presentation import section
from analysis.questions.question import Question, shared
from analysis.report.data import RunData, hosts_of_targets, table_of_runs
from analysis.report.sections import Files
from analysis.samples.counts import counter_medians
from analysis.samples.provenance import hosts_of, mapping_or_empty
from analysis.subjects.paired_roles import IS_TOOL_COUNT, values_of_roles
from records.arms import in_table_order
from records.groups import grouped
from records.machine.host import processor_family, processor_words
from records.roles import COUNTS, missing_roles
from records.sample import NODE_TOOL
from records.units import plural


def _counters(run: RunData) -> pl.DataFrame:
    """Medians of the counts of tools and target nodes, in the order of treatments.

    Counts of nodes that are always 0 are left out.
    """
    labels = pl.col("case", "arm", "tool", "event", "unit", "state").cast(pl.String)
    is_ever_nonzero = (pl.col("value") != 0).any().over("case", "tool", "event")
    rows = counter_medians(run.counters).with_columns(labels)
    rows = rows.filter(IS_TOOL_COUNT | ((pl.col("tool") == NODE_TOOL) & is_ever_nonzero))
    arms = in_table_order(rows["arm"].unique(maintain_order=True))
    positions = {arm: position for position, arm in enumerate(arms)}
    return rows.sort(pl.col("arm").replace_strict(positions, default=0), maintain_order=True)


COUNTERS = Question(
    name="counters",
    title="Counters of tools and nodes",
    text="Medians over the runs that count. The value of a run is the sum over its ranks or its"
    " target nodes; for shares and frequencies, the mean. Counters of nodes are read before and"
    " after each run, so they cover everything that happened on the node; those that stayed 0 are"
    " left out. A total grows with the duration of the run.",
    rows=_counters,
    by=("case", "tool", "event", "arm"),
    facts={
        **shared("value", "unit"),
        "state": pl.col("state").filter(pl.col("state") != "counted").first(),
    },
    columns=("state",),
    units={"value": "unit"},
    column_key="arm",
    plot=None,
)


def _missing_counts(run: RunData) -> pl.DataFrame:
    """Roles without a value, roles that a processor cannot count, and counters that nodes lack."""
    if not run.counters.height:
        return pl.DataFrame()
    return pl.DataFrame(
        [*_roles_without_value(run), *_roles_without_event(run), *_missing_node_counters(run)]
    )


def _roles_without_value(run: RunData) -> list[dict[str, Any]]:
    """A row for each role that has no value in some runs, with the state of its counts."""
    values = values_of_roles(run).filter(pl.col("value").is_null()).select("role", "state")
    return [
        {"what": role, "where": "some or all runs", "reason": _WHY_UNUSED.get(state, state)}
        for role, state in values.unique(maintain_order=True).rows()
    ]


def _roles_without_event(run: RunData) -> list[dict[str, Any]]:
    """A row for each tool and processor of a target, with the roles that the tool cannot count."""
    tools = run.counters.filter(IS_TOOL_COUNT)["tool"].unique()
    programs = {str(tool).partition(":")[0] for tool in tools} & {row.tool for row in COUNTS}
    # Records of older versions have no `processor`.
    hosts = hosts_of_targets(run) if len(tools) else []
    rows = []
    for identity in sorted({str(host["processor"]) for host in hosts if "processor" in host}):
        family = processor_family(identity)
        if family is None:
            processor = f"processor {processor_words(identity)}"
            rows.append(
                {"what": "all roles", "where": processor, "reason": "not in the table of roles"}
            )
            continue
        for program in sorted(programs):
            roles = missing_roles(program, family)
            if roles:
                reason = f"{program} counts none there"
                rows.append({"what": ", ".join(roles), "where": family, "reason": reason})
    return rows


def _missing_node_counters(run: RunData) -> list[dict[str, Any]]:
    """A row for each counter that nodes lack, with the number of these nodes."""
    nodes_of_counters = grouped(
        (counter_and_need, node)
        for record in run.provenance.values()
        for node, facts in hosts_of(record).items()
        for counter_and_need in mapping_or_empty(facts.get("absent_counters")).items()
    )
    return [
        {"what": counter, "where": plural(len(set(nodes)), "node"), "reason": f"needs {need}"}
        for (counter, need), nodes in nodes_of_counters.items()
    ]


#: State of counts -> the reason why they are not used. Other states are shown as they are.
_WHY_UNUSED = {"multiplexed": "the events took turns on the counters, so they are not used"}
NOT_COUNTED = Question(
    name="not_counted",
    title="Not counted",
    text="Roles and counters without a value, and why.",
    rows=_missing_counts,
    by=("what", "where"),
    facts={"reason": pl.col("reason").unique(maintain_order=True).str.join("; ")},
    columns=("reason",),
    plot=None,
)


def _counters_file(runs: Sequence[RunData]) -> Files:
    """The file counters.parquet, or none if nothing was counted."""
    has_counts = any(run.counters.height for run in runs)
    return {"counters.parquet": table_of_runs(runs, "counters")} if has_counts else {}


SECTIONS = [
    section(COUNTERS, "after_cases", 96, folded=True, make_more_files=_counters_file),
    section(NOT_COUNTED, "after_cases", 97, folded=True),
]
