"""Pearson's r between time and roles, and between stalls and misses: over workloads, over runs.

Table IV of Groves, Grant and Arnold (2016) has those over workloads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy import special

from analysis.questions.estimators import stated
from analysis.questions.presentation import section
from analysis.questions.question import Question, shared
from analysis.report.data import RunData
from analysis.samples.counts import role_totals
from analysis.statistics.interval import NORMAL_QUANTILE
from analysis.subjects.paired_roles import (
    COMPARISON_COLUMNS,
    MISSES,
    PAIR_COLUMNS,
    STALLED,
    STALLS,
    after_holm,
    values_of_roles,
)
from analysis.subjects.paper import paper
from records.roles import ROLES

#: Column with the time of a run: its figure of merit if that is a time, else its duration.
TIME = "time"
#: Column of Table IV in paper.json -> its role.
TABLE_4_ROLES = dict(
    zip(("stalled_cycles", "l1_miss", "l2_miss", "l3_miss"), (STALLED, *MISSES), strict=True)
)
#: Minimum points of a correlation with an interval.
_MIN_POINTS = 4


def _role_values(run: RunData) -> pl.DataFrame:
    """A row per run and role: the sum over ranks, and the run's time.

    Repeated baselines and controls are left out, and so are runs in which a rank has no value. Each
    level of the tool has its own price, so all values of a role and case are from one level: the
    one with the most roles.
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
    sums = role_totals(used_values, "key", *COMPARISON_COLUMNS, *PAIR_COLUMNS, "role")
    return sums.join(times, on="key", how="inner", maintain_order="left")


def _measured_correlations(
    points: pl.DataFrame, point: str, case: str = ""
) -> list[dict[str, Any]]:
    """A row per treatment and measured correlation.

    `points` has a row per treatment, role and value of its column `point`, with value and time.
    """
    correlations = []
    for group in points.partition_by("treatment", maintain_order=True):
        treatment = group["treatment"][0]
        for correlated_with, role, x, y in _correlated_values(group, point):
            correlations.append(
                {
                    "treatment": treatment,
                    "of": correlated_with,
                    "role": role,
                    "case": case,
                    "source": "measured",
                    "points": len(x),
                    **correlation_estimate(pearson(x, y), len(x)),
                }
            )
    return correlations


def _correlated_values(
    points: pl.DataFrame, point: str
) -> Iterator[tuple[str, str, list[float], list[float]]]:
    """The pairs of quantities that are correlated, with their values at the points.

    Each role is correlated with the time, and misses are correlated with stalls.
    """
    rows_of_roles = {role: rows for role in ROLES if (rows := points.filter(role=role)).height}
    for role, rows in rows_of_roles.items():
        yield TIME, role, rows[TIME].to_list(), rows["value"].to_list()
    for stall_role in (STALLS, STALLED):
        for role in MISSES:
            if stall_role in rows_of_roles and role in rows_of_roles:
                stalls = rows_of_roles[stall_role].select(point, stalls="value")
                joined = rows_of_roles[role].join(
                    stalls, on=point, how="inner", maintain_order="left"
                )
                yield stall_role, role, joined["stalls"].to_list(), joined["value"].to_list()


def pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    """r of the points (x, y); None below four points, or if x or y does not vary."""
    if len(x) < _MIN_POINTS or len(set(x)) < 2 or len(set(y)) < 2:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def correlation_estimate(r: float | None, points: int) -> dict[str, float | None]:
    """`r`, its interval from `r_low` to `r_high`, and `p`; all None without r.

    The points are taken as independent and normal. Then atanh(r) is nearly normal with variance
    1 / (n - 3) (Fisher 1921, Metron 1, 3-32). The p value, two-sided against r = 0, is that of
    t = r sqrt((n - 2) / (1 - r^2)).
    """
    if r is None:
        return dict.fromkeys(("r", "r_low", "r_high", "p"))
    low, high, p = r, r, 0.0
    if abs(r) < 1:
        half_width = NORMAL_QUANTILE / math.sqrt(points - 3)
        low, high = math.tanh(math.atanh(r) - half_width), math.tanh(math.atanh(r) + half_width)
        t = r * math.sqrt((points - 2) / (1 - r * r))
        p = 2 * float(special.stdtr(points - 2, -abs(t)))
    return {"r": r, "r_low": low, "r_high": high, "p": p}


def _published_correlations() -> list[dict[str, Any]]:
    """Table IV as printed; intervals follow from its r and its six points."""
    # The applications of figure 4.
    points = 6
    names = {"time": TIME, "stalled_cycles": STALLED}
    return [
        {
            "treatment": treatment,
            "of": names[correlated_with],
            "role": role,
            "case": "",
            "source": "published",
            "points": points,
            **correlation_estimate(values[column], points),
            # The paper prints no p values.
            "p": None,
        }
        for treatment, rows in paper()["table_4_pearson_r"].items()
        for correlated_with, values in rows.items()
        for column, role in TABLE_4_ROLES.items()
        if column in values
    ]


def _correlations_of_cases(run: RunData) -> pl.DataFrame:
    """Correlations over workloads, each point the median of a workload; and those of the paper."""
    case_medians = (
        _role_values(run)
        .group_by("case", "treatment", "role", maintain_order=True)
        .agg(pl.col("value", TIME).median())
    )
    measured_rows = _measured_correlations(case_medians, "case")
    return pl.DataFrame([*measured_rows, *_published_correlations()] if measured_rows else [])


def _correlations_of_runs(run: RunData) -> pl.DataFrame:
    """Correlations over the runs of each case."""
    cases = _role_values(run).partition_by("case", maintain_order=True)
    correlations = []
    for runs in cases:
        correlations += _measured_correlations(runs, "key", runs["case"][0])
    return pl.DataFrame(correlations, infer_schema_length=None)


def _question(name: str, title: str, text: str, rows: Any, family: str) -> Question:
    """A question about correlations; p is corrected within each value of the column `family`."""

    def adjusted(table: pl.DataFrame) -> pl.DataFrame:
        families = table.partition_by(family, maintain_order=True)
        return pl.concat(after_holm(rows) for rows in families)

    return Question(
        name=name,
        title=title,
        text=f"{text} Interval: Fisher's, 95 %; p: after Holm over the measured rows.",
        rows=rows,
        by=(family, "treatment", "of", "role"),
        estimates={"r": stated("r")},
        facts=shared("points", "p"),
        postprocess=adjusted,
        columns=("p", "points"),
        headings={"of": "correlated with"},
        column_key="role",
        plot=None,
    )


CASE_CORRELATIONS = _question(
    "correlations",
    "Table IV: correlations across workloads",
    "Pearson's r of roles with the time, and of misses with stalls; a point is the median of a"
    " workload. With p below 0.05 an r differs from 0 with 95 % certainty. The paper prints r only,"
    " of six applications; its stalled cycles are PAPI_STL_ICY.",
    _correlations_of_cases,
    "source",
)
RUN_CORRELATIONS = _question(
    "correlations_of_runs",
    "Correlations over the runs of each workload",
    "As across workloads; a point is a run.",
    _correlations_of_runs,
    "case",
)
SECTIONS = [section(CASE_CORRELATIONS, "run", 82), section(RUN_CORRELATIONS, "run", 83)]
