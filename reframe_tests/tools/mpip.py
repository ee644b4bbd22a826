"""mpiP: time in MPI calls and sizes of messages of each rank, from a preloaded library.

MPI_Finalize writes one report for all ranks. Its figures have four significant digits. The events
of each rank:
application-time, MPI-time           s
point-to-point-time, -calls          s and count, the same for `collective` and `other`
point-to-point-messages, -sent       calls that sent something, and what they sent, B
The mean size of a message is sent / messages, over any number of ranks.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from records.commands import command
from records.programs import ask
from reframe_tests.tools.base import FOLDER, CounterRow, Tool, ToolError, figure

LIBRARY = "libmpiP.so"
#: One stack frame per call site; mpiP lists ranks only with their call sites.
_OPTIONS = "-k 1 -f"
#: Arguments: folder, application. mpiP splits its options at commas and blanks, and the name of a
#: folder may contain some. So the shell opens the folder under a free descriptor, and mpiP gets the
#: descriptor's path.
_START = (
    "for fd in 9 8 7 6 5 4 3; do [ -e /proc/self/fd/$fd ] || break; done;"
    ' eval "exec $fd<\\"\\$1\\""; shift;'
    f' exec env LD_PRELOAD="{LIBRARY}${{LD_PRELOAD:+:$LD_PRELOAD}}"'
    f' MPIP="{_OPTIONS} /proc/self/fd/$fd" "$@"'
)
Kind = Literal["point-to-point", "collective", "other"]

_COLLECTIVE = (
    "Allgather",
    "Allreduce",
    "Alltoall",
    "Barrier",
    "Bcast",
    "Exscan",
    "Gather",
    "Reduce",
    "Scan",
    "Scatter",
    "Neighbor",
)
_POINT_TO_POINT = (
    "Send",
    "Recv",
    "Isend",
    "Irecv",
    "Bsend",
    "Rsend",
    "Ssend",
    "Ibsend",
    "Irsend",
    "Issend",
    "Sendrecv",
    "Isendrecv",
    "Mrecv",
    "Imrecv",
    "Probe",
    "Iprobe",
    "Mprobe",
    "Improbe",
    "Wait",
    "Waitall",
    "Waitany",
    "Waitsome",
    "Test",
    "Testall",
    "Testany",
    "Testsome",
    "Start",
    "Startall",
)
_LOCAL = ("Reduce_local",)

_SECTION = re.compile(r"^@--- (.+?)(?: -+)?$", re.MULTILINE)
_END = "End of Report"


@dataclass(frozen=True)
class CallCount:
    """Calls of one MPI function by one rank."""

    #: Name of the function without `MPI_`.
    name: str
    calls: int = 0
    time_s: float = 0.0
    #: Calls that sent something, and what they sent.
    messages: int = 0
    sent_b: float = 0.0


def call_kind(call: str) -> Kind:
    """Return the kind of a call.

    `Isend` is point-to-point, `Ibcast` and `Allreduce_init` are collective.
    """
    operation = call.removesuffix("_init")
    if call in _LOCAL:
        return "other"
    if operation.removesuffix("_replace") in _POINT_TO_POINT:
        return "point-to-point"
    blocking = operation[1:].capitalize() if operation.startswith("I") else operation
    if operation.startswith(_COLLECTIVE) or blocking.startswith(_COLLECTIVE):
        return "collective"
    return "other"


class Mpip(Tool):
    """See `base.Tool`."""

    name = "mpip"

    def wrap(self, launcher: Sequence[str], application: Sequence[str]) -> list[str]:
        """See the interface. The library is preloaded into the application, not the launcher."""
        return [*launcher, "sh", "-c", _START, self.name, FOLDER, *application]

    def parse(self, folder: Path, ranks: int) -> list[CounterRow]:
        """See the interface."""
        reports = sorted(folder.glob("*.mpiP"))
        if len(reports) != 1:
            raise ToolError(
                f"{folder}: {len(reports)} reports of mpiP, must be one; it needs {LIBRARY} on"
                " each node, and an application that calls MPI_Finalize"
            )
        (path,) = reports
        try:
            return _parse(path.read_text(errors="replace"), ranks)
        except (KeyError, ValueError, IndexError):
            raise ToolError(f"{path}: not a report of mpiP 3.5, or truncated") from None
        except ToolError as error:
            raise ToolError(f"{path}: {error}") from None

    def missing(self) -> str | None:
        """See the interface. Preloads the library into a program that does nothing."""
        environment = os.environ | {"LD_PRELOAD": LIBRARY}
        if LIBRARY not in ask(["true"], environment).stderr:
            return None
        build = command("spack", "build", "profiling")
        return f"no {LIBRARY} for the loader (`{build}`; set LD_LIBRARY_PATH)"


def _parse(text: str, ranks: int) -> list[CounterRow]:
    sections = _sections(text)
    if _END not in sections:
        raise ValueError
    times = {int(words[0]): words for words in sections["MPI Time (seconds)"] if words[0].isdigit()}
    if len(times) != ranks or set(times) != set(range(ranks)):
        raise ToolError(f"{len(times)} tasks; the application has {ranks} ranks")
    calls = _calls(sections)
    for rank, (_, _, mpi_s, *_) in times.items():
        if figure(mpi_s) > 0 and not calls[rank]:
            raise ToolError(f"no call of rank {rank}, which was {mpi_s} s in MPI")
    return [
        row
        for rank, (_, application_s, mpi_s, *_) in sorted(times.items())
        for row in rank_rows(rank, figure(application_s), figure(mpi_s), calls[rank])
    ]


def rank_rows(
    rank: int, application_s: float, mpi_s: float, calls: list[CallCount]
) -> list[CounterRow]:
    """Return the events of one rank."""
    events = [("application-time", application_s, "s"), ("MPI-time", mpi_s, "s")]
    for kind in get_args(Kind):
        kind_calls = [call for call in calls if call_kind(call.name) == kind]
        events += [
            (f"{kind}-time", sum(call.time_s for call in kind_calls), "s"),
            (f"{kind}-calls", sum(call.calls for call in kind_calls), "count"),
        ]
        if kind != "other":
            events += [
                (f"{kind}-messages", sum(call.messages for call in kind_calls), "count"),
                (f"{kind}-sent", sum(call.sent_b for call in kind_calls), "B"),
            ]
    return [
        CounterRow(rank=rank, event=event, value=float(value), unit=unit)
        for event, value, unit in events
    ]


def _sections(text: str) -> dict[str, list[list[str]]]:
    """Return title of a section, without its count -> words of each line that is not empty."""
    parts = _SECTION.split(text)
    return {
        re.sub(r": \d+$", "", title): [line.split() for line in body.splitlines() if line.split()]
        for title, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def _calls(sections: dict[str, list[list[str]]]) -> dict[int, list[CallCount]]:
    calls: dict[int, list[CallCount]] = defaultdict(list)
    for rank, name, words in _sites(sections["Callsite Time statistics (all, milliseconds)"]):
        count, mean_ms = int(figure(words[0])), figure(words[2])
        calls[rank].append(CallCount(name, calls=count, time_s=count * mean_ms * 1e-3))
    # A report without messages does not have this section.
    sent = sections.get("Callsite Message Sent statistics (all, sent bytes)", [])
    for rank, name, words in _sites(sent):
        calls[rank].append(CallCount(name, messages=int(figure(words[0])), sent_b=figure(words[4])))
    return calls


def _sites(lines: Sequence[Sequence[str]]) -> Iterator[tuple[int, str, Sequence[str]]]:
    """Yield rank, call and figures of each line of one rank; `*` stands for all ranks.

    Raises ToolError if the calls of the ranks do not add up to those of the line of all ranks.
    """
    rank_calls_by_site, calls_by_site = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for name, site, rank, *words in (line for line in lines if len(line) > 3):
        if rank.isdigit():
            rank_calls_by_site[name, site] += int(figure(words[0]))
            yield int(rank), name, words
        elif rank == "*":
            calls_by_site[name, site] += int(figure(words[0]))
    for (name, site), all_calls in calls_by_site.items():
        if (calls := rank_calls_by_site[name, site]) != all_calls:
            raise ToolError(
                f"{name} at call site {site}: its ranks have {calls} of {all_calls} calls (a report"
                " of totals alone, as of mpiP's option -c, is not enough)"
            )


TOOL: Tool = Mpip()
