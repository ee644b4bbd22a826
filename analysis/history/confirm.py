"""Confirmation of an alarm: the same case again, several times in one night, on the same nodes.

Old and new nights cannot be paired: the old state of the machine is gone. What can be excluded is
that a few unlucky allocations or nights made the alarm. So the case is run again `REPEATS` times,
each in an allocation of its own, on the nodes of the night that raised the alarm: runs of one night
begin within `series.NIGHT_S`, and the dates of two may differ. It is confirmed
if the 95 % interval of these runs lies wholly beyond half of the loss that the alarm names, and
dismissed otherwise: runs of one night differ less than nights, so any small difference from the old
median would be outside of their interval. A night that is disturbed as a whole confirms what a
quiet one would not.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from analysis.history.alarm import Alarm
from analysis.history.series import NIGHT_S
from analysis.history.tables import KEY
from analysis.statistics.nights import mean_of_nights

#: Runs of a confirmation.
REPEATS = 5


@dataclass(frozen=True)
class ConfirmationRequest:
    """What is to be run in one night to confirm an alarm."""

    machine: str
    campaign: str
    case: str
    #: Target nodes, for `--nodelist`; empty if unknown.
    nodes: list[str]
    #: Runs, each in an allocation of its own.
    repeats: int = REPEATS

    def as_dict(self) -> dict[str, Any]:
        """The request as in JSON."""
        return asdict(self)


def confirmation(alarm: Alarm) -> ConfirmationRequest:
    """The runs that would confirm or dismiss an alarm."""
    return ConfirmationRequest(alarm.machine, alarm.campaign, alarm.case, alarm.nodes)


def confirmed(alarm: Alarm, nights: pl.DataFrame) -> Alarm:
    """The alarm with its state, from the first night on which it was run again often enough.

    Without such a night it stays suspected.
    """
    rows = _again(alarm, nights)
    started_s = pl.col("started_s")
    for first_s in rows["started_s"]:
        night = rows.filter(started_s.is_between(first_s, first_s + NIGHT_S, closed="left"))
        if len(night) >= REPEATS:
            estimate = mean_of_nights(night["value"].to_list())
            assert estimate is not None
            half = alarm.ratio**0.5
            if night["better"][0] == "lower":
                worse = estimate.low > alarm.reference * half
            else:
                worse = estimate.high < alarm.reference / half
            return replace(
                alarm,
                state="confirmed" if worse else "dismissed",
                confirmed_by=night["run"].to_list(),
            )
    return alarm


def _again(alarm: Alarm, nights: pl.DataFrame) -> pl.DataFrame:
    """Runs of the alarm's series on the same nodes after those that it rests on."""
    same = [pl.col(name) == getattr(alarm, name) for name in ("machine", *KEY)]
    usable = pl.col("value").is_finite() & (pl.col("value") > 0)
    later = pl.col("night") >= np.datetime64(alarm.night)
    fresh = ~pl.col("run").is_in(alarm.runs)
    nodes = pl.col("nodes").fill_null("") == ",".join(alarm.nodes)
    return nights.filter(*same, usable, later, fresh, nodes).sort("started_s")
