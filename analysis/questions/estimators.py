"""Functions that make estimators from `analysis.statistics`.

An estimator computes an estimate from a group of rows. The functions take names of columns.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from analysis.questions.question import CrossingEstimator, Estimator, estimate_of
from analysis.statistics.aligned_ranks import shifts, slowdown, thin_rows, with_zero_baselines
from analysis.statistics.interval import MIN_VALUES, Estimate, median_interval
from analysis.statistics.location import Crossing, crossing, location, ratio_between


def ratio(value: str, reference: str, repeated: str | None = None) -> Estimator:
    """Estimate the typical `value` / `reference` within pairs, by aligned ranks.

    The arguments name columns of positive numbers, with a row per pair. `repeated` is a second
    measurement of `reference`, and may be null in some rows. If the rows have a column `block`,
    values are divided by the block's typical reference.
    """

    def estimate(rows: pl.DataFrame) -> Estimate | None:
        references = [reference]
        if repeated and rows[repeated].count():
            references.append(repeated)
        pairs = rows.drop_nulls([value, reference])
        if pairs.is_empty():
            return None
        logs = pl.concat_list(pl.col(references).log()).list.explode(empty_as_null=False)
        typical_log = logs.drop_nulls().median()
        if "block" in pairs.columns:
            typical_log = typical_log.over("block")
        aligned_logs = pairs.select(pl.col(value, *references).log() - typical_log)
        return slowdown(aligned_logs.fill_null(float("nan")).to_numpy())

    return estimate


def difference(value: str, reference: str) -> Estimator:
    """Estimate the typical `value` - `reference` within pairs, by signed ranks.

    There is a row per pair.
    """

    def estimate(rows: pl.DataFrame) -> Estimate | None:
        differences_of_rows = rows.select(pl.col(value) - pl.col(reference)).to_series()
        differences = differences_of_rows.drop_nulls().to_numpy()
        if len(differences) < MIN_VALUES:
            return None
        # `shifts` widens its search by a fixed length, which must be small relative to the values.
        scale = float(np.abs(differences).max()) or 1.0
        low, middle, high = (shifts(with_zero_baselines(differences / scale)) * scale).tolist()
        return Estimate(middle, low, high)

    return estimate


def centre(value: str) -> Estimator:
    """Estimate the centre of all rows, by signed ranks and Student's t."""
    return lambda rows: location(rows[value].drop_nulls().to_numpy())


def crossover(slope: str, level: str, highest: str) -> CrossingEstimator:
    """Estimate the x, from 0 to `highest`, beyond which `slope` * x exceeds `level`.

    The arguments name columns, with a row per pair. `highest` has the same value in all rows.
    """

    def estimate(rows: pl.DataFrame) -> Crossing:
        complete_rows = rows.drop_nulls([slope, level])
        slopes, levels = (thin_rows(complete_rows[name].to_numpy()) for name in (slope, level))
        return crossing(lambda x: x * slopes - levels, 0.0, float(rows[highest][0]))

    return estimate


def stored_estimate(name: str) -> Estimator:
    """Take the estimate from the columns NAME, NAME_low and NAME_high of the first row."""
    return lambda rows: estimate_of(rows.row(0, named=True), name)


def median(value: str) -> Estimator:
    """Estimate the median of all rows, with an interval from order statistics."""
    return lambda rows: median_interval(rows[value].drop_nulls().to_list())


def ratio_of_sets(value: str, reference: str) -> Estimator:
    """Estimate the typical ratio of the values of two sets of runs that are not paired.

    Each row has the value of one run of the first set in `value`, and the list of all values of the
    second set in `reference`. This is null if there is no second set.
    """

    def estimate(rows: pl.DataFrame) -> Estimate | None:
        references = rows[reference][0]
        if references is None:
            return None
        return ratio_between(rows[value].drop_nulls().to_list(), references.to_list())

    return estimate
