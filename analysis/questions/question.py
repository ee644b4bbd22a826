"""The record of a question, and the engine that answers it.

`rows` makes one row per pair or run: the keys `by`, and the values that the estimates read. The
rows with equal keys are a group. Each group makes one row of the answer, with these columns:

- the keys;
- `n`, the number of rows of the group unless a fact of that name counts something else;
- each estimate as NAME, NAME_low and NAME_high; the first one is the main one;
- the `facts`;
- with `limits`, the `word` of the first limit that holds, and `why`.

Names of columns end in their unit (`_s`, `_b_s`, `_s_b`); a name without a unit is a ratio or a
number. All values are SI.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from analysis.statistics.interval import MIN_VALUES, Estimate, Interval
from analysis.statistics.location import Crossing
from records.units import filled, plural

#: Rows of a group -> an estimate; None if there are too few.
Estimator = Callable[[pl.DataFrame], Estimate | None]
#: Rows of a group -> a crossing: an estimate whose interval may be open.
CrossingEstimator = Callable[[pl.DataFrame], Crossing]
Plot = Literal["forest", "lines", "points", "change", "map"]
INCONCLUSIVE = "inconclusive"
#: Unit, for `Question.units`, of values per byte per second.
PER_RATE = "per GB/s"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A word, and the rows of the answer in which it holds.

    These are the rows in which the main estimate's interval lies in [low, high], and the expression
    `condition` is true. Without bounds, only `condition` decides.
    """

    word: str
    low: float = -math.inf
    high: float = math.inf
    condition: pl.Expr | None = None
    #: The reason that is shown below the word.
    why: str = ""

    def holds(self, main: str) -> pl.Expr:
        """An expression that tells whether the word holds in a row.

        `main` is the name of the main estimate. Bounds never hold without its interval.
        """
        is_true = pl.lit(True)
        if self.low > -math.inf:
            is_true &= pl.col(f"{main}_low") >= self.low
        if self.high < math.inf:
            is_true &= pl.col(f"{main}_high") <= self.high
        if self.condition is not None:
            is_true &= self.condition
        return is_true.fill_null(False)


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question about a run; its answer is a section of the report and a file beside the page."""

    #: Id of the section, and name of its file: NAME.json has the rows under the key NAME.
    name: str
    title: str
    #: The question and its method, in a few sentences for readers of the page.
    text: str
    #: A run (`analysis.report.data.RunData`) -> a row per pair or run, or per estimate of the run.
    rows: Callable[[Any], pl.DataFrame]
    #: The keys: columns whose values group the rows.
    by: tuple[str, ...]
    #: Name -> estimator; without any, the first fact is the main figure, which has no interval.
    estimates: Mapping[str, Estimator | CrossingEstimator] = field(default_factory=dict)
    #: Column -> expression over the rows of a group.
    facts: Mapping[str, pl.Expr] = field(default_factory=dict)
    #: Changes the whole answer before its words are chosen.
    postprocess: Callable[[pl.DataFrame], pl.DataFrame] | None = None
    limits: tuple[Limit, ...] = ()
    #: Sentences above the answer's table. Either word -> the sentence for each row with this word,
    #: which names columns in braces, or a function that makes the sentences from the answer.
    sentences: Mapping[str, str] | Callable[[pl.DataFrame], Sequence[str]] = field(
        default_factory=dict
    )
    #: Columns beside keys and main estimate in the page's table; empty: all. Files have them all.
    columns: tuple[str, ...] = ()
    #: Column -> its heading, if its name does not explain itself.
    headings: Mapping[str, str] = field(default_factory=dict)
    #: Column -> the column that has its unit, if rows differ in it. `count` and `1` (a share) are
    #: units, too.
    units: Mapping[str, str] = field(default_factory=dict)
    #: A key whose values are columns of the page's table. Each cell has the main figure and, below
    #: it, `columns`.
    column_key: str = ""
    #: `points` draws all rows, and has no table.
    plot: Plot | None = "forest"
    #: Estimates that have a picture; empty: the main one.
    drawn_estimates: tuple[str, ...] = ()
    #: Columns of the picture, by its kind:
    #: forest: the key that colours stand for, if any;
    #: lines, points: the column of the x axis (texts are spaced evenly), then the keys of a line;
    #: change: the values without traffic, and with it;
    #: map: the keys of the x and y axes, which are texts of the sizes NAME_b.
    plot_columns: tuple[str, ...] = ()
    #: map: columns with sizes at which lines are drawn.
    marks: tuple[str, ...] = ()
    #: forest: the name of an interval that is drawn behind each row's own interval. points: a
    #: column with the values of a line.
    background: str = ""
    #: Keys: each combination of their values has its own picture.
    picture_keys: tuple[str, ...] = ()

    @property
    def main(self) -> str:
        """Name of the first estimate, or of the first fact."""
        return next(iter(self.estimates or self.facts))


def shared(*names: str) -> dict[str, pl.Expr]:
    """Facts that all rows of a group share: the values of its first row."""
    return {name: pl.col(name).first() for name in names}


def answer(question: Question, run: Any) -> pl.DataFrame:
    """The rows of the answer; empty if the question does not apply to the run."""
    rows = question.rows(run)
    if rows.is_empty():
        return pl.DataFrame()
    # A column without any value has the type Null: it becomes a column of figures.
    rows = rows.with_columns(pl.selectors.by_dtype(pl.Null).cast(pl.Float64))
    keys = list(question.by)
    groups = rows.group_by(keys, maintain_order=True)
    estimates = [
        {**dict(zip(keys, values, strict=True)), **_estimates(question, group)}
        for values, group in groups
    ]
    figures = [f"{name}{end}" for name in question.estimates for end in ("", "_low", "_high")]
    types = {name: rows.schema[name] for name in keys} | dict.fromkeys(figures, pl.Float64())
    facts = groups.agg(**{"n": pl.len().cast(pl.Int64), **question.facts})
    table = pl.DataFrame(estimates, schema=types)
    table = table.join(facts, on=keys, nulls_equal=True, maintain_order="left")
    table = table.select(*keys, "n", pl.exclude(*keys, "n"))
    if question.postprocess:
        table = question.postprocess(table)
    return _with_words(question, table) if question.limits else table


def sentences_of(question: Question, table: pl.DataFrame) -> Sequence[str]:
    """The sentences of an answer."""
    sentences = question.sentences
    if not isinstance(sentences, Mapping):
        return sentences(table)
    if not sentences:
        return []
    return [
        filled(sentences[row["word"]], row) for row in table.to_dicts() if row["word"] in sentences
    ]


def _estimates(question: Question, group: pl.DataFrame) -> dict[str, float | None]:
    columns: dict[str, float | None] = {}
    for name, estimator in question.estimates.items():
        columns |= columns_of(name, estimator(group))
    return columns


def columns_of(name: str, estimate: Estimate | Crossing | None) -> dict[str, float | None]:
    """The columns `NAME`, `NAME_low` and `NAME_high` of an estimate; None for no estimate."""
    return {name: estimate.value if estimate else None, **ends_of(name, estimate)}


def ends_of(name: str, interval: Estimate | Crossing | Interval | None) -> dict[str, float | None]:
    """The columns `NAME_low` and `NAME_high` of an interval; None for no interval."""
    low, high = (interval.low, interval.high) if interval else (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def estimate_of(row: Mapping[str, Any], name: str) -> Estimate | None:
    """The estimate in the columns `NAME`, `NAME_low` and `NAME_high`; None if it is null."""
    if row[name] is None:
        return None
    return Estimate(row[name], row[f"{name}_low"], row[f"{name}_high"])


def _with_words(question: Question, table: pl.DataFrame) -> pl.DataFrame:
    """The answer with the `word` of the first limit that holds, and `why`."""
    main = question.main
    too_few = pl.format(f"{{}}, fewer than {plural(MIN_VALUES, 'pair')}", pl.col("n"))
    word, why = pl.lit(INCONCLUSIVE), pl.lit("")
    if question.estimates:
        why = pl.when(pl.col(f"{main}_low").is_null()).then(too_few).otherwise(why)
    # In reverse, so that of several limits that hold the first one is used.
    for limit in reversed(question.limits):
        holds = limit.holds(main)
        word = pl.when(holds).then(pl.lit(limit.word)).otherwise(word)
        why = pl.when(holds).then(pl.lit(limit.why)).otherwise(why)
    return table.with_columns(word=word, why=why)
