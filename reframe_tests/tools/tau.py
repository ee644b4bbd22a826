"""TAU: time in MPI calls and sizes of messages of each rank, by `tau_exec`.

TAU leaves `profile.RANK.0.THREAD` for each thread of a rank. It times calls in each rank, so the
time of a collective call includes the wait for other ranks (`MPI Collective Sync`).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from nimc.records.counter_row import CounterRow
from reframe_tests.tools.base import FOLDER, Tool, ToolError, figure, try_out
from reframe_tests.tools.mpi_calls import CallCount, rows

#: The part of TAU that times MPI calls.
_OPTION = "mpi"
#: Arguments: folder, application.
_START = (
    f'folder=$1; shift; exec env PROFILEDIR="$folder" TAU_METRICS=TIME TAU_TRACK_MESSAGE=1'
    f' tau_exec -T {_OPTION} "$@"'
)
_FUNCTION = re.compile(r'"([^"]*)" (\d+) \d+ (\S+) (\S+) ')
_EVENT = re.compile(r'"([^"]*)" (\S+) \S+ \S+ (\S+) ')
_HEADER = re.compile(r"(\d+) templated_functions")
_EVENTS = re.compile(r"(\d+) userevents")
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
    application_s = 0.0
    for path in files:
        try:
            functions, events = _profile(path.read_text(errors="replace"))
        except ValueError:
            raise ToolError(f"{path}: not a profile of TAU, or truncated") from None
        if path == first:
            application_s = next((t for name, _, _, t in functions if name == _WHOLE), 0.0)
        calls += _timed(functions)
        calls += [
            CallCount("Send" if name == _SENT else "Bcast", messages=count, sent_b=count * mean_b)
            for name, count, mean_b in events
            if name == _SENT or name.startswith(_COLLECTIVE)
        ]
    if not any(call.name == "Finalize" for call in calls):
        raise ToolError(
            f"{first}: no MPI_Finalize; TAU times programs with MPI, and not the script that"
            " starts one"
        )
    return rows(rank, application_s, sum(call.time_s for call in calls), calls)


def _timed(functions: Sequence[tuple[str, int, float, float]]) -> Iterator[CallCount]:
    for name, calls, exclusive_s, _ in functions:
        if name == _SYNC:
            yield CallCount("Barrier", time_s=exclusive_s)
        elif name.startswith("MPI_"):
            yield CallCount(name.removeprefix("MPI_").removesuffix("()"), calls, exclusive_s)


def _profile(
    text: str,
) -> tuple[list[tuple[str, int, float, float]], list[tuple[str, int, float]]]:
    """(name, calls, exclusive s, inclusive s) and (event, number, mean). Raises ValueError."""
    lines = text.splitlines()
    header = _HEADER.match(lines[0]) if lines else None
    if header is None:
        raise ValueError
    count = int(header[1])
    functions = [_FUNCTION.match(line) for line in lines[2 : 2 + count]]
    tail = [(at, found) for at, line in enumerate(lines) if (found := _EVENTS.match(line))]
    events = []
    if tail:
        at, number = tail[0]
        events = [_EVENT.match(line) for line in lines[at + 2 : at + 2 + int(number[1])]]
        if len(events) != int(number[1]):
            raise ValueError
    elif not any(line.endswith(" aggregates") for line in lines):
        raise ValueError
    if len(functions) != count or None in functions or None in events:
        raise ValueError
    return (
        [
            (f[1].strip(), int(figure(f[2])), figure(f[3]) * 1e-6, figure(f[4]) * 1e-6)
            for f in functions
            if f
        ],
        [(e[1], int(figure(e[2])), figure(e[3])) for e in events if e],
    )


TOOL: Tool = Tau()
