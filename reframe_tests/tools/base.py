"""The interface of a tool: a program that wraps each rank of the application, and counts.

Like an injector, a tool describes one program by pure functions: the wrapped command, and the
meaning of the files that it leaves. The conductor starts it.
"""

from __future__ import annotations

import math
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conductor.block.readers import ToolError
from records.programs import ask
from records.roles import Scope
from records.sample import CounterRow, State
from records.units import plural

__all__ = ["CounterRow", "State", "ToolError"]

#: Placeholder in a wrapped command for the folder of the run's files.
FOLDER_PLACEHOLDER = "{counters}"

#: Variables in which launchers, except Slurm's, give a rank its number, also that on its node.
RANK_VARIABLES = (
    "PMIX_RANK",
    "PMI_RANK",
    "OMPI_COMM_WORLD_RANK",
    "MPI_LOCALRANKID",
    "OMPI_COMM_WORLD_LOCAL_RANK",
)

#: The rank in shell syntax, from the variables of Open MPI, MPICH and Slurm; 0 if none is set.
RANK = "${PMIX_RANK:-${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-${SLURM_PROCID:-0}}}}"

#: A rank's number on its node, in shell syntax. If no launcher sets it, this is the rank's number
#: among all ranks, so that only rank 0 counts as the first rank of a node.
LOCAL_RANK = f"${{MPI_LOCALRANKID:-${{OMPI_COMM_WORLD_LOCAL_RANK:-${{SLURM_LOCALID:-{RANK}}}}}}}"

#: No real count, and no real time in SI units, is above this limit. Sums of numbers up to the limit
#: stay finite.
_LARGEST_NUMBER = 1e30
#: Characters of an invalid number that a message quotes.
_QUOTED_CHARACTERS = 40


class Tool(ABC):
    """A program that counts events of the application."""

    name: str

    @abstractmethod
    def wrap(self, launcher: Sequence[str], application: Sequence[str]) -> list[str]:
        """Return the whole command line. The tool follows the launcher, so it wraps every rank.

        Exit status, standard input and output are the application's.
        """

    def environment(self) -> dict[str, str]:
        """Return variables for the environment of the application; none by default."""
        return {}

    @abstractmethod
    def parse(self, folder: Path, ranks: int) -> list[CounterRow]:
        """Return the rows of ranks 0 to `ranks` - 1, from the files of one run.

        Raises ToolError if a rank's file is missing or truncated, or a file is unexpected.
        """

    @abstractmethod
    def why_missing(self) -> str | None:
        """Return why the tool cannot run on this host, and how to install it; None if it can."""


def first_rank_of_node_only(argument_count: int) -> str:
    """Return shell code that continues only in the first rank of each node.

    All other ranks become the application, whose words follow after `argument_count` arguments.
    """
    return f'[ "{LOCAL_RANK}" = 0 ] || {{ shift {argument_count}; exec "$@"; }}; '


def parsed_number(printed: Any) -> float:
    """Return a number that a tool printed. Raises ValueError for NaN, infinity and other text."""
    try:
        value = float(printed)
    except (TypeError, OverflowError):
        value = math.nan
    if not abs(value) <= _LARGEST_NUMBER:
        raise ValueError(
            f"{str(printed)[:_QUOTED_CHARACTERS]!r} is not a number that a tool may print"
        )
    return value


def files_of(folder: Path, ranks: int, scope: Scope, suffix: str = ".json") -> dict[int, Path]:
    """Return rank -> file. Raises ToolError if a file is missing or unexpected.

    With the scope `node`, only the first rank of each node has a file. The number of nodes is not
    known here, so one file is enough.
    """
    names_present = {path.name for path in folder.glob(f"rank-*{suffix}")}
    names = {rank: f"rank-{rank}{suffix}" for rank in range(ranks)}
    files = {rank: folder / name for rank, name in names.items() if name in names_present}
    if unexpected_names := names_present - set(names.values()):
        first_path = folder / min(unexpected_names)
        raise ToolError(
            f"{first_path}: unexpected file; the application has {plural(ranks, 'rank')}"
        )
    if scope == "node" and not files:
        raise ToolError(f"{folder}: no file of any node; the first rank of each should leave one")
    if scope == "rank" and len(files) < ranks:
        missing_name = next(name for rank, name in names.items() if rank not in files)
        raise ToolError(
            f"{folder / missing_name}: no such file; {len(files)} of {ranks} ranks left counts"
        )
    return files


def try_out(tool: Tool) -> list[CounterRow]:
    """Return the rows of a tool for one rank that runs `true` on this host. Raises ToolError."""
    with tempfile.TemporaryDirectory() as folder:
        command = [word.replace(FOLDER_PLACEHOLDER, folder) for word in tool.wrap([], ["true"])]
        answer = ask(command, os.environ | tool.environment(), folder=Path(folder))
        if answer.status is None:
            raise ToolError(f"{tool.name} does not run: {answer.reason}")
        if not answer.ok:
            raise ToolError(
                f"{tool.name} fails with exit status {answer.status}: {answer.first_line}"
            )
        return tool.parse(Path(folder), 1)
