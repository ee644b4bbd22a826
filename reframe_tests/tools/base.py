"""The interface of a tool: a program that wraps the application, rank by rank, and counts.

A tool is a table of pure answers about one program, as an injector is: the command that it makes of
the application's, and what the files mean that it leaves. Starting it is the conductor's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from analysis.counter_row import CounterRow, State

__all__ = ["FOLDER", "RANK", "CounterRow", "State", "Tool", "ToolError", "rank_files"]

#: Stands in a wrapped command for the folder of the run's files.
FOLDER = "{counters}"

#: The rank as a shell expands it, from what Open MPI, MPICH and Slurm set; 0 without any of them.
RANK = "${PMIX_RANK:-${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-${SLURM_PROCID:-0}}}}"


class ToolError(Exception):
    """A tool's files do not hold what they must. One line that names the file."""


class Tool(Protocol):
    """What a program that counts must be able to tell."""

    name: str

    def wrap(self, launcher: Sequence[str], application: Sequence[str]) -> list[str]:
        """The whole command line: the tool stands behind the launcher, so once in every rank.

        Exit status, standard input and output stay the application's.
        """

    def environment(self) -> dict[str, str]:
        """What is added to the environment of the application."""

    def parse(self, folder: Path, ranks: int) -> list[CounterRow]:
        """Rows of ranks 0 to `ranks` - 1, from the files of one run.

        Raises ToolError where a rank's file is missing or cut off, or a further one is there.
        """

    def missing(self) -> str | None:
        """Why it cannot run on this host and how to get it, in one line; None where it can."""


def rank_files(folder: Path, ranks: int, suffix: str = ".json") -> list[Path]:
    """`rank-0.json` to `rank-N.json` of one run. Raises ToolError unless just these are there."""
    expected = [folder / f"rank-{rank}{suffix}" for rank in range(ranks)]
    found = set(folder.glob(f"rank-*{suffix}"))
    if absent := [path for path in expected if path not in found]:
        raise ToolError(f"{absent[0]}: no such file; {len(found)} of {ranks} ranks left counts")
    if more := sorted(found - set(expected)):
        raise ToolError(f"{more[0]}: unexpected file; the application has {ranks} ranks")
    return expected
