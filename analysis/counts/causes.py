"""Why runs are slower: how each role changes, on which rank, and how it goes with the time.

From runs that a tool wrapped, which are paired with each other and never with unwrapped ones. Roles
of nodes that need no tool are from unwrapped runs.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
import polars as pl

from analysis.counts.counters import role_values, without_tool
from analysis.counts.roles import ROLES, SHARES
from analysis.samples.pairs import log_times, pair_table
from analysis.statistics.aligned_ranks import slowdown
from analysis.statistics.correlation import Correlation, WorstRank, pearson, worst_rank
from analysis.statistics.holm import holm
from analysis.statistics.interval import Estimate, median_interval

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
    totals = _totals(values, samples)
    return [*_across(totals), *_within(totals)]


def _totals(values: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
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
    return (
        values.join(of_role, on=[*case, "tool"], how="semi", maintain_order="left")
        .group_by(*_RUN, "role", maintain_order=True)
        .agg(
            pl.when(pl.col("role").first().is_in(SHARES))
            .then(pl.col("value").mean())
            .otherwise(pl.col("value").sum()),
            whole=pl.col("value").is_not_null().all(),
        )
        .filter("whole")
        .join(times, on="key", how="inner", maintain_order="left")
    )


def _across(totals: pl.DataFrame) -> list[RoleLink]:
    """Links whose points are the medians of each case."""
    points = totals.group_by("case", "treatment", "role", maintain_order=True).agg(
        pl.col("value", TIME).median()
    )
    return _adjusted([link for group in _by_treatment(points) for link in _links(group, "case")])


def _within(totals: pl.DataFrame) -> list[RoleLink]:
    """Links whose points are the runs of one case."""
    found: list[RoleLink] = []
    for case in totals["case"].unique(maintain_order=True):
        groups = _by_treatment(totals.filter(pl.col("case") == case))
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


def causes(counters: pl.DataFrame, samples: pl.DataFrame) -> Causes:
    """From `counters.read_counters` and the `pairs.judged` samples of the same run."""
    values = role_values(counters)
    lost = values.filter(pl.col("value").is_null()).group_by("state", maintain_order=True)
    roles = dict(lost.agg(pl.col("role").unique(maintain_order=True)).iter_rows())
    paired = _paired(values, samples)
    changes = _changes(paired)
    return Causes(
        changes=changes,
        links=role_links(values, samples),
        losses=_losses(paired, changes, _slower(samples, counters)),
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


def _slower(samples: pl.DataFrame, counters: pl.DataFrame) -> set[tuple[str, str, str]]:
    """(case, treatment, tool) of which the wrapped runs are slower than their baseline's."""
    pairs = pair_table(samples)
    runs = counters.select(pl.col("case", "arm", "tool").cast(pl.String)).unique(
        maintain_order=True
    )
    found = set()
    for case, arm, tool in runs.iter_rows():
        blocks = log_times(pairs.filter(pl.col("case") == case, pl.col("arm") == arm))
        estimate = slowdown(np.concatenate(blocks)) if blocks else None
        if estimate is not None and estimate.low > 1:
            found.add((case, without_tool(arm), tool))
    return found
