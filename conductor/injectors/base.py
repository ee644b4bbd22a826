"""The interface of an injector.

An injector describes one program by pure functions: the commands of a writer, and the meaning of
the lines that they print. The agent starts, pins and stops the processes. Comments here speak of
writes. An injector that reads makes one-sided reads of the target's memory instead.
"""

from __future__ import annotations

import re
import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import ceil
from typing import Literal, NamedTuple, Protocol

from conductor.counters import TrafficDirection
from records.last_words import is_warning
from records.machine import devices
from records.machine.fabrics import Fabric
from records.sample import Direction

#: Maximum number of lines before a fault that are shown with it as its cause.
_CAUSE_LINES = 2

#: Maximum number of queue pairs of a writer.
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
    #: Requested rate, bytes per second; None: full rate.
    rate_b_s: float | None = None
    #: Uncontended rate of the writer without a limit, bytes per second. It is known only if a lower
    #: rate is requested.
    full_b_s: float | None = None
    #: Number of messages of a short write, after which both ends exit. None for other writes.
    messages: int | None = None
    #: RDMA device or network interface on both ends; None leaves the choice to the program.
    device: str | None = None
    #: NUMA node that the buffers of both ends are bound to; None: they are not bound.
    buffer_node: int | None = None
    #: CPUs that both ends are pinned to; empty: they are not pinned.
    cpus: list[int] = field(default_factory=list)
    #: Target memory that its messages pass through, bytes; None leaves the choice to the injector.
    footprint_b: int | None = None
    #: Queue pairs that the program opens, if it can open several.
    queue_pairs: int = 1
    #: More options of both ends of the program.
    options: tuple[str, ...] = ()

    def places(self, place_b: int) -> int | None:
        """Return the number of places of `place_b` bytes into which the footprint is divided.

        None if no footprint is chosen.
        """
        return ceil(self.footprint_b / place_b) if self.footprint_b else None


@dataclass(frozen=True)
class Row:
    """A writer's rate in one reported interval; 0 if it reports that it writes nothing."""

    rate_b_s: float
    #: Length of the interval, seconds; None if the interval begins at the previous row.
    over_s: float | None = None
    #: How long after the end of the interval the program prints the row, seconds.
    print_delay_s: float = 0.0


@dataclass(frozen=True)
class Arrived:
    """The bytes that the target's process has found in its memory, and their transport."""

    bytes_b: int
    transport: str


@dataclass(frozen=True)
class Total:
    """The last row of a short write: the messages written, and their rate without set-up."""

    messages: int
    rate_b_s: float
    #: How long after the last byte the program prints the row, seconds.
    print_delay_s: float = 0.0


@dataclass(frozen=True)
class Fault:
    """A line that says why the writer cannot write."""

    text: str


class FaultFinder:
    """Finds a program's faults among its lines, each with the lines before it that may explain it.

    A warning is no fault, but may be the cause of a later fault.
    """

    def __init__(self, fault: re.Pattern[str], cause: re.Pattern[str] | None = None) -> None:
        """Set the patterns of faults, and of lines other than warnings that may be a cause.

        If a pattern has groups, the first group that matches is shown in place of the line.
        """
        self._fault_pattern, self._cause_pattern = fault, cause
        #: The last lines that may be the cause of a later fault.
        self._causes: list[str] = []

    def find(self, line: str) -> Fault | None:
        """Return the fault that a line reports; None if it reports no fault."""
        message = line.strip()
        warns = is_warning(message)
        fault = None if warns else self._fault_pattern.search(message)
        if fault:
            text = _shown_text(fault, message)
            if self._causes:
                text += f" (before it: {'; '.join(self._causes)})"
            self._causes = []
            return Fault(text)
        cause = self._cause_pattern.search(message) if self._cause_pattern else None
        if warns or cause:
            self._causes = [*self._causes, _shown_text(cause, message)][-_CAUSE_LINES:]
        return None

    def forget(self) -> None:
        """Forget the lines so far. The program works, so they do not explain any later fault."""
        self._causes = []


def _shown_text(match: re.Match[str] | None, line: str) -> str:
    """Return the first group that matched; the whole line if there is none."""
    return next(filter(None, match.groups()), line) if match else line


class LineParser(Protocol):
    """Parses the lines of one end of a writer, in order. It may remember the units in a header."""

    def parse(self, line: str) -> Row | Total | Arrived | Fault | None:
        """Return what a line means; None for any other line."""


#: The source of a writer's rows: the program's output, or the byte counter of the origin's device.
RowSource = Literal["output", "counter"]

#: When both ends of a writer may be held, which means that they are suspended until their next run.
#: With `never`, the writer is restarted instead. `on one host` means at any time if both ends share
#: a host, and never if they do not. `after a row` means only shortly after a row, since later the
#: pause would falsify the time of the next row.
Suspendable = Literal["never", "anytime", "on one host", "after a row"]


class Traffic(NamedTuple):
    """Directions in which the bytes of transfers pass the devices of both ends."""

    at_origin: TrafficDirection
    at_target: TrafficDirection


#: Direction of transfers -> the directions of their bytes.
TRAFFIC: dict[Direction, Traffic] = {
    "write": Traffic("sent", "received"),
    "read": Traffic("received", "sent"),
    "both": Traffic("sent", "received"),  # only the writes are counted
    "receive": Traffic("sent", "received"),
}


