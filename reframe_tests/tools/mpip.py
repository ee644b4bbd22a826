"""mpiP: time in MPI calls and sizes of messages of each rank, from a preloaded library.

MPI_Finalize writes one report for all ranks. Its figures have four significant digits. The events
of each rank:
application-time, MPI-time           s
point-to-point-time, -calls          s and count; the same for `collective` and `other`
point-to-point-messages, -sent       number of calls that sent something, and the bytes that they
                                     sent; the same for `collective`
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
from records.units import plural
from reframe_tests.tools.base import FOLDER_PLACEHOLDER, CounterRow, Tool, ToolError, parsed_number

LIBRARY = "libmpiP.so"
#: One stack frame per call site: without call sites (`-k 0`), a report has no figures per rank.
_STACK_OPTION = "-k 1"
#: Shell script that starts a rank of the application with mpiP. Arguments: folder, application.
#: mpiP splits its options at commas and blanks, and the name of a folder may contain some. So the
#: shell opens the folder under a free descriptor, and mpiP gets the descriptor's path. `eval` runs
#: `exec 9<"$1"`, since the shell takes no variable before `<`.
_RANK_SCRIPT = (
    "for fd in 9 8 7 6 5 4 3; do [ -e /proc/self/fd/$fd ] || break; done;"
    """ eval "exec $fd"'<"$1"'; shift;"""
    f' exec env LD_PRELOAD="{LIBRARY}${{LD_PRELOAD:+:$LD_PRELOAD}}"'
    f' MPIP="{_STACK_OPTION} -f /proc/self/fd/$fd" "$@"'
)
FunctionKind = Literal["point-to-point", "collective", "other"]

_COLLECTIVE_PREFIXES = (
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
_LOCAL_FUNCTIONS = ("Reduce_local",)

_SECTION = re.compile(r"^@--- (.+?)(?: -+)?$", re.MULTILINE)
_END = "End of Report"


@dataclass(frozen=True)
class CallSiteFigures:
    """The figures in one line of the report, which is about one rank at one call site.

    A line has either the calls or the messages.
    """

    #: Name of the MPI function without `MPI_`.
    function: str
    call_count: int = 0
    time_s: float = 0.0
    #: Number of calls that sent something, and the bytes that they sent.
    message_count: int = 0
    sent_b: float = 0.0


def function_kind(function: str) -> FunctionKind:
    """Return the kind of an MPI function, named without `MPI_`.

    `Isend` is point-to-point, `Ibcast` and `Allreduce_init` are collective.
    """
    operation = function.removesuffix("_init")
    if function in _LOCAL_FUNCTIONS:
        return "other"
    if operation.removesuffix("_replace") in _POINT_TO_POINT:
        return "point-to-point"
    blocking = operation[1:].capitalize() if operation.startswith("I") else operation
    if operation.startswith(_COLLECTIVE_PREFIXES) or blocking.startswith(_COLLECTIVE_PREFIXES):
        return "collective"
    return "other"


class Mpip(Tool):
    """The tool mpiP (`base.Tool`)."""

    name = "mpip"

    def wrap(self, launcher: Sequence[str], application: Sequence[str]) -> list[str]:
        """See `Tool.wrap`. The library is preloaded into the application, not the launcher."""
        return [*launcher, "sh", "-c", _RANK_SCRIPT, self.name, FOLDER_PLACEHOLDER, *application]

    def parse(self, folder: Path, ranks: int) -> list[CounterRow]:
        """See `Tool.parse`."""
        reports = sorted(folder.glob("*.mpiP"))
        if len(reports) != 1:
            raise ToolError(
                f"{folder}: {len(reports)} reports of mpiP instead of one; it needs {LIBRARY} on"
                " each node, and an application that calls MPI_Finalize"
            )
        (path,) = reports
        try:
            return _parse(path.read_text(errors="replace"), ranks)
        except (KeyError, ValueError, IndexError):
            raise ToolError(f"{path}: not a report of mpiP 3.5, or truncated") from None
        except ToolError as error:
            raise ToolError(f"{path}: {error}") from None

    def why_missing(self) -> str | None:
        """Return why mpiP cannot count here, or None.

        To try it, the library is preloaded into a program that does nothing.
        """
        environment = os.environ | {"LD_PRELOAD": LIBRARY}
        if LIBRARY not in ask(["true"], environment).stderr:
            return None
        build = command("spack", "build", "profiling")
        return f"no {LIBRARY} for the loader (`{build}`; set LD_LIBRARY_PATH)"


def _parse(text: str, ranks: int) -> list[CounterRow]:
    sections = _sections(text)
    if _END not in sections:
        raise ValueError
    # Columns: task, which is the rank; time of the application; time in MPI; its share.
    time_lines = sections["MPI Time (seconds)"]
    times_by_rank = {int(line[0]): line[1:3] for line in time_lines if line[0].isdigit()}
    if set(times_by_rank) != set(range(ranks)):
        raise ToolError(
            f"{plural(len(times_by_rank), 'task')}; the application has {plural(ranks, 'rank')}"
        )
    figures_by_rank = _figures_by_rank(sections)
    rows = []
    for rank, (application_text, mpi_text) in sorted(times_by_rank.items()):
        application_s, mpi_s = parsed_number(application_text), parsed_number(mpi_text)
        if mpi_s > 0 and not figures_by_rank[rank]:
            raise ToolError(f"no calls listed for rank {rank}, which spent {mpi_text} s in MPI")
        rows += rank_rows(rank, application_s, mpi_s, figures_by_rank[rank])
    return rows


def rank_rows(
    rank: int, application_s: float, mpi_s: float, figures: Sequence[CallSiteFigures]
) -> list[CounterRow]:
    """Return the events of one rank, with sums over its call sites."""
    events = [("application-time", application_s, "s"), ("MPI-time", mpi_s, "s")]
    for kind in get_args(FunctionKind):
        kind_figures = [entry for entry in figures if function_kind(entry.function) == kind]
        events += [
            (f"{kind}-time", sum(entry.time_s for entry in kind_figures), "s"),
            (f"{kind}-calls", sum(entry.call_count for entry in kind_figures), "count"),
        ]
        if kind != "other":
            events += [
                (f"{kind}-messages", sum(entry.message_count for entry in kind_figures), "count"),
                (f"{kind}-sent", sum(entry.sent_b for entry in kind_figures), "B"),
            ]
    return [
        CounterRow(rank=rank, event=event, value=float(value), unit=unit)
        for event, value, unit in events
    ]


def _sections(text: str) -> dict[str, list[list[str]]]:
    """Return title of a section -> its lines that are not empty, split into words.

    The number of call sites at the end of a title (`: 130`) is removed.
    """
    _, *titles_and_bodies = _SECTION.split(text)
    return {
        re.sub(r": \d+$", "", title): [line.split() for line in body.splitlines() if line.split()]
        for title, body in zip(titles_and_bodies[::2], titles_and_bodies[1::2], strict=True)
    }


def _figures_by_rank(
    sections: dict[str, list[list[str]]],
) -> defaultdict[int, list[CallSiteFigures]]:
    """Return rank -> its figures: for each call site, an entry for calls and one for messages.

    A rank without calls has an empty list.
    """
    figures_by_rank: defaultdict[int, list[CallSiteFigures]] = defaultdict(list)
    calls = sections["Callsite Time statistics (all, milliseconds)"]
    for rank, function, (count, _max_ms, mean_ms, *_) in _rank_lines(calls):
        call_count = int(parsed_number(count))
        time_s = call_count * parsed_number(mean_ms) * 1e-3
        figures = CallSiteFigures(function, call_count=call_count, time_s=time_s)
        figures_by_rank[rank].append(figures)
    # A report without messages does not have this section.
    messages = sections.get("Callsite Message Sent statistics (all, sent bytes)", [])
    for rank, function, (count, _max_b, _mean_b, _min_b, sum_b, *_) in _rank_lines(messages):
        message_count, sent_b = int(parsed_number(count)), parsed_number(sum_b)
        figures = CallSiteFigures(function, message_count=message_count, sent_b=sent_b)
        figures_by_rank[rank].append(figures)
    return figures_by_rank


def _rank_lines(lines: Sequence[Sequence[str]]) -> Iterator[tuple[int, str, Sequence[str]]]:
    """Yield rank, function and the remaining words of each line of one rank at one call site.

    A line with `*` in place of the rank has the total of a call site. Raises ToolError if the calls
    of the ranks do not add up to this total.
    """
    summed_calls, stated_calls = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for function, site, rank, *words in (line for line in lines if len(line) > 3):
        if rank.isdigit():
            summed_calls[function, site] += int(parsed_number(words[0]))
            yield int(rank), function, words
        elif rank == "*":
            stated_calls[function, site] += int(parsed_number(words[0]))
    for (function, site), stated_count in stated_calls.items():
        if (count := summed_calls[function, site]) != stated_count:
            raise ToolError(
                f"{function} at call site {site}: its ranks have {count} of {stated_count} calls (a"
                " report of totals alone, as of mpiP's option -c, is not enough)"
            )


TOOL: Tool = Mpip()
