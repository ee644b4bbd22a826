"""MPI calls by kind, so that the tools that time them split a rank's communication alike.

Events of both tools, each of one rank:
application-time, MPI-time           s
point-to-point-time, -calls          s and count, the same for `collective` and `other`
point-to-point-messages, -sent       calls that sent something, and what they sent, B
The mean size of a message is sent / messages, over any number of ranks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from records.sample import CounterRow

Kind = Literal["point-to-point", "collective", "other"]

_COLLECTIVE = (
    *("Allgather", "Allreduce", "Alltoall", "Barrier", "Bcast", "Exscan", "Gather", "Reduce"),
    *("Scan", "Scatter", "Neighbor"),
)
_POINT_TO_POINT = (
    *("Send", "Recv", "Isend", "Irecv", "Bsend", "Rsend", "Ssend", "Ibsend", "Irsend", "Issend"),
    *("Sendrecv", "Isendrecv", "Mrecv", "Imrecv", "Probe", "Iprobe", "Mprobe", "Improbe"),
    *("Wait", "Waitall", "Waitany", "Waitsome", "Test", "Testall", "Testany", "Testsome"),
    *("Start", "Startall"),
)
_LOCAL = ("Reduce_local",)


@dataclass(frozen=True)
class CallCount:
    """All calls of one MPI function by one rank, or some of them."""

    #: Without `MPI_`.
    name: str
    calls: int = 0
    time_s: float = 0.0
    #: Calls that sent something, and what they sent; None if the tool does not say.
    messages: int | None = None
    sent_b: float | None = None


def kind_of(call: str) -> Kind:
    """The kind of a call: `Isend` is point-to-point, `Ibcast` and `Allreduce_init` collective."""
    plain = call.removesuffix("_init")
    if call in _LOCAL:
        return "other"
    if plain.removesuffix("_replace") in _POINT_TO_POINT:
        return "point-to-point"
    blocking = plain[1:].capitalize() if plain.startswith("I") else plain
    if plain.startswith(_COLLECTIVE) or blocking.startswith(_COLLECTIVE):
        return "collective"
    return "other"


def rows(
    rank: int, application_s: float, mpi_s: float, found: Iterable[CallCount]
) -> list[CounterRow]:
    """The events of one rank."""
    calls = list(found)
    events = [("application-time", application_s, "s"), ("MPI-time", mpi_s, "s")]
    for kind in get_args(Kind):
        own = [call for call in calls if kind_of(call.name) == kind]
        events += [
            (f"{kind}-time", sum(call.time_s for call in own), "s"),
            (f"{kind}-calls", sum(call.calls for call in own), "count"),
        ]
        if kind != "other" and any(call.sent_b is not None for call in calls):
            events += [
                (f"{kind}-messages", sum(call.messages or 0 for call in own), "count"),
                (f"{kind}-sent", sum(call.sent_b or 0.0 for call in own), "B"),
            ]
    return [CounterRow(rank, event, float(value), unit) for event, value, unit in events]
