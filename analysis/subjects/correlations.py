"""Pearson's r between time and roles, and between stalls and misses: over workloads, over runs.

As in Table IV of Groves, Grant and Arnold (2016).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy import special

from analysis.questions.estimators import stated
from analysis.questions.question import Question, shared
from analysis.questions.shown import section
from analysis.report.data import RunData
from analysis.samples.counts import role_totals
from analysis.statistics.interval import NORMAL_QUANTILE
from analysis.subjects.paired_roles import (
    KIND,
    MISSES,
    PAIR,
    STALLED,
    STALLS,
    after_holm,
    values_of_roles,
)
from analysis.subjects.published import paper
from records.roles import ROLES

#: The figure of merit if that is a time, as in the paper, else the duration.
TIME = "time"
#: Column of Table IV in paper.json -> its role.
PUBLISHED = dict(
    zip(("stalled_cycles", "l1_miss", "l2_miss", "l3_miss"), (STALLED, *MISSES), strict=True)
)
#: Fewest points from which a correlation has an interval.
_FEWEST_POINTS = 4


def _role_values(run: RunData) -> pl.DataFrame:
    """A row per run and role: the sum over ranks, and the run's time.

    Repeated baselines and controls are left out, and runs in which a rank has no value. All values
    of a role and case are from one level of the tool, since each level has its own price: from the
    level with most roles.
    """
    values, case = values_of_roles(run), ["case", "role"]
    without_and_with_traffic = pl.col("role").is_in(["baseline", "effect"])
    time = pl.when(pl.col("fom_unit") == "s").then("fom").otherwise("elapsed_s").alias(TIME)
    times = run.samples.lazy().filter(without_and_with_traffic).select("key", time).collect()
    levels = values.group_by("case", "tool", maintain_order=True).agg(
        roles=pl.col("role").n_unique()
    )
    levels_used = (
        values.join(levels, on=["case", "tool"], maintain_order="left")
        .sort("roles", descending=True, maintain_order=True)
        .unique(case, keep="first", maintain_order=True)
        .select(*case, "tool")
    )
    used_values = values.join(levels_used, on=[*case, "tool"], how="semi", maintain_order="left")
    sums = role_totals(used_values, "key", *KIND, *PAIR, "role")
    return sums.join(times, on="key", how="inner", maintain_order="left")


def _measured(points: pl.DataFrame, point: str, case: str = "") -> list[dict[str, Any]]:
    """A row per treatment and correlation of what was measured.

    `points` has one value and time per treatment, role and value of its column `point`.
    """
    correlations = []
    for group in points.partition_by("treatment", maintain_order=True):
        rows_by_role = {role: rows for role in ROLES if (rows := group.filter(role=role)).height}
        compared = [(TIME, role, rows[TIME], rows["value"]) for role, rows in rows_by_role.items()]
        for correlated_with in [role for role in (STALLS, STALLED) if role in rows_by_role]:
            stalls = rows_by_role[correlated_with].select(point, stalls="value")
            for role in [role for role in MISSES if role in rows_by_role]:
                joined = rows_by_role[role].join(
                    stalls, on=point, how="inner", maintain_order="left"
                )
                compared.append((correlated_with, role, joined["stalls"], joined["value"]))
        for correlated_with, role, x, y in compared:
            row = {"treatment": group["treatment"][0], "of": correlated_with, "role": role}
            row |= {"case": case, "source": "measured", "points": len(x)}
            correlations.append(row | correlation_estimate(pearson(list(x), list(y)), len(x)))
    return correlations


def pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    """r of the points (x, y); None below four points, or if x or y does not vary."""
    if len(x) < _FEWEST_POINTS or len(set(x)) < 2 or len(set(y)) < 2:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def correlation_estimate(r: float | None, points: int) -> dict[str, float | None]:
    """`r`, its interval from `r_low` to `r_high`, and `p`; all None without r.

    The points are taken as independent and normal.

    atanh(r) is nearly normal with variance 1 / (n - 3) (Fisher 1921, Metron 1, 3-32). The p value,
    two-sided against r = 0, is that of t = r sqrt((n - 2) / (1 - r^2)).
    """
    if r is None:
        return dict.fromkeys(("r", "r_low", "r_high", "p"))
    low = r
    high = r
    p = 0.0
    if abs(r) < 1:
        half_width = NORMAL_QUANTILE / math.sqrt(points - 3)
        low, high = math.tanh(math.atanh(r) - half_width), math.tanh(math.atanh(r) + half_width)
        t = r * math.sqrt((points - 2) / (1 - r * r))
        p = 2 * float(special.stdtr(points - 2, -abs(t)))
    return {"r": r, "r_low": low, "r_high": high, "p": p}


def _published() -> list[dict[str, Any]]:
    """Table IV as printed; intervals follow from its r and its six points."""
    points = 6  # the applications of figure 4
    names = {"time": TIME, "stalled_cycles": STALLED}
    return [
        {"treatment": treatment, "of": names[correlated_with], "role": role, "case": ""}
        | {"source": "published", "points": points}
        | correlation_estimate(values[column], points)
        | {"p": None}
        for treatment, rows in paper()["table_4_pearson_r"].items()
        for correlated_with, values in rows.items()
        for column, role in PUBLISHED.items()
        if column in values
    ]


def _across(run: RunData) -> pl.DataFrame:
    """Correlations over workloads, each point the median of one, and those of the paper."""
    case_medians = (
        _role_values(run)
        .group_by("case", "treatment", "role", maintain_order=True)
        .agg(pl.col("value", TIME).median())
    )
    measured = _measured(case_medians, "case")
    return pl.DataFrame([*measured, *_published()] if measured else [])


def _within(run: RunData) -> pl.DataFrame:
    """Correlations over the runs of each case."""
    cases = _role_values(run).partition_by("case", maintain_order=True)
    correlations = [row for runs in cases for row in _measured(runs, "key", runs["case"][0])]
    return pl.DataFrame(correlations, infer_schema_length=None)


def _correlations(name: str, title: str, text: str, rows: Any, family: str) -> Question:
    """A question about `rows`; p is corrected within each value of their column `family`."""
    return Question(
        name=name,
        title=title,
        text=f"{text} Interval: Fisher's, 95 %; p: after Holm over the measured rows.",
        rows=rows,
        by=(family, "treatment", "of", "role"),
        estimates={"r": stated("r")},
        facts=shared("points", "p"),
        then=lambda table: pl.concat(
            map(after_holm, table.partition_by(family, maintain_order=True))
        ),
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
SECTIONS = [section(ACROSS, "run", 82), section(WITHIN, "run", 83)]
