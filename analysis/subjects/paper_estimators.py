"""The estimators of Groves, Grant and Arnold (2016) for a run.

They have no interval, so they are shown beside the paired estimate, and never replace it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from analysis.effects.result import Result
from analysis.questions.estimators import stored_estimate
from analysis.questions.presentation import section
from analysis.questions.question import Question, columns_of, shared
from analysis.report.data import RunData
from analysis.samples.pairs import extra_figure, treatment_rows
from records.arms import arm_of
from records.sample import Better

#: Number of runs per side (without writes, with writes) from which sections IV and V of the paper
#: compute means and standard deviations.
RUNS_IN_MEAN = 10
#: Number of runs per side from which section VI of the paper takes the minimum.
RUNS_FOR_BEST = 5


def mean_and_deviation(values: Sequence[float], better: Better) -> tuple[float, float]:
    """Mean (harmonic for rates) and sample standard deviation of the first 10 of `values`.

    If there are fewer than 10 values, all are used. At least two are needed.
    """
    first_values = np.asarray(values[:RUNS_IN_MEAN], dtype=float)
    # A rate is work / time, so the mean rate is work / mean time.
    mean = 1 / np.mean(1 / first_values) if better == "higher" else np.mean(first_values)
    return float(mean), float(np.std(first_values, ddof=1))


def paper_estimates(
    off: Sequence[float], on: Sequence[float], better: Better
) -> dict[str, float | None]:
    """The paper's estimators, from the figures of merit of the runs without and with writes.

    `off` and `on` are in the order of measurement. The estimators are:

    - for `off` and for `on`: mean and standard deviation of the first 10 runs, best of the first 5
    - the slowdown from both means (Tables II, III), and from both best runs (section VI)
    - the slowdown from the best of 5 `off` and the median of 5 `on` (section VII)

    A value is None if there are too few runs.
    """
    best = max if better == "higher" else min
    estimates: dict[str, float | None] = dict.fromkeys(
        (*MEAN_COLUMNS, *BEST_COLUMNS, *RATIO_COLUMNS)
    )
    for arm, values in (("off", off), ("on", on)):
        if len(values) >= RUNS_IN_MEAN:
            estimates[f"{arm}_mean"], estimates[f"{arm}_sd"] = mean_and_deviation(values, better)
        if len(values) >= RUNS_FOR_BEST:
            estimates[f"{arm}_best"] = best(values[:RUNS_FOR_BEST])
    estimates["of_means"] = slowdown_of(estimates["off_mean"], estimates["on_mean"], better)
    estimates["of_best"] = slowdown_of(estimates["off_best"], estimates["on_best"], better)
    if len(on) >= RUNS_FOR_BEST:
        median = float(np.median(on[:RUNS_FOR_BEST]))
        estimates["best_against_median"] = slowdown_of(estimates["off_best"], median, better)
    return estimates


def slowdown_of(off: float | None, on: float | None, better: Better) -> float | None:
    """Run time with writes / without writes, from figures of merit; None if a figure is missing."""
    if off is None or on is None:
        return None
    return off / on if better == "higher" else on / off


def writes_as_the_paper(run: RunData, row: Result) -> bool:
    """Return whether the writes of a treatment are those of the paper's experiments on one node.

    They are writes at full rate, never reads, from before a run until after it.
    """
    return arm_of(row.arm).writing == "continuous" and _writes_at_full_rate(run, row)


def _writes_at_full_rate(run: RunData, row: Result) -> bool:
    """Return whether a row is an effect of writes at full rate.

    The writes may be continuous or follow a timetable, as in the paper's experiments at scale.
    """
    return (
        row.role == "effect"
        and row.direction in (None, "write")
        and not _has_limited_rate(run, row)
    )


def _has_limited_rate(run: RunData, row: Result) -> bool:
    """Return whether the rate of any writer of a treatment was limited.

    Its rate is a level of the factor `rate`, or the campaign's `injector.rate`.
    """
    treatments = run.cached(
        "treatments at less than full rate",
        lambda: (
            run.samples.filter(pl.col("asked_b_s").is_not_null()).select("case", "arm").unique()
        ),
    )
    return not treatment_rows(treatments, row.case, row.arm).is_empty()


def cases_on_one_node(run: RunData) -> list[str]:
    """The cases in which every run had a single target node, as in the paper."""
    has_several_nodes = pl.col("nodes").cast(pl.String).str.contains(",", literal=True).any()
    node_lists = run.samples.lazy().select("case", "nodes").unique(maintain_order=True)
    cases = node_lists.group_by("case", maintain_order=True).agg(
        has_several_nodes=has_several_nodes
    )
    return [str(case) for case in cases.filter(~pl.col("has_several_nodes")).collect()["case"]]


def runs_of_both_arms(run: RunData, row: Result) -> list[pl.DataFrame]:
    """Two frames of runs that count: the runs of the baseline and the runs of the treatment.

    Columns: fom, arm, transport and working_set_b.
    """
    samples = run.samples.lazy().filter(pl.col("case") == row.case, pl.col("status") == "counts")
    labels = pl.col("arm", "transport").cast(pl.String)
    runs = samples.select("fom", labels, "working_set_b").collect()
    return [runs.filter(arm=arm) for arm in (row.baseline, row.arm)]


def _estimates(run: RunData) -> pl.DataFrame:
    """A row per effect of writes at full rate, if it has at least five runs a side."""
    rows = []
    for row in run.results:
        if not _writes_at_full_rate(run, row):
            continue
        off, on = (runs["fom"].to_list() for runs in runs_of_both_arms(run, row))
        estimates = paper_estimates(off, on, row.better)
        if estimates["of_best"] is None:
            continue
        treated_runs = run.samples.lazy().filter(case=row.case, arm=row.arm)
        ranks = (
            treated_runs.select("fom_extra").unique().select(extra_figure("ranks")).max().collect()
        )
        rows.append(
            {
                "case": row.case,
                "arm": row.arm,
                "baseline": row.baseline,
                "unit": row.unit,
                "n": row.pairs,
                "ranks": ranks.cast(pl.Int64).item(),
                **columns_of("slowdown", row.slowdown),
                **estimates,
            }
        )
    table = pl.DataFrame(rows, infer_schema_length=None)
    return table.sort("ranks", maintain_order=True) if rows else table


MEAN_COLUMNS = ("off_mean", "off_sd", "on_mean", "on_sd")
BEST_COLUMNS = ("off_best", "on_best")
RATIO_COLUMNS = ("of_means", "of_best", "best_against_median")
ESTIMATORS = Question(
    name="paper_estimates",
    title="Estimators of Groves, Grant and Arnold (2016)",
    text="The paper's estimators from the same runs: means of 10 runs (for rates, here harmonic"
    " ones); at scale, the best of 5; with remedies, the best of 5 without writes against the"
    " median of 5 with writes, which is above 1 even without any effect. None of them has an"
    " interval, so prefer the paired slowdown.",
    rows=_estimates,
    by=("case", "arm"),
    estimates={"slowdown": stored_estimate("slowdown")},
    facts=shared("n", "ranks", "baseline", *MEAN_COLUMNS, *BEST_COLUMNS, *RATIO_COLUMNS, "unit"),
    columns=("ranks", "off_mean", "on_mean", "of_means", *BEST_COLUMNS, *RATIO_COLUMNS[1:]),
    headings={
        "arm": "treatment",
        "slowdown": "paired slowdown",
        "off_mean": "without, mean of 10",
        "on_mean": "with, mean of 10",
        "of_means": "slowdown of means",
        "off_best": "without, best of 5",
        "on_best": "with, best of 5",
        "of_best": "slowdown of the best",
        "best_against_median": "best against median",
    },
    units=dict.fromkeys((*MEAN_COLUMNS, *BEST_COLUMNS), "unit"),
    plot=None,
)
SECTIONS = [section(ESTIMATORS, "after_cases", 92, folded=True)]
