"""The interface of an injector.

What is said of writes holds for reads too: an injector that reads takes one-sided reads of the
target's memory in their place.

An injector is a table of pure answers about one program: which commands make a writer, and what
the lines that they print mean. Starting, pinning and stopping are the agent's business.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from analysis.sample import Direction
from injection.evidence.counters import Passed


@dataclass(frozen=True)
class Writer:
    """One planned stream of one-sided writes from an origin to a target."""

    index: int
    #: Node names of the two ends.
    origin: str
    target: str
    #: Address of the target as the origin reaches it, and the port of this writer there.
    address: str
    port: int
    #: Size of one write, bytes.
    message_b: int
    #: Rate to hold, bytes per second; None is full rate.
    rate_b_s: float | None = None
    #: Rate that it reaches alone at full rate, bytes per second; known where it is throttled.
    full_b_s: float | None = None
    #: Messages of `message_b` of a short write, after which both ends end; None is no such write.
    messages: int | None = None
    #: RDMA device or network interface on both ends; None is the injector's own choice.
    device: str | None = None
    #: NUMA node that the buffers of both ends are bound to; None leaves them alone.
    buffer_node: int | None = None
    origin_cpus: list[int] = field(default_factory=list)
    target_cpus: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """One reported interval: the rate in it.

    A rate of zero is a row: the writer says that it writes nothing.
    """

    rate_b_s: float


@dataclass(frozen=True)
class Total:
    """The last row of a short write: the messages written, and their rate without set-up."""

    messages: int
    rate_b_s: float
    #: How long after the last byte the program prints it, seconds.
    after_s: float = 0.0


@dataclass(frozen=True)
class Fault:
    """A line that says why the writer cannot write; text for people."""

    text: str


class LineParser(Protocol):
    """Reads the lines of one end of a writer, in order; may remember a header's units."""

    def parse(self, line: str) -> Row | Total | Fault | None:
        """What a line means; None for all that is none of these."""


#: Where the agent takes a writer's rows from: what the program prints, the byte counter of the
#: origin's device, or the CPU time that the process used (for a control, which writes nothing).
RowSource = Literal["output", "counter", "cpu"]


#: What a direction makes the devices of (origin, target) count.
PASSES: dict[Direction, tuple[Passed, Passed]] = {
    "write": ("sent", "received"),
    "read": ("received", "sent"),
}


class Injector(Protocol):
    """What a program that makes writes must be able to answer."""

    name: str
    direction: Direction
    #: False for a control, which takes the writer's place and writes nothing.
    writes: bool
    #: What rates it can hold, and who holds one below full: the program itself, or the agent, which
    #: suspends and resumes the program (`pacing.py`).
    rates: Literal["full", "any"]
    paced_by: Literal["program", "agent"]
    #: How long a reported interval is, seconds; None where it reports none.
    row_s: float | None

    def transport(self, writer: Writer) -> str:
        """What the bytes go over, for the sample (`WriterRecord.transport`)."""

    def target_command(self, writer: Writer) -> list[str] | None:
        """The passive side's command, or None where there is none."""

    def origin_command(self, writer: Writer) -> list[str]:
        """The writing side's command."""

    def environment(self, writer: Writer) -> dict[str, str]:
        """What is added to the environment of both."""

    def row_source(self, writer: Writer) -> RowSource:
        """Where this writer's rows come from."""

    def freezes_target(self, writer: Writer) -> bool:
        """Whether the agent suspends the passive side's process (SIGSTOP) at the first row.

        True where that process spins on a core although it has no part in the writes.
        """

    def parser(self, writer: Writer) -> LineParser:
        """A fresh reader of one process's lines."""

    def own_binding(self) -> str:
        """What the program does about NUMA by itself, and which option it was given about it."""

    def missing(self) -> str | None:
        """Why it cannot run on this host and how to get it, in one line; None where it can."""
