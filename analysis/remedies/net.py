"""Remedies of a run as one frame: what each costs and helps, and what both come to."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from analysis.history.between_nights import NightsDifference, ratio_of_nights
from analysis.questions.estimators import stated
from analysis.questions.question import columns_of, ends_of
from analysis.remedies.tried import KEYS, speeds
from analysis.report.data import RunData
from analysis.statistics.aligned_ranks import (
    FEWEST_BLOCKS,
    Values,
    against_zero,
    few,
    next_allocation,
    slowdown,
)
from analysis.statistics.interval import FEWEST, Estimate
from analysis.statistics.location import Crossing, crossing, location, p_value

#: A remedy with its figures. `price`: time off with the remedy / off; above 1 it costs; null for a
#: level of the writers, which does nothing where nothing is written. `gain`: time on / time on with
#: it; above 1 it helps. `written`: the writers' rate with it / without. `net`: the application's
#: speed with it / without, at the share of time with traffic: the gain at 1, 1 / price at 0; `p` of
#: 'no difference' in the `allocations` measured, and `next_allocation`, an interval that covers the
#: next one, null below three. `break_even`: the share from which on the net is above 1, for pairs.
#: `n`: pairs that hold all four runs, or allocations of the side with fewer. Intervals end in
#: `_low` and `_high`.
Remedy = dict[str, Any]


def remedies(run: RunData, share: float) -> pl.DataFrame:
    """The remedies of a run, a row each, with traffic during `share` of the time."""
    return run.once(f"remedies at {share}", lambda: estimated(speeds(run), share))


def estimated(rows: pl.DataFrame, share: float) -> pl.DataFrame:
    """A row per remedy from its `tried.speeds`."""
    if rows.is_empty():
        return rows
    table = []
    for _, pairs in rows.group_by(KEYS, maintain_order=True):
        figures = _of_pairs(pairs, share) if pairs["paired"][0] else _of_allocations(pairs, share)
        table.append(pairs.select(_NAMES).row(0, named=True) | figures)
    return pl.DataFrame(table, infer_schema_length=None)


_NAMES = (
    *KEYS,
    *("remedy", "what", "workload", "rate_b_s", "paired", "emulated", "unstable", "margin"),
)


def _of_pairs(rows: pl.DataFrame, share: float) -> Remedy:
    price = stated("price")(rows)
    whole = rows.drop_nulls(["off", "on", "off_with", "on_with"])
    # A remedy may help on some nodes and not on others, so what the pairs of a few allocations show
    # need not hold in the next one.
    logs = (_mean_speed(whole, share, "_with") / _mean_speed(whole, share)).log().to_numpy()
    net = _exponential(location(logs))
    places = whole["block"]
    of_blocks = [logs[(places == block).to_numpy()] for block in places.unique().sort()]
    following = next_allocation([against_zero(block) for block in of_blocks]) if net else None
    rates = (whole["writer_rate_b_s_with"] / whole["writer_rate_b_s"]).to_numpy()
    gain = stated("gain")(rows) or _ratio((whole["on_with"] / whole["on"]).to_numpy())
    return {
        **columns_of("price", price),
        **columns_of("gain", gain),
        **columns_of("written", _ratio(rates)),
        **columns_of("net", net),
        **columns_of("break_even", _break_even(whole) if price else None),
        **ends_of("next_allocation", following),
        "p": p_value(logs) if net else None,
        "n": whole.height,
        "allocations": places.n_unique(),
    }


def _of_allocations(rows: pl.DataFrame, share: float) -> Remedy:
    """From one speed an allocation: their scatter is in the interval of the net already."""
    one = rows.select("off", "on").drop_nulls()
    other = rows.select(off="off_with", on="on_with").drop_nulls()
    net = _of_nights(_mean_speed(other, share), _mean_speed(one, share))
    price, gain = _of_nights(one["off"], other["off"]), _of_nights(other["on"], one["on"])
    allocations = min(one.height, other.height)
    return {
        **columns_of("price", price.ratio if price else None),
        **columns_of("gain", gain.ratio if gain else None),
        **columns_of("written", None),
        **columns_of("net", net.ratio if net else None),
        **columns_of("break_even", None),
        **ends_of("next_allocation", net.ratio if net and allocations >= FEWEST_BLOCKS else None),
        "p": net.p if net else None,
        "n": allocations,
        "allocations": allocations,
    }


def _mean_speed(rows: pl.DataFrame, share: float, end: str = "") -> pl.Series:
    """Mean speed over time, with traffic during `share` of it."""
    return (1 - share) * rows[f"off{end}"] + share * rows[f"on{end}"]


def _exponential(logs: Estimate | None) -> Estimate | None:
    """An estimate of logarithms as one of ratios."""
    return logs.mapped(lambda value: float(np.exp(value))) if logs else None


def _break_even(rows: pl.DataFrame) -> Crossing | None:
    if rows.height < FEWEST:
        return None
    off, on, off_with, on_with = few(rows.select("off", "on", "off_with", "on_with").to_numpy()).T
    return crossing(
        lambda share: np.asarray(
            np.log(((1 - share) * off_with + share * on_with) / ((1 - share) * off + share * on))
        ),
        0.0,
        1.0,
    )


def _ratio(ratios: Values) -> Estimate | None:
    return slowdown(against_zero(np.log(ratios))) if np.isfinite(ratios).all() else None


def _of_nights(one: pl.Series, other: pl.Series) -> NightsDifference | None:
    """The ratio of speeds, one an allocation; None below two on a side."""
    if min(len(one), len(other)) < 2:
        return None
    return ratio_of_nights(one.to_list(), other.to_list())


def times(run: RunData) -> pl.DataFrame:
    """A row per pair and time of each remedy that has a price, relative to off without it.

    `with`: traffic, the remedy, whose time is its price, or both.
    """
    rows = speeds(run)
    if rows.is_empty():
        return rows
    rows = rows.filter("paired", pl.col("price").is_not_null())
    rows = rows.with_columns(pl.lit(["traffic", "remedy", "both"]).alias("with")).explode(
        "with", empty_as_null=False
    )
    speed = pl.when(pl.col("with") == "both").then("on_with").otherwise("on")
    return rows.with_columns(log=(pl.col("off") / speed).log())


def time(rows: pl.DataFrame) -> Estimate | None:
    """The estimate of the rows of one of `times`."""
    if rows["with"][0] == "remedy":
        return stated("price")(rows)
    return _exponential(location(rows["log"].to_numpy()))
