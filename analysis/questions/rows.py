"""Rows that questions ask for: runs that count, and any quantity of them within pairs."""

from __future__ import annotations

import polars as pl

PAIR = ["case", "block", "pair"]
#: Time for the work of a run: of a rate, its inverse.
TIME = pl.when(pl.col("fom_better") == "higher").then(1 / pl.col("fom")).otherwise(pl.col("fom"))


def runs_that_count(samples: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """`PAIR`, `key`, `arm`, `role`, `baseline` and `columns` of the runs that count.

    `samples` as of `analysis.samples.pairs.judged`. Of a repeated run, the last attempt.
    """
    names = dict.fromkeys([*PAIR, "key", "arm", "role", "baseline", *columns])
    runs = samples.lazy().filter(pl.col("status") == "counts").select(list(names)).collect()
    texts = [name for name in ("case", "arm", "role", "baseline") if name in runs.columns]
    runs = runs.unique([*PAIR, "arm"], keep="last", maintain_order=True)
    return runs.with_columns(pl.col(texts).cast(pl.String))


def paired(runs: pl.DataFrame, value: pl.Expr = TIME) -> pl.DataFrame:
    """The runs with a baseline, with `value` of the run and of others of its pair.

    `against`: of its baseline; `again`: of the repeated baseline; `control`: of the control. Null
    where that run does not count.
    """
    runs = runs.with_columns(value=value)
    group = [*PAIR, "baseline"]
    baselines = runs.filter(role="baseline").select(*PAIR, baseline="arm", against="value")
    rows = runs.filter(pl.col("baseline").is_not_null())
    rows = rows.join(baselines, on=group, how="left", maintain_order="left")
    for role, name in (("floor", "again"), ("control", "control")):
        other = runs.filter(role=role).select(*group, pl.col("value").alias(name))
        rows = rows.join(
            other.unique(group, keep="first"), on=group, how="left", maintain_order="left"
        ).with_columns(pl.when(pl.col("role") != role).then(name))
    return rows
