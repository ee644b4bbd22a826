"""The standing of each remedy: better, worse, or not decided.

The net effect of a remedy is the application's speed with it / the speed without it. A remedy is
better only if three conditions hold. The whole interval of its net effect lies above 1. The
interval of the net effect in the next allocation lies above 1, too. The net effect is significant
after Holm's correction over all remedies that are read together.

A better remedy is recommended only if the writes were not emulated, if it does not slow the writers
down, and if the share of time with traffic was stated or does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from analysis.remedies.net import Remedy
from analysis.statistics.interval import CONFIDENCE, holm

_LEVEL = 1 - CONFIDENCE


class Standing(str, Enum):
    """The standing of a remedy; the value is used in text and files."""

    BETTER = "better"
    WORSE = "worse"
    NOT_DECIDED = "not decided"
    ONLY_HERE = "only here"
    TOO_FEW_PAIRS = "too few pairs"
    UNSTABLE = "baseline unstable"
    SLOWER_WRITES = "slower writes"

    __str__ = str.__str__

    @property
    def is_open(self) -> bool:
        """Return whether more pairs, more allocations, or a steadier baseline could decide."""
        return self in (
            Standing.NOT_DECIDED,
            Standing.TOO_FEW_PAIRS,
            Standing.ONLY_HERE,
            Standing.UNSTABLE,
        )


def with_standings(rows: Sequence[Remedy], *, share_stated: bool) -> list[Remedy]:
    """Return rows of `net.remedies` with the columns `standing`, `p_adjusted` and `recommended`.

    `p_adjusted` is the p value after Holm's correction over all remedies that have a p value and do
    not slow the writers down. It is null for other remedies. A remedy that is not significant is
    not decided, unless its baseline is unstable. Without a stated share of time with traffic, only
    remedies that cost nothing are recommended.
    """
    judged = [{**row, "standing": _standing_before_holm(row), "p_adjusted": None} for row in rows]
    tested = [
        row
        for row in judged
        if row["p"] is not None and row["standing"] is not Standing.SLOWER_WRITES
    ]
    for row, p in zip(tested, holm([row["p"] for row in tested]), strict=True):
        row["p_adjusted"] = p
        if p > _LEVEL and row["standing"] is not Standing.UNSTABLE:
            row["standing"] = Standing.NOT_DECIDED
    for row in judged:
        row["recommended"] = is_better(row) and (share_stated or costs_nothing(row))
    return judged


def _standing_before_holm(row: Remedy) -> Standing:
    """Return the standing of a remedy before Holm's correction."""
    low, high = row["net_low"], row["net_high"]
    if low is None:
        return Standing.TOO_FEW_PAIRS
    if row["unstable"]:
        return Standing.UNSTABLE
    if low <= 1 <= high:
        return Standing.NOT_DECIDED
    is_faster = low > 1
    # Writers that lose more than the margin are slowed down.
    slows_writers = row["written"] is not None and row["written_high"] < 1 / (1 + row["margin"])
    if is_faster and slows_writers:
        return Standing.SLOWER_WRITES
    next_low, next_high = row["next_allocation_low"], row["next_allocation_high"]
    if next_low is None:
        return Standing.ONLY_HERE
    next_agrees = next_low > 1 if is_faster else next_high < 1
    if not next_agrees:
        return Standing.ONLY_HERE
    return Standing.BETTER if is_faster else Standing.WORSE


def is_better(row: Mapping[str, Any]) -> bool:
    """Return whether a remedy is shown to be better, and its writes were not emulated."""
    return row["standing"] is Standing.BETTER and not row["emulated"]


def costs_nothing(row: Mapping[str, Any]) -> bool:
    """Return whether a remedy is worth its price at any share of time with traffic.

    This is true for each level of the writers, since such a level has no price.
    """
    return row["price"] is None or bool(row["break_even_high"] == 0)
