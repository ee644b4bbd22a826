"""Why runs are slower: how each role changes, on which rank, and how it goes with the time.

From runs that a tool wrapped, which are paired with each other and never with unwrapped ones. Roles
of nodes that need no tool are from unwrapped runs. On the page as in Table IV and figure 4 of
Groves, Grant and Arnold (2016).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from statistics import median

import polars as pl
from markupsafe import Markup
from scipy import special

from analysis.effects.estimate import Result
from analysis.report.data import RunData, all_rows
from analysis.report.plots import View, drawing, light, logarithmic, themed_svg
from analysis.report.sections import Files, Section
from analysis.samples.counts import medians, role_values, totals, without_tool
from analysis.samples.provenance import all_hosts, hosts_of, mapping
from analysis.samples.roles import COUNTS, ROLES, SHARES, lacking
from analysis.statistics.interval import Correlation, Estimate, holm, median_interval, of_r, pearson
from analysis.subjects.published import paper
from records.arms import in_order
from records.groups import grouped
from records.machine.host import processor_family
from records.sample import AGENTS, NODE
from records.units import NONE, plural, quantity

#: The figure of merit if that is a time, as in Groves, Grant and Arnold (2016), else the duration.
TIME = "time"
STALLS = "memory stalls"
#: Other roles of the paper's Table IV; all in its order, and their columns in paper.json.
MISSES = ("L1 misses", "L2 misses", "L3 misses")
TABLE = (STALLS, *MISSES)
_PUBLISHED = ("stalled_cycles", "l1_miss", "l2_miss", "l3_miss")
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
    of_cases = of_runs.group_by("case", "treatment", "role", maintain_order=True).agg(
        pl.col("value", TIME).median()
    )
    within = of_runs.partition_by("case", maintain_order=True)
    return [
        *_links(of_cases, "case"),
        *(link for own in within for link in _links(own, "key", own["case"][0])),
    ]


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


def _links(points: pl.DataFrame, point: str, case: str = "") -> list[RoleLink]:
    """Links of each treatment. `points` has one value and time per treatment, role and `point`."""
    found = []
    for group in points.partition_by("treatment", maintain_order=True):
        of_role = {role: own for role in ROLES if (own := group.filter(role=role)).height}
        compared = [(TIME, role, own[TIME], own["value"]) for role, own in of_role.items()]
        if STALLS in of_role:
            stalls = of_role[STALLS].select(point, stalls="value")
            for role in [role for role in MISSES if role in of_role]:
                both = of_role[role].join(stalls, on=point, how="inner", maintain_order="left")
                compared.append((STALLS, role, both["stalls"], both["value"]))
        found += [
            RoleLink(group["treatment"][0], of, to, case, len(x), pearson(list(x), list(y)))
            for of, to, x, y in compared
        ]
    known = iter(holm([link.correlation.p for link in found if link.correlation]))
    return [replace(link, p=next(known)) if link.correlation else link for link in found]


# How each role changes, and on which rank.

_PAIR = ["case", "tool", "block", "pair"]
#: Largest p value at which a rank is said to be hit more than the others.
_LEVEL = 0.05


@dataclass(frozen=True)
class WorstRank:
    """The rank whose count grew most (on / off) in most pairs."""

    rank: int
    #: Medians over pairs of its growth, and of the median rank's.
    growth: float
    median_growth: float
    #: Pairs in which it grew most, of those in which one rank grew most.
    times: int
    pairs: int
    #: At most the chance that any rank does so in so many pairs if all are hit alike; in a
    #: `RoleChange` after Holm over all changes.
    p: float


def worst_rank(group: pl.DataFrame) -> WorstRank | None:
    """The worst rank of a role's `block`, `pair`, `rank`, `off` and `on`; None if none leads.

    If all ranks are hit alike, each is as likely to grow most in a pair: the pairs in which a given
    one of R does are binomial with probability 1/R, and the worst was chosen from R. No
    distribution of the counts is assumed; pairs must be independent.
    """
    pair, ranks = ["block", "pair"], group["rank"].n_unique()
    known = (pl.col("off") > 0) & pl.col("on").is_not_null()
    whole = known.sum().over(pair) == ranks
    grown = group.filter(whole).with_columns(growth=pl.col("on") / pl.col("off"))
    most = pl.col("growth") == pl.col("growth").max().over(pair)
    leads = grown.filter(most).filter(pl.len().over(pair) == 1)["rank"].value_counts()
    if ranks < 2 or leads.is_empty():
        return None
    rank, times = leads.sort("count", "rank", descending=[True, False]).row(0)
    pairs = int(leads["count"].sum())
    medians = grown.group_by(pair).agg(pl.col("growth").median())["growth"]
    return WorstRank(
        *(rank, median(grown.filter(rank=rank)["growth"]), median(medians), times, pairs),
        p=min(1.0, ranks * float(special.bdtrc(times - 1, pairs, 1 / ranks))),
    )


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


@dataclass(frozen=True)
class Loss:
    """What the extra cycles under a treatment are, if the figures carry a statement."""

    case: str
    treatment: str
    tool: str
    #: Stalls on memory among the extra cycles.
    share: Estimate


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
    kind = ["case", "treatment", "tool"]
    slower = _slower(results, counters)
    return Causes(
        changes=_changes(paired.partition_by(*kind, "role", maintain_order=True)),
        links=role_links(values, samples),
        losses=[
            loss
            for names, group in paired.partition_by(kind, as_dict=True, maintain_order=True).items()
            if names in slower and (loss := _loss(group))
        ],
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
        .select(*_PAIR, "treatment", "baseline", *both, "off", "on")
    )


def _changes(groups: Sequence[pl.DataFrame]) -> list[RoleChange]:
    found = [change for group in groups if (change := _change(group))]
    adjusted = iter(holm([each.worst.p for each in found if each.worst]))
    return [
        replace(each, worst=replace(each.worst, p=next(adjusted))) if each.worst else each
        for each in found
    ]


def _change(group: pl.DataFrame) -> RoleChange | None:
    """A change, from the pairs in which every rank has both values."""
    sums = _sums(group)
    if sums.is_empty():
        return None
    first = group.row(0, named=True)
    ratios = sums.filter(pl.col("off") > 0).select(pl.col("on") / pl.col("off"))["on"].to_list()
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
        worst=worst_rank(group) if ROLES[first["role"]].scope == "rank" else None,
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


def _loss(group: pl.DataFrame) -> Loss | None:
    """None unless every pair took more cycles and the interval is clear."""
    more = pl.col("on") - pl.col("off")
    extra = {
        role: _sums(group.filter(role=role)).select("block", "pair", more=more)
        for role in ("cycles", STALLS)
    }
    both = extra["cycles"].join(extra[STALLS], on=["block", "pair"], suffix="_stalls")
    if both.is_empty() or not (both["more"] > 0).all():
        return None
    share = median_interval((both["more_stalls"] / both["more"]).to_list())
    if share is None or share.low <= 0.5 <= share.high:
        return None
    case, treatment, tool = group.select("case", "treatment", "tool").row(0)
    return Loss(case, treatment, tool, share)


def _slower(results: Sequence[Result], counters: pl.DataFrame) -> set[tuple[str, str, str]]:
    """(case, treatment, tool) of which the wrapped runs are slower than their baseline's."""
    slower = {(row.case, row.arm) for row in results if row.slowdown and row.slowdown.low > 1}
    runs = counters.select(pl.col("case", "arm", "tool").cast(pl.String)).unique()
    return {
        (case, without_tool(arm), tool)
        for case, arm, tool in runs.iter_rows()
        if (case, arm) in slower
    }


