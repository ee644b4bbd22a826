"""Ways to estimate a group of rows, from the statistics of all analyses."""

from __future__ import annotations

import numpy as np
import polars as pl

from analysis.questions.question import Crosser, Estimator, estimate_of
from analysis.statistics.aligned_ranks import shifts, thin_rows, with_zero_baselines
from analysis.statistics.aligned_ranks import slowdown as aligned
from analysis.statistics.interval import MIN_VALUES, Estimate, median_interval
from analysis.statistics.location import Crossing, crossing, location, ratio_between


def ratio(value: str, against: str, again: str | None = None) -> Estimator:
    """The typical `value` / `against` within pairs, by aligned ranks.

    Columns of positive numbers, a row per pair; `again` repeats `against`, and may be null.
    With a column `block`, values are taken relative to the block's typical `against`.
    """

    def estimate(rows: pl.DataFrame) -> Estimate | None:
        references = [against, *([again] if again and rows[again].count() else [])]
        pairs = rows.drop_nulls([value, against])
        if pairs.is_empty():
            return None
        middle = pl.concat_list(pl.col(references).log()).list.explode(empty_as_null=False)
        middle = middle.drop_nulls().median()
        middle = middle.over("block") if "block" in pairs.columns else middle
        logs = pairs.select(pl.col(value, *references).log() - middle)
        return aligned(logs.fill_null(float("nan")).to_numpy())

    return estimate


def difference(value: str, against: str) -> Estimator:
    """The typical `value` - `against` within pairs, by signed ranks; a row per pair."""

    def estimate(rows: pl.DataFrame) -> Estimate | None:
        values = rows.select(pl.col(value) - pl.col(against)).to_series().drop_nulls().to_numpy()
        if len(values) < MIN_VALUES:
            return None
        scale = float(np.abs(values).max()) or 1.0
        low, centre, high = (shifts(with_zero_baselines(values / scale)) * scale).tolist()
        return Estimate(centre, low, high)

    return estimate


def centre(value: str) -> Estimator:
    """The centre of all rows, by signed ranks."""
    return lambda rows: location(rows[value].drop_nulls().to_numpy())


def crossover(slope: str, level: str, highest: str) -> Crosser:
    """The x, from 0 to `highest`, beyond which `slope` x exceeds `level`; a row per pair."""

    def estimate(rows: pl.DataFrame) -> Crossing:
        complete = rows.drop_nulls([slope, level])
        slopes, levels = (thin_rows(complete[name].to_numpy()) for name in (slope, level))
        return crossing(lambda x: x * slopes - levels, 0.0, float(rows[highest][0]))

    return estimate


def stated(name: str) -> Estimator:
    """The estimate of a run's records: NAME, NAME_low and NAME_high of the first row."""
    return lambda rows: estimate_of(rows.row(0, named=True), name)


def median(value: str) -> Estimator:
    """The median of all rows, with the interval of order statistics."""
    return lambda rows: median_interval(rows[value].drop_nulls().to_list())


def ratio_of_sets(value: str, against: str) -> Estimator:
    """The typical ratio between two sets of runs that are not paired.

    `value` is of a run, `against` the list of the other set, the same in all rows; null without it.
    """

    def estimate(rows: pl.DataFrame) -> Estimate | None:
        others = rows[against][0]
        if others is None:
            return None
        return ratio_between(rows[value].drop_nulls().to_list(), others.to_list())

    return estimate
