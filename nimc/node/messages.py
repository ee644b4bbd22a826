"""Messages between conductor and agents: one record each, one definition for both ends.

The conductor sends orders, agents send reports. On the wire a message is a list: its name, then the
values of its fields in order. Records inside a message are such lists too, without the name, so
that thousands of writes fit into one line.

They are decoded here, since pydantic makes no record from a list; and agents do not import it.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from nimc.machine.node_counters import NodeCounter
from nimc.node.evidence.binding import EndRole, Placed
from nimc.node.evidence.claims import Looked
from nimc.node.evidence.counters import Reading
from nimc.node.evidence.rates import Bursts, Tally
from nimc.node.injectors.base import Writer
from nimc.node.short_writes.origin_side import Part
from nimc.node.short_writes.records import Done
from nimc.node.wire import WireError
from nimc.records.sample import NodeConditions

#: What is done with writers.
Do = Literal["stop", "hold", "resume"]
#: How much of an invalid message an error quotes, characters.
_QUOTE = 60


@dataclass(frozen=True)
class StartEnd:
    """Start one end of a writer; `log` is the path that its output is appended to."""

    role: EndRole
    injector: str
    writer: Writer
    log: str


@dataclass(frozen=True)
class FreezeTarget:
    """Suspend the passive side of a writer, which is no longer needed."""

    writer: int


@dataclass(frozen=True)
class Control:
    """Stop both ends of these writers, suspend them, or let them continue.

    All but the last are answered by `WritersStopped`. A row that spans a pause is not reported.
    """

    do: Do
    writers: list[int]


@dataclass(frozen=True)
class FollowRates:
    """Let a writer follow rates, bytes per second, one a second from now on and again; none: stop.

    `full_b_s` is its rate alone.
    """

    writer: int
    rates_b_s: list[float]
    full_b_s: float


@dataclass(frozen=True)
class StopSchedule:
    """Stop all writes of a timetable and their passive sides; answered by `WritersStopped`."""


@dataclass(frozen=True)
class StandBy:
    """Keep a passive side of short writes listening; replace it after each write."""

    injector: str
    writer: Writer
    log: str


@dataclass(frozen=True)
class Perform:
    """Make the writes of a part of a timetable when they are due."""

    injector: str
    part: Part
    log: str


@dataclass(frozen=True)
class Finish:
    """Start no more writes, wait for those in progress; answered by `Written`."""

    timeout_s: float


@dataclass(frozen=True)
class BeginWatch:
    """Watch this node and its writers until `EndWatch`; answered by `Observed`."""

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
    """Watch no more; answered by `Observed`."""


@dataclass(frozen=True)
class Ping:
    """Request the agent's time; `sent_s` (the conductor's Unix time) is returned in `Pong`."""

    sent_s: float


@dataclass(frozen=True)
class Hello:
    """The first message of an agent: its node, and facts about that host (JSON values)."""

    node: str
    facts: dict[str, Any]


@dataclass(frozen=True)
class Pong:
    """The agent's time (Unix time by its own clock), and the conductor's from the `Ping`."""

    sent_s: float
    now_s: float


@dataclass(frozen=True)
class Listening:
    """The passive side of a writer listens."""

    writer: int


@dataclass(frozen=True)
class RateReport:
    """The rate of an interval that ended at `time_s` (Unix time by the agent's clock)."""

    writer: int
    time_s: float
    rate_b_s: float
    #: Length of the interval, seconds; None: since the previous one.
    over_s: float | None
    #: What it did in that interval, of a writer that writes in bursts and says so.
    bursts: Bursts | None = None


@dataclass(frozen=True)
class Counted:
    """What was counted of a writer since the last such report (Unix time by the agent's clock)."""

    writer: int
    tallies: list[Tally]


@dataclass(frozen=True)
class Transport:
    """What the bytes of a writer go over, as was found out while it writes."""

    writer: int
    name: str


@dataclass(frozen=True)
class Ended:
    """One end of a writer has ended, and why."""

    writer: int
    role: EndRole
    why: str


@dataclass(frozen=True)
class WritersStopped:
    """All those ends have been stopped or suspended; the placement of their buffers before that."""

    placed: list[Placed]


@dataclass(frozen=True)
class Observed:
    """Where the counters of the devices are; at the end also what was seen since the beginning."""

    #: Sum over the devices; None if one of them has no counter.
    received: Reading | None
    sent: Reading | None
    conditions: NodeConditions | None
    #: The foreign program that used most processor time; empty if there is none.
    busiest: str
    looked: list[Looked]
    #: Name -> what the node's counters gained since the beginning.
    counters: dict[str, NodeCounter] = field(default_factory=dict)
    #: Held writers of which an end ran all the same.
    ran: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Written:
    """The writes that an origin made of its part of a timetable, by its own clock."""

    done: list[Done]
    #: Fault -> number of writes that failed with it.
    faults: dict[str, int]


Order = (
    StartEnd | FreezeTarget | Control | FollowRates | StandBy | Perform
    | Finish | StopSchedule | BeginWatch | EndWatch | Ping
)  # fmt: skip
ReportOfWriter = Listening | RateReport | Counted | Transport | Ended
Answer = WritersStopped | Observed | Written
Report = Hello | Pong | ReportOfWriter | Answer


def encode(message: Order | Report) -> list[Any]:
    """A message as JSON values."""
    return [type(message).__name__, *_plain(message)]


def order(data: Any) -> Order:
    """The order encoded in these values. Raises WireError if they are not an order."""
    found: Order = _decode(data, get_args(Order))
    return found


def report(data: Any) -> Report:
    """The report encoded in these values. Raises WireError if they are not a report."""
    found: Report = _decode(data, get_args(Report))
    return found


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return [_plain(getattr(value, each.name)) for each in fields(value)]
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value


def _decode(data: Any, kinds: tuple[type, ...]) -> Any:
    name, *values = data if isinstance(data, list) and data else [data]
    for kind in kinds:
        if kind.__name__ == name:
            try:
                return _reader(kind)(values)
            except (ValueError, OverflowError, RecursionError) as error:
                raise WireError(f"malformed message {name}: {error}") from None
    raise WireError(f"unknown message {str(name)[:_QUOTE]!r}")


@functools.cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """Decoder from JSON values to a type; it raises ValueError if they do not fit."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda data: data
    if origin is list:
        (each,) = map(_reader, arguments)
        return lambda data: [each(value) for value in _checked(data, list)]
    if origin is tuple:
        return lambda data: tuple(_fields("tuple", arguments, data))
    if origin is dict:
        each = _reader(arguments[1])
        return lambda data: {key: each(value) for key, value in _checked(data, dict).items()}
    if origin is Literal:
        return functools.partial(_one_of, arguments)
    if origin in (Union, types.UnionType):
        (some,) = (_reader(each) for each in arguments if each is not types.NoneType)
        return lambda data: None if data is None else some(data)
    if kind is float:
        return lambda data: float(_checked(data, float, int))
    if kind in (int, str, bool):
        return lambda data: _checked(data, kind)
    hints = tuple(get_type_hints(kind).values())
    return lambda data: kind(*_fields(kind.__name__, hints, data))


def _fields(name: str, kinds: tuple[Any, ...], data: Any) -> list[Any]:
    if len(_checked(data, list)) != len(kinds):
        raise ValueError(f"{name}: {len(data)} values found, {len(kinds)} expected")
    return [_reader(kind)(value) for kind, value in zip(kinds, data, strict=True)]


def _checked(data: Any, *kinds: type) -> Any:
    if type(data) not in kinds:
        raise ValueError(f"{str(data)[:_QUOTE]!r} found, {kinds[0].__name__} expected")
    return data


def _one_of(allowed: tuple[Any, ...], data: Any) -> Any:
    if data not in allowed:
        raise ValueError(f"{str(data)[:_QUOTE]!r} found, allowed are {', '.join(allowed)}")
    return data
