"""Why runs are slower: how each role changes, on which rank, and how it goes with the time.

From runs that a tool wrapped, which are paired with each other and never with unwrapped ones. Roles
of nodes that need no tool are from unwrapped runs. As in Table IV and figure 4 of Groves, Grant and
Arnold (2016).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl
from scipy import special

from analysis.questions.estimators import median, stated
from analysis.questions.question import INCONCLUSIVE, Limit, Question, columns_of, shared
from analysis.questions.shown import section
from analysis.report.data import RunData, all_rows
from analysis.report.sections import Files
from analysis.samples.counts import medians, role_values, totals, without_tool
from analysis.samples.provenance import all_hosts, hosts_of, mapping
from analysis.statistics.interval import QUANTILE, holm
from analysis.subjects.published import paper
from records.arms import in_order
from records.groups import grouped
from records.machine.host import processor_family, processor_words
from records.roles import COUNTS, ROLES, SHARES, missing_roles
from records.sample import AGENTS, NODE
from records.units import plural

#: The figure of merit if that is a time, as in Groves, Grant and Arnold (2016), else the duration.
TIME = "time"
STALLS, STALLED = "memory stalls", "stalled cycles"
MISSES = ("L1 misses", "L2 misses", "L3 misses")
#: Roles of the paper's Table IV, and their columns in paper.json.
PUBLISHED = dict(
    zip(("stalled_cycles", "l1_miss", "l2_miss", "l3_miss"), (STALLED, *MISSES), strict=True)
)
#: Largest p value at which a rank is said to be hit more than the others.
LEVEL = 0.05
#: Fewest points with an interval of their correlation.
_FEWEST_POINTS = 4
_KIND = ["case", "treatment", "tool"]
_PAIR = ["block", "pair"]
_WORST = ("rank", "times", "leads", "growth", "median_growth", "p")


def _values(run: RunData) -> pl.DataFrame:
    return run.once("values of roles", lambda: role_values(run.counters))


def _paired(run: RunData) -> pl.DataFrame:
    """A row per pair, effect, rank and role, with the values `off` and `on`."""
    values = _values(run)
    names = pl.col("arm", "baseline").cast(pl.String)
    strip = names.map_elements(without_tool, return_dtype=pl.String)
    effects = (
        run.samples.lazy()
        .filter(pl.col("role") == "effect")
        .select("case", "arm", "baseline")
        .unique(maintain_order=True)
        .select(pl.col("case").cast(pl.String), strip)
        .unique(maintain_order=True)
        .rename({"arm": "treatment"})
        .collect()
    )
    shared = ["case", "tool", *_PAIR, "rank", "role"]
    off = values.select(*shared, pl.col("treatment").alias("baseline"), off="value")
    return (
        values.join(effects, on=["case", "treatment"], how="inner", maintain_order="left")
        .rename({"value": "on"})
        .join(off, on=[*shared, "baseline"], how="inner", maintain_order="left")
    )


def _sums(paired: pl.DataFrame) -> pl.DataFrame:
    """A row per pair and role: `off` and `on` over all ranks, of which every one has both."""
    sides, share = pl.col("off", "on"), pl.col("role").first().is_in(SHARES)
    pairs = paired.group_by(*_KIND, "role", *_PAIR, maintain_order=True)
    whole = pl.all_horizontal(sides.is_not_null().all())
    sums = pairs.agg(
        pl.when(share).then(sides.mean()).otherwise(sides.sum()),
        pl.col("baseline").first(),
        whole=whole,
    )
    return sums.filter("whole")


def worst_ranks(paired: pl.DataFrame) -> pl.DataFrame:
    """Of each case, treatment, tool and role, the rank whose count grew most in most pairs.

    `growth` and `median_growth` are medians over pairs of its on / off and of the median rank's;
    `times` of `leads` pairs in which one rank grew most it was this one; `p`: at most the chance
    that any rank does so in so many pairs if all are hit alike.

    If they are, each is as likely to grow most in a pair: the pairs in which a given one of R does
    are binomial with probability 1/R, and the worst was chosen from R. No distribution of the
    counts is assumed; pairs must be independent. Counts of nodes, and of one rank, have no worst.
    """
    group = [*_KIND, "role"]
    pair = [*group, *_PAIR]
    of_ranks = [name for name, role in ROLES.items() if role.scope == "rank"]
    ranks = pl.col("rank").n_unique().over(group)
    counted = (pl.col("off") > 0) & pl.col("on").is_not_null()
    grown = (
        paired.filter(pl.col("role").is_in(of_ranks))
        .with_columns(ranks=ranks, whole=counted.sum().over(pair))
        .filter(pl.col("ranks") > 1, pl.col("whole") == pl.col("ranks"))
        .with_columns(growth=pl.col("on") / pl.col("off"))
    )
    most = grown.filter(pl.col("growth") == pl.col("growth").max().over(pair))
    worst = (
        most.filter(pl.len().over(pair) == 1)
        .group_by(*group, "rank")
        .agg(times=pl.len().cast(pl.Int64), ranks=pl.col("ranks").first())
        .with_columns(leads=pl.col("times").sum().over(group))
        .sort("times", "rank", descending=[True, False])
        .unique(group, keep="first", maintain_order=True)
    )
    middle = grown.group_by(pair).agg(pl.col("growth").median())
    middle = middle.group_by(group).agg(median_growth=pl.col("growth").median())
    of_rank = grown.group_by(*group, "rank").agg(pl.col("growth").median())
    table = worst.join(middle, on=group).join(of_rank, on=[*group, "rank"])
    times, leads, number = (table[name].to_numpy() for name in ("times", "leads", "ranks"))
    p = number * special.bdtrc(times - 1.0, leads, 1 / number)
    return table.with_columns(p=pl.Series(p, dtype=pl.Float64).clip(upper_bound=1.0))


def _roles(run: RunData) -> pl.DataFrame:
    """A row per pair and role, with its worst rank."""
    paired = _paired(run)
    rows = _sums(paired).with_columns(
        ratio=pl.when(pl.col("off") > 0).then(pl.col("on") / pl.col("off")),
        unit=pl.col("role").replace_strict({name: role.unit for name, role in ROLES.items()}),
    )
    return rows.join(worst_ranks(paired), on=[*_KIND, "role"], how="left", maintain_order="left")


def _holm(table: pl.DataFrame) -> pl.DataFrame:
    """With p after Holm over all rows."""
    ranked = table["p"].is_not_null()
    adjusted = holm(table["p"].drop_nulls().to_list())
    return table.with_columns(p=table["p"].scatter(ranked.arg_true(), adjusted))


def hit_more(table: pl.DataFrame) -> list[str]:
    """Of each treatment, the cases in which one rank is hit more than the others.

    By stalls and misses: of cycles and instructions, ranks that wait for that one have most.
    """
    named = pl.col("role").is_in((STALLS, STALLED, *MISSES))
    ranked = table.filter(pl.col("p").is_not_null(), named)
    texts = []
    for treatment, rows in grouped((row["treatment"], row) for row in ranked.to_dicts()).items():
        of_case = grouped((row["case"], row) for row in rows)
        hits = {case: _hit(rows_of_case) for case, rows_of_case in of_case.items()}
        shown = ", ".join(f"{case} ({hit})" for case, hit in hits.items() if hit)
        others = ", ".join(case for case, hit in hits.items() if not hit)
        if shown:
            texts.append(f"{treatment}: one rank is hit more than the others in {shown}.")
        if others:
            texts.append(f"{treatment}: no rank is shown to be hit more than others in {others}.")
    return texts


def _hit(rows: Sequence[dict[str, Any]]) -> str:
    """The rank and the role that are most beyond the median rank's; empty if none is clear."""
    clear = [
        (row["growth"] - row["median_growth"], index)
        for index, row in enumerate(rows)
        if row["p"] < LEVEL
    ]
    if not clear:
        return ""
    row = rows[max(clear, key=itemgetter(0))[1]]
    growths = "{growth:.2f} times, the median rank's {median_growth:.2f} times".format_map(row)
    return f"rank {row['rank']}, whose {row['role']} grew {growths}"


