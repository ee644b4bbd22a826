"""Why runs are slower: how each role changes, on which rank, and how it goes with the time.

From runs that a tool wrapped, which are paired with each other and never with unwrapped ones. Roles
of nodes that need no tool are from unwrapped runs. On the page as in Table IV and figure 4 of
Groves, Grant and Arnold (2016).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median

import polars as pl
from markupsafe import Markup

from analysis.counts.counters import medians, role_values, totals, without_tool
from analysis.counts.roles import COUNTS, ROLES, SHARES, STUDY_DIFFERS, lacking
from analysis.effects.estimate import Result
from analysis.report.data import RunData, all_rows
from analysis.report.plots import drawing, light, logarithmic, themed_svg
from analysis.report.sections import Files, RunSection
from analysis.report.shell import View
from analysis.samples.provenance import hosts_of
from analysis.statistics.correlation import Correlation, WorstRank, of_r, pearson, worst_rank
from analysis.statistics.holm import holm
from analysis.statistics.interval import Estimate, median_interval
from analysis.subjects.counters import absent_sources, amount, node_view
from analysis.subjects.published import paper
from nimc.base.groups import grouped
from nimc.base.units import NONE, quantity
from nimc.machine.processors import family_of
from nimc.records.arms import in_order
from nimc.records.counter_row import AGENTS

# How roles go with the time of runs, and with stalls on memory: Pearson's r, as in Table IV.
#
# The time is the figure of merit if that is a time, as in Groves, Grant and Arnold (2016), else the
# duration of the run.


TIME = "time"
STALLS = "memory stalls"
#: The other roles of the paper's Table IV.
MISSES = ("L1 misses", "L2 misses", "L3 misses")
_RUN = ["key", "case", "treatment", "tool", "block", "pair"]


@dataclass(frozen=True)
class RoleLink:
    """Pearson's r between the time, or the stalls on memory, and a role."""

    treatment: str
    of: str
    to: str
    #: The case whose runs are the points; empty if the points are the workloads' medians.
    case: str
    points: int
    #: None below four points.
    correlation: Correlation | None
    #: p value after Holm over all links of the same case, or of the workloads.
    p: float | None = None


def role_links(values: pl.DataFrame, samples: pl.DataFrame) -> list[RoleLink]:
    """Across workloads, then within each case; from `role_values` and `pairs.judged` samples."""
    of_runs = _of_runs(values, samples)
    return [*_across(of_runs), *_within(of_runs)]


