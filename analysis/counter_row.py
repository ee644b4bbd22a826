"""What a tool counted of one event in one rank of one run.

Standard library only, because tools write rows on compute nodes that have nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: What became of a count: it is whole; the tool shared a counter among events and scaled the count
#: up; the processor or the kernel does not have it; the tool was not able to count it.
State = Literal["counted", "multiplexed", "not supported", "not counted"]


@dataclass(frozen=True)
class CounterRow:
    """One count."""

    rank: int
    #: As the tool names it: `cycles`, or `cycles:u` for the user level alone.
    event: str
    #: SI; None where nothing was counted (`state`).
    value: float | None
    #: `count`, `s`, `B`, ...
    unit: str
    state: State = "counted"
    #: Share of the run in which the event was counted; None: not told.
    running_share: float | None = None
