"""How each remedy stands: better, worse, or not decided; and which one is best.

A remedy is better only if the whole interval of its net benefit lies on that side, that for the
next allocation too, and its p value holds after Holm over all remedies that are read together. It
is recommended only if, besides, the writes were not emulated, the writers are not slowed down
instead, and the share of time with traffic was stated or does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np
import polars as pl

from analysis.remedies.net import Remedy, compared, mean_speed
from analysis.remedies.throttling import PAIR
from analysis.statistics.interval import CONFIDENCE, holm
from records.groups import grouped

_LEVEL = 1 - CONFIDENCE


class Standing(str, Enum):
    """What is known of a remedy; the value is used in text and files."""

    BETTER = "better"
    WORSE = "worse"
    OPEN = "not decided"
    HERE = "only here"
    FEW = "too few pairs"
    UNSTABLE = "baseline unstable"
    SLOWER_WRITES = "slower writes"

    __str__ = str.__str__

    @property
    def is_open(self) -> bool:
        """Whether more pairs, or allocations, could decide."""
        return self in (Standing.OPEN, Standing.FEW, Standing.HERE)


def stand(rows: Sequence[Remedy], *, share_stated: bool) -> list[Remedy]:
    """Remedies of `net.remedies` with `standing`, `p_adjusted`, and whether each is `recommended`.

    `p_adjusted`: after Holm over all that can be recommended; null for the others. Those that do
    not hold are not decided. Without a stated share of traffic, only what costs nothing is
    recommended.
    """
    alone = [alone_standing(row) for row in rows]
    adjusted = iter(
        holm([row["p"] for row, of in zip(rows, alone, strict=True) if _tested(row, of)])
    )
    judged = []
    for row, standing in zip(rows, alone, strict=True):
        p = next(adjusted) if _tested(row, standing) else None
        sided = standing in (Standing.BETTER, Standing.WORSE, Standing.HERE)
        if p is not None and p > _LEVEL and sided:
            standing = Standing.OPEN
        said = {"standing": standing, "p_adjusted": p}
        recommended = is_better(row | said) and (share_stated or costs_nothing(row))
        judged.append(row | said | {"recommended": recommended})
    return judged


def _tested(row: Remedy, standing: Standing) -> bool:
    return row["p"] is not None and standing is not Standing.SLOWER_WRITES


def alone_standing(row: Remedy) -> Standing:
    """A remedy by itself, before Holm."""
    low, high = row["net_low"], row["net_high"]
    if low is None:
        return Standing.FEW
    if row["unstable"]:
        return Standing.UNSTABLE
    if low <= 1 <= high:
        return Standing.OPEN
    # Writers that lose more than the margin are slowed down.
    slower_writes = row["written"] is not None and row["written_high"] < 1 / (1 + row["margin"])
    if low > 1 and slower_writes:
        return Standing.SLOWER_WRITES
    if not lasts(row["net"], row["next_allocation_low"], row["next_allocation_high"]):
        return Standing.HERE
    return Standing.BETTER if low > 1 else Standing.WORSE


def lasts(net: float, low: float | None, high: float | None) -> bool:
    """Whether the next allocation is shown to be on the same side of 1 as those measured."""
    if low is None or high is None:
        return False
    return low > 1 if net > 1 else high < 1


def is_better(row: Mapping[str, Any]) -> bool:
    """Whether it is shown to be better, on RDMA hardware."""
    return row["standing"] is Standing.BETTER and not row["emulated"]


def costs_nothing(row: Mapping[str, Any]) -> bool:
    """Whether it is worth its price at any share of traffic: a level of the writers is."""
    return row["price"] is None or bool(row["break_even_high"] == 0)


def best(rows: Sequence[Remedy], speeds: Mapping[str, pl.DataFrame], share: float) -> list[Remedy]:
    """The recommended `remedies` of each run, case and traffic, the largest net first.

    `decided`: whether the first is shown to be better than each of the others. `speeds`: run ->
    `tried.speeds`.
    """
    groups = grouped(
        ((row["run"], row["case"], row["traffic"]), row) for row in rows if row["recommended"]
    )
    chosen = []
    for (run, case, traffic), group in groups.items():
        ordered = sorted(group, key=lambda row: -row["net"])
        named = {"run": run, "case": case, "traffic": traffic}
        decided = _leads(ordered, speeds[run], share)
        chosen.append(named | {"remedies": ordered, "decided": decided})
    return chosen


def _leads(ordered: Sequence[Remedy], speeds: pl.DataFrame, share: float) -> bool:
    """Whether the first is shown to be better than each other one, in the pairs of both."""
    first, *others = (_mean_speeds(speeds, row, share) for row in ordered)
    p_values = []
    for other in others:
        common = first.join(other, on=PAIR, suffix="_other", maintain_order="left")
        logs = np.log((common["speed"] / common["speed_other"]).to_numpy())
        ratio, p, following = compared(logs, common["block"])
        leads = ratio and ratio.low > 1 and lasts(ratio.value, *(following or (None, None)))
        p_values.append(p if p is not None and leads else 1.0)
    return all(p <= _LEVEL for p in holm(p_values))


def _mean_speeds(speeds: pl.DataFrame, row: Remedy, share: float) -> pl.DataFrame:
    """Mean speed with the remedy in each pair; no rows for levels in different jobs."""
    same = [pl.col(name) == row[name] for name in ("case", "traffic", "treatment", "remedy")]
    pairs = speeds.filter("paired", *same)
    if pairs.is_empty():
        return pl.DataFrame(schema=dict.fromkeys(PAIR, pl.Int32) | {"speed": pl.Float64})
    return pairs.select(*PAIR, mean_speed(pairs, share, "_with").alias("speed"))
