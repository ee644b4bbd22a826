"""What tools and nodes counted, and what they could not count."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from analysis.questions.question import Question, shared
from analysis.questions.shown import section
from analysis.report.data import RunData, table_of_runs
from analysis.report.sections import Files
from analysis.samples.counts import counter_medians
from analysis.samples.provenance import all_hosts, hosts_of, mapping_or_empty
from analysis.subjects.paired_roles import OF_TOOLS, values_of_roles
from records.arms import in_table_order
from records.groups import grouped
from records.machine.host import processor_family, processor_words
from records.roles import COUNTS, missing_roles
from records.sample import NODE_TOOL
from records.units import plural


def _counters(run: RunData) -> pl.DataFrame:
    """Medians of what was counted, in order of treatments; of nodes what was not always 0."""
    names = pl.col("case", "arm", "tool", "event", "unit", "state").cast(pl.String)
    used = (pl.col("value") != 0).any().over("case", "tool", "event")
    rows = counter_medians(run.counters).with_columns(names)
    rows = rows.filter(OF_TOOLS | ((pl.col("tool") == NODE_TOOL) & used))
    arms = in_table_order(rows["arm"].unique(maintain_order=True))
    places = {arm: position for position, arm in enumerate(arms)}
    return rows.sort(pl.col("arm").replace_strict(places, default=0), maintain_order=True)


COUNTERS = Question(
    name="counters",
    title="Counters of tools and nodes",
    text="Medians over the runs that count, each the sum over its ranks, or over its target nodes;"
    " of shares and frequencies, the mean. Nodes are read before and after each run: whatever"
    " happened there is in them, and what stayed 0 is left out. A total grows with the duration.",
    rows=_counters,
    by=("case", "tool", "event", "arm"),
    facts={
        **shared("value", "unit"),
        "state": pl.col("state").filter(pl.col("state") != "counted").first(),
    },
    columns=("state",),
    units={"value": "unit"},
    spread="arm",
    plot=None,
)


def _absent(run: RunData) -> pl.DataFrame:
    """Roles without a value, roles that a processor lacks, and counters that nodes lack."""
    lost = values_of_roles(run).filter(pl.col("value").is_null()).select("role", "state")
    rows = [
        {"what": role, "where": "some run or all", "reason": _WHY_NOT.get(state, state)}
        for role, state in lost.unique(maintain_order=True).rows()
    ]
    tools = run.counters.filter(OF_TOOLS)["tool"].unique()
    programs = {str(tool).partition(":")[0] for tool in tools} & {row.tool for row in COUNTS}
    # Hosts of older versions have no `processor`.
    hosts = all_hosts(run.provenance.values()) if len(tools) else []
    for identity in sorted({str(host["processor"]) for host in hosts if "processor" in host}):
        family = processor_family(identity)
        processor = f"processor {processor_words(identity)}"
        if family is None:
            rows.append(
                {"what": "all roles", "where": processor, "reason": "not in the table of roles"}
            )
        rows += [
            {"what": ", ".join(absent), "where": family, "reason": f"{program} counts none there"}
            for program in sorted(programs)
            if family and (absent := missing_roles(program, family))
        ]
    nodes_without = grouped(
        (source, node)
        for record in run.provenance.values()
        for node, facts in hosts_of(record).items()
        for source in mapping_or_empty(facts.get("absent_counters")).items()
    )
    rows += [
        {"what": source, "where": plural(len(set(nodes)), "node"), "reason": f"needs {needs}"}
        for (source, needs), nodes in nodes_without.items()
        if run.counters.height
    ]
    return pl.DataFrame(rows)


#: State of counts -> why they are not used.
_WHY_NOT = {"multiplexed": "the events took turns on the counters, so they are not used"}
ABSENT = Question(
    name="not_counted",
    title="Not counted",
    text="Roles and counters without a value, and why.",
    rows=_absent,
    by=("what", "where"),
    facts={"reason": pl.col("reason").unique(maintain_order=True).str.join("; ")},
    columns=("reason",),
    plot=None,
)


def _table(runs: Sequence[RunData]) -> Files:
    """counters.parquet, if anything was counted."""
    counted = any(run.counters.height for run in runs)
    return {"counters.parquet": table_of_runs(runs, "counters")} if counted else {}


SECTIONS = [
    section(COUNTERS, "end", 96, folded=True, more=_table),
    section(ABSENT, "end", 97, folded=True),
]