CHANGES = Question(
    name="roles",
    title="Roles without and with traffic",
    text="Medians over pairs of the sums over ranks (of shares, of their means), from runs with the"
    " tool alone; figure 4 of Groves, Grant and Arnold (2016), which prints no values. Worst rank:"
    " the one that grew most (on / off) in most pairs; p: at most the chance that a rank does in so"
    " many if all are hit alike, after Holm over this table. In the paper one core was hit more"
    " than the others in all applications but CNS.",
    rows=_roles,
    by=("case", "treatment", "tool", "role"),
    estimates={"ratio": median("ratio")},
    facts={
        **{name: pl.col(name).median() for name in ("off", "on")},
        **shared("unit", "baseline", *_WORST),
    },
    then=_holm,
    sentences=hit_more,
    columns=("off", "on", "rank", "growth", "median_growth", "p", "n"),
    headings={
        "ratio": "on / off",
        "rank": "worst rank",
        "growth": "its growth",
        "median_growth": "median rank's growth",
    },
    units={"off": "unit", "on": "unit"},
    plot="change",
    axes=("off", "on"),
    apart=("case", "unit"),
)


# What the extra cycles are.


def _losses(run: RunData) -> pl.DataFrame:
    """A row per pair of treatments that make wrapped runs slower: extra cycles, and stalls."""
    slower = {(row.case, row.arm) for row in run.results if row.slowdown and row.slowdown.low > 1}
    wrapped = run.counters.select(pl.col("case", "arm", "tool").cast(pl.String)).unique()
    shown = {
        (case, without_tool(arm), tool)
        for case, arm, tool in wrapped.iter_rows()
        if (case, arm) in slower
    }
    more = _sums(_paired(run)).with_columns(more=pl.col("on") - pl.col("off"))
    cycles = more.filter(role="cycles").select(*_KIND, *_PAIR, cycles="more")
    stalls = more.filter(pl.col("role").is_in((STALLS, STALLED)))
    stalls = stalls.select(*_KIND, *_PAIR, "role", stalls="more")
    rows = cycles.join(stalls, on=[*_KIND, *_PAIR], maintain_order="left")
    kinds = pl.DataFrame(list(shown), schema=dict.fromkeys(_KIND, pl.String), orient="row")
    rows = rows.join(kinds, on=_KIND, how="semi", maintain_order="left")
    return rows.with_columns(share=pl.col("stalls") / pl.col("cycles"))


