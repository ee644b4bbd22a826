"""The interface of a tool: a program that wraps the application, rank by rank, and counts.

A tool is a table of pure answers about one program, as an injector is: the command that it makes of
the application's, and what the files mean that it leaves. Starting it is the conductor's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

#: Stands in a wrapped command for the folder of the run's files.
FOLDER = "{counters}"

#: What became of a count: it is whole; the tool shared a counter among events and scaled the count
#: up; the processor or the kernel does not have it; the tool was not able to count it.
State = Literal["counted", "multiplexed", "not supported", "not counted"]


@dataclass(frozen=True)
class CounterRow:
    """What a tool counted of one event in one rank during one run."""

    rank: int
    event: str
    #: None where nothing was counted (`state`).
    value: float | None
    #: `count`, `s`, `B`, ...
    unit: str
    state: State = "counted"
    #: Share of the run in which the event was counted.
    running_share: float | None = None


class ToolError(Exception):
    """A tool's files do not hold what they must. One line for people."""


class Tool(Protocol):
    """What a program that counts must be able to tell."""

    name: str

    def wrap(self, launcher: Sequence[str], application: Sequence[str]) -> list[str]:
        """The whole command line: the tool stands behind the launcher, so once in every rank."""

    def environment(self) -> dict[str, str]:
        """What is added to the environment of the application."""

    def parse(self, folder: Path) -> list[CounterRow]:
        """Rows of every rank, from the files of one run. Raises ToolError where there are none."""

    def missing(self) -> str | None:
        """Why it cannot run on this host and how to get it, in one line; None where it can."""
