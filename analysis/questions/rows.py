"""Tables that questions start from: the runs that count, and a quantity of each within pairs."""

from __future__ import annotations

import polars as pl

PAIR = ["case", "block", "pair"]
#: The time of a run; the inverse of its figure of merit, if that is a rate.
TIME = pl.when(pl.col("fom_better") == "higher").then(1 / pl.col("fom")).otherwise(pl.col("fom"))


def runs_that_count(samples: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """The runs that count: columns `PAIR`, `key`, `arm`, `role`, `baseline` and `columns`.

    `samples` is what `analysis.samples.pairs.judge_samples` returns. If a run was repeated, its
    last attempt is used.
    """
    selected = dict.fromkeys([*PAIR, "key", "arm", "role", "baseline", *columns])
    runs = samples.lazy().filter(pl.col("status") == "counts").select(list(selected)).collect()
    text_columns = [name for name in ("case", "arm", "role", "baseline") if name in runs.columns]
    runs = runs.unique([*PAIR, "arm"], keep="last", maintain_order=True)
    return runs.with_columns(pl.col(text_columns).cast(pl.String))


def paired(runs: pl.DataFrame, value: pl.Expr = TIME) -> pl.DataFrame:
    """The runs that have a baseline, each with `value` of its own and of other runs of its pair.

    `against` is the value of its baseline, `again` that of the repeated baseline, and `control`
    that of the control. A value is null if its run does not count.
    """
    runs = runs.with_columns(value=value)
    group = [*PAIR, "baseline"]
    baselines = runs.filter(role="baseline").select(*PAIR, baseline="arm", against="value")
    rows = runs.filter(pl.col("baseline").is_not_null())
    rows = rows.join(baselines, on=group, how="left", maintain_order="left")
    for role, name in (("floor", "again"), ("control", "control")):
        runs_of_role = runs.filter(role=role).select(*group, pl.col("value").alias(name))
        rows = rows.join(
            runs_of_role.unique(group, keep="first"), on=group, how="left", maintain_order="left"
        ).with_columns(pl.when(pl.col("role") != role).then(name))
    return rows
