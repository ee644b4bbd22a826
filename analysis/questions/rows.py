"""Tables that questions start from: the runs that count, and their values within pairs."""

from __future__ import annotations

import polars as pl

CASE_PAIR_COLUMNS = ["case", "block", "pair"]
#: The time of a run: its figure of merit, or the inverse of it if it is a rate.
TIME = pl.when(pl.col("fom_better") == "higher").then(1 / pl.col("fom")).otherwise(pl.col("fom"))


def runs_that_count(samples: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """The runs that count: `CASE_PAIR_COLUMNS`, `key`, `arm`, `role`, `baseline` and `columns`.

    `key` is that of the sample.
    `samples` is what `analysis.samples.pairs.judge_samples` returns. If a run was repeated, its
    last attempt that counts is used.
    """
    selected = dict.fromkeys([*CASE_PAIR_COLUMNS, "key", "arm", "role", "baseline", *columns])
    runs = samples.lazy().filter(pl.col("status") == "counts").select(list(selected)).collect()
    text_columns = [name for name in ("case", "arm", "role", "baseline") if name in runs.columns]
    runs = runs.unique([*CASE_PAIR_COLUMNS, "arm"], keep="last", maintain_order=True)
    return runs.with_columns(pl.col(text_columns).cast(pl.String))


def paired(runs: pl.DataFrame, value: pl.Expr = TIME) -> pl.DataFrame:
    """The runs that have a baseline, each with its `value` and the values of its pair.

    `baseline_value` is the value of the run's baseline, `repeated_value` of the pair's repeated
    baseline, and `control_value` of the pair's control. A value is null if its run does not count.
    In the row of a repeated baseline, `repeated_value` is null. In the row of a control,
    `control_value` is null.
    """
    runs = runs.with_columns(value=value)
    pair_and_baseline = [*CASE_PAIR_COLUMNS, "baseline"]
    baselines = runs.filter(role="baseline")
    baselines = baselines.select(*CASE_PAIR_COLUMNS, baseline="arm", baseline_value="value")
    rows = runs.filter(pl.col("baseline").is_not_null())
    rows = rows.join(baselines, on=pair_and_baseline, how="left", maintain_order="left")
    for role, name in (("floor", "repeated_value"), ("control", "control_value")):
        runs_of_role = runs.filter(role=role)
        runs_of_role = runs_of_role.select(*pair_and_baseline, pl.col("value").alias(name))
        runs_of_role = runs_of_role.unique(pair_and_baseline, keep="first")
        rows = rows.join(runs_of_role, on=pair_and_baseline, how="left", maintain_order="left")
        rows = rows.with_columns(pl.when(pl.col("role") != role).then(name))
    return rows
