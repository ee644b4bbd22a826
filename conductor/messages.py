"""Messages between conductor and agents, as records.

The conductor sends orders, agents send reports. On the wire a message is a list of its name and its
fields. Records that are sent by the thousand are named tuples, which are short lists in JSON.
"""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, cast, get_args

from conductor.injectors.base import EndRole, Writer
from conductor.readings import (
    CounterSample,
    FinishedWrite,
    MeterRecord,
    NodeSeries,
    Placement,
    RateRow,
)
from conductor.wire import WireError
from records.errors import first_fault
from records.machine.node_counters import NodeCounter
from records.timetable import PlannedWrite

#: An action on writers. `freeze` suspends only the passive side until it is stopped: the writes do
#: not need it.
Action = Literal["stop", "hold", "resume", "freeze"]
#: Characters of an invalid message that an error quotes.
_QUOTED_CHARACTERS = 60


@dataclass(frozen=True)
class StartWriterEnd:
    """Start one end of a writer. A passive side of short writes starts anew after each write."""

    role: EndRole
    injector: str
    writer: Writer


@dataclass(frozen=True)
class ControlWriters:
    """Stop both ends of these writers, suspend them (`hold`), or let them continue.

    `WritersStopped` answers `stop` and `hold`. A row that includes a pause is not reported.
    """

    action: Action
    writers: list[int]


@dataclass(frozen=True, kw_only=True)
class MakeWrites:
    """Make the short writes of this origin when they are due."""

    injector: str
    #: Template of the writer of each write, with the index, message size, number of messages and
    #: device that all of them have. Its port is that of the first passive side.
    writer: Writer
    #: Names and addresses of the targets.
    targets: list[tuple[str, str]]
    #: Number of passive sides at each target.
    passive_sides: int
    #: Time 0 of the timetable by the clock of this origin (Unix time).
    zero_s: float
    #: Expected time to set up the first write, seconds.
    setup_s: float
    #: How late a write may still be started, seconds.
    max_delay_s: float
    writes: list[PlannedWrite]

    def writer_of(self, write: PlannedWrite) -> Writer:
        """Return the writer of one write.

        Writes go to all targets in turn. The passive sides of a target take turns, too. While a
        write goes to one of them, the others listen for the next write.
        """
        name, address = self.targets[write.target]
        side = write.number // len(self.targets) % self.passive_sides
        return replace(self.writer, target=name, address=address, port=self.writer.port + side)


@dataclass(frozen=True)
class FinishWrites:
    """Start no more writes, and wait for those in progress. `WritesMade` answers."""

    timeout_s: float


@dataclass(frozen=True)
class BeginWatch:
    """Watch this node and its writers until `EndWatch`. `WatchBegun` answers."""

    #: RDMA devices or network interfaces whose bytes are counted.
    devices: list[str]
    #: CPUs of the application, whose frequency is read; empty for all.
    cpus: list[int]
    #: PIDs of processes on this node that belong to the block, as all their descendants do.
    roots: list[int]
    #: PIDs of processes that count as the block's, while their descendants may be foreign.
    exempt: list[int]


@dataclass(frozen=True)
class EndWatch:
    """End the watch. `WatchRecord` answers."""


@dataclass(frozen=True)
class Ping:
    """Request the agent's time. `Pong` answers."""


@dataclass(frozen=True)
class Hello:
    """The first message of an agent: its node, and facts about the node (JSON values)."""

    node: str
    facts: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class WriterNews:
    """News of a writer; times are Unix time by the agent's clock."""

    writer: int
    #: True if its passive side listens.
    listening: bool = False
    row: RateRow | None = None
    #: Readings of its byte counter since the last news.
    samples: list[CounterSample] = field(default_factory=list)
    #: The transport of its bytes, as its program reported it.
    transport: str | None = None
    #: How its bytes were counted; sent at the end of a watch.
    meter: MeterRecord | None = None
    #: Why one of its ends has ended, or can do nothing.
    why_ended: str | None = None


@dataclass(frozen=True)
class Pong:
    """The answer to `Ping`."""

    #: Unix time by the agent's clock.
    now_s: float


@dataclass(frozen=True)
class WritersStopped:
    """All ends that an order named have stopped, or are suspended."""

    #: Placement of the buffers of these ends, just before they were stopped.
    placements: list[Placement]


@dataclass(frozen=True)
class WatchBegun:
    """A watch has begun."""


@dataclass(frozen=True)
class WatchRecord:
    """The record of a watch."""

    node: NodeSeries
    #: Name -> increase of a counter of the node, or value of a gauge such as `frequency`.
    counters: dict[str, NodeCounter] = field(default_factory=dict)
    #: Indices of held (suspended) writers of which an end ran during the watch.
    held_but_ran: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class WritesMade:
    """The writes that an origin made for a timetable."""

    #: The finished writes. Their times are by the origin's clock.
    finished: list[FinishedWrite]
    #: Fault -> number of writes that failed with it.
    faults: dict[str, int]


Order = StartWriterEnd | ControlWriters | MakeWrites | FinishWrites | BeginWatch | EndWatch | Ping
Answer = Pong | WritersStopped | WatchBegun | WatchRecord | WritesMade
Report = Hello | WriterNews | Answer


def encode(message: Order | Report) -> list[Any]:
    """Return a message as JSON values."""
    return [type(message).__name__, asdict(message)]


def decode_order(data: Any) -> Order:
    """Return the order in JSON values. Raises WireError if they are not an order."""
    return cast(Order, _decode(data, Order))


def decode_report(data: Any) -> Report:
    """Return the report in JSON values. Raises WireError if they are not a report."""
    return cast(Report, _decode(data, Report))


def _decode(data: Any, message_types: Any) -> Any:
    from pydantic import ValidationError  # this import takes 0.1 s

    name, fields = data if isinstance(data, list) and len(data) == 2 else (data, None)
    message_type = next(
        (message for message in get_args(message_types) if message.__name__ == name), None
    )
    if message_type is None:
        raise WireError(f"unknown message {str(name)[:_QUOTED_CHARACTERS]!r}")
    try:
        return _adapter(message_type).validate_python(fields)
    except ValidationError as error:
        raise WireError(f"malformed message {name}: {first_fault(error)}") from None


@functools.cache
def _adapter(message_type: type) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(message_type)