def _of_runs(values: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """One row per run and role: sum over ranks, and the run's time; runs with all values.

    Only runs without traffic and with it, and no repeated baseline or control. Each role of a case
    from one level of the tool, since levels have prices of their own: the one with most roles.
    """
    told = pl.col("role").cast(pl.String).is_in(["baseline", "effect"])
    seconds = pl.col("fom_unit").cast(pl.String) == "s"
    times = samples.filter(told).select(
        "key", pl.when(seconds).then("fom").otherwise("elapsed_s").alias(TIME)
    )
    case = ["case", "role"]
    levels = values.group_by("case", "tool", maintain_order=True).agg(
        roles=pl.col("role").n_unique()
    )
    of_role = (
        values.join(levels, on=["case", "tool"], maintain_order="left")
        .sort("roles", descending=True, maintain_order=True)
        .unique(case, keep="first", maintain_order=True)
        .select(*case, "tool")
    )
    chosen = values.join(of_role, on=[*case, "tool"], how="semi", maintain_order="left")
    return totals(chosen, *_RUN, "role").join(times, on="key", how="inner", maintain_order="left")


def _across(of_runs: pl.DataFrame) -> list[RoleLink]:
    """Links whose points are the medians of each case."""
    points = of_runs.group_by("case", "treatment", "role", maintain_order=True).agg(
        pl.col("value", TIME).median()
    )
    return _adjusted([link for group in _by_treatment(points) for link in _links(group, "case")])


def _within(of_runs: pl.DataFrame) -> list[RoleLink]:
    """Links whose points are the runs of one case."""
    found: list[RoleLink] = []
    for case in of_runs["case"].unique(maintain_order=True):
        groups = _by_treatment(of_runs.filter(pl.col("case") == case))
        links = [replace(link, case=case) for group in groups for link in _links(group, "key")]
        found += _adjusted(links)
    return found


def _by_treatment(frame: pl.DataFrame) -> list[pl.DataFrame]:
    return frame.partition_by("treatment", maintain_order=True)


def _links(points: pl.DataFrame, point: str) -> list[RoleLink]:
    """All links of one treatment. `points` has one value and time per role and `point`."""
    treatment = str(points["treatment"][0])
    present = set(points["role"])
    found = []
    for role in [role for role in ROLES if role in present]:
        own = points.filter(role=role)
        found.append(_link(treatment, TIME, role, own[TIME], own["value"]))
    stalls = points.filter(role=STALLS).select(point, stalls="value")
    for role in [role for role in MISSES if role in present and STALLS in present]:
        both = points.filter(role=role).join(stalls, on=point, how="inner", maintain_order="left")
        found.append(_link(treatment, STALLS, role, both["stalls"], both["value"]))
    return found


def _link(treatment: str, of: str, to: str, x: pl.Series, y: pl.Series) -> RoleLink:
    return RoleLink(treatment, of, to, "", len(x), pearson(x.to_list(), y.to_list()))


def _adjusted(links: Sequence[RoleLink]) -> list[RoleLink]:
    known = iter(holm([link.correlation.p for link in links if link.correlation]))
    return [replace(link, p=next(known)) if link.correlation else link for link in links]


# How each role changes, and on which rank.


_PAIR = ["case", "tool", "block", "pair"]


@dataclass(frozen=True)
class RoleChange:
    """One role of one case under one treatment, against the baseline with the same tool."""

    case: str
    #: Names without the level of the tool.
    treatment: str
    baseline: str
    tool: str
    role: str
    pairs: int
    #: Medians over pairs of the sums over ranks, in the role's unit; of a share, of the mean.
    off: float
    on: float
    #: on / off within pairs; None below six.
    ratio: Estimate | None
    #: None for counts of nodes, and of one rank.
    worst: WorstRank | None
    #: p value of the worst rank, after Holm over all changes.
    worst_p: float | None = None


@dataclass(frozen=True)
class Loss:
    """What the extra cycles under a treatment are, if the figures carry a statement."""

    case: str
    treatment: str
    tool: str
    #: Stalls on memory among the extra cycles.
    share: Estimate
    #: Whether the stalls grew on every rank, beyond its interval.
    all_ranks: bool
    #: The rank that stands out, if one does.
    worst: WorstRank | None


@dataclass(frozen=True)
class Causes:
    """All of it for one run of a campaign."""

    changes: list[RoleChange]
    #: Across workloads, then within each case.
    links: list[RoleLink]
    losses: list[Loss]
    #: State of counts -> roles that have no value in some run for it.
    without: dict[str, list[str]]


def causes(counters: pl.DataFrame, samples: pl.DataFrame, results: Sequence[Result]) -> Causes:
    """From `counters.counters_of`, the `pairs.judged` samples and the results of the same run."""
    values = role_values(counters)
    lost = values.filter(pl.col("value").is_null()).group_by("state", maintain_order=True)
    roles = dict(lost.agg(pl.col("role").unique(maintain_order=True)).iter_rows())
    paired = _paired(values, samples)
    changes = _changes(paired)
    return Causes(
        changes=changes,
        links=role_links(values, samples),
        losses=_losses(paired, changes, _slower(results, counters)),
        without={state: [role for role in ROLES if role in own] for state, own in roles.items()},
    )


def _paired(values: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """One row per pair, treatment, rank and role, with the values `off` and `on`."""
    names = pl.col("arm", "baseline").cast(pl.String)
    strip = names.map_elements(without_tool, return_dtype=pl.String)
    effects = (
        samples.filter(pl.col("role").cast(pl.String) == "effect")
        .select(pl.col("case").cast(pl.String), strip)
        .unique(maintain_order=True)
        .rename({"arm": "treatment"})
    )
    both = ["rank", "role"]
    off = values.select(*_PAIR, *both, pl.col("treatment").alias("baseline"), off="value")
    return (
        values.join(effects, on=["case", "treatment"], how="inner", maintain_order="left")
        .rename({"value": "on"})
        .join(off, on=[*_PAIR, *both, "baseline"], how="inner", maintain_order="left")
        .select("case", "treatment", "baseline", "tool", "block", "pair", *both, "off", "on")
    )


def _changes(paired: pl.DataFrame) -> list[RoleChange]:
    found = [
        change
        for group in paired.partition_by("case", "treatment", "tool", "role", maintain_order=True)
        if (change := _change(group))
    ]
    adjusted = iter(holm([each.worst.p for each in found if each.worst]))
    return [replace(each, worst_p=next(adjusted)) if each.worst else each for each in found]


def _change(group: pl.DataFrame) -> RoleChange | None:
    """A change, from the pairs in which every rank has both values."""
    sums = _sums(group)
    if sums.is_empty():
        return None
    first = group.row(0, named=True)
    ratios = sums.filter(pl.col("off") > 0).select(pl.col("on") / pl.col("off"))["on"].to_list()
    ranked = ROLES[first["role"]].scope == "rank"
    return RoleChange(
        case=first["case"],
        treatment=first["treatment"],
        baseline=first["baseline"],
        tool=first["tool"],
        role=first["role"],
        pairs=sums.height,
        off=median(sums["off"]),
        on=median(sums["on"]),
        ratio=median_interval(ratios),
        worst=worst_rank(_growths(group)) if ranked else None,
    )


def _sums(group: pl.DataFrame) -> pl.DataFrame:
    """One row per pair: `off` and `on` over all ranks; without pairs that lack a value."""
    whole = pl.col("off").is_not_null().all() & pl.col("on").is_not_null().all()
    both = pl.col("off", "on")
    share = group["role"].is_in(SHARES).any()
    return (
        group.group_by("block", "pair", maintain_order=True)
        .agg(both.mean() if share else both.sum(), whole=whole)
        .filter("whole")
    )


def _growths(group: pl.DataFrame) -> list[dict[int, float]]:
    """Rank -> on / off, of each pair in which every rank has counts."""
    pairs = group.partition_by("block", "pair", maintain_order=True)
    return [
        {rank: on / off for rank, off, on in pair.select("rank", "off", "on").iter_rows()}
        for pair in pairs
        if (pair["off"] > 0).all() and not pair["off"].has_nulls() and not pair["on"].has_nulls()
    ]


def _losses(
    paired: pl.DataFrame, changes: Sequence[RoleChange], slower: Container[tuple[str, str, str]]
) -> list[Loss]:
    cycles = paired.filter(pl.col("role").is_in(["cycles", STALLS]))
    groups = cycles.partition_by("case", "treatment", "tool", maintain_order=True)
    of = {(c.case, c.treatment, c.tool): c for c in changes if c.role == STALLS}
    return [loss for group in groups if (loss := _loss(group, of, slower))]


def _loss(
    group: pl.DataFrame,
    of: Mapping[tuple[str, str, str], RoleChange],
    slower: Container[tuple[str, str, str]],
) -> Loss | None:
    """None unless the runs are slower, every pair took more cycles, and the interval is clear."""
    case, treatment, tool = (str(group[name][0]) for name in ("case", "treatment", "tool"))
    change = of.get((case, treatment, tool))
    if change is None or (case, treatment, tool) not in slower:
        return None
    extra = {
        role: _sums(group.filter(role=role)).select(
            "block", "pair", more=pl.col("on") - pl.col("off")
        )
        for role in ("cycles", STALLS)
    }
    both = extra["cycles"].join(extra[STALLS], on=["block", "pair"], suffix="_stalls")
    if both.is_empty() or not (both["more"] > 0).all():
        return None
    share = median_interval((both["more_stalls"] / both["more"]).to_list())
    if share is None or share.low <= 0.5 <= share.high:
        return None
    growths = _growths(group.filter(role=STALLS))
    grown = [median_interval([pair[rank] for pair in growths]) for rank in (growths or [{}])[0]]
    stands_out = change.worst_p is not None and change.worst_p < 0.05
    return Loss(
        case,
        treatment,
        tool,
        share,
        all_ranks=bool(grown) and all(each is not None and each.low > 1 for each in grown),
        worst=change.worst if stands_out else None,
    )


def _slower(results: Sequence[Result], counters: pl.DataFrame) -> set[tuple[str, str, str]]:
    """(case, treatment, tool) of which the wrapped runs are slower than their baseline's."""
    slower = {(row.case, row.arm) for row in results if row.slowdown and row.slowdown.low > 1}
    runs = counters.select(pl.col("case", "arm", "tool").cast(pl.String)).unique()
    return {
        (case, without_tool(arm), tool)
        for case, arm, tool in runs.iter_rows()
        if (case, arm) in slower
    }


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


def roles_plot(changes: Sequence[RoleChange], name: str) -> Markup:
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
    found = causes(run.counters, run.samples, run.results)
    across = [link for link in found.links if not link.case]
    of_case = grouped((link.case, link) for link in found.links if link.case)
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
        svg=roles_plot(found.changes, name) if found.changes else None,
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
        absent=absent_sources(run.provenance) if nodes else [],
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
        (each.case, str(each.level)): each.ratio
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
    # None in runs of older versions.
    hosts = [host for record in provenance.values() for host in hosts_of(record).values()]
    identities = sorted({str(host["processor"]) for host in hosts if "processor" in host})
    found = {family_of(identity): identity for identity in identities}
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


def causes_files(runs: Sequence[RunData]) -> Files:
    """counters.parquet, and why.json (`Causes` of each run), if anything was counted."""
    if not any(run.counters.height for run in runs):
        return {}
    found = {run.header.run: asdict(causes(run.counters, run.samples, run.results)) for run in runs}
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
]
