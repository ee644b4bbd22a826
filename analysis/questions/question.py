"""The record of a question, and the engine that answers it.

`rows` gives one row per pair or run: the keys `by`, and the values that the estimates read. The
rows with equal keys are one group, which makes one row of the answer:

- the keys;
- `n`, the number of rows of the group unless a fact of that name counts something else;
- each estimate as NAME, NAME_low and NAME_high; the first one is the main one;
- the `facts`;
- with `limits`, the `word` of the first limit that holds, and `why`.

Names of columns end in their unit, as everywhere (`_s`, `_b_s`, `_s_b`); a name without a unit is a
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
from records.units import plural

#: Rows of a group -> an estimate; None if there are too few.
Estimator = Callable[[pl.DataFrame], Estimate | None]
#: Rows of a group -> where something crosses, as an estimate whose interval may be open.
Crosser = Callable[[pl.DataFrame], Crossing]
Plot = Literal["forest", "lines", "points", "change", "map"]
INCONCLUSIVE = "inconclusive"
#: Unit, for `Question.units`, of what is in SI per byte per second.
PER_RATE = "per GB/s"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A word, said if the whole interval of an estimate lies in [low, high] and `condition` holds.

    Without bounds `condition` alone decides. It is an expression over the rows of the answer.
    """

    word: str
    low: float = -math.inf
    high: float = math.inf
    condition: pl.Expr | None = None
    #: Name of the estimate; empty: the main one.
    of: str = ""
    why: str = ""

    def holds(self, main: str) -> pl.Expr:
        """Return whether it holds of a row of an answer; bounds never hold without an interval."""
        name = self.of or main
        bounds = pl.lit(True)
        if self.low > -math.inf:
            bounds &= pl.col(f"{name}_low") >= self.low
        if self.high < math.inf:
            bounds &= pl.col(f"{name}_high") <= self.high
        return (bounds if self.condition is None else bounds & self.condition).fill_null(False)


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question to a run; its answer is a section of the report, and a file beside the page."""

    #: Id of the section, and name of the file NAME.json with its rows under NAME.
    name: str
    title: str
    #: The question and its method, in a few sentences for readers of the page.
    text: str
    #: One row per pair or run, or per estimate that a run (`analysis.report.data.RunData`) has.
    rows: Callable[[Any], pl.DataFrame]
    by: tuple[str, ...]
    #: Name -> estimator; with none, the first fact is the main figure, which has no interval.
    estimates: Mapping[str, Estimator | Crosser] = field(default_factory=dict)
    #: Column -> expression over the rows of a group.
    facts: Mapping[str, pl.Expr] = field(default_factory=dict)
    #: Last step before the words, for what needs all rows of the answer.
    then: Callable[[pl.DataFrame], pl.DataFrame] | None = None
    limits: tuple[Limit, ...] = ()
    #: Sentences above the answer's table: word -> sentence on each of its rows, whose columns
    #: stand in braces; or what makes the sentences of all rows.
    sentences: Mapping[str, str] | Callable[[pl.DataFrame], Sequence[str]] = field(
        default_factory=dict
    )
    #: Columns beside keys and main estimate in the page's table; empty: all. Files have them all.
    columns: tuple[str, ...] = ()
    #: Column -> its heading, where its name does not read by itself.
    headings: Mapping[str, str] = field(default_factory=dict)
    #: Column -> the column that has its unit, where rows differ in it; `count` and `1`, of shares,
    #: are units as well.
    units: Mapping[str, str] = field(default_factory=dict)
    #: A key whose values are columns of the page's table, each with the main figure and, below it,
    #: `columns`.
    spread: str = ""
    plot: Plot | None = "forest"
    #: Estimates that have a picture; empty: the main one.
    drawn: tuple[str, ...] = ()
    #: forest: the key that colours stand for, if any. lines, and points, which are all drawn and
    #: have no table: the column of the x axis, then the keys of a line; places that are texts are
    #: spaced evenly. change: the columns of the values without traffic and with it. map: the keys
    #: across and upwards, texts of the sizes NAME_b.
    axes: tuple[str, ...] = ()
    #: map: columns with sizes at which lines are drawn.
    marks: tuple[str, ...] = ()
    #: forest: the name of an interval that is drawn behind each row's own. points: a column with
    #: the values of a line.
    behind: str = ""
    #: Keys whose values have a picture each.
    apart: tuple[str, ...] = ()

    @property
    def main(self) -> str:
        """Name of the first estimate, or of the first fact."""
        return next(iter(self.estimates or self.facts))


def shared(*names: str) -> dict[str, pl.Expr]:
    """Facts that the rows of a group share: those of its first row."""
    return {name: pl.col(name).first() for name in names}


def answer(question: Question, run: Any) -> pl.DataFrame:
    """The rows of the answer; empty if the question does not apply to the run."""
    rows = question.rows(run)
    if rows.is_empty():
        return pl.DataFrame()
    # A column without a value in any row is a column of figures.
    rows = rows.with_columns(pl.selectors.by_dtype(pl.Null).cast(pl.Float64))
    by = list(question.by)
    groups = rows.group_by(by, maintain_order=True)
    estimated = [
        {**dict(zip(by, keys, strict=True)), **_estimates(question, group)}
        for keys, group in groups
    ]
    figures = [f"{name}{end}" for name in question.estimates for end in ("", "_low", "_high")]
    types = {name: rows.schema[name] for name in by} | dict.fromkeys(figures, pl.Float64())
    facts = groups.agg(**{"n": pl.len().cast(pl.Int64), **question.facts})
    table = pl.DataFrame(estimated, schema=types)
    table = table.join(facts, on=by, nulls_equal=True, maintain_order="left")
    table = table.select(*by, "n", pl.exclude(*by, "n"))
    if question.then:
        table = question.then(table)
    return _worded(question, table) if question.limits else table


def sentences_of(question: Question, table: pl.DataFrame) -> Sequence[str]:
    """The sentences of an answer."""
    sentences = question.sentences
    if not isinstance(sentences, Mapping):
        return sentences(table)
    rows = table.to_dicts() if sentences else []
    return [sentences[row["word"]].format(**row) for row in rows if row["word"] in sentences]


def _estimates(question: Question, group: pl.DataFrame) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    for name, estimator in question.estimates.items():
        values |= columns_of(name, estimator(group))
    return values


def columns_of(name: str, estimate: Estimate | Crossing | None) -> dict[str, float | None]:
    """An estimate as rows have it: `NAME`, `NAME_low` and `NAME_high`; nulls for none."""
    return {name: estimate.value if estimate else None, **ends_of(name, estimate)}


def ends_of(name: str, interval: Estimate | Crossing | Interval | None) -> dict[str, float | None]:
    """An interval as rows have it: `NAME_low` and `NAME_high`; nulls for none."""
    low, high = (interval.low, interval.high) if interval else (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def estimate_of(row: Mapping[str, Any], name: str) -> Estimate | None:
    """An estimate of a row; None if it is null."""
    if row[name] is None:
        return None
    return Estimate(row[name], row[f"{name}_low"], row[f"{name}_high"])


def _worded(question: Question, table: pl.DataFrame) -> pl.DataFrame:
    main = question.main
    few = pl.format(f"{{}}, fewer than {plural(MIN_VALUES, 'pair')}", pl.col("n"))
    word, why = pl.lit(INCONCLUSIVE), pl.lit("")
    if question.estimates:
        why = pl.when(pl.col(f"{main}_low").is_null()).then(few).otherwise(why)
    for limit in reversed(question.limits):
        holds = limit.holds(main)
        word = pl.when(holds).then(pl.lit(limit.word)).otherwise(word)
        why = pl.when(holds).then(pl.lit(limit.why)).otherwise(why)
    return table.with_columns(word=word, why=why)
