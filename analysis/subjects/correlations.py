"""Pearson's r of roles with the time, and of misses with stalls, over workloads and over runs.

Roles are quantities that counters of processors measure, such as misses and stalls. Table IV of
Groves, Grant and Arnold (2016) has r over workloads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy import special

from analysis.questions.estimators import stored_estimate
from analysis.questions.presentation import section
from analysis.questions.question import Question, shared
from analysis.report.data import RunData
from analysis.samples.counts import role_totals
from analysis.statistics.interval import NORMAL_QUANTILE
from analysis.subjects.paired_roles import (
    COMPARISON_COLUMNS,
    MEMORY_STALLS,
    MISSES,
    PAIR_COLUMNS,
    STALLED_CYCLES,
    values_of_roles,
    with_holm_correction,
)
from analysis.subjects.paper import paper
from records.roles import ROLES

#: Column with the time of a run: its figure of merit if this is a time, otherwise its duration.
TIME = "time"
#: Column of Table IV in paper.json -> its role.
TABLE_4_ROLES = {
    "stalled_cycles": STALLED_CYCLES,
    "l1_miss": "L1 misses",
    "l2_miss": "L2 misses",
    "l3_miss": "L3 misses",
}
#: Minimum number of points that a correlation needs to have an interval.
_MIN_POINTS = 4
#: Number of points of the published correlations, which are the applications of figure 4.
_PUBLISHED_POINTS = 6


def _role_values(run: RunData) -> pl.DataFrame:
    """A row per run and role: the sum over ranks, and the run's time.

    Repeated baselines and controls are left out. Runs in which a rank has no value are left out,
    too. Tools slow runs down differently, so all values of a role in a case are taken from runs
    with the same tool. If several tools counted the role, the tool with the most roles in the case
    is used.
    """
    values = values_of_roles(run)
    case_and_role = ["case", "role"]
    # Here `role` is the role of the treatment, not of a counter.
    is_baseline_or_effect = pl.col("role").is_in(["baseline", "effect"])
    time = pl.when(pl.col("fom_unit") == "s").then("fom").otherwise("elapsed_s").alias(TIME)
    times = run.samples.lazy().filter(is_baseline_or_effect).select("key", time).collect()
    role_counts = values.group_by("case", "tool", maintain_order=True).agg(
        role_count=pl.col("role").n_unique()
    )
    used_tools = (
        values.join(role_counts, on=["case", "tool"], maintain_order="left")
        .sort("role_count", descending=True, maintain_order=True)
        .unique(case_and_role, keep="first", maintain_order=True)
        .select(*case_and_role, "tool")
    )
    case_role_tool = [*case_and_role, "tool"]
    used_values = values.join(used_tools, on=case_role_tool, how="semi", maintain_order="left")
    sums = role_totals(used_values, "key", *COMPARISON_COLUMNS, *PAIR_COLUMNS, "role")
    return sums.join(times, on="key", how="inner", maintain_order="left")


def _measured_correlations(
    points: pl.DataFrame, point_column: str, case: str = ""
) -> list[dict[str, Any]]:
    """A row per treatment and measured correlation.

    `points` has a row per treatment, role and point, with value and time. The column `point_column`
    has the point's name: a workload or a run.
    """
    correlations = []
    for group in points.partition_by("treatment", maintain_order=True):
        treatment = group["treatment"][0]
        for correlated_with, role, x, y in _correlated_values(group, point_column):
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
    points: pl.DataFrame, point_column: str
) -> Iterator[tuple[str, str, list[float], list[float]]]:
    """Yield the names and the values of every two quantities that are correlated.

    The first is the time or a role of stalls, the second is a role. Each role is correlated with
    the time, and misses are correlated with stalls.
    """
    rows_by_role = {role: rows for role in ROLES if (rows := points.filter(role=role)).height}
    for role, rows in rows_by_role.items():
        yield TIME, role, rows[TIME].to_list(), rows["value"].to_list()
    for stall_role in (MEMORY_STALLS, STALLED_CYCLES):
        for role in MISSES:
            if stall_role in rows_by_role and role in rows_by_role:
                stalls = rows_by_role[stall_role].select(point_column, stalls="value")
                joined = rows_by_role[role].join(
                    stalls, on=point_column, how="inner", maintain_order="left"
                )
                yield stall_role, role, joined["stalls"].to_list(), joined["value"].to_list()


def pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Pearson's r of the points (x, y); None below four points, or if x or y does not vary."""
    if len(x) < _MIN_POINTS or len(set(x)) < 2 or len(set(y)) < 2:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def correlation_estimate(r: float | None, point_count: int) -> dict[str, float | None]:
    """`r`, its interval from `r_low` to `r_high`, and `p`; all are None if `r` is None.

    The points are assumed to be independent and normal. Then atanh(r) is nearly normal with
    variance 1 / (n - 3) for n points (Fisher 1921, Metron 1, 3-32). The p value is two-sided
    against r = 0. It follows from Student's t = r sqrt((n - 2) / (1 - r^2)).
    """
    if r is None:
        return dict.fromkeys(("r", "r_low", "r_high", "p"))
    low, high, p = r, r, 0.0
    if abs(r) < 1:
        half_width = NORMAL_QUANTILE / math.sqrt(point_count - 3)
        low, high = math.tanh(math.atanh(r) - half_width), math.tanh(math.atanh(r) + half_width)
        t = r * math.sqrt((point_count - 2) / (1 - r * r))
        p = 2 * float(special.stdtr(point_count - 2, -abs(t)))
    return {"r": r, "r_low": low, "r_high": high, "p": p}


