"""TAU: time in MPI calls and sizes of messages of each rank, by `tau_exec`.

TAU leaves `profile.RANK.0.THREAD` for each thread of a rank. It times calls in each rank, so the
time of a collective call includes the wait for other ranks (`MPI Collective Sync`).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from records.sample import CounterRow
from reframe_tests.tools.base import FOLDER, Tool, ToolError, figure, try_out
from reframe_tests.tools.mpi_calls import CallCount, rows

#: The part of TAU that times MPI calls.
_OPTION = "mpi"
#: Arguments: folder, application.
_START = (
    f'folder=$1; shift; exec env PROFILEDIR="$folder" TAU_METRICS=TIME TAU_TRACK_MESSAGE=1'
    f' tau_exec -T {_OPTION} "$@"'
)
#: Name, calls, exclusive and inclusive time; event, number and mean.
_FUNCTION = r'"([^"]*)" (\d+) \d+ (\S+) (\S+) '
_EVENT = r'"([^"]*)" (\S+) \S+ \S+ (\S+) '
_WHOLE = ".TAU application"
#: Time that TAU separates from collective calls, as if it were a call of its own.
_SYNC = "MPI Collective Sync"
#: TAU's events of messages: one for what was sent to another rank, one for each collective call.
_SENT = "Message size sent to all nodes"
_COLLECTIVE = "Message size for "


class Tau(Tool):
    """See `base.Tool`."""

    name = "tau"

    def wrap(self, launcher: Sequence[str], application: Sequence[str]) -> list[str]:
        """See the interface."""
        return [*launcher, "sh", "-c", _START, self.name, FOLDER, *application]

    def parse(self, folder: Path, ranks: int) -> list[CounterRow]:
        """See the interface."""
        extra = folder / f"profile.{ranks}.0.0"
        if extra.exists():
            raise ToolError(f"{extra}: unexpected file; the application has {ranks} ranks")
        return [row for rank in range(ranks) for row in _rank(folder, rank)]

    def missing(self) -> str | None:
        """Found by trying it on a program that does nothing."""
        if shutil.which("tau_exec") is None:
            return "no tau_exec on PATH (build TAU with -mpi -pthread: spack install tau +mpi)"
        try:
            try_out(self, parse=False)  # a program without MPI leaves no times of calls
        except ToolError as error:
            return f"{error}"
        return None


def _rank(folder: Path, rank: int) -> list[CounterRow]:
    """The events of one rank; the first thread's time is the application's."""
    files = sorted(folder.glob(f"profile.{rank}.0.*"))
    first = folder / f"profile.{rank}.0.0"
    if first not in files:
        raise ToolError(f"{first}: no such file; was TAU's library preloaded in this rank?")
    calls: list[CallCount] = []
    application_s: float | None = None
    for path in files:
        try:
            text = path.read_text(errors="replace")
            for name, number, own_us, whole_us in _table(text, "templated_functions", _FUNCTION):
                exclusive_s = figure(own_us) * 1e-6
                if name.strip() == _WHOLE and path == first:
                    application_s = figure(whole_us) * 1e-6
                elif name.strip() == _SYNC:
                    calls.append(CallCount("Barrier", time_s=exclusive_s))
                elif name.startswith("MPI_"):
                    call = name.strip().removeprefix("MPI_").removesuffix("()")
                    calls.append(CallCount(call, int(figure(number)), exclusive_s))
            for name, number, mean in _table(text, "userevents", _EVENT, else_line=" aggregates"):
                if name == _SENT or name.startswith(_COLLECTIVE):
                    count, call = int(figure(number)), "Send" if name == _SENT else "Bcast"
                    calls.append(CallCount(call, messages=count, sent_b=count * figure(mean)))
        except ValueError:
            raise ToolError(f"{path}: not a profile of TAU, or truncated") from None
    if not any(call.name == "Finalize" for call in calls):
        raise ToolError(
            f"{first}: no MPI_Finalize; TAU times programs with MPI, and not the script that"
            " starts one"
        )
    if application_s is None:
        raise ToolError(f"{first}: no line of {_WHOLE}, the time of the whole application")
    return rows(rank, application_s, sum(call.time_s for call in calls), calls)


def _table(text: str, title: str, row: str, else_line: str = "") -> Iterator[tuple[str, ...]]:
    """The rows below the line of their number; there is a line with a certain end without them.

    Raises ValueError if the profile is truncated.
    """
    lines = text.splitlines()
    heads = [(at, re.match(rf"(\d+) {title}", line)) for at, line in enumerate(lines)]
    at, head = next((each for each in heads if each[1]), (0, None))
    if head is None:
        if not else_line or not any(line.endswith(else_line) for line in lines):
            raise ValueError
        return
    count = int(head[1])
    found = [re.match(row, line) for line in lines[at + 2 : at + 2 + count]]
    if len(found) != count or None in found:
        raise ValueError
    yield from (match.groups() for match in found if match)


TOOL: Tool = Tau()
