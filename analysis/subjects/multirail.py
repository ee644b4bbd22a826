"""The multirail study: what it published of workloads, and words for comparisons like its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import polars as pl

from analysis.questions.question import INCONCLUSIVE, Limit

#: Name of the factor that sets the rail policy of the MPI library.
MPI = "mpi_rail"
TOOL = "tool"
RULE = (
    " A difference is named if its whole interval lies on one side of 1, and the estimate beyond"
    " what repetitions of the baseline show. One comparison in twenty gets there by chance."
)


@cache
def published() -> dict[str, Any]:
    """Return what the study's text says of each workload: figure -> workload -> words; `source`."""
    record: dict[str, Any] = json.loads(Path(__file__).with_name("multirail.json").read_text())
    return record


def beside_published(figure: str) -> Callable[[pl.DataFrame], list[str]]:
    """Return a function that gives what was published of the workloads in a table, MPI only."""
    return partial(_published, figure)


def _published(figure: str, table: pl.DataFrame) -> list[str]:
    cases = {name.partition("@")[0] for name in table["case"].cast(pl.String).unique()}
    texts = [f"{name}: {text}" for name, text in published()[figure].items() if name in cases]
    return [f"Published ({published()['source']}): {'; '.join(texts)}."] if texts else []


def limits_of(estimate: str, more: str, less: str) -> tuple[Limit, ...]:
    """Return the words for a ratio, by the `floor` and the `margin` of its row.

    `more` and `less`: the words for a ratio above and below 1.
    """
    value, low, high = (pl.col(f"{estimate}{end}") for end in ("", "_low", "_high"))
    floor_low, floor_high, margin = (pl.col(name) for name in ("floor_low", "floor_high", "margin"))
    compared = low.is_not_null()
    steady = (floor_low <= 1) & (floor_high >= 1)
    return (
        Limit(
            word=INCONCLUSIVE, condition=compared & floor_low.is_null(), why="baseline not repeated"
        ),
        Limit(word=INCONCLUSIVE, condition=compared & ~steady, why="baseline unstable"),
        Limit(word=more, condition=(low > 1) & (value > floor_high)),
        Limit(word=less, condition=(high < 1) & (value < floor_low)),
        Limit(word="no difference", condition=(low >= 1 / (1 + margin)) & (high <= 1 + margin)),
    )
