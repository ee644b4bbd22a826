"""Pairs needed to detect the slowdowns that the contention model predicts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.statistics.sample_size import pairs_needed
from campaigns.request.schema import Campaign

if TYPE_CHECKING:
    from analysis.contention.slowdown import SlowdownRow


@dataclass(frozen=True)
class Predicted:
    """The predicted slowdown of one case of a campaign."""

    case: str
    slowdown: float
    slowdown_low: float
    slowdown_high: float
    #: Standard deviation of the logarithm of the ratio of two baseline runs, as measured.
    spread: float
    #: Pairs whose interval is as narrow as the campaign requests, or as the effect is large; None
    #: if no slowdown is predicted, or 10,000 are too few.
    pairs_needed: int | None


def predicted_pairs(campaign: Campaign, rows: Sequence[SlowdownRow]) -> list[Predicted]:
    """One row for each case whose workload has a prediction and a spread in `rows`."""
    known = {row.workload: row for row in rows if row.predicted and row.spread is not None}
    found = []
    for entry in campaign.cases:
        row = known.get(entry.check)
        if row is None or row.predicted is None or row.spread is None:
            continue
        loss = row.predicted.value - 1
        narrow = min(campaign.pairs.precision or loss, loss)
        needed = pairs_needed(row.spread, narrow) if narrow > 0 else None
        ends = (row.predicted.value, row.predicted.low, row.predicted.high)
        found.append(Predicted(entry.name, *ends, row.spread, needed))
    return found
