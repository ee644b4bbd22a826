"""The record of a question, and the engine that answers it.

`Question.rows` makes one row per pair or run. A row has the keys (the columns `Question.by`) and
the values from which estimates are computed. The rows with equal keys are a group. Each group
becomes one row of the answer, with these columns:

- the keys;
- `n`, the number of rows of the group, unless a fact with this name counts something else;
- each estimate as NAME, NAME_low and NAME_high; the first estimate is the main estimate;
- the `facts`;
- if the question has `limits`: `word`, the verdict of the first limit that applies, and `why`.

Names of columns end in their unit (`_s`, `_b_s`, `_s_b`). A column without a unit in its name is a
ratio or a number. All values are SI.
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
#: Rows of a group -> a crossing, which is an estimate whose interval may be open.
CrossingEstimator = Callable[[pl.DataFrame], Crossing]
Plot = Literal["forest", "lines", "points", "change", "map"]
INCONCLUSIVE = "inconclusive"
#: A unit for `Question.units`. The values are divided by a rate in bytes per second.
PER_RATE = "per GB/s"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A word (a verdict), and the rows of the answer to which it applies.

    It applies if the main estimate's interval lies in [low, high] and the expression `condition` is
    true. Without bounds, only `condition` decides.
    """

    word: str
    low: float = -math.inf
    high: float = math.inf
    condition: pl.Expr | None = None
    #: The reason that is shown below the word.
    why: str = ""

    def holds(self, main: str) -> pl.Expr:
        """An expression that is true in rows to which the word applies.

        `main` is the name of the main estimate. If it has no interval, a limit with bounds does not
        apply.
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
    #: A run (`analysis.report.data.RunData`) -> a row for each pair, sample or estimate of the run.
    rows: Callable[[Any], pl.DataFrame]
    #: The keys: columns whose values group the rows. Keys that are no columns are left out.
    by: tuple[str, ...]
    #: Name -> estimator. If there are none, the first fact is the main figure, without an interval.
    estimates: Mapping[str, Estimator | CrossingEstimator] = field(default_factory=dict)
    #: Column -> expression over the rows of a group.
    facts: Mapping[str, pl.Expr] = field(default_factory=dict)
    #: Function that changes the whole answer before its words are chosen.
    postprocess: Callable[[pl.DataFrame], pl.DataFrame] | None = None
    limits: tuple[Limit, ...] = ()
    #: Sentences above the answer's table. A mapping gives the sentence for each row with a certain
    #: word; names of columns in braces are replaced by the row's values. A function makes the
    #: sentences from the whole answer.
    sentences: Mapping[str, str] | Callable[[pl.DataFrame], Sequence[str]] = field(
        default_factory=dict
    )
    #: Columns of the page's table besides keys and main estimate. If empty, the table has all
    #: columns. Files always have all columns.
    columns: tuple[str, ...] = ()
    #: Column -> its heading. The default is made from the column's name.
    headings: Mapping[str, str] = field(default_factory=dict)
    #: Column -> the column that has its unit, for columns whose unit differs between rows. `count`
    #: and `1` (a share) are units, too.
    units: Mapping[str, str] = field(default_factory=dict)
    #: A key whose values are columns of the page's table. Each cell has the main figure and, below
    #: it, `columns`.
    column_key: str = ""
    #: Kind of picture, or None if there is no picture. With `points`, all rows are drawn and there
    #: is no table.
    plot: Plot | None = "forest"
    #: Estimates that have a picture. If empty, the main estimate has one.
    drawn_estimates: tuple[str, ...] = ()
    #: Columns of the picture, by its kind:
    #: forest: the key that colours stand for, if any;
    #: lines, points: the column of the x axis (texts are spaced evenly), then the keys of a line;
    #: change: the column of values without traffic, then the column of values with traffic;
    #: map: the keys of the x and y axes, which are texts of the sizes NAME_b.
    plot_columns: tuple[str, ...] = ()
    #: For `map`, columns with sizes in bytes at which lines are drawn.
    marks: tuple[str, ...] = ()
    #: For `forest`, the name of an interval that is drawn behind each row's own interval. For
    #: `points`, a column with the values of a line.
    background: str = ""
    #: Keys: each combination of their values has its own picture.
    picture_keys: tuple[str, ...] = ()

    @property
    def main(self) -> str:
        """Name of the first estimate, or of the first fact."""
        return next(iter(self.estimates or self.facts))


def shared(*names: str) -> dict[str, pl.Expr]:
    """Facts that are equal in all rows of a group, so the first row's values are used."""
    return {name: pl.col(name).first() for name in names}


def answer(question: Question, run: Any) -> pl.DataFrame:
    """The rows of the answer; empty if the question does not apply to the run."""
    rows = question.rows(run)
    if rows.is_empty():
        return pl.DataFrame()
    # A column without any value has the type Null. It becomes a column of figures.
    rows = rows.with_columns(pl.selectors.by_dtype(pl.Null).cast(pl.Float64))
    keys = [name for name in question.by if name in rows.columns]
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
    """The columns `NAME`, `NAME_low` and `NAME_high`; null if there is no estimate."""
    return {name: estimate.value if estimate else None, **ends_of(name, estimate)}


def ends_of(name: str, interval: Estimate | Crossing | Interval | None) -> dict[str, float | None]:
    """The columns `NAME_low` and `NAME_high`; null if there is no interval."""
    low, high = (interval.low, interval.high) if interval else (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def estimate_of(row: Mapping[str, Any], name: str) -> Estimate | None:
    """The estimate in the columns `NAME`, `NAME_low` and `NAME_high`; None if `NAME` is null."""
    if row[name] is None:
        return None
    return Estimate(row[name], row[f"{name}_low"], row[f"{name}_high"])


def _with_words(question: Question, table: pl.DataFrame) -> pl.DataFrame:
    """The answer with the `word` of the first limit that applies, and the reason `why`."""
    main = question.main
    too_few = pl.format(f"{{}}, fewer than {plural(MIN_VALUES, 'pair')}", pl.col("n"))
    word, why = pl.lit(INCONCLUSIVE), pl.lit("")
    if question.estimates:
        has_too_few = pl.col(f"{main}_low").is_null() & (pl.col("n") < MIN_VALUES)
        why = pl.when(has_too_few).then(too_few).otherwise(why)
    # Later limits are handled first, so that the first limit that applies is used.
    for limit in reversed(question.limits):
        holds = limit.holds(main)
        word = pl.when(holds).then(pl.lit(limit.word)).otherwise(word)
        why = pl.when(holds).then(pl.lit(limit.why)).otherwise(why)
    return table.with_columns(word=word, why=why)
