"""Unix time without steps, and the offset of another node's clock from ours.

The wall clock may be set while a block runs, but runs and rows are put in order by their times. So
every process of a block reads it once, and goes on by its monotonic clock.

The offset comes from round-trip messages. A message that leaves at our time a and arrives at the
other node's time b cannot take negative time, so the other clock is ahead by at most b - a. A
message back gives a lower bound in the same way. The true offset lies between the greatest lower
and the least upper bound of all exchanges. As in NTP the quickest messages decide, here separately
for each direction, and the bound is hard: however unequal the two ways, the error is at most half
the distance between the bounds. Only drift during the exchanges themselves is not covered.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from records.errors import MachineError

#: The wall clock minus the monotonic one, when this process started.
_WALL_OFFSET_S = time.time() - time.monotonic()
#: How far the clocks of a campaign may be apart, seconds; reading a run allows as much.
_MAX_OFFSET_S = 60.0


def now_s() -> float:
    """Unix time, which no setting of the wall clock since this process's start has moved."""
    return time.monotonic() + _WALL_OFFSET_S


def require_close_clocks(node: str, offsets_s: Mapping[str, float]) -> None:
    """Raise MachineError if another node's clock is far from this one's: one of them is wrong."""
    for other_node, offset_s in offsets_s.items():
        if abs(offset_s) > _MAX_OFFSET_S:
            direction = "ahead of" if offset_s > 0 else "behind"
            raise MachineError(
                f"{other_node}: its clock is {abs(offset_s):.0f} s {direction} that of {node}"
            )


class Exchange(NamedTuple):
    """One round trip: sent and back by our clock, and the answer, the time by the other's clock."""

    sent_s: float
    remote_s: float
    back_s: float


@dataclass(frozen=True)
class Offset:
    """The other clock minus ours, at a time of ours, and its largest error; seconds."""

    offset_s: float
    error_s: float
    at_s: float


def offset_from(exchanges: Iterable[Exchange], node: str) -> Offset:
    """Offset of the clock of `node`. Raises MachineError if the bounds contradict each other.

    That happens if a clock was set, or ran much faster than ours, during the exchanges.
    """
    trips = list(exchanges)
    if not trips:
        raise MachineError(f"{node}: no message came back, so its clock offset is unknown")
    highest_s = min(trip.remote_s - trip.sent_s for trip in trips)
    lowest_s = max(trip.remote_s - trip.back_s for trip in trips)
    if lowest_s > highest_s:
        raise MachineError(
            f"{node}: its clock moved by {lowest_s - highest_s:.3g} s during the measurement"
        )
    middle_s = (trips[0].sent_s + trips[-1].back_s) / 2
    return Offset(
        offset_s=(lowest_s + highest_s) / 2, error_s=(highest_s - lowest_s) / 2, at_s=middle_s
    )


def interpolated_offset(first: Offset, last: Offset, at_s: float) -> Offset:
    """The offset at a time of ours, from one measured before it and one measured after it.

    Its error assumes that the clocks drift evenly; outside the two times the nearer one is used.
    """
    if last.at_s <= first.at_s:
        return first
    share = min(max((at_s - first.at_s) / (last.at_s - first.at_s), 0.0), 1.0)
    offset_s = first.offset_s + share * (last.offset_s - first.offset_s)
    error_s = first.error_s + share * (last.error_s - first.error_s)
    return Offset(offset_s=offset_s, error_s=error_s, at_s=at_s)