_OF_LOSS = (
    "{case}, {treatment}: {share:.0%} ({share_low:.0%} to {share_high:.0%}) of the extra cycles are"
    " {role}: "
)
LOSSES = Question(
    name="why",
    title="Why: stalls among the extra cycles",
    text="Share of the cycles that traffic adds which are stalls, where the wrapped runs are slower"
    " under it; median over pairs. 'Memory stalls' wait for memory. 'Stalled cycles' are those of"
    " PAPI_STL_ICY, as in Groves, Grant and Arnold (2016), which is another event on each processor"
    " (docs/tools.md).",
    rows=_losses,
    by=(*_KIND, "role"),
    estimates={"share": median("share")},
    facts={"all_more": (pl.col("cycles") > 0).all()},
    limits=(
        Limit(INCONCLUSIVE, when=~pl.col("all_more"), why="not every pair took more cycles"),
        Limit("stalls on memory", when=(pl.col("share_low") > 0.5) & (pl.col("role") == STALLS)),
        Limit("stalled cycles", when=pl.col("share_low") > 0.5),
        Limit("something else", when=pl.col("share_high") < 0.5),
    ),
    sentences={
        "stalls on memory": _OF_LOSS + "the loss is stalls on memory.",
        "stalled cycles": _OF_LOSS + "most of the loss is stalled cycles.",
        "something else": _OF_LOSS + "most of the loss is something else.",
    },
    columns=("n", "word"),
    headings={"share": "share of stalls", "word": "the loss is"},
    plot=None,
)


# Pearson's r between the time, or the stalls on memory, and each role.


def _of_runs(run: RunData) -> pl.DataFrame:
    """A row per run and role: sum over ranks, and the run's time; runs with all values.

    Only runs without traffic and with it, and no repeated baseline or control. Each role of a case
    from one level of the tool, since levels have prices of their own: the one with most roles.
    """
    values, case = _values(run), ["case", "role"]
    used = pl.col("role").is_in(["baseline", "effect"])
    time = pl.when(pl.col("fom_unit") == "s").then("fom").otherwise("elapsed_s").alias(TIME)
    times = run.samples.lazy().filter(used).select("key", time).collect()
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
    sums = totals(chosen, "key", *_KIND, *_PAIR, "role")
    return sums.join(times, on="key", how="inner", maintain_order="left")


