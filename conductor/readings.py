"""What agents report of a run: rows and counts of each writer, and readings of each target.

Messages carry the reports to the conductor, and the judge reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from conductor.injectors.base import EndRole

#: Shortest time over which a rate is computed from counted bytes, seconds.
SHORTEST_COUNT_S = 0.25


class RateRow(NamedTuple):
    """A row that a writer reported: its rate from `start_s` to `end_s`, Unix time.

    If a program pauses between rows, the bytes that it writes in the pause are in no row.
    """

    start_s: float
    end_s: float
    rate_b_s: float

    @property
    def bytes_b(self) -> float:
        """Return the bytes that the row reports."""
        return self.rate_b_s * (self.end_s - self.start_s)


class FinishedWrite(NamedTuple):
    """One short write that was made."""

    #: Number of the write in the timetable.
    number: int
    #: When its bytes started and stopped flowing, Unix time. The origin reports them by its own
    #: clock.
    start_s: float
    end_s: float
    bytes_b: float
    #: How long its connection took to set up, which is not part of the write, seconds.
    setup_s: float = 0.0

    @property
    def rate_b_s(self) -> float:
        """Return its rate, bytes per second."""
        return self.bytes_b / (self.end_s - self.start_s)

    def moved_earlier(self, by_s: float) -> FinishedWrite:
        """Return the same write with its times `by_s` seconds earlier."""
        return self._replace(start_s=self.start_s - by_s, end_s=self.end_s - by_s)


class CounterSample(NamedTuple):
    """What a meter had counted of a writer by a time."""

    #: Unix time.
    at_s: float
    #: Bytes of the writer. For a control, which writes nothing: the processor time that it had
    #: used, seconds.
    total: float


@dataclass(frozen=True)
class MeterRecord:
    """How a writer's bytes are counted independently of its own rows."""

    writer: int
    #: What counts the bytes: `sent by DEVICE` or `received by DEVICE` (the origin's device), `the
    #: target's memory` or `a processor`; empty if nothing counts them.
    source: str = ""
    #: True if the target's process reports the bytes that it finds in its memory.
    in_memory: bool = False
    #: Why counting stopped, or never began; None while bytes are counted.
    fault: str | None = None


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where one end's memory lies, just before the agent ends or suspends the writer."""

    writer: int
    role: EndRole
    #: NUMA binding that the program does itself (`Injector.own_binding`).
    own_binding: str
    #: NUMA node -> bytes of its buffers on this node; empty if unknown.
    buffers_b: dict[str, int]
    #: Bytes of its memory whose pages cannot be moved; None if unknown.
    pinned_b: int | None = None
    #: Bytes of its memory in huge pages; None if unknown.
    huge_b: int | None = None
    #: The options that its program got for the fabric and from the machine's file
    #: (`Injector.options`).
    options: list[str] = field(default_factory=list)


class DeviceSample(NamedTuple):
    """Bytes that a device had received and sent by a time; None without a working counter."""

    #: Time by the node's monotonic clock.
    at_s: float
    received_b: int | None
    sent_b: int | None
    #: The part of `received_b` that RDMA writes brought, and the part of `sent_b` that answered
    #: RDMA reads; None if not counted.
    written_b: int | None = None
    read_b: int | None = None


@dataclass(frozen=True)
class DeviceSeries:
    """The readings of one device's byte counter on a target."""

    device: str
    #: Name of its counter; several devices may share one. Empty if it has none.
    counter: str
    samples: list[DeviceSample]


class LoadSample(NamedTuple):
    """One reading of a node's load."""

    #: Time by the node's monotonic clock.
    at_s: float
    #: Processor time that foreign processes have used since the first reading, seconds; None if
    #: foreign processes are hidden.
    foreign_s: float | None
    #: Processor time that the hypervisor took, and all processor time, since boot.
    stolen_ticks: int
    total_ticks: int


@dataclass(frozen=True, kw_only=True)
class NodeSeries:
    """Readings on one node, from just before the application until just after it."""

    node: str
    devices: list[DeviceSeries] = field(default_factory=list)
    loads: list[LoadSample] = field(default_factory=list)
    #: The foreign program that used the most processor time; empty if there is none.
    busiest_program: str = ""
    #: Mean frequency of the application's cores at each reading, Hz.
    frequencies_hz: list[float] = field(default_factory=list)
    #: CPUs that the application left free, such as `0-3,8` (`records.sample.NodeConditions`).
    free_cpus: str | None = None
    #: Median frequency of the block's earlier accepted runs, Hz; None if they are too few.
    usual_hz: float | None = None
