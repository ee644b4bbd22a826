"""What is recorded of one run: series of readings, from which the judge says if it counts.

Agents record them, the hub corrects their clocks, and the conductor adds what the run is measured
against. They are stored beside the run's outputs, so that a stored run can be judged again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from conductor.counters import Passed
from conductor.injectors.base import EndRole, Writer
from records.acceptance import AcceptanceLimits
from records.files import replace_text
from records.sample import WriterRecord

#: Ending of the file of a run's series, after the stem of its other files.
ENDING = ".series.json"


class RateRow(NamedTuple):
    """A row that a writer reported: its rate over (start_s, end_s], Unix time.

    A program may pause between rows: what is written from the end of one to the start of the next
    is in none.
    """

    start_s: float
    end_s: float
    rate_b_s: float

    @property
    def bytes_b(self) -> float:
        """What it reports as written."""
        return self.rate_b_s * (self.end_s - self.start_s)


class CounterSample(NamedTuple):
    """What had been counted of a writer by a time (Unix time) since some beginning, bytes.

    Of a control, which writes nothing, the processor time that it has used, seconds.
    """

    at_s: float
    total: float


@dataclass(frozen=True)
class Metered:
    """What counts a writer's bytes besides its own rows."""

    writer: int
    #: `sent by DEVICE`, `the target's memory` or `a processor`; empty: nothing does.
    at: str = ""
    #: Whether the target's process reports what it finds in its memory.
    memory: bool = False
    #: Why nothing is counted, or no more; None while it is.
    fault: str | None = None


@dataclass(frozen=True)
class Placed:
    """Placement of one end of a writer, read by its agent just before stopping it."""

    writer: int
    role: EndRole
    #: NUMA binding that the program does itself (`Injector.own_binding`).
    own_binding: str
    #: NUMA node -> bytes of its buffers there; empty if unknown.
    buffers_b: dict[str, int]
    #: Bytes of its memory whose pages cannot be moved; None if unknown.
    pinned_b: int | None = None
    #: Bytes of its memory in huge pages; None if unknown.
    huge_b: int | None = None
    #: Options that its program got for its fabric and by the machine's file (`Injector.options`).
    options: list[str] = field(default_factory=list)


@dataclass
class WriterSeries:
    """What one writer, or control, reported, what counted it, and what it is measured against."""

    #: Its number among the writers of one kind, for people.
    number: int
    injector: str
    writer: Writer
    transport: str
    #: Length of a row, seconds.
    row_s: float
    #: Shortest time over which what is counted is its rate, seconds; None: it shares the device.
    counted_s: float | None = None
    rows: list[RateRow] = field(default_factory=list)
    #: What was counted at its origin; of all writers that share its device.
    samples: list[CounterSample] = field(default_factory=list)
    #: Its rate without an application, bytes per second (of a control 0: none is required), and
    #: what its target's device then counted, of all its writers; None: not counted.
    alone_b_s: float = 0.0
    counted_alone_b_s: float | None = None
    meter: Metered = Metered(0)
    placed: list[Placed] = field(default_factory=list)

    def copy(self) -> WriterSeries:
        """The series as it is now; what the writer reports later is not in it."""
        return replace(self, rows=[*self.rows], samples=[*self.samples])


class DeviceSample(NamedTuple):
    """What a device had received and sent by a time; None: no counter, or it has stopped."""

    #: By the node's monotonic clock.
    at_s: float
    received_b: int | None
    sent_b: int | None
    #: Of these, RDMA writes received and RDMA reads answered; None: it does not say.
    written_b: int | None = None
    read_b: int | None = None


@dataclass(frozen=True)
class DeviceSeries:
    """The byte counters of one device of a target."""

    device: str
    #: Name of its counter, which several devices may share; empty if it has none.
    counter: str
    samples: list[DeviceSample]


class LoadSample(NamedTuple):
    """One reading of a target's load."""

    #: By the node's monotonic clock.
    at_s: float
    #: Processor time that foreign processes have used since the first; None: they are hidden.
    foreign_s: float | None
    #: Time that the hypervisor took, and all processor time, ticks.
    stolen: int
    total: int


@dataclass(frozen=True)
class NodeSeries:
    """What was read on one target, from just before the application until just after it."""

    node: str
    devices: list[DeviceSeries] = field(default_factory=list)
    loads: list[LoadSample] = field(default_factory=list)
    #: The foreign program that used most processor time; empty if there is none.
    busiest: str = ""
    frequencies_hz: list[float] = field(default_factory=list)
    #: See `records.sample.NodeConditions`.
    free_cpus: str | None = None
    #: Usual frequency in the accepted runs before it of the block, Hz; None: too few of them.
    usual_hz: float | None = None


@dataclass(frozen=True)
class Rails:
    """The devices of a node, those that a run's bytes must pass, and all that they may pass."""

    devices: list[str]
    required: list[str]
    allowed: list[str]


@dataclass(frozen=True)
class Series:
    """Everything that says whether one run counts."""

    #: The targets.
    nodes: list[NodeSeries] = field(default_factory=list)
    writers: list[WriterSeries] = field(default_factory=list)
    #: What the writers of a timetable claim.
    claims: list[WriterRecord] = field(default_factory=list)
    #: Why writers did not follow their timetable.
    off_plan: list[str] = field(default_factory=list)
    #: Directions at the targets in which nothing of the run's treatment goes, and the rate of all
    #: writers of the block together without an application, bytes per second.
    silent: list[Passed] = field(default_factory=list)
    alone_b_s: float = 0.0
    #: None: not judged.
    rails: Rails | None = None
    #: Held writers of which an end ran.
    ran: list[int] = field(default_factory=list)
    #: Longest time that the conductor did not run, and by how much its wall clock moved further
    #: than the monotonic one, seconds.
    stood_still_s: float = 0.0
    clock_moved_s: float = 0.0


@dataclass(frozen=True)
class StoredSeries:
    """The file of a run's series."""

    limits: AcceptanceLimits
    series: Series


def save(series: Series, limits: AcceptanceLimits, path: Path) -> None:
    """Store the series of a run, and the limits by which it was judged."""
    record = asdict(StoredSeries(limits, series))
    replace_text(path, json.dumps(record, separators=(",", ":"), allow_nan=False))


def read(text: bytes) -> StoredSeries:
    """What `save` wrote. Raises ValueError."""
    stored: StoredSeries = _reader().validate_json(text)
    return stored


@cache
def _reader() -> Any:
    from pydantic import TypeAdapter  # nodes only write

    return TypeAdapter(StoredSeries)
