"""Readers of a run's output, given to the conductor, which knows no workload and no tool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.sample import Better
from injection.fom import Fom

#: Name of the tool, folder of its files, number of ranks -> rows of JSON.
ReadCounters = Callable[[str, Path, int], list[dict[str, Any]]]


class CountersError(Exception):
    """A tool left no counters, or not those of every rank. The message is one line."""


@dataclass(frozen=True)
class Readers:
    """Readers of one workload's output and of all tools' files."""

    #: Unit and better direction of the figure of merit.
    unit: str
    better: Better
    #: Standard output -> figure of merit; raises FomError. None if the check reads the outputs
    #: itself, after the block.
    fom: Callable[[str], Fom] | None
    #: Raises CountersError.
    counters: ReadCounters
