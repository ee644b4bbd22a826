"""Why runs are slower, on the page: Table IV and figure 4 of Groves, Grant and Arnold (2016)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import polars as pl
from markupsafe import Markup

from analysis.counts.causes import MISSES, STALLS, TIME, Loss, RoleChange, RoleLink, causes
from analysis.counts.counters import medians
from analysis.counts.roles import COUNTS, ROLES, STUDY_DIFFERS, lacking
from analysis.effects.contrasts import Contrast
from analysis.effects.facts import nodes_of
from analysis.report.data import RunData, all_rows
from analysis.report.plots import drawing, light, logarithmic, themed_svg
from analysis.report.sections import CaseSection, Files, RunSection
from analysis.statistics.correlation import Correlation, of_r
from analysis.subjects.published import paper
from nimc.base.units import NONE, effect, plural, quantity
from nimc.machine.processors import family_of
from nimc.records.arms import in_order
from nimc.records.counter_row import AGENTS, NODE

# What tools and nodes counted, on the page: one row per event, one column per treatment.


#: Units that `numbers.quantity` gives prefixes to, for units that tools use.
_UNITS = {"count": ""}


@dataclass(frozen=True)
class EventRow:
    """One event of one tool."""

    tool: str
    event: str
    #: Medians over runs of the sum over ranks, by treatment; a dash where nothing was counted.
    values: list[str]
    #: What limits them: `multiplexed`, `not supported`, ...; empty where all were counted whole.
    states: str


@dataclass(frozen=True)
class CountersView:
    """The table of one case."""

    treatments: list[str]
    rows: list[EventRow]


def counters_view(run: RunData, case: str) -> CountersView | None:
    """The counters of a case; None where no tool counted in it."""
    return _view(_medians(run, case).filter(~pl.col("tool").is_in(AGENTS)))


def node_view(run: RunData, case: str) -> CountersView | None:
    """The counters of a case's nodes that are not 0 under every treatment; None without any."""
    own = _medians(run, case).filter(pl.col("tool") == NODE)
    return _view(own.filter((pl.col("value") != 0).any().over("event")))


def _medians(run: RunData, case: str) -> pl.DataFrame:
    names = pl.col("case", "arm", "tool", "event", "unit").cast(pl.String)
    return medians(run.counters.filter(pl.col("case").cast(pl.String) == case)).with_columns(names)


def _view(found: pl.DataFrame) -> CountersView | None:
    if found.is_empty():
        return None
    arms = in_order(found["arm"].unique(maintain_order=True))
    events = found.partition_by("tool", "event", maintain_order=True)
    return CountersView(arms, [_row(group, arms) for group in events])


def _row(group: pl.DataFrame, arms: list[str]) -> EventRow:
    unit = str(group["unit"][0])
    values = dict(group.select("arm", "value").iter_rows())
    states = [state for state in group["state"].unique(maintain_order=True) if state != "counted"]
    return EventRow(
        tool=str(group["tool"][0]),
        event=str(group["event"][0]),
        values=[_text(values.get(arm), _UNITS.get(unit, unit)) for arm in arms],
        states=", ".join(states),
    )


def _text(value: float | None, unit: str) -> str:
    if value is None:
        return NONE
    if unit == "1":
        return f"{value:.1%}"
    return quantity(value, unit) if unit else f"{value:,.0f}"


# Tables of correlations in the form of Table IV of Groves, Grant and Arnold (2016).


#: Applications of figure 4, which are the points of Table IV.
_PUBLISHED_POINTS = 6
#: Column of Table IV in paper.json -> role.
_PUBLISHED = dict(
    zip(("stalled_cycles", "l1_miss", "l2_miss", "l3_miss"), (STALLS, *MISSES), strict=True)
)
#: Roles of Table IV, in its order.
TABLE = (STALLS, *MISSES)
#: r, its interval, its p value, and the number of points.
Cell = tuple[str, str, str, str]
_EMPTY: Cell = ("", "", "", "")


@dataclass(frozen=True)
class LinkRow:
    """One row of a table of correlations."""

    treatment: str
    of: str
    #: One cell per role of `TABLE`: r, interval, p value and points; empty if not measured.
    cells: list[Cell]
    published: bool = False


@dataclass(frozen=True)
class LinkTable:
    """The correlations across workloads, or of one case."""

    name: str
    rows: list[LinkRow]
    #: Treatment, role and cell of the roles that the paper has not, against the time.
    others: list[tuple[str, str, Cell]]


def link_table(name: str, links: Sequence[RoleLink], *, published: bool = False) -> LinkTable:
    """The links of one case, or across workloads, then with the published rows beside them."""
    of = {(link.treatment, link.of, link.to): link for link in links}
    sources = dict.fromkeys((link.treatment, link.of) for link in links)
    rows = [
        LinkRow(treatment, source, [_cell(of.get((treatment, source, to))) for to in TABLE])
        for treatment, source in sources
        if any((treatment, source, to) in of for to in TABLE)
    ]
    others = [(link.treatment, link.to, _cell(link)) for link in links if link.to not in TABLE]
    return LinkTable(name, rows + (_published() if published else []), others)


