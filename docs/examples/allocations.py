"""Compares the nodes of each allocation with those of the others."""

from __future__ import annotations

import polars as pl

from analysis.questions.estimators import median
from analysis.questions.presentation import section
from analysis.questions.question import Limit, Question
from analysis.questions.rows import TIME, runs_that_count
from analysis.report.data import RunData


def _rows(run: RunData) -> pl.DataFrame:
    """A row per baseline run of each case with several allocations, relative to the case."""
    runs = runs_that_count(run.samples, "fom", "fom_better", "nodes")
    runs = runs.filter(
        pl.col("role") == "baseline", pl.col("block").n_unique().over("case") > 1
    ).with_columns(time=TIME)
    return runs.with_columns(
        relative=pl.col("time") / pl.col("time").median().over("case"),
        margin=pl.lit(run.header.margin),
    )


_LOW, _HIGH, _LIMIT = pl.col("relative_low"), pl.col("relative_high"), 1 + pl.col("margin")
ALLOCATIONS = Question(
    name="allocations",
    title="Allocations",
    text="Time of the baseline in each allocation / median of the case.",
    rows=_rows,
    by=("case", "block"),
    estimates={"relative": median("relative")},
    facts={
        "nodes": pl.col("nodes").cast(pl.String).first(),
        "margin": pl.col("margin").first(),
    },
    limits=(
        Limit(word="slower", condition=_LOW > _LIMIT),
        Limit(word="faster", condition=_HIGH < 1 / _LIMIT),
        Limit(word="like the others", condition=(_LOW >= 1 / _LIMIT) & (_HIGH <= _LIMIT)),
    ),
    columns=("nodes", "n", "word"),
    headings={"relative": "time / median", "block": "allocation", "n": "runs"},
    picture_keys=("case",),
)
SECTIONS = [section(ALLOCATIONS, "before_cases", 60)]
