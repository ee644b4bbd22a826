"""Why runs are slower, on the page: Table IV and figure 4 of Groves, Grant and Arnold (2016)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl
from markupsafe import Markup

from analysis.arms import in_order
from analysis.caveats import emulations
from analysis.contrasts import Contrast
from analysis.counter_row import AGENTS
from analysis.counters import medians
from analysis.facts import nodes_of
from analysis.numbers import NONE, count, effect, quantity
from analysis.processors import family_of
from analysis.report.counters import CountersView, node_view
from analysis.report.data import RunData
from analysis.report.link_tables import TABLE, LinkTable, link_table, p_text
from analysis.report.roles_plot import roles_plot
from analysis.role_links import STALLS, RoleLink
from analysis.roles import COUNTS, ROLES, STUDY_DIFFERS, lacking
from analysis.why import Loss, RoleChange, why


@dataclass(frozen=True)
class ChangeRow:
    """One role of one case."""

    case: str
    treatment: str
    tool: str
    role: str
    off: str
    on: str
    #: on / off with its interval, and the pairs.
    ratio: tuple[str, str]
    pairs: int
    #: Growth of the worst rank, of the median rank, and the p value; empty without ranks.
    worst: str
    median: str
    p: str


@dataclass(frozen=True)
class ToolPrice:
    """What a tool itself costs."""

    case: str
    tool: str
    #: A dash if the campaign has no runs without the tool, or fewer than six pairs.
    ratio: tuple[str, str]
    #: Whether its whole interval lies beyond the campaign's margin; None if there is none.
    beyond: bool | None


@dataclass(frozen=True)
class Messages:
    """Time in one kind of MPI call, and the mean size of a message, medians of runs."""

    case: str
    treatment: str
    tool: str
    kind: str
    share: str
    calls: str
    size: str


@dataclass(frozen=True)
class WhyView:
    """The section of one run."""

    sentences: list[str]
    columns: tuple[str, ...]
    #: Across workloads, with the published rows; None if no role was counted.
    table: LinkTable | None
    cases: list[LinkTable]
    changes: list[ChangeRow]
    svg: Markup | None
    prices: list[ToolPrice]
    margin: float
    messages: list[Messages]
    #: What the processor lacks, and how the study's events differ on it.
    notes: list[str]
    #: Case -> the counters of its nodes; and sources of counters that nodes lack.
    nodes: dict[str, CountersView]
    absent: list[str]
    emulated: list[str]


def why_view(run: RunData, name: str) -> WhyView | None:
    """The section of a run; None if nothing was counted in it."""
    if run.counters.is_empty():
        return None
    found = why(run.counters, run.samples)
    across = [link for link in found.links if not link.case]
    of_case: dict[str, list[RoleLink]] = {}
    for link in found.links:
        if link.case:
            of_case.setdefault(link.case, []).append(link)
    of_tools = run.counters.filter(~pl.col("tool").cast(pl.String).is_in(AGENTS))
    tools = [str(tool) for tool in of_tools["tool"].unique(maintain_order=True)]
    cases = [str(case) for case in run.counters["case"].unique(maintain_order=True)]
    nodes = {case: table for case in cases if (table := node_view(run, case))}
    transports = [str(text) for text in run.samples["transport"].unique(maintain_order=True)]
    return WhyView(
        sentences=[sentence(loss) for loss in found.losses],
        columns=TABLE,
        table=link_table("", across, published=True) if across else None,
        cases=[link_table(case, links) for case, links in of_case.items()],
        changes=[_change(change) for change in found.changes],
        svg=Markup(roles_plot(found.changes, name)) if found.changes else None,
        prices=_prices(run, of_tools),
        margin=run.header.margin,
        messages=_messages(of_tools),
        notes=[
            *_without(found.without),
            *(_processors(run.provenance, tools) if tools else []),
        ],
        nodes=nodes,
        absent=_absent(run.provenance) if nodes else [],
        emulated=emulations(transports),
    )


def sentence(loss: Loss) -> str:
    """What the extra cycles are; only for a loss whose interval is clear."""
    share = f"{loss.share.value:.0%} ({loss.share.low:.0%} to {loss.share.high:.0%})"
    what = f"{loss.case}, {loss.treatment}: {share} of the extra cycles are stalls on memory"
    if loss.share.high < 0.5:
        return f"{what}; most of the loss is something else."
    ranks = ", on every rank" if loss.all_ranks else ""
    if loss.worst is not None:
        more = f"{loss.worst.growth:.2f} times, the median rank {loss.worst.median_growth:.2f}"
        ranks += f", and most on rank {loss.worst.rank} ({more} times)"
    elif loss.all_ranks:
        ranks += ", and no rank stands out"
    return f"{what}: the loss is stalls on memory{ranks}."


def _change(each: RoleChange) -> ChangeRow:
    unit = ROLES[each.role].unit
    worst = each.worst
    ratio = each.ratio
    return ChangeRow(
        case=each.case,
        treatment=each.treatment,
        tool=each.tool,
        role=each.role,
        off=_amount(each.off, unit),
        on=_amount(each.on, unit),
        ratio=effect(ratio.value, ratio.low, ratio.high) if ratio else (NONE, ""),
        pairs=each.pairs,
        worst=f"{worst.growth:.3f} (rank {worst.rank})" if worst else "",
        median=f"{worst.median_growth:.3f}" if worst else "",
        p=p_text(each.worst_p) if worst else "",
    )


def _amount(value: float, unit: str) -> str:
    if unit == "count":
        return f"{value:.3e}"
    return f"{value:.1%}" if unit == "1" else quantity(value, unit)


def _prices(run: RunData, counters: pl.DataFrame) -> list[ToolPrice]:
    """One row per case and tool that counted in it."""
    known = {
        (each.case, str(each.level)): each
        for each in run.contrasts
        if (each.factor, each.kind) == ("tool", "price") and not each.at
    }
    names = pl.col("case", "tool").cast(pl.String)
    counted = counters.select(names).unique(maintain_order=True)
    margin = run.header.margin
    return [_price(case, tool, known.get((case, tool)), margin) for case, tool in counted.rows()]


def _price(case: str, tool: str, each: Contrast | None, margin: float) -> ToolPrice:
    low, high = (each.ratio_low, each.ratio_high) if each else (None, None)
    if each is None or low is None or high is None:
        return ToolPrice(case, tool, (NONE, ""), None)
    beyond = low > 1 + margin or high < 1 / (1 + margin)
    return ToolPrice(case, tool, effect(each.ratio, low, high), beyond)


def _messages(counters: pl.DataFrame) -> list[Messages]:
    found = medians(counters).with_columns(pl.col("case", "arm", "tool", "event").cast(pl.String))
    rows = []
    groups = found.partition_by("case", "arm", "tool", maintain_order=True)
    places = in_order(found["arm"].unique())
    for group in sorted(groups, key=lambda g: (g["case"][0], places.index(g["arm"][0]))):
        of: dict[str, float | None] = dict(group.select("event", "value").iter_rows())
        first = group.row(0, named=True)
        rows += [
            Messages(first["case"], first["arm"], first["tool"], kind, *figures)
            for kind in ("point-to-point", "collective")
            if (figures := _kind(of, kind))
        ]
    return rows


def _kind(of: Mapping[str, float | None], kind: str) -> tuple[str, str, str] | None:
    """Share of the application's time, calls, and mean size of a message."""
    time_s, whole_s = of.get(f"{kind}-time"), of.get("application-time")
    calls, messages = of.get(f"{kind}-calls"), of.get(f"{kind}-messages")
    if time_s is None or not whole_s or calls is None:
        return None
    sent_b = of.get(f"{kind}-sent")
    size = quantity(sent_b / messages, "B") if sent_b is not None and messages else NONE
    return f"{time_s / whole_s:.1%}", f"{calls:,.0f}", size