def _cell(link: RoleLink | None) -> Cell:
    if link is None:
        return _EMPTY
    points = f"{link.points} points"
    if link.correlation is None:
        return NONE, "", "", points
    return _figures(link.correlation, p_text(link.p), points)


def _figures(found: Correlation, p: str, points: str) -> Cell:
    return f"{found.r:.3f}", f"{found.low:.2f} to {found.high:.2f}", p, points


def _published() -> list[LinkRow]:
    """Table IV as printed; intervals follow from its r and its six points."""
    names = {"time": TIME, "stalled_cycles": STALLS}
    points = f"{_PUBLISHED_POINTS} points"
    rows = []
    for treatment, sources in paper()["table_4_pearson_r"].items():
        for source, values in sources.items():
            cells = [
                _figures(of_r(values[key], _PUBLISHED_POINTS), "", points)
                if key in values
                else _EMPTY
                for key in _PUBLISHED
            ]
            rows.append(LinkRow(treatment, names[source], cells, published=True))
    return rows


def p_text(p: float | None) -> str:
    """`p = 0.012`, `p < 0.001`."""
    if p is None:
        return NONE
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


# Counts without and with traffic, one panel per case: figure 4 of the paper, for this machine.


_ROW_IN = 0.24


def roles_plot(changes: Sequence[RoleChange], name: str) -> str:
    """One row per role and treatment: the medians off and on, on a logarithmic axis.

    Counts of events only, since bytes are another unit.
    """
    counts = [each for each in changes if ROLES[each.role].unit == "count" and each.off > 0]
    cases = list(dict.fromkeys((each.case, each.tool) for each in counts))
    rows = [[each for each in counts if (each.case, each.tool) == case] for case in cases]
    height_in = sum(0.55 + _ROW_IN * len(own) for own in rows) + 0.4
    with drawing(max(height_in, 1.0)) as figure:
        sizes = [len(own) + 1.0 for own in rows] or [1.0]
        panels = figure.subplots(len(sizes), 1, squeeze=False, height_ratios=sizes, sharex=True)
        for (case, _), own, axes in zip(cases, rows, panels[:, 0], strict=False):
            for line, each in enumerate(own):
                axes.plot([each.off, each.on], [line, line], color=light("muted"), lw=1.5)
                axes.plot(each.off, line, "o", color=light("off"), ms=6)
                axes.plot(each.on, line, "^", color=light(each.treatment), ms=6)
            labels = [
                each.role + ("" if each.treatment == "on" else f" ({each.treatment})")
                for each in own
            ]
            axes.set_yticks(range(len(own)), labels)
            axes.set_ylim(len(own) - 0.4, -0.6)
            logarithmic(axes, "x")
            axes.set_title(case, loc="left", fontsize=10)
            axes.grid(axis="x")
        panels[-1, 0].set_xlabel("count, sum over ranks")
        return themed_svg(figure, name, "Counts of each role without and with traffic, by case")


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
class CausesView:
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


def causes_view(run: RunData, name: str) -> CausesView | None:
    """The section of a run; None if nothing was counted in it."""
    if run.counters.is_empty():
        return None
    found = causes(run.counters, run.samples)
    across = [link for link in found.links if not link.case]
    of_case: dict[str, list[RoleLink]] = {}
    for link in found.links:
        if link.case:
            of_case.setdefault(link.case, []).append(link)
    of_tools = run.counters.filter(~pl.col("tool").cast(pl.String).is_in(AGENTS))
    tools = [str(tool) for tool in of_tools["tool"].unique(maintain_order=True)]
    cases = [str(case) for case in run.counters["case"].unique(maintain_order=True)]
    nodes = {case: table for case in cases if (table := node_view(run, case))}
    return CausesView(
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
        emulated=run.emulated(),
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
    places = in_order(found["arm"].unique(maintain_order=True))
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
        f"{source}: not on {plural(len(nodes), 'node')}; needs {needs}"
        for (source, needs), nodes in lacking_nodes.items()
    ]


def causes_files(runs: Sequence[RunData]) -> Files:
    """counters.parquet, and why.json (`Causes` of each run), if anything was counted."""
    if not any(run.counters.height for run in runs):
        return {}
    found = {run.header.run: asdict(causes(run.counters, run.samples)) for run in runs}
    return {"counters.parquet": all_rows(runs, "counters"), "why.json": {"runs": found}}


SECTIONS = [
    RunSection(
        place=80,
        title="Why",
        anchor="why",
        template="causes.html",
        view=causes_view,
        files=causes_files,
    ),
    CaseSection(place=10, anchor="counters", template="counters.html", view=counters_view),
]
