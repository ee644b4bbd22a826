"""How far another node's clock is ahead of ours, from messages there and back.

A message that leaves at our time a and is received at the other node's time b took at least no
time, so that the other clock is ahead by at most b - a; one on the way back bounds it from below
in the same way. The true offset lies between the greatest lower and the least upper bound of all
exchanges. As in NTP the quickest messages decide, here those of each direction by themselves, and
the bound is hard: however unequal the two ways are, the error is at most half of what is left
between the bounds. Only drift during the exchanges themselves is not covered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from analysis.errors import MachineError


class Exchange(NamedTuple):
    """One message there and back; seconds of our clock, and of the other for the middle two."""

    sent_s: float
    received_s: float
    replied_s: float
    back_s: float


@dataclass(frozen=True)
class Offset:
    """The other clock less ours, at a time of ours, and what it may be wrong by; seconds."""

    offset_s: float
    error_s: float
    at_s: float


def measure(exchanges: Iterable[Exchange], node: str) -> Offset:
    """Offset of the clock of `node`. Raises MachineError where the bounds contradict each other.

    That happens when a clock was set, or ran much faster than ours, in the course of exchanges.
    """
    known = list(exchanges)
    if not known:
        raise MachineError(f"{node}: no message came back, so that its clock is not known")
    highest_s = min(exchange.received_s - exchange.sent_s for exchange in known)
    lowest_s = max(exchange.replied_s - exchange.back_s for exchange in known)
    if lowest_s > highest_s:
        raise MachineError(
            f"{node}: its clock moved by {lowest_s - highest_s:.3g} s against ours while measured"
        )
    middle_s = (known[0].sent_s + known[-1].back_s) / 2
    return Offset((lowest_s + highest_s) / 2, (highest_s - lowest_s) / 2, middle_s)


def between(first: Offset, last: Offset, at_s: float) -> Offset:
    """The offset at a time of ours, from one measured before and one after.

    Its error is right as far as the clocks drift evenly; outside the two the nearer one holds.
    """
    if last.at_s <= first.at_s:
        return first
    share = min(max((at_s - first.at_s) / (last.at_s - first.at_s), 0.0), 1.0)
    offset_s = first.offset_s + share * (last.offset_s - first.offset_s)
    error_s = first.error_s + share * (last.error_s - first.error_s)
    return Offset(offset_s, error_s, at_s)
