"""Unix time without steps, and the offset of another node's clock from ours.

The wall clock may be set while a block runs, but runs and rows (writers' reports) are ordered by
their times. So every process of a block reads the wall clock once, and adds the time that its
monotonic clock measures from then on.

The offset comes from round-trip messages. A message that leaves at our time a and arrives at the
other node's time b cannot take negative time, so the other clock is ahead by at most b - a. A
message back gives a lower bound in the same way. The true offset lies between the greatest lower
and the least upper bound of all exchanges. As in NTP, the quickest messages decide, but separately
for each direction. The error is at most half the distance between the bounds, however unequal the
two ways are. Only drift during the exchanges is not covered.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from records.errors import MachineError

#: The wall clock minus the monotonic one, when this process started.
_WALL_OFFSET_S = time.time() - time.monotonic()
#: Largest allowed difference between the clocks of a campaign's nodes, seconds.
MAX_OFFSET_S = 60.0


def now_s() -> float:
    """Unix time; changes of the wall clock after the start of this process have no effect on it."""
    return time.monotonic() + _WALL_OFFSET_S


def require_close_clocks(node: str, offsets_s: Mapping[str, float]) -> None:
    """Raise MachineError if another node's clock differs too much from the clock of `node`."""
    for other_node, offset_s in offsets_s.items():
        if abs(offset_s) > MAX_OFFSET_S:
            direction = "ahead of" if offset_s > 0 else "behind"
            raise MachineError(
                f"{other_node}: its clock is {abs(offset_s):.0f} s {direction} that of {node}"
            )


class Exchange(NamedTuple):
    """One round trip of a message."""

    #: Departure, by our clock.
    sent_s: float
    #: Arrival, by the other node's clock, which its answer states.
    remote_s: float
    #: Return of the answer, by our clock.
    back_s: float


@dataclass(frozen=True)
class Offset:
    """The offset of another clock, in seconds."""

    #: The other clock minus ours, and its largest error.
    offset_s: float
    error_s: float
    #: Time of the measurement, by our clock.
    at_s: float


def offset_from(exchanges: Sequence[Exchange], node: str) -> Offset:
    """Offset of the clock of `node`.

    Raises MachineError without exchanges, and if the bounds contradict each other. They do if a
    clock was set, or ran much faster than ours, during the exchanges.
    """
    if not exchanges:
        raise MachineError(f"{node}: no message came back, so its clock offset is unknown")
    highest_s = min(exchange.remote_s - exchange.sent_s for exchange in exchanges)
    lowest_s = max(exchange.remote_s - exchange.back_s for exchange in exchanges)
    if lowest_s > highest_s:
        raise MachineError(
            f"{node}: its clock moved by {lowest_s - highest_s:.3g} s during the measurement"
        )
    middle_s = (exchanges[0].sent_s + exchanges[-1].back_s) / 2
    return Offset(
        offset_s=(lowest_s + highest_s) / 2, error_s=(highest_s - lowest_s) / 2, at_s=middle_s
    )


def interpolated_offset(earlier: Offset, later: Offset, at_s: float) -> Offset:
    """The offset at a time by our clock, from a measurement before it and one after it.

    The error assumes that the clocks drift evenly. For a time before or after both measurements,
    offset and error of the nearer measurement are returned.
    """
    if later.at_s <= earlier.at_s:
        return earlier
    share = min(max((at_s - earlier.at_s) / (later.at_s - earlier.at_s), 0.0), 1.0)
    offset_s = earlier.offset_s + share * (later.offset_s - earlier.offset_s)
    error_s = earlier.error_s + share * (later.error_s - earlier.error_s)
    return Offset(offset_s=offset_s, error_s=error_s, at_s=at_s)
