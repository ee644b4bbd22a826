"""How roles go with the time of runs, and with stalls on memory: Pearson's r, as in Table IV.

The time is the figure of merit if that is a time, as in Groves, Grant and Arnold (2016), else the
duration of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from analysis.counts.roles import ROLES, SHARES
from analysis.statistics.correlation import Correlation, pearson
from analysis.statistics.nights import holm

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
