"""The interface of an injector.

What is said of writes holds for reads too: an injector that reads makes one-sided reads of the
target's memory instead.

An injector describes one program by pure functions: the commands of a writer, and the meaning of
the lines that they print. The agent starts, pins and stops the processes.
"""

from __future__ import annotations

import re
import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Literal, Protocol

from conductor.counters import TrafficDirection
from records.last_words import is_warning
from records.machine import devices
from records.machine.fabrics import Fabric
from records.sample import Direction

#: Lines before a fault that are shown with it.
_CAUSES = 2

#: The most queue pairs that a writer may have.
MOST_QUEUE_PAIRS = 32

#: The two ends of a writer.
EndRole = Literal["target", "origin"]


@dataclass(frozen=True, kw_only=True)
class Writer:
    """One planned stream of one-sided writes from an origin to a target."""

    index: int
    #: Node names of the two ends.
    origin: str
    target: str
    #: Address at which the origin reaches the target, and the port of this writer there.
    address: str
    port: int
    #: Size of one write, bytes.
    message_b: int
    #: Rate to hold, bytes per second; None is full rate.
    rate_b_s: float | None = None
    #: Rate that it reaches alone at full rate, bytes per second; known if it is throttled.
    full_b_s: float | None = None
    #: Number of messages of a short write, after which both ends exit; None for other writes.
    messages: int | None = None
    #: RDMA device or network interface on both ends; None is the injector's own choice.
    device: str | None = None
    #: NUMA node that the buffers of both ends are bound to; None leaves them alone.
    buffer_node: int | None = None
    #: CPUs that both ends are pinned to; empty does not pin them.
    cpus: list[int] = field(default_factory=list)
    #: Memory that its messages are to pass through, bytes; None is the injector's own choice.
    footprint_b: int | None = None
    #: Queue pairs that the program opens, if it can open several.
    queue_pairs: int = 1
    #: Options that both ends of a program get as well.
    options: tuple[str, ...] = ()

    def places(self, place_b: int) -> int | None:
        """Return how many places of a size the footprint has, rounded up; None if not chosen."""
        return -(-self.footprint_b // place_b) if self.footprint_b else None


@dataclass(frozen=True)
class Row:
    """One reported interval: the rate in it.

    A rate of zero is a row too: the writer reports that it writes nothing.
    """

    rate_b_s: float
    #: Length of the interval, seconds; None: since the previous row.
    over_s: float | None = None
    #: How long after the interval the program prints it, seconds.
    after_s: float = 0.0


@dataclass(frozen=True)
class Arrived:
    """The bytes that the target's process has found in its memory, and what they went over."""

    bytes_b: int
    transport: str


@dataclass(frozen=True)
class Total:
    """The final row of a short write: the messages written, and their rate without set-up."""

    messages: int
    rate_b_s: float
    #: How long after the last byte the program prints it, seconds.
    after_s: float = 0.0


@dataclass(frozen=True)
class Fault:
    """A line that says why the writer cannot write."""

    text: str


class Faults:
    """Finds a program's faults among its lines, each with what was said before it.

    A warning is no fault, but may give the cause of one that follows.
    """

    def __init__(self, fault: re.Pattern[str], cause: re.Pattern[str] | None = None) -> None:
        """Patterns of faults, and of lines besides warnings that may give their cause.

        The groups of a pattern, if it has some, are what is shown.
        """
        self._fault, self._cause = fault, cause
        self._before: list[str] = []

    def find(self, line: str) -> Fault | None:
        """The fault that a line is."""
        message = line.strip()
        cause = self._cause.search(message) if self._cause else None
        if is_warning(message) or not (fault := self._fault.search(message)):
            if is_warning(message) or cause:
                self._before = [*self._before, _shown(cause, message)][-_CAUSES:]
            return None
        text, before = _shown(fault, message), "; ".join(self._before)
        self._before = []
        return Fault(f"{text} (before it: {before})" if before else text)

    def forget(self) -> None:
        """The program works: what it said until now is no cause of a later fault."""
        self._before = []


def _shown(match: re.Match[str] | None, line: str) -> str:
    return next(filter(None, match.groups()), line) if match else line


class LineParser(Protocol):
    """Parses the lines of one end of a writer, in order; may remember a header's units."""

    def parse(self, line: str) -> Row | Total | Arrived | Fault | None:
        """Return what a line means; None for any other line."""


#: Where the agent takes a writer's rows from: the program's output, or the byte counter of the
#: origin's device.
RowSource = Literal["output", "counter"]

#: When both ends of a writer may be suspended until the next run: never, so that it is restarted;
#: at any moment, or so if they share a host; or only shortly after a row, since a pause falsifies
#: how the next one is timed.
Holds = Literal["never", "anytime", "on one host", "after a row"]

#: Direction -> what the devices of (origin, target) count.
TRAFFIC: dict[Direction, tuple[TrafficDirection, TrafficDirection]] = {
    "write": ("sent", "received"),
    "read": ("received", "sent"),
    "both": ("sent", "received"),  # of what is written
    "receive": ("sent", "received"),
}


class Injector(ABC):
    """A program that makes writes.

    The defaults are for one that limits its own rate, prints its rows, and leaves the binding of
    memory to the agent.
    """

    name: str
    #: False for a control, which replaces the writer and writes nothing.
    writes: bool = True
    #: The limiter of a rate below full: the program itself, or the agent, which suspends and
    #: resumes the program (`Pacer`).
    paced_by: Literal["program", "agent"] = "program"
    #: Length of a reported interval, seconds; None if it reports none.
    row_s: float | None = 1.0
    #: True if its processes can be suspended between runs; and when.
    holds: Holds = "anytime"
    #: True if its command is that of a launcher, whose processes write.
    is_launched: bool = False
    #: True if the target's process reports what has arrived in its memory (`Arrived`).
    reports_arrivals: bool = False
    #: True if it makes the short writes of a timetable.
    writes_short: bool = True
    #: The effect of a chosen footprint: the size of a message, or where messages of one size go;
    #: None if it cannot be chosen. And in how many places they can go, if there is a limit.
    footprint_by: Literal["message", "place"] | None = None
    most_places: int | None = None
    #: The most queue pairs of one program. Where that is one, several are as many programs.
    most_queue_pairs: int = 1
    #: True if it takes the options of the machine's file (`perftest_options`).
    takes_options: bool = False
    #: True if its ends are given the index of a GID.
    takes_gid: bool = False
    #: The program that must be on PATH, if any, and how to install it.
    program: str = ""
    install: str = ""

    def __init__(self, name: str = "", direction: Direction = "write") -> None:
        """`name` is that of the counterpart which makes transfers of another `direction`."""
        self.name = name or self.name
        self.direction = direction

    def is_paced(self, writer: Writer) -> bool:
        """Return whether the agent lets a writer run and suspends it, so that it keeps its rate."""
        return self.paced_by == "agent" and writer.rate_b_s is not None

    @abstractmethod
    def transport(self, writer: Writer) -> str:
        """Return what the bytes go over, for the sample (`WriterRecord.transport`)."""

    def target_command(self, writer: Writer) -> list[str] | None:
        """The passive side's command; None if there is none."""
        return None

    @abstractmethod
    def origin_command(self, writer: Writer) -> list[str]:
        """The writing side's command."""

    def footprint_b(self, writer: Writer) -> int:
        """Memory of the target that its messages pass through, bytes; without more, one message."""
        return writer.message_b

    def queue_pairs(self, writer: Writer) -> int:
        """Queue pairs over which the program of this writer writes."""
        return 1

    def options(self, writer: Writer) -> list[str]:
        """Options of an end on this host that its fabric needs, or that the machine's file adds."""
        return []

    def gid_index(self, device: str | None, interface: str | None) -> int | None:
        """Index of the GID of RoCE v2 that an end on this host is given; None: it is given none.

        The GID fits the address of the agents' interface.
        """
        fabric = devices.fabric(device) if device else None
        if not self.takes_gid or device is None or fabric is None or not fabric.has_gids:
            return None
        return devices.gid_index(device, interface, ipv4=self.name not in fabric.ipv6_injectors)

    def environment(self, writer: Writer) -> dict[str, str]:
        """Variables added to the environment of both ends."""
        return {}

    def row_source(self, writer: Writer) -> RowSource:
        """Return where this writer's rows come from."""
        return "output"

    def freezes_target(self, writer: Writer) -> bool:
        """Return whether the agent suspends the passive side's process (SIGSTOP) at the first row.

        True if that process spins on a core although the writes do not need it.
        """
        return False

    def may_hang(self, writer: Writer) -> bool:
        """Return whether a start now and then waits for ever, so that a silent one is repeated."""
        return False

    def listens_over_tcp(self, writer: Writer) -> bool:
        """Return whether the passive side listens on its port over TCP, where the agent sees it."""
        return True

    @abstractmethod
    def parser(self, writer: Writer) -> LineParser:
        """A new parser for the lines of one process."""

    def own_binding(self) -> str:
        """NUMA binding that the program does itself, and the option it is given for that."""
        return "none"

    def missing(self, device: str | None = None) -> str | None:
        """Return why it cannot run on this host and how to install it, in one line; None if it can.

        `device`: the one over which it is to write to another host.
        """
        is_there = not self.program or shutil.which(self.program)
        return None if is_there else f"{self.program} is missing: {self.install}"

    def missing_for(self, fabric: Fabric | None) -> str | None:
        """Return why it cannot write over a fabric, and what can, in one line; None if it can."""
        name = type(self).name
        if fabric is None or not self.writes or name in fabric.injectors:
            return None
        return f"{name} cannot write over {fabric.name}: {' or '.join(fabric.injectors)} can"

    def doubt(self) -> str | None:
        """Return why it may not write between nodes of a job, and what helps; None if it can."""
        return None
