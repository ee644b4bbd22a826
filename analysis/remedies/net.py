"""Remedies of a run as one frame: the price and the gain of each, and its net effect."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from analysis.history.between_nights import NightsDifference, ratio_of_nights
from analysis.questions.estimators import stated
from analysis.questions.question import columns_of, ends_of
from analysis.remedies.speeds import KEYS, remedy_speeds
from analysis.report.data import RunData
from analysis.statistics.aligned_ranks import (
    MIN_BLOCKS,
    Values,
    next_allocation,
    slowdown,
    thin_rows,
    with_zero_baselines,
)
from analysis.statistics.interval import MIN_VALUES, Estimate
from analysis.statistics.location import Crossing, crossing, location, p_value

#: A remedy with its figures; the columns of an interval end in `_low` and `_high`.
#: `price`: time off with the remedy / time off; above 1 it costs. It is null for a level of the
#: writers, which does nothing where nothing is written.
#: `gain`: time on / time on with the remedy; above 1 it helps.
#: `written`: the writers' rate with the remedy / without.
#: `net`: the application's speed with the remedy / without, at the given share of time with
#: traffic. It is the gain at a share of 1, and 1 / price at 0.
#: `p`: p value of 'no difference' in net over the `allocations` measured.
#: `next_allocation`: an interval that covers the net of the next allocation; null below three.
#: `break_even`: the share above which the net is above 1, of paired remedies.
#: `n`: pairs that hold all four runs, or allocations of the side with fewer.
Remedy = dict[str, Any]


def remedies(run: RunData, share: float) -> pl.DataFrame:
    """The remedies of a run, a row each, with traffic during `share` of the time."""
    return run.cached(f"remedies at {share}", lambda: estimated(remedy_speeds(run), share))


def estimated(rows: pl.DataFrame, share: float) -> pl.DataFrame:
    """A row per remedy from its `speeds.remedy_speeds`."""
    if rows.is_empty():
        return rows
    table = []
    for _, pairs in rows.group_by(KEYS, maintain_order=True):
        figures = (
            _paired_remedy(pairs, share) if pairs["paired"][0] else _unpaired_remedy(pairs, share)
        )
        table.append(pairs.select(_DESCRIPTION).row(0, named=True) | figures)
    return pl.DataFrame(table, infer_schema_length=None)


_DESCRIPTION = (
    *KEYS,
    "remedy",
    "what",
    "workload",
    "rate_b_s",
    "paired",
    "emulated",
    "unstable",
    "margin",
)


def _paired_remedy(rows: pl.DataFrame, share: float) -> Remedy:
    price = stated("price")(rows)
    complete = rows.drop_nulls(["off", "on", "off_with", "on_with"])
    # A remedy may help on some nodes and not on others, so what the pairs of a few allocations show
    # need not hold in the next one.
    logs = (_mean_speed(complete, share, "_with") / _mean_speed(complete, share)).log().to_numpy()
    net = _exponential(location(logs))
    blocks = complete["block"]
    logs_by_block = [logs[(blocks == block).to_numpy()] for block in blocks.unique().sort()]
    next_net = (
        next_allocation([with_zero_baselines(block) for block in logs_by_block]) if net else None
    )
    rates = (complete["writer_rate_b_s_with"] / complete["writer_rate_b_s"]).to_numpy()
    gain = stated("gain")(rows) or _ratio((complete["on_with"] / complete["on"]).to_numpy())
    return {
        **columns_of("price", price),
        **columns_of("gain", gain),
        **columns_of("written", _ratio(rates)),
        **columns_of("net", net),
        **columns_of("break_even", _break_even(complete) if price else None),
        **ends_of("next_allocation", next_net),
        "p": p_value(logs) if net else None,
        "n": complete.height,
        "allocations": blocks.n_unique(),
    }


def _unpaired_remedy(rows: pl.DataFrame, share: float) -> Remedy:
    """A remedy from one speed per allocation; the interval of the net has their scatter already."""
    without = rows.select("off", "on").drop_nulls()
    with_remedy = rows.select(off="off_with", on="on_with").drop_nulls()
    net = _ratio_of_allocations(_mean_speed(with_remedy, share), _mean_speed(without, share))
    price = _ratio_of_allocations(without["off"], with_remedy["off"])
    gain = _ratio_of_allocations(with_remedy["on"], without["on"])
    allocations = min(without.height, with_remedy.height)
    return {
        **columns_of("price", price.ratio if price else None),
        **columns_of("gain", gain.ratio if gain else None),
        **columns_of("written", None),
        **columns_of("net", net.ratio if net else None),
        **columns_of("break_even", None),
        **ends_of("next_allocation", net.ratio if net and allocations >= MIN_BLOCKS else None),
        "p": net.p if net else None,
        "n": allocations,
        "allocations": allocations,
    }


def _mean_speed(rows: pl.DataFrame, share: float, suffix: str = "") -> pl.Series:
    """Mean speed over time, with traffic during `share` of it."""
    return (1 - share) * rows[f"off{suffix}"] + share * rows[f"on{suffix}"]


def _exponential(logs: Estimate | None) -> Estimate | None:
    """The estimate of a ratio from that of its logarithm."""
    return logs.mapped(lambda value: float(np.exp(value))) if logs else None


def _break_even(rows: pl.DataFrame) -> Crossing | None:
    if rows.height < MIN_VALUES:
        return None
    off, on, off_with, on_with = thin_rows(
        rows.select("off", "on", "off_with", "on_with").to_numpy()
    ).T
    return crossing(
        lambda share: np.asarray(
            np.log(((1 - share) * off_with + share * on_with) / ((1 - share) * off + share * on))
        ),
        0.0,
        1.0,
    )


def _ratio(ratios: Values) -> Estimate | None:
    return slowdown(with_zero_baselines(np.log(ratios))) if np.isfinite(ratios).all() else None


def _ratio_of_allocations(
    numerators: pl.Series, denominators: pl.Series
) -> NightsDifference | None:
    """The ratio of speeds, one per allocation; None below two on a side."""
    if min(len(numerators), len(denominators)) < 2:
        return None
    return ratio_of_nights(numerators.to_list(), denominators.to_list())


def times(run: RunData) -> pl.DataFrame:
    """A row per pair, remedy with a price, and what the run is `with`: traffic, remedy or both.

    `log` is that of its time / time off without the remedy. `time` does not use it with the remedy
    alone, whose time is the price.
    """
    rows = remedy_speeds(run)
    if rows.is_empty():
        return rows
    rows = rows.filter("paired", pl.col("price").is_not_null())
    rows = rows.with_columns(pl.lit(["traffic", "remedy", "both"]).alias("with")).explode(
        "with", empty_as_null=False
    )
    speed = pl.when(pl.col("with") == "both").then("on_with").otherwise("on")
    return rows.with_columns(log=(pl.col("off") / speed).log())


def time(rows: pl.DataFrame) -> Estimate | None:
    """The time estimated from rows of `times` of one remedy and `with`."""
    if rows["with"][0] == "remedy":
        return stated("price")(rows)
    return _exponential(location(rows["log"].to_numpy()))
