"""The multirail study: its published findings on workloads, and verdicts on its comparisons.

A rail is one of several network interfaces of a node. A rail policy says which rails are used.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import polars as pl

from analysis.questions.question import INCONCLUSIVE, Limit
from analysis.report.data import RunData

#: Name of the factor that sets the rail policy of the MPI library.
MPI_FACTOR = "mpi_rail"
TOOL_FACTOR = "tool"
#: Text for readers of the page: the rule by which a difference between rail policies is named.
DIFFERENCE_RULE = (
    " A difference is named if its whole interval lies on one side of 1, and the estimate lies"
    " beyond what repetitions of the baseline show. One comparison in twenty does so by chance."
)


@cache
def published() -> dict[str, Any]:
    """The findings of the study: figure -> workload -> sentence; `source` names the study."""
    record: dict[str, Any] = json.loads(Path(__file__).with_name("multirail.json").read_text())
    return record


def published_sentences(figure: str) -> Callable[[RunData, pl.DataFrame], list[str]]:
    """Return a function that makes sentences from a run and the rows of an answer.

    The sentence has the published findings of a figure on the workloads of these rows.
    """
    return partial(_sentences, figure)


def _sentences(figure: str, run: RunData, table: pl.DataFrame) -> list[str]:
    cases = table["case"].cast(pl.String).unique().to_list()
    samples = run.samples.filter(pl.col("case").cast(pl.String).is_in(cases))
    workloads = samples["workload"].cast(pl.String).unique().to_list()
    findings = [
        f"{workload}: {finding}"
        for workload, finding in published()[figure].items()
        if workload in workloads
    ]
    return [f"Published ({published()['source']}): {'; '.join(findings)}."] if findings else []


def ratio_limits(estimate: str, word_above: str, word_below: str) -> tuple[Limit, ...]:
    """The words for a ratio, each with its condition on the row's columns.

    `estimate` is the name of the ratio. The interval of the repeated baseline, `floor_low` to
    `floor_high`, and `margin` are columns of the row, too. `word_above` is the word for a ratio
    above 1, `word_below` the word for a ratio below 1.
    """
    value, low, high = (pl.col(f"{estimate}{end}") for end in ("", "_low", "_high"))
    floor_low, floor_high, margin = (pl.col(name) for name in ("floor_low", "floor_high", "margin"))
    is_compared = low.is_not_null()
    is_steady = (floor_low <= 1) & (floor_high >= 1)
    return (
        Limit(
            word=INCONCLUSIVE,
            condition=is_compared & floor_low.is_null(),
            why="baseline not repeated",
        ),
        Limit(word=INCONCLUSIVE, condition=is_compared & ~is_steady, why="baseline unstable"),
        Limit(word=word_above, condition=(low > 1) & (value > floor_high)),
        Limit(word=word_below, condition=(high < 1) & (value < floor_low)),
        Limit(word="no difference", condition=(low >= 1 / (1 + margin)) & (high <= 1 + margin)),
    )
