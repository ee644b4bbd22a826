"""How much of an application's time needs memory bandwidth: its share.

The share is the application's demand, relative to what membench takes on as many cores. In that
part of its time it suffers as membench does, in the rest not at all. It comes from counters of
memory traffic where a tool counted (bytes per second / rate of membench alone). Else from runs
beside membench on other cores (the factor `tool`, levels `membench:N`): its slowdown there less 1,
divided by that of membench in the same run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import polars as pl

from analysis.arms import BASELINE
from analysis.numbers import count
from analysis.regimes import WORKLOAD
from analysis.report.data import RunData
from analysis.role_values import role_values
from analysis.statistics.interval import CONFIDENCE, Estimate, known, median_interval

_BESIDE = f"{WORKLOAD}:"
_TRAFFIC = ("DRAM read", "DRAM written")
#: Share of membench itself, the measure of the others.
_ALL = Estimate(1.0, 1.0, 1.0, CONFIDENCE)


@dataclass(frozen=True)
class MemoryDemand:
    """The demand of one case."""

    source: Literal["counters", "membench beside it", "the measure itself"]
    #: Share of the time that needs memory bandwidth. Above 1, it suffers more than membench.
    share: Estimate
    #: Memory traffic of a node, bytes per second; None if no tool counted it.
    rate_b_s: Estimate | None = None


def demands(run: RunData, alone_b_s: float) -> dict[str, MemoryDemand | str]:
    """Case -> its demand, or why it is not known.

    `alone_b_s`: rate of membench alone on as many cores, above 0.
    """
    counted = _counted(run)
    beside = _beside(run)
    found: dict[str, MemoryDemand | str] = {}
    for case, workload in {row.case: row.workload for row in run.results}.items():
        if workload == WORKLOAD:
            found[case] = MemoryDemand("the measure itself", _ALL)
        elif rate := counted.get(case):
            value, low, high = (each / alone_b_s for each in (rate.value, rate.low, rate.high))
            found[case] = MemoryDemand(
                "counters", Estimate(value, low, high, rate.confidence), rate
            )
        else:
            found[case] = _from_neighbours(case, beside, run)
    return found


def _counted(run: RunData) -> Mapping[str, Estimate]:
    """Case -> traffic of a node in runs of the baseline, bytes per second, where it was counted."""
    values = role_values(run.counters).filter(
        pl.col("role").is_in(_TRAFFIC) & (pl.col("treatment") == BASELINE)
    )
    runs = run.samples.select("key", "elapsed_s")
    sums = (
        values.join(runs, on="key", how="inner")
        .group_by("case", "key", "rank", maintain_order=True)
        .agg(pl.col("value").sum() / pl.col("elapsed_s").first(), roles=pl.col("value").count())
        # A sum of one role, or of a role without a value, is not the traffic.
        .filter((pl.col("roles") == len(_TRAFFIC)) & pl.col("value").is_finite())
    )
    rates = {
        str(case): median_interval(group["value"].to_list())
        for (case,), group in sums.group_by("case", maintain_order=True)
    }
    return {case: rate for case, rate in rates.items() if rate is not None and rate.low > 0}


def _beside(run: RunData) -> dict[str, dict[int, Estimate]]:
    """Case -> its slowdown beside membench, for each number of cores of membench."""
    found: dict[str, dict[int, Estimate]] = {}
    for each in run.contrasts:
        plain = (each.kind, each.factor, each.at) == ("price", "tool", {})
        slower = known(each.ratio, each.ratio_low, each.ratio_high)
        beside = re.fullmatch(rf"{_BESIDE}([0-9]{{1,4}})", str(each.level))
        if plain and slower and beside:
            found.setdefault(each.case, {})[int(beside[1])] = slower
    return found


def _from_neighbours(
    case: str, beside: Mapping[str, Mapping[int, Estimate]], run: RunData
) -> MemoryDemand | str:
    measures: dict[int, Estimate] = {}
    for row in run.results:
        if row.workload == WORKLOAD:
            measures |= beside.get(row.case, {})
    own = {cores: each for cores, each in beside.get(case, {}).items() if cores in measures}
    if not own:
        return "neither counters of memory traffic nor six pairs beside membench"
    most = max(own)  # the most neighbours have the clearest effect
    share = share_of(own[most], measures[most])
    if share is None:
        return f"membench itself is not shown to be slower beside membench on {count(most, 'core')}"
    return MemoryDemand("membench beside it", share)


def share_of(own: Estimate, membench: Estimate) -> Estimate | None:
    """(own - 1) / (membench - 1), from the ends of both intervals; not below 0.

    None if membench is not shown to be slower beside itself.
    """
    if membench.low <= 1:
        return None
    value = (own.value - 1) / (membench.value - 1)
    low = (own.low - 1) / (membench.high - 1)
    high = (own.high - 1) / (membench.low - 1)
    return Estimate(max(0.0, value), max(0.0, low), max(0.0, high), CONFIDENCE)