class Injector(ABC):
    """A program that makes writes.

    The defaults are for a program that limits its own rate, prints its rows, and leaves the binding
    of memory to the agent.
    """

    name: str
    #: False for a control, which takes a writer's place and writes nothing.
    writes: bool = True
    #: Who limits a rate below full: the program itself, or the agent, which suspends and resumes
    #: the program (`Pacer`).
    paced_by: Literal["program", "agent"] = "program"
    #: Length of a reported interval, seconds; None if the program reports no rates.
    row_s: float | None = 1.0
    #: When its processes can be held between runs, if at all.
    suspendable: Suspendable = "anytime"
    #: True if its command is a launcher, which starts the processes that write.
    is_launched: bool = False
    #: True if the target's process reports what has arrived in its memory (`Arrived`).
    reports_arrivals: bool = False
    #: True if it can make the short writes of a timetable.
    writes_short: bool = True
    #: Maximum size of a message, bytes; None if there is no limit.
    max_message_b: int | None = None
    #: What a chosen footprint changes: the size of messages, or the number of places in memory that
    #: messages of one size go to; None if no footprint can be chosen.
    footprint_by: Literal["message", "place"] | None = None
    #: Maximum number of such places; None if there is no limit.
    most_places: int | None = None
    #: Maximum number of queue pairs of one program. If it is 1, a program is started for each queue
    #: pair.
    most_queue_pairs: int = 1
    #: True if it takes the options of the machine's file (`perftest_options`).
    takes_options: bool = False
    #: True if its ends are given the index of a GID.
    takes_gid: bool = False
    #: The program that must be on PATH, and how to install it; empty if there is none.
    program: str = ""
    install: str = ""

    def __init__(self, name: str = "", direction: Direction = "write") -> None:
        """Set the direction. If it is not `write`, the injector needs a `name` of its own."""
        self.name = name or self.name
        self.direction = direction

    def can_be_held(self, *, on_one_host: bool) -> bool:
        """Return whether its processes can be suspended between two runs."""
        return self.suspendable != "never" and (on_one_host or self.suspendable != "on one host")

    def is_paced(self, writer: Writer) -> bool:
        """Return whether the agent limits the rate of a writer, by suspending and resuming it."""
        return self.paced_by == "agent" and writer.rate_b_s is not None

    @abstractmethod
    def transport(self, writer: Writer) -> str:
        """Return the transport of the bytes, for the sample (`WriterRecord.transport`)."""

    def target_command(self, writer: Writer) -> list[str] | None:
        """Return the command of the passive side; None if there is none."""
        return None

    @abstractmethod
    def origin_command(self, writer: Writer) -> list[str]:
        """Return the command of the writing side."""

    def footprint_b(self, writer: Writer) -> int:
        """Return the size of the target's memory that the messages pass through, bytes."""
        return writer.message_b

    def queue_pairs(self, writer: Writer) -> int:
        """Return the number of queue pairs of this writer's program."""
        return 1

    def options(self, writer: Writer) -> list[str]:
        """Return an end's options on this host for its fabric, and from the machine's file."""
        return []

    def gid_index(self, device: str | None, interface: str | None) -> int | None:
        """Return the index of the GID of RoCE v2 for an end on this host; None if it needs none.

        The GID fits the address of `interface`, the interface of the agents.
        """
        fabric = devices.fabric(device) if device else None
        if not self.takes_gid or device is None or fabric is None or not fabric.has_gids:
            return None
        return devices.gid_index(device, interface, ipv4=self.name not in fabric.ipv6_injectors)

    def environment(self, writer: Writer) -> dict[str, str]:
        """Return the variables to add to the environment of both ends."""
        return {}

    def row_source(self, writer: Writer) -> RowSource:
        """Return the source of this writer's rows."""
        return "output"

    def freezes_target(self, writer: Writer) -> bool:
        """Return whether the agent suspends the passive side's process (SIGSTOP) at the first row.

        True if that process spins on a core although the writes do not need it.
        """
        return False

    def may_hang(self, writer: Writer) -> bool:
        """Return whether some starts hang. A start without any row is then repeated."""
        return False

    def listens_over_tcp(self, writer: Writer) -> bool:
        """Return whether the passive side listens on a TCP port, which the agent can see."""
        return True

    @abstractmethod
    def parser(self, writer: Writer) -> LineParser:
        """Return a new parser for the lines of one process."""

    def own_binding(self) -> str:
        """Return the program's own NUMA binding, or the option that turned it off."""
        return "none"

    def why_missing(self, device: str | None = None) -> str | None:
        """Return why it cannot run on this host and how to install it, in one line; None if it can.

        `device` is the device over which it writes to another host; None within one host.
        """
        if not self.program or shutil.which(self.program):
            return None
        return f"{self.program} is missing: {self.install}"

    def why_not_over(self, fabric: Fabric | None) -> str | None:
        """Return in one line why it cannot write over a fabric, and which can; None if it can."""
        name = type(self).name
        if fabric is None or not self.writes or name in fabric.injectors:
            return None
        return f"{name} cannot write over {fabric.name}: {' or '.join(fabric.injectors)} can"

    def doubt(self) -> str | None:
        """Return why it may fail to write between nodes of a job, and the remedy; None if not."""
        return None
