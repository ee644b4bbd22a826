"""Why runs are slower, on the page: Table IV and figure 4 of Groves, Grant and Arnold (2016)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import polars as pl
from markupsafe import Markup

from analysis.counts.causes import MISSES, STALLS, TIME, Loss, RoleChange, RoleLink, causes
from analysis.counts.counters import medians
from analysis.counts.roles import COUNTS, ROLES, STUDY_DIFFERS, lacking
from analysis.effects.facts import nodes_of
from analysis.report.data import RunData, all_rows
from analysis.report.plots import drawing, light, logarithmic, themed_svg
from analysis.report.sections import CaseSection, Files, RunSection
from analysis.report.shell import View
from analysis.statistics.correlation import of_r
from analysis.subjects.published import paper
from nimc.base.units import NONE, plural, quantity
from nimc.machine.processors import family_of
from nimc.records.arms import in_order
from nimc.records.counter_row import AGENTS, NODE

# What tools and nodes counted, on the page: one row per event, one column per treatment.


def counters_view(run: RunData, case: str) -> View | None:
    """The counters of a case; None where no tool counted in it."""
    return _view(_medians(run, case).filter(~pl.col("tool").is_in(AGENTS)))


def node_view(run: RunData, case: str) -> View | None:
    """The counters of a case's nodes that are not 0 under every treatment; None without any."""
    own = _medians(run, case).filter(pl.col("tool") == NODE)
    return _view(own.filter((pl.col("value") != 0).any().over("event")))


def _medians(run: RunData, case: str) -> pl.DataFrame:
    names = pl.col("case", "arm", "tool", "event", "unit").cast(pl.String)
    return medians(run.counters.filter(pl.col("case").cast(pl.String) == case)).with_columns(names)


def _view(found: pl.DataFrame) -> View | None:
    """Treatments, and a row for each event, with what limits it: `multiplexed`, ..."""
    if found.is_empty():
        return None
    arms = in_order(found["arm"].unique(maintain_order=True))
    rows = []
    for (tool, event), group in found.group_by("tool", "event", maintain_order=True):
        values = dict(group.select("arm", "value").iter_rows())
        states = group.filter(pl.col("state") != "counted")["state"].unique(maintain_order=True)
        row = View(tool=tool, event=event, states=", ".join(states))
        row.values = [amount(values.get(arm), group["unit"][0]) for arm in arms]
        rows.append(row)
    return View(treatments=arms, rows=rows)


def amount(value: float | None, unit: str, count: str = ",.0f") -> str:
    """A count, a share or a quantity as text; `count` is the format of counts."""
    if value is None:
        return NONE
    if unit == "count":
        return f"{value:{count}}"
    return f"{value:.1%}" if unit == "1" else quantity(value, unit)


# Tables of correlations in the form of Table IV of Groves, Grant and Arnold (2016).


#: Applications of figure 4, which are the points of Table IV.
_PUBLISHED_POINTS = 6
#: Roles of Table IV in its order, and their columns in paper.json.
TABLE = (STALLS, *MISSES)
_PUBLISHED = ("stalled_cycles", "l1_miss", "l2_miss", "l3_miss")


def link_table(name: str, links: Sequence[RoleLink], *, published: bool = False) -> View:
    """The links of one case, or across workloads, then with the published rows beside them."""
    rows = _rows([link for link in links if link.to in TABLE])
    rows += _rows(_published(), published=True) if published else []
    others = [link for link in links if link.to not in TABLE]
    return View(name=name, rows=rows, others=others)


def _rows(links: Sequence[RoleLink], *, published: bool = False) -> list[View]:
    """Of each treatment, the links of the time and of the stalls with the roles of `TABLE`."""
    of = {(link.treatment, link.of, link.to): link for link in links}
    return [
        View(
            treatment=treatment,
            of=source,
            links=[of.get((treatment, source, to)) for to in TABLE],
            published=published,
        )
        for treatment, source in dict.fromkeys((link.treatment, link.of) for link in links)
    ]


def _published() -> list[RoleLink]:
    """Table IV as printed; intervals follow from its r and its six points."""
    names = {"time": TIME, "stalled_cycles": STALLS}
    return [
        RoleLink(
            treatment,
            names[source],
            to,
            "",
            _PUBLISHED_POINTS,
            of_r(values[column], _PUBLISHED_POINTS),
        )
        for treatment, sources in paper()["table_4_pearson_r"].items()
        for source, values in sources.items()
        for column, to in zip(_PUBLISHED, TABLE, strict=True)
        if column in values
    ]


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


def causes_view(run: RunData, name: str) -> View | None:
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
    return View(
        sentences=[sentence(loss) for loss in found.losses],
        columns=TABLE,
        # Across workloads, with the published rows; None if no role was counted.
        table=link_table("", across, published=True) if across else None,
        cases=[link_table(case, links) for case, links in of_case.items()],
        changes=found.changes,
        roles=ROLES,
        svg=Markup(roles_plot(found.changes, name)) if found.changes else None,
        prices=_prices(run, of_tools),
        margin=run.header.margin,
        messages=_messages(of_tools),
        # What the processor lacks, and how the study's events differ on it.
        notes=[
            *_without(found.without),
            *(_processors(run.provenance, tools) if tools else []),
        ],
        # Case -> the counters of its nodes; and sources of counters that nodes lack.
        nodes=nodes,
        absent=_absent(run.provenance) if nodes else [],
        emulated=run.emulated(),
        amount=amount,
        p_text=p_text,
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


def _prices(run: RunData, counters: pl.DataFrame) -> list[View]:
    """One row per case and tool that counted in it."""
    known = {
        (each.case, str(each.level)): each.estimate
        for each in run.contrasts
        if (each.factor, each.kind) == ("tool", "price") and not each.at
    }
    counted = counters.select(pl.col("case", "tool").cast(pl.String)).unique(maintain_order=True)
    most = 1 + run.header.margin
    rows = []
    for case, tool in counted.rows():
        of = known.get((case, tool))  # None below six pairs, or without runs without the tool
        beyond = of.low > most or of.high < 1 / most if of else None
        rows.append(View(case=case, tool=tool, ratio=of, beyond=beyond))
    return rows


def _messages(counters: pl.DataFrame) -> list[View]:
    """Time in each kind of MPI call, and the mean size of a message, medians of runs."""
    found = medians(counters).with_columns(pl.col("case", "arm", "tool", "event").cast(pl.String))
    rows = []
    groups = found.partition_by("case", "arm", "tool", maintain_order=True)
    places = in_order(found["arm"].unique(maintain_order=True))
    for group in sorted(groups, key=lambda g: (g["case"][0], places.index(g["arm"][0]))):
        of: dict[str, float | None] = dict(group.select("event", "value").iter_rows())
        first = group.row(0, named=True)
        for kind in ("point-to-point", "collective"):
            time_s, whole_s = of.get(f"{kind}-time"), of.get("application-time")
            calls, messages = of.get(f"{kind}-calls"), of.get(f"{kind}-messages")
            sent_b = of.get(f"{kind}-sent")
            if time_s is not None and whole_s and calls is not None:
                mean = quantity(sent_b / messages, "B") if sent_b is not None and messages else NONE
                rows.append(
                    View(
                        case=first["case"],
                        treatment=first["arm"],
                        tool=first["tool"],
                        kind=kind,
                        share=f"{time_s / whole_s:.1%}",
                        calls=f"{calls:,.0f}",
                        size=mean,
                    )
                )
    return rows


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