def link_table(name: str, links: Sequence[RoleLink], published: Sequence[RoleLink] = ()) -> View:
    """In the form of Table IV, the links of one case, or across workloads and as published."""
    rows = []
    for part in (links, published):
        of = {(link.treatment, link.of, link.to): link for link in part}
        for treatment, source in dict.fromkeys(key[:2] for key in of if key[2] in TABLE):
            row = View(treatment=treatment, of=source, published=part is published)
            row.links = [of.get((treatment, source, to)) for to in TABLE]
            rows.append(row)
    return View(name=name, rows=rows, others=[link for link in links if link.to not in TABLE])


def published_links() -> list[RoleLink]:
    """Table IV as printed; intervals follow from its r and its six points."""
    names, points = {"time": TIME, "stalled_cycles": STALLS}, 6  # the applications of figure 4
    return [
        RoleLink(treatment, names[source], to, "", points, of_r(values[column], points))
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


def roles_plot(changes: Sequence[RoleChange], name: str) -> Markup:
    """Figure 4 of the paper for this machine: one panel per case, on a logarithmic axis.

    One row per role and treatment: the medians off and on. Counts of events only, since bytes are
    another unit.
    """
    counts = [each for each in changes if ROLES[each.role].unit == "count" and each.off > 0]
    rows = grouped(((each.case, each.tool), each) for each in counts)
    height_in = sum(0.55 + 0.24 * len(own) for own in rows.values()) + 0.4
    with drawing(max(height_in, 1.0)) as figure:
        sizes = [len(own) + 1.0 for own in rows.values()] or [1.0]
        panels = figure.subplots(len(sizes), 1, squeeze=False, height_ratios=sizes, sharex=True)
        for ((case, _), own), axes in zip(rows.items(), panels[:, 0], strict=False):
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
    nodes = {case: table for case in cases if (table := _node_view(run, case))}
    return View(
        sentences=[
            *(sentence(loss) for loss in found.losses),
            *hit_more(found.changes),
        ],
        columns=TABLE,
        # Across workloads, with the published rows; None if no role was counted.
        table=link_table("", across, published_links()) if across else None,
        cases=[link_table(case, links) for case, links in of_case.items()],
        changes=found.changes,
        roles=ROLES,
        svg=roles_plot(found.changes, name) if found.changes else None,
        prices=_prices(run, of_tools),
        margin=run.header.margin,
        notes=[
            *(
                f"no value in some run or in all: {', '.join(roles)}: {_WHY_NOT.get(state, state)}"
                for state, roles in found.without.items()
            ),
            *(_lacking(run.provenance, tools) if tools else []),
        ],
        # Case -> the counters of its nodes; and sources of counters that nodes lack.
        nodes=nodes,
        absent=_absent_sources(run.provenance) if nodes else [],
        emulated=run.emulated(),
        amount=_amount,
        p_text=p_text,
    )


def sentence(loss: Loss) -> str:
    """What the extra cycles are; only for a loss whose interval is clear."""
    share = f"{loss.share.value:.0%} ({loss.share.low:.0%} to {loss.share.high:.0%})"
    what = f"{loss.case}, {loss.treatment}: {share} of the extra cycles are stalls on memory"
    if loss.share.high < 0.5:
        return f"{what}; most of the loss is something else."
    return f"{what}: the loss is stalls on memory."


def hit_more(changes: Sequence[RoleChange]) -> list[str]:
    """Of each treatment, the cases in which one rank is hit more than the others.

    By stalls and misses: of cycles and instructions, ranks that wait for that one have most.
    """
    texts = []
    ranked = [each for each in changes if each.worst and each.role in TABLE]
    for treatment, own in grouped((each.treatment, each) for each in ranked).items():
        of_case = grouped((each.case, each) for each in own)
        hits = {case: _hit(found) for case, found in of_case.items()}
        shown = ", ".join(f"{case} ({hit})" for case, hit in hits.items() if hit)
        others = ", ".join(case for case, hit in hits.items() if not hit)
        if shown:
            texts.append(f"{treatment}: one rank is hit more than the others in {shown}.")
        if others:
            texts.append(f"{treatment}: no rank is shown to be hit more than others in {others}.")
    return texts


def _hit(changes: Sequence[RoleChange]) -> str:
    """The rank and the role that are most beyond the median rank's; empty if none is clear."""
    clear = [
        (worst.growth - worst.median_growth, worst, each.role)
        for each in changes
        if (worst := each.worst) and worst.p < _LEVEL
    ]
    if not clear:
        return ""
    _, worst, role = max(clear, key=itemgetter(0))
    growths = f"{worst.growth:.2f} times, the median rank's {worst.median_growth:.2f} times"
    return f"rank {worst.rank}, whose {role} grew {growths}"


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


#: State of counts -> why they are not used.
_WHY_NOT = {"multiplexed": "the events took turns on the counters, so they are not used"}


def _lacking(provenance: Mapping[str, Mapping[str, object]], tools: Sequence[str]) -> list[str]:
    """Roles that the tools cannot count on the processors of the run."""
    programs = {tool.partition(":")[0] for tool in tools} & {row.tool for row in COUNTS}
    # Hosts of older versions have no `processor`.
    hosts = all_hosts(provenance.values())
    notes = []
    for identity in sorted({str(host["processor"]) for host in hosts if "processor" in host}):
        family = processor_family(identity)
        if family is None:
            notes.append(f"the processor {identity or '(unknown)'} is not in the table of roles")
        else:
            notes += [
                f"{program} counts no {', '.join(lack)} on {family}"
                for program in sorted(programs)
                if (lack := lacking(program, family))
            ]
    return list(dict.fromkeys(notes))


# What tools and nodes counted, on the page: one row per event, one column per treatment.


def counters_view(run: RunData, case: str) -> View | None:
    """The counters of a case; None where no tool counted in it."""
    return _events_view(run, case, ~pl.col("tool").is_in(AGENTS))


def _node_view(run: RunData, case: str) -> View | None:
    """The counters of a case's nodes that are not 0 under every treatment; None without any."""
    used = (pl.col("value") != 0).any().over("tool", "event")
    return _events_view(run, case, (pl.col("tool") == NODE) & used)


def _events_view(run: RunData, case: str, shown: pl.Expr) -> View | None:
    """Treatments, and a row for each event, with what limits it: `multiplexed`, ..."""
    names = pl.col("case", "arm", "tool", "event", "unit").cast(pl.String)
    own = run.counters.filter(pl.col("case").cast(pl.String) == case)
    found = medians(own).with_columns(names).filter(shown)
    if found.is_empty():
        return None
    arms = in_order(found["arm"].unique(maintain_order=True))
    rows = []
    for (tool, event), group in found.group_by("tool", "event", maintain_order=True):
        values = dict(group.select("arm", "value").iter_rows())
        texts = [_amount(values.get(arm), group["unit"][0]) for arm in arms]
        states = group.filter(pl.col("state") != "counted")["state"].unique(maintain_order=True)
        rows.append(View(tool=tool, event=event, states=", ".join(states), values=texts))
    return View(treatments=arms, rows=rows)


def _amount(value: float | None, unit: str, count: str = ",.0f") -> str:
    """A count, a share or a quantity as text; `count` is the format of counts."""
    if value is None:
        return NONE
    if unit == "count":
        return f"{value:{count}}"
    return f"{value:.1%}" if unit == "1" else quantity(value, unit)


def _absent_sources(provenance: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Sources of counters that nodes lack, and what they need; one line for each."""
    nodes_without = grouped(
        (source, node)
        for record in provenance.values()
        for node, facts in hosts_of(record).items()
        for source in mapping(facts.get("absent_counters")).items()
    )
    return [
        f"{source}: not on {plural(len(set(nodes)), 'node')}; needs {needs}"
        for (source, needs), nodes in nodes_without.items()
    ]


def causes_files(runs: Sequence[RunData]) -> Files:
    """counters.parquet, and why.json (`Causes` of each run), if anything was counted."""
    if not any(run.counters.height for run in runs):
        return {}
    found = {run.header.run: asdict(causes(run.counters, run.samples, run.results)) for run in runs}
    return {"counters.parquet": all_rows(runs, "counters"), "why.json": {"runs": found}}


SECTIONS = [
    Section("estimates", 10, "counters", counters_view),
    Section("run", 80, "why", causes_view, "Why", causes_files),
]
