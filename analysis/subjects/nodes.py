"""Slowdown by target node, where the blocks of a case ran on several nodes, one at a time."""

from __future__ import annotations

import polars as pl

from analysis.questions.estimators import ratio
from analysis.questions.question import Question
from analysis.questions.rows import paired, runs_that_count
from analysis.questions.shown import section
from analysis.report.data import RunData
from records.arms import natural


def _rows(run: RunData) -> pl.DataFrame:
    """A row per pair of an effect whose case ran on more than one node, each time on one."""
    kinds = run.samples.lazy().select("case", "nodes").unique().collect()
    if kinds["case"].is_unique().all():
        return pl.DataFrame()
    runs = runs_that_count(run.samples, "nodes", "fom", "fom_better", "fom_unit")
    runs = runs.with_columns(node=pl.col("nodes").cast(pl.String))
    alone = ~pl.col("node").str.contains(",", literal=True).any().over("case")
    several = pl.col("node").n_unique().over("case") > 1
    pairs = paired(runs.filter(alone & several)).filter(role="effect")
    order = [_natural(pairs, name) for name in ("case", "node")]
    return pairs.sort(*order, maintain_order=True)


def _natural(rows: pl.DataFrame, name: str) -> pl.Expr:
    """Sorts a column of names by the numbers in them."""
    return pl.col(name).cast(pl.Enum(sorted(rows[name].unique(), key=natural)))


def _figure(time: str) -> pl.Expr:
    """The median figure of merit of runs of which `time` is the time for the work."""
    median = pl.col(time).median()
    rate = pl.col("fom_better").first() == "higher"
    return pl.when(rate).then(1 / median).otherwise(median)


NODES = Question(
    name="nodes",
    title="By node",
    text="The slowdown of the pairs of each target node. Six pairs of a node give an interval; if"
    " one node differs from the others, look there for the reason.",
    rows=_rows,
    by=("case", "arm", "node"),
    estimates={"slowdown": ratio("value", "against", "again")},
    facts={
        "off": _figure("against"),
        "on": _figure("value"),
        "unit": pl.col("fom_unit").cast(pl.String).first(),
    },
    columns=("off", "on", "n"),
    headings={"arm": "treatment", "off": "median without", "on": "median with"},
    units={"off": "unit", "on": "unit"},
    apart=("case",),
)
SECTIONS = [section(NODES, "run", 5)]