def _links(points: pl.DataFrame, point: str, case: str = "") -> list[dict[str, Any]]:
    """Links of each treatment. `points` has one value and time per treatment, role and `point`."""
    links = []
    for group in points.partition_by("treatment", maintain_order=True):
        of_role = {role: rows for role in ROLES if (rows := group.filter(role=role)).height}
        compared = [(TIME, role, rows[TIME], rows["value"]) for role, rows in of_role.items()]
        for source in [role for role in (STALLS, STALLED) if role in of_role]:
            stalls = of_role[source].select(point, stalls="value")
            for role in [role for role in MISSES if role in of_role]:
                joined = of_role[role].join(stalls, on=point, how="inner", maintain_order="left")
                compared.append((source, role, joined["stalls"], joined["value"]))
        for source, role, x, y in compared:
            link = {"treatment": group["treatment"][0], "of": source, "role": role, "case": case}
            link |= {"source": "measured", "points": len(x)}
            links.append(link | of_r(pearson(list(x), list(y)), len(x)))
    return links


def pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    """r of the points (x, y); None below four points, or if x or y does not vary."""
    if len(x) < _FEWEST_POINTS or len(set(x)) < 2 or len(set(y)) < 2:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def of_r(r: float | None, points: int) -> dict[str, float | None]:
    """`r`, `r_low`, `r_high` and `p` of an r of independent, normal points; all None without one.

    atanh(r) is nearly normal with variance 1 / (n - 3) (Fisher 1921, Metron 1, 3-32). The p value,
    two-sided against r = 0, is that of t = r sqrt((n - 2) / (1 - r^2)).
    """
    if r is None:
        return dict.fromkeys(("r", "r_low", "r_high", "p"))
    low, high, p = r, r, 0.0
    if abs(r) < 1:
        half = QUANTILE / math.sqrt(points - 3)
        low, high = math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)
        t = r * math.sqrt((points - 2) / (1 - r * r))
        p = 2 * float(special.stdtr(points - 2, -abs(t)))
    return {"r": r, "r_low": low, "r_high": high, "p": p}


def _published() -> list[dict[str, Any]]:
    """Table IV as printed; intervals follow from its r and its six points."""
    points = 6  # the applications of figure 4
    names = {"time": TIME, "stalled_cycles": STALLED}
    return [
        {"treatment": treatment, "of": names[source], "role": role, "case": ""}
        | {"source": "published", "points": points}
        | of_r(values[column], points)
        | {"p": None}
        for treatment, sources in paper()["table_4_pearson_r"].items()
        for source, values in sources.items()
        for column, role in PUBLISHED.items()
        if column in values
    ]


def _across(run: RunData) -> pl.DataFrame:
    """Links whose points are the medians of the workloads, and those of the paper."""
    of_cases = (
        _of_runs(run)
        .group_by("case", "treatment", "role", maintain_order=True)
        .agg(pl.col("value", TIME).median())
    )
    links = _links(of_cases, "case")
    return pl.DataFrame([*links, *_published()] if links else [])


def _within(run: RunData) -> pl.DataFrame:
    """Links whose points are the runs of a case."""
    cases = _of_runs(run).partition_by("case", maintain_order=True)
    links = [link for runs in cases for link in _links(runs, "key", runs["case"][0])]
    return pl.DataFrame(links, infer_schema_length=None)


def _correlations(name: str, title: str, text: str, rows: Any, first: str) -> Question:
    """p holds over the rows of a case, or over the measured ones."""
    return Question(
        name=name,
        title=title,
        text=f"{text} Interval: Fisher's, 95 %; p: after Holm over the measured rows.",
        rows=rows,
        by=(first, "treatment", "of", "role"),
        estimates={"r": stated("r")},
        facts=shared("points", "p"),
        then=lambda table: pl.concat(map(_holm, table.partition_by(first, maintain_order=True))),
        columns=("p", "points"),
        headings={"of": "correlated with"},
        spread="role",
        plot=None,
    )


