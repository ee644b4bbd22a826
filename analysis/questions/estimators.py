"""Ways to estimate a group of rows, from the statistics of all analyses."""

from __future__ import annotations

import numpy as np
import polars as pl

from analysis.questions.question import Estimator
from analysis.statistics.aligned_ranks import against_zero, shifts
from analysis.statistics.aligned_ranks import slowdown as aligned
from analysis.statistics.interval import CONFIDENCE, FEWEST, Estimate, median_interval
from analysis.statistics.location import ratio_between


def ratio(value: str, against: str, again: str | None = None) -> Estimator:
    """The typical `value` / `against` within pairs, by aligned ranks.

    Columns of positive numbers, a row per pair; `again` repeats `against`, null where it lacks.
    With a column `block`, values are taken relative to the block's typical `against`.
    """

    def estimate(rows: pl.DataFrame) -> Estimate | None:
        references = [against, *([again] if again and rows[again].count() else [])]
        known = rows.drop_nulls([value, against])
        if known.is_empty():
            return None
        logs = known.select(pl.col(value, *references).log())
        middle = pl.concat_list(references).list.explode(empty_as_null=False).drop_nulls().median()
        if "block" in known.columns:
            logs = logs.with_columns(known["block"]).with_columns(middle=middle.over("block"))
        else:
            logs = logs.with_columns(middle=middle)
        relative = logs.select(pl.col(value, *references) - pl.col("middle"))
        return aligned(relative.fill_null(float("nan")).to_numpy())

    return estimate


def difference(value: str, against: str) -> Estimator:
    """The typical `value` - `against` within pairs, by signed ranks; a row per pair."""

    def estimate(rows: pl.DataFrame) -> Estimate | None:
        values = rows.select(pl.col(value) - pl.col(against)).to_series().drop_nulls().to_numpy()
        if len(values) < FEWEST:
            return None
        scale = float(np.abs(values).max()) or 1.0
        low, centre, high = (float(end) * scale for end in shifts(against_zero(values / scale)))
        return Estimate(centre, low, high, CONFIDENCE)

    return estimate


def median(value: str) -> Estimator:
    """The median of all rows, with the interval of order statistics."""
    return lambda rows: median_interval(rows[value].drop_nulls().to_list())


def ratio_of_sets(value: str, against: str) -> Estimator:
    """The typical ratio between two sets of runs that are not paired."""

    def estimate(rows: pl.DataFrame) -> Estimate | None:
        return ratio_between(*(rows[name].drop_nulls().to_list() for name in (value, against)))

    return estimate