def _published_correlations() -> list[dict[str, Any]]:
    """Table IV as printed, with intervals that follow from r and the number of points."""
    row_quantities = {"time": TIME, "stalled_cycles": STALLED_CYCLES}
    return [
        {
            "treatment": treatment,
            "of": row_quantities[row_name],
            "role": role,
            "case": "",
            "source": "published",
            "points": _PUBLISHED_POINTS,
            **correlation_estimate(r_by_column[column], _PUBLISHED_POINTS),
            # The paper prints no p values.
            "p": None,
        }
        for treatment, rows in paper()["table_4_pearson_r"].items()
        for row_name, r_by_column in rows.items()
        for column, role in TABLE_4_ROLES.items()
        if column in r_by_column
    ]


def _correlations_of_cases(run: RunData) -> pl.DataFrame:
    """Correlations over workloads, measured and published; a point is the median of a workload.

    The table is empty if no correlation was measured.
    """
    case_medians = (
        _role_values(run)
        .group_by("case", "treatment", "role", maintain_order=True)
        .agg(pl.col("value", TIME).median())
    )
    measured_rows = _measured_correlations(case_medians, "case")
    return pl.DataFrame([*measured_rows, *_published_correlations()] if measured_rows else [])


def _correlations_of_runs(run: RunData) -> pl.DataFrame:
    """Correlations over the runs of each case."""
    correlations = []
    for case_runs in _role_values(run).partition_by("case", maintain_order=True):
        correlations += _measured_correlations(case_runs, "key", case_runs["case"][0])
    return pl.DataFrame(correlations, infer_schema_length=None)


def _question(
    *, name: str, title: str, text: str, rows: Callable[[RunData], pl.DataFrame], family: str
) -> Question:
    """A question about correlations.

    The p values are corrected over the rows with the same value in the column `family`.
    """

    def with_corrected_p(table: pl.DataFrame) -> pl.DataFrame:
        families = table.partition_by(family, maintain_order=True)
        return pl.concat(map(with_holm_correction, families))

    return Question(
        name=name,
        title=title,
        text=f"{text} Interval: Fisher's, 95 %; p: after Holm over the measured rows.",
        rows=rows,
        by=(family, "treatment", "of", "role"),
        estimates={"r": stored_estimate("r")},
        facts=shared("points", "p"),
        postprocess=with_corrected_p,
        columns=("p", "points"),
        headings={"of": "correlated with"},
        column_key="role",
        plot=None,
    )


CASE_CORRELATIONS = _question(
    name="correlations",
    title="Table IV: correlations across workloads",
    text="Pearson's r of roles with the time, and of misses with stalls; a point is the median of a"
    " workload. An r is shown to differ from 0 if its p is below 0.05. The paper prints only r, for"
    " six applications; its stalled cycles are PAPI_STL_ICY.",
    rows=_correlations_of_cases,
    family="source",
)
RUN_CORRELATIONS = _question(
    name="correlations_of_runs",
    title="Correlations over the runs of each workload",
    text="The same correlations as across workloads, but a point is a run.",
    rows=_correlations_of_runs,
    family="case",
)
SECTIONS = [
    section(CASE_CORRELATIONS, "before_cases", 82),
    section(RUN_CORRELATIONS, "before_cases", 83),
]
