"""Remedies of a run as one frame: the price, the gain and the net effect of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from analysis.history.between_nights import (
    NightsDifference,
    ratio_of_next_nights,
    ratio_of_nights,
)
from analysis.questions.estimators import stored_estimate
from analysis.questions.question import columns_of, ends_of
from analysis.remedies.speeds import REMEDY_COLUMNS, remedy_speeds
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

#: A remedy with its figures. The columns of an interval end in `_low` and `_high`. Runs without
#: writes are `off`, and runs with writes `on`.
#: `price`: time off with the remedy / time off without it; above 1 the remedy costs. It is null if
#: the remedy is a setting of the writers, which changes nothing without writes.
#: `gain`: time on without the remedy / time on with it; above 1 the remedy helps.
#: `written`: the writers' rate with the remedy / their rate without it; null for unpaired remedies.
#: `net`: the application's speed with the remedy / its speed without it, at a share of time with
#: traffic. It is the gain at a share of 1, and 1 / price at a share of 0.
#: `p`: p value of 'no difference' in net over the `allocations` measured.
#: `next_allocation`: an interval that covers the net of the next allocation; null for fewer than
#: three allocations.
#: `break_even`: the share of time with traffic above which the net is above 1; null for unpaired
#: remedies, and for those without a price.
#: `n`: number of pairs that have all four runs: off and on, with and without the remedy. For
#: unpaired remedies, it is the number of allocations with the remedy or without it, whichever is
#: smaller.
Remedy = dict[str, Any]


def remedies(run: RunData, share: float) -> pl.DataFrame:
    """Return a row for each remedy of a run, with traffic during `share` of the time."""
    return run.cached(f"remedies at {share}", lambda: net_effects(remedy_speeds(run), share))


def net_effects(rows: pl.DataFrame, share: float) -> pl.DataFrame:
    """Return a row for each remedy, from the rows of `speeds.remedy_speeds`."""
    if rows.is_empty():
        return rows
    table = []
    for _, speeds in rows.group_by(REMEDY_COLUMNS, maintain_order=True):
        figures_of = _paired_remedy if speeds["paired"][0] else _unpaired_remedy
        description = speeds.select(_DESCRIBING_COLUMNS).row(0, named=True)
        table.append(description | figures_of(speeds, share))
    return pl.DataFrame(table, infer_schema_length=None)


_DESCRIBING_COLUMNS = (
    *REMEDY_COLUMNS,
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
    """Return the figures of a remedy from pairs that have all four runs."""
    price = stored_estimate("price")(rows)
    complete = rows.drop_nulls(["off", "on", "off_with", "on_with"])
    nets = _mean_speed(complete, share, "_with") / _mean_speed(complete, share)
    log_nets = nets.log().to_numpy()
    net = _exponential(location(log_nets))
    # A remedy may help on some nodes and not on others, so a result of a few allocations need not
    # hold in the next one.
    blocks = complete["block"]
    nets_of_blocks = [
        with_zero_baselines(log_nets[(blocks == block).to_numpy()])
        for block in blocks.unique().sort()
    ]
    next_net = next_allocation(nets_of_blocks) if net else None
    rates = (complete["writer_rate_b_s_with"] / complete["writer_rate_b_s"]).to_numpy()
    gain = stored_estimate("gain")(rows) or _typical_ratio(
        (complete["on_with"] / complete["on"]).to_numpy()
    )
    return {
        **columns_of("price", price),
        **columns_of("gain", gain),
        **columns_of("written", _typical_ratio(rates)),
        **columns_of("net", net),
        **columns_of("break_even", _break_even(complete) if price else None),
        **ends_of("next_allocation", next_net),
        "p": p_value(log_nets) if net else None,
        "n": complete.height,
        "allocations": blocks.n_unique(),
    }


def _unpaired_remedy(rows: pl.DataFrame, share: float) -> Remedy:
    """Return the figures of a remedy from one speed for each allocation.

    The net of the next allocation is the speed in an allocation with the remedy / the speed in one
    without it. It scatters more than the net, which compares means over allocations.
    """
    without_remedy = rows.select("off", "on").drop_nulls()
    with_remedy = rows.select(off="off_with", on="on_with").drop_nulls()
    speed_with = _mean_speed(with_remedy, share)
    speed_without = _mean_speed(without_remedy, share)
    net = _ratio_of_allocations(speed_with, speed_without)
    price = _ratio_of_allocations(without_remedy["off"], with_remedy["off"])
    gain = _ratio_of_allocations(with_remedy["on"], without_remedy["on"])
    allocations = min(without_remedy.height, with_remedy.height)
    next_net = None
    if allocations >= MIN_BLOCKS:
        next_net = ratio_of_next_nights(speed_with.to_list(), speed_without.to_list())
    return {
        **columns_of("price", price.ratio if price else None),
        **columns_of("gain", gain.ratio if gain else None),
        **columns_of("written", None),
        **columns_of("net", net.ratio if net else None),
        **columns_of("break_even", None),
        **ends_of("next_allocation", next_net),
        "p": net.p if net else None,
        "n": allocations,
        "allocations": allocations,
    }


def _mean_speed(rows: pl.DataFrame, share: float, suffix: str = "") -> pl.Series:
    """Return the mean speed over time, with traffic during `share` of it."""
    return (1 - share) * rows[f"off{suffix}"] + share * rows[f"on{suffix}"]


def _exponential(log_ratio: Estimate | None) -> Estimate | None:
    """Return the estimate of a ratio from the estimate of its logarithm."""
    return log_ratio.mapped(lambda log: float(np.exp(log))) if log_ratio else None


def _break_even(rows: pl.DataFrame) -> Crossing | None:
    """Return the share of time with traffic at which the net is 1."""
    if rows.height < MIN_VALUES:
        return None
    speeds = thin_rows(rows.select("off", "on", "off_with", "on_with").to_numpy())
    off, on, off_with, on_with = speeds.T

    def log_net(share: Values) -> Values:
        mean_with_remedy = (1 - share) * off_with + share * on_with
        mean_without_remedy = (1 - share) * off + share * on
        return np.asarray(np.log(mean_with_remedy / mean_without_remedy))

    return crossing(log_net, 0.0, 1.0)


def _typical_ratio(ratios: Values) -> Estimate | None:
    return slowdown(with_zero_baselines(np.log(ratios))) if np.isfinite(ratios).all() else None


def _ratio_of_allocations(
    numerators: pl.Series, denominators: pl.Series
) -> NightsDifference | None:
    """Return the ratio of speeds, one for each allocation; None if a side has fewer than two."""
    if min(len(numerators), len(denominators)) < 2:
        return None
    return ratio_of_nights(numerators.to_list(), denominators.to_list())


def remedy_times(run: RunData) -> pl.DataFrame:
    """Return three rows for each pair of runs of each remedy that has a price.

    The column `with` says what the row has: `traffic`, `remedy` or `both`. `log` is the logarithm
    of the run's time / the time without traffic and without the remedy. In the row `remedy`, `log`
    has no meaning, since `typical_time` uses the price.
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


def typical_time(rows: pl.DataFrame) -> Estimate | None:
    """Return the typical time of rows of `remedy_times` with one remedy and one value of `with`."""
    if rows["with"][0] == "remedy":
        return stored_estimate("price")(rows)
    return _exponential(location(rows["log"].to_numpy()))
