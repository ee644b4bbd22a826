"""Readers of a run's output, given to the conductor, which knows no workload and no tool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from records.sample import Better, CounterRow
from records.slurm import options
from records.units import plural

# The figure of merit: what readers of an application's output return and raise.


@dataclass(frozen=True)
class Fom:
    """The figure of merit that a run reports, in SI units."""

    value: float
    #: Other figures that the run reports, with units in their names.
    extra: dict[str, float] = field(default_factory=dict)
    #: Unit, and whether lower or higher values are better; None: as for the workload.
    unit: str | None = None
    better: Better | None = None
    #: Number of ranks that the program reports; None if it reports no number.
    ranks: float | None = None
    #: Caveats to show with the figure.
    notes: list[str] = field(default_factory=list)


class FomError(Exception):
    """The output has no figure of merit, or its own checks failed. The message is one line."""


def require_ranks(fom: Fom, requested: int | None) -> Fom:
    """Return `fom`. Raises FomError if the program reports another number of ranks than requested.

    If launcher and program use different MPIs, independent copies of the program are started, each
    with one rank. Each copy gives a correct answer, so nothing else shows this error.
    """
    if requested is not None and fom.ranks is not None and fom.ranks != requested:
        ranks = plural(int(fom.ranks), "rank")
        raise FomError(
            f"the application ran with {ranks}, not {requested}: launcher and application use"
            f" different MPIs ({options.MPI_HINT})"
        )
    return fom


class ToolError(Exception):
    """A tool's files are missing or invalid. The message is one line that names the file."""


@dataclass(frozen=True)
class Readers:
    """Readers of one workload's output and of all tools' files."""

    #: Unit of the figure of merit, and whether lower or higher values are better.
    unit: str
    better: Better
    #: Standard output -> figure of merit; raises FomError. None if the check reads the outputs
    #: itself, after the block.
    fom: Callable[[str], Fom] | None
    #: Name of a tool, folder of its files, number of ranks -> its rows; raises ToolError.
    counters: Callable[[str, Path, int], list[CounterRow]]
