"""A tool's count of one event in one rank of one run.

Standard library only, because tools write rows on compute nodes that have nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: The tools of what agents read in every run (no application is wrapped): counters of the target
#: nodes, and the few of them that are read at origins on other nodes.
NODE, ORIGIN = "node", "origin"
AGENTS = (NODE, ORIGIN)

#: Their counters that add up to the processor time of traffic, all that is read at origins:
#: interrupts, soft interrupts, kernel threads, and the processes of the writers' ends.
IRQ, SOFTIRQ, THREADS, WRITERS = "irq-time", "softirq-time", "kernel-threads-time", "writers-time"
PROCESSING = (IRQ, SOFTIRQ, THREADS, WRITERS)

#: State of a count: complete; extrapolated, because events shared a counter; not available on this
#: processor or kernel; not counted by the tool.
State = Literal["counted", "multiplexed", "not supported", "not counted"]


@dataclass(frozen=True)
class CounterRow:
    """One count."""

    #: Of a count of a node by a tool, its first rank; of the tools `node` and `origin`, the node's
    #: index in the sample's `nodes`, or `origin_nodes`.
    rank: int
    #: The tool's name of the event: `cycles`, or `cycles:u` for user mode only.
    event: str
    #: In SI units; None if nothing was counted (`state`).
    value: float | None
    #: `count`, `s`, `B`, ...
    unit: str
    #: Complete, extrapolated, not available there, or not counted by the tool.
    state: State = "counted"
    #: Share of the run in which the event was counted; None: unknown.
    running_share: float | None = None


def event_parts(event: str) -> tuple[str, str]:
    """Name and modifiers: `cycles` and `u` of `cycles:u` and of `cpu_core/cycles/u`."""
    if event.count("/") == 2:
        _, event, modifiers = event.split("/")
        return event, modifiers
    event, _, modifiers = event.partition(":")
    return event, modifiers
