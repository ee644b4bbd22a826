"""What the conductor is handed to read a run's output with; it knows no workload and no tool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.sample import Better
from injection.fom import Fom

#: From a tool's name, the folder of its files and the ranks of the run to rows of JSON.
ReadCounters = Callable[[str, Path, int], list[dict[str, Any]]]


class CountersError(Exception):
    """A tool left no counters, or not those of every rank. One line for people."""


@dataclass(frozen=True)
class Readers:
    """Readers of one workload's output and of all tools' files."""

    #: Unit and better direction of the figure of merit.
    unit: str
    better: Better
    #: From standard output to the figure of merit; raises FomError. None leaves that to the check,
    #: which reads the outputs after the block.
    fom: Callable[[str], Fom] | None
    #: Raises CountersError.
    counters: ReadCounters
