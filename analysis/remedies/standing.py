"""The standing of each remedy: better, worse, or not decided.

A remedy is better only if the whole interval of its net benefit lies on that side, that for the
next allocation too, and its p value holds after Holm over all remedies that are read together. It
is recommended only if, besides, the writes were not emulated, the writers are not slowed down
instead, and the share of time with traffic was stated or does not matter.
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
    OPEN = "not decided"
    HERE = "only here"
    FEW = "too few pairs"
    UNSTABLE = "baseline unstable"
    SLOWER_WRITES = "slower writes"

    __str__ = str.__str__

    @property
    def is_open(self) -> bool:
        """Return whether more pairs, allocations, or a steadier baseline could decide."""
        return self in (Standing.OPEN, Standing.FEW, Standing.HERE, Standing.UNSTABLE)


def stand(rows: Sequence[Remedy], *, share_stated: bool) -> list[Remedy]:
    """Remedies of `net.remedies` with `standing`, `p_adjusted`, and whether each is `recommended`.

    `p_adjusted`: after Holm over all that can be recommended; null for the others. Those that do
    not hold are not decided. Without a stated share of traffic, only what costs nothing is
    recommended.
    """
    judged = [{**row, "standing": _alone(row), "p_adjusted": None} for row in rows]
    tested = [
        row
        for row in judged
        if row["p"] is not None and row["standing"] is not Standing.SLOWER_WRITES
    ]
    for row, p in zip(tested, holm([row["p"] for row in tested]), strict=True):
        row["p_adjusted"] = p
        if p > _LEVEL and row["standing"] is not Standing.UNSTABLE:
            row["standing"] = Standing.OPEN
    for row in judged:
        row["recommended"] = is_better(row) and (share_stated or costs_nothing(row))
    return judged


def _alone(row: Remedy) -> Standing:
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
    next_low, next_high = row["next_allocation_low"], row["next_allocation_high"]
    # The next allocation must be on the same side.
    if next_low is None or (next_low <= 1 if low > 1 else next_high >= 1):
        return Standing.HERE
    return Standing.BETTER if low > 1 else Standing.WORSE


def is_better(row: Mapping[str, Any]) -> bool:
    """Return whether it is shown to be better, on RDMA hardware."""
    return row["standing"] is Standing.BETTER and not row["emulated"]


def costs_nothing(row: Mapping[str, Any]) -> bool:
    """Return whether it is worth its price at any share of traffic: a level of the writers is."""
    return row["price"] is None or bool(row["break_even_high"] == 0)