ACROSS = _correlations(
    "correlations",
    "Table IV: correlations across workloads",
    "Pearson's r of roles with the time, and of misses with stalls; a point is the median of a"
    " workload. With p below 0.05 an r differs from 0 with 95 % certainty. The paper prints r only,"
    " of six applications; its stalled cycles are PAPI_STL_ICY.",
    _across,
    "source",
)
WITHIN = _correlations(
    "correlations_of_runs",
    "Correlations over the runs of each workload",
    "As across workloads; a point is a run.",
    _within,
    "case",
)


# What tools cost, what they and the nodes counted, and what was not counted.


_OF_TOOLS = ~pl.col("tool").cast(pl.String).is_in(AGENTS)


def _tool_prices(run: RunData) -> pl.DataFrame:
    """A row per case and tool that counted in it; no price below six pairs with the level none."""
    prices = {
        (contrast.case, str(contrast.level)): contrast
        for contrast in run.contrasts
        if (contrast.factor, contrast.kind) == ("tool", "price") and not contrast.at
    }
    wrapped = run.counters.filter(_OF_TOOLS).select(pl.col("case", "tool").cast(pl.String))
    rows = []
    for case, tool in wrapped.unique(maintain_order=True).rows():
        price = prices.get((case, tool))
        figures = columns_of("ratio", price.ratio if price else None)
        more = {"n": price.pairs if price else 0, "margin": run.header.margin}
        rows.append({"case": case, "tool": tool, **figures, **more})
    return pl.DataFrame(rows, infer_schema_length=None)


_MOST = 1 + pl.col("margin")
PRICES = Question(
    name="tool_prices",
    title="Price of the tools",
    text="Time with the tool / time without, both without traffic, within pairs with the level"
    " 'none'. Beyond the margin of 'no effect', counts are of runs that the tool changed.",
    rows=_tool_prices,
    by=("case", "tool"),
    estimates={"ratio": stated("ratio")},
    facts=shared("n", "margin"),
    limits=(
        Limit("changed by the tool", when=pl.col("ratio_low") > _MOST),
        Limit("changed by the tool", when=pl.col("ratio_high") < 1 / _MOST),
        Limit("not shown to be beyond the margin", when=pl.col("ratio_low").is_not_null()),
    ),
    columns=("n", "word"),
    headings={"ratio": "price", "word": "counts"},
    plot=None,
)


def _counters(run: RunData) -> pl.DataFrame:
    """Medians of what was counted, in order of treatments; of nodes what was not always 0."""
    names = pl.col("case", "arm", "tool", "event", "unit", "state").cast(pl.String)
    used = (pl.col("value") != 0).any().over("case", "tool", "event")
    rows = medians(run.counters).with_columns(names)
    rows = rows.filter(_OF_TOOLS | ((pl.col("tool") == NODE) & used))
    arms = in_order(rows["arm"].unique(maintain_order=True))
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
    lost = _values(run).filter(pl.col("value").is_null()).select("role", "state")
    rows = [
        {"what": role, "where": "some run or all", "reason": _WHY_NOT.get(state, state)}
        for role, state in lost.unique(maintain_order=True).rows()
    ]
    tools = run.counters.filter(_OF_TOOLS)["tool"].unique()
    programs = {str(tool).partition(":")[0] for tool in tools} & {row.tool for row in COUNTS}
    # Hosts of older versions have no `processor`.
    hosts = all_hosts(run.provenance.values()) if len(tools) else []
    for identity in sorted({str(host["processor"]) for host in hosts if "processor" in host}):
        family = processor_family(identity)
        where = f"processor {processor_words(identity)}"
        if family is None:
            rows.append(
                {"what": "all roles", "where": where, "reason": "not in the table of roles"}
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
        for source in mapping(facts.get("absent_counters")).items()
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
    return {"counters.parquet": all_rows(runs, "counters")} if counted else {}


_WHY = (LOSSES, CHANGES, ACROSS, WITHIN, PRICES)
SECTIONS = [
    *(section(question, "run", 80 + number) for number, question in enumerate(_WHY)),
    replace(section(COUNTERS, "end", 96, _table), folded=True),
    replace(section(ABSENT, "end", 97), folded=True),
]