def _without(found: Mapping[str, Sequence[str]]) -> list[str]:
    """Roles that some runs have no value of, by reason."""
    why_not = {"multiplexed": "the events took turns on the counters, so they are not used"}
    return [
        f"no value in some run or in all: {', '.join(roles)}: {why_not.get(state, state)}"
        for state, roles in found.items()
    ]


def _processors(provenance: Mapping[str, Mapping[str, object]], tools: Sequence[str]) -> list[str]:
    """What tools of roles lack on the processors of the run, and the study's events there."""
    programs = {tool.partition(":")[0] for tool in tools} & {row.tool for row in COUNTS}
    found = {family_of(identity): identity for identity in _identities(provenance)}
    notes = []
    for family, identity in found.items():
        if family is None:
            notes.append(f"the processor {identity or '(unknown)'} is not in the table of roles")
            continue
        for program in sorted(programs):
            if lack := lacking(program, family):
                notes.append(f"{program} counts no {', '.join(lack)} on {family}")
        stalls = STUDY_DIFFERS["PAPI_STL_ICY"].get(family)
        notes.append(
            f"the paper's PAPI_STL_ICY is {stalls} on {family}: another event than its"
            f" '{STALLS}' here"
            if stalls
            else f"PAPI defines no PAPI_STL_ICY, the paper's stalled cycles, on {family}"
        )
    return notes


def _identities(provenance: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Identities of the processors of all nodes; none in runs of older versions."""
    hosts = [host for record in provenance.values() for host in nodes_of(record)]
    return sorted({str(host["processor"]) for host in hosts if "processor" in host})


def _absent(provenance: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Sources of counters that nodes lack, and what they need; one line for each."""
    lacking_nodes: dict[tuple[str, str], set[str]] = {}
    for record in provenance.values():
        nodes = record.get("nodes")
        for node, facts in nodes.items() if isinstance(nodes, Mapping) else ():
            absent = facts.get("absent_counters") if isinstance(facts, Mapping) else None
            for source, needs in absent.items() if isinstance(absent, Mapping) else ():
                lacking_nodes.setdefault((str(source), str(needs)), set()).add(str(node))
    return [
        f"{source}: not on {count(len(nodes), 'node')}; needs {needs}"
        for (source, needs), nodes in lacking_nodes.items()
    ]
