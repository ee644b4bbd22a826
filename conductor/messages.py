"""Messages between conductor and agents: one record each, one definition for both ends.

The conductor sends orders, agents send reports. On the wire a message is a list of its name and its
fields. What is sent by the thousand is a named tuple, which is a short list there.
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

#: The action on writers: `freeze` suspends the passive side, which is needed no more.
Action = Literal["stop", "hold", "resume", "freeze"]
#: How much of an invalid message an error quotes, characters.
_QUOTE = 60


@dataclass(frozen=True)
class StartEnd:
    """Start one end of a writer; a passive side of short writes is replaced after each write."""

    role: EndRole
    injector: str
    writer: Writer


@dataclass(frozen=True)
class Control:
    """Stop both ends of these writers, suspend them, or let them continue.

    `stop` and `hold` are answered by `WritersStopped`. A row that spans a pause is not reported.
    """

    action: Action
    writers: list[int]


@dataclass(frozen=True, kw_only=True)
class MakeWrites:
    """Make the short writes of this origin when they are due."""

    injector: str
    #: The index, port of the first passive side, message size and count, and device of all writes.
    writer: Writer
    #: Names and addresses of the targets, and how many passive sides each of them has.
    targets: list[tuple[str, str]]
    sides: int
    #: The plan's time 0 by the clock of this origin (Unix time).
    zero_s: float
    #: Expected set-up time of the first write, seconds.
    lead_s: float
    #: How late a write may still be started, seconds.
    patience_s: float
    writes: list[PlannedWrite]

    def writer_of(self, write: PlannedWrite) -> Writer:
        """The writer of one write. All targets are written to before any is again, and the passive
        sides of each take turns: while a write goes to one, others listen for the next.
        """
        name, address = self.targets[write.target]
        side = write.number // len(self.targets) % self.sides
        return replace(self.writer, target=name, address=address, port=self.writer.port + side)


@dataclass(frozen=True)
class FinishWrites:
    """Start no more writes, wait for those in progress; answered by `WritesMade`."""

    timeout_s: float


@dataclass(frozen=True)
class BeginWatch:
    """Watch this node and its writers until `EndWatch`; answered by `WatchBegun`."""

    #: RDMA devices or network interfaces to count.
    devices: list[str]
    #: CPUs of the application, whose frequency is read; empty for all.
    cpus: list[int]
    #: PIDs of processes here that are the block's, with what descends from them; and of processes
    #: that are exempt by themselves.
    roots: list[int]
    exempt: list[int]


@dataclass(frozen=True)
class EndWatch:
    """Watch no more; answered by `WatchRecord`."""


@dataclass(frozen=True)
class Ping:
    """Request the agent's time; answered by `Pong`."""


@dataclass(frozen=True)
class Hello:
    """The first message of an agent: its node, and facts about that host (JSON values)."""

    node: str
    facts: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class WriterNews:
    """News of a writer; times are Unix time by the agent's clock."""

    writer: int
    #: Its passive side listens.
    listening: bool = False
    row: RateRow | None = None
    #: Bytes counted of it.
    samples: list[CounterSample] = field(default_factory=list)
    #: The transport of its bytes, as was found out while it writes.
    transport: str | None = None
    #: The counter of its bytes, at the end of a watch.
    meter: MeterRecord | None = None
    #: Why one of its ends has ended.
    ended: str | None = None


@dataclass(frozen=True)
class Pong:
    """The agent's time, Unix time by its own clock."""

    now_s: float


@dataclass(frozen=True)
class WritersStopped:
    """All those ends have been stopped or suspended; the placement of their buffers before that."""

    placed: list[Placement]


@dataclass(frozen=True)
class WatchBegun:
    """A watch has begun."""


@dataclass(frozen=True)
class WatchRecord:
    """The record since the beginning of a watch."""

    node: NodeSeries
    #: Name -> what the node's counters gained.
    counters: dict[str, NodeCounter] = field(default_factory=dict)
    #: Held writers of which an end ran all the same.
    ran: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class WritesMade:
    """The writes that an origin made of its part of a timetable, by its own clock."""

    finished: list[FinishedWrite]
    #: Fault -> number of writes that failed with it.
    faults: dict[str, int]


Order = StartEnd | Control | MakeWrites | FinishWrites | BeginWatch | EndWatch | Ping
Answer = Pong | WritersStopped | WatchBegun | WatchRecord | WritesMade
Report = Hello | WriterNews | Answer


def encode(message: Order | Report) -> list[Any]:
    """A message as JSON values."""
    return [type(message).__name__, asdict(message)]


def decode_order(data: Any) -> Order:
    """The order encoded in these values. Raises WireError if they are not an order."""
    return cast(Order, _decode(data, Order))


def decode_report(data: Any) -> Report:
    """The report encoded in these values. Raises WireError if they are not a report."""
    return cast(Report, _decode(data, Report))


def _decode(data: Any, kinds: Any) -> Any:
    from pydantic import ValidationError  # takes 0.1 s

    name, fields = data if isinstance(data, list) and len(data) == 2 else (data, None)
    kind = next((message for message in get_args(kinds) if message.__name__ == name), None)
    if kind is None:
        raise WireError(f"unknown message {str(name)[:_QUOTE]!r}")
    try:
        return _reader(kind).validate_python(fields)
    except ValidationError as error:
        raise WireError(f"malformed message {name}: {first_fault(error)}") from None


@functools.cache
def _reader(kind: type) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
