"""LIKWID: performance groups of each rank's CPUs, by `likwid-perfctr`.

LIKWID counts for CPUs and not for processes, so each rank must have CPUs of its own. Groups of the
memory controllers are counted by the first rank of each node only, since the controllers' counters
belong to the sockets. `likwid-mpirun` is not used: it turns the ranks of most MPI launchers into
singletons.
"""

from __future__ import annotations

import math
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from records.commands import command
from records.programs import ask
from records.roles import Scope, groups
from reframe_tests.tools import base
from reframe_tests.tools.base import (
    FOLDER_PLACEHOLDER,
    RANK,
    CounterRow,
    State,
    Tool,
    ToolError,
    parsed_number,
)

#: Unit of metrics that can be added over CPUs (rates and ratios cannot) -> SI unit and factor.
_UNITS = {"GBytes": ("B", 1e9), "": ("count", 1.0)}
#: Names of metrics without a unit that are ratios.
_RATIOS = re.compile(r"CPI|IPC|ratio|rate", re.IGNORECASE)
_TABLE = re.compile(r"TABLE,Group 1 (Raw|Metric),")

#: Shell script that starts a rank of the application with LIKWID, which counts on all CPUs that the
#: rank may use. Arguments: folder, group, application.
_RANK_SCRIPT = (
    'cpus=$(while read -r name value; do [ "$name" = Cpus_allowed_list: ] && echo "$value"; done'
    f' < /proc/self/status); out="$1/rank-{RANK}.csv" group=$2; shift 2;'
    ' exec likwid-perfctr -c "$cpus" -g "$group" -o "$out" sh -c \'"$@"; exit $?\' likwid "$@"'
)


class Likwid(Tool):
    """A tool (`base.Tool`) that counts one of LIKWID's groups of events."""

    def __init__(self, group: str, scope: Scope) -> None:
        self.name = f"likwid:{group}"
        self._group, self._scope = group, scope

    def wrap(self, launcher: Sequence[str], application: Sequence[str]) -> list[str]:
        """See `Tool.wrap`."""
        script = (base.first_rank_of_node_only(2) if self._scope == "node" else "") + _RANK_SCRIPT
        return [
            *launcher,
            "sh",
            "-c",
            script,
            "likwid",
            FOLDER_PLACEHOLDER,
            self._group,
            *application,
        ]

    def parse(self, folder: Path, ranks: int) -> list[CounterRow]:
        """See `Tool.parse`."""
        files = base.files_of(folder, ranks, self._scope, ".csv")
        return [row for rank, path in files.items() for row in _rows(path, rank)]

    def why_missing(self) -> str | None:
        """Return why LIKWID cannot count here, or None.

        LIKWID is tried, since it may refuse the processor.
        """
        if shutil.which("likwid-perfctr") is None:
            build = command("spack", "build", "profiling")
            return f"no likwid-perfctr on PATH (apt install likwid, or `{build}`)"
        answer = ask(["likwid-perfctr", "-a"])
        if not re.search(r"^\s*Group name", answer.text, re.MULTILINE):
            return f"LIKWID does not know this processor: {answer.first_line}"
        if not re.search(rf"^\s*{self._group}\b", answer.text, re.MULTILINE):
            return f"LIKWID has no group {self._group} for this processor"
        try:
            if any(row.value is not None for row in base.try_out(self)):
                return None
        except ToolError as error:
            return str(error)
        return f"LIKWID counts nothing of group {self._group} on this host"


def _rows(path: Path, rank: int) -> list[CounterRow]:
    """Return the sum of each event over CPUs and over its counters.

    An event may have several counters, for example one for each memory channel.
    """
    counts: dict[tuple[str, str], list[float]] = defaultdict(list)
    try:
        for table_kind, name, fields in _table_rows(path.read_text(errors="replace")):
            if table_kind == "Raw":
                cpu_fields = fields[1:]  # the first is the name of the counter
                counts[name, "count"] += map(_number_or_nan, cpu_fields)
                continue
            metric, _, unit = name.partition(" [")
            is_ratio = not unit and _RATIOS.search(name)
            si_unit_and_factor = _UNITS.get(unit.removesuffix("]"))
            if si_unit_and_factor and not is_ratio:
                si_unit, factor = si_unit_and_factor
                counts[metric, si_unit] += [factor * _number_or_nan(field) for field in fields]
    except ValueError:
        raise ToolError(f"{path}: not a CSV file of likwid-perfctr, or truncated") from None
    if not counts:
        raise ToolError(f"{path}: no table of group 1; likwid-perfctr counted nothing")
    rows = []
    for (event, unit), cpu_counts in counts.items():
        total = sum(cpu_counts) if cpu_counts else math.nan
        counted = not math.isnan(total)
        state: State = "counted" if counted else "not counted"
        rows.append(
            CounterRow(
                rank=rank, event=event, value=total if counted else None, unit=unit, state=state
            )
        )
    return rows


def _table_rows(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield kind of table (`Raw` or `Metric`), name and further fields of each row.

    Raises ValueError for a row with too few or too many fields.
    """
    table_kind, column_count = "", 0
    for line in text.splitlines():
        fields = line.rstrip(",").split(",")
        if line.startswith(("TABLE,", "STRUCT,")):
            table = _TABLE.match(line)
            table_kind, column_count = (table[1] if table else ""), 0
        elif table_kind and not column_count:
            column_count = len(fields)
        elif table_kind and fields != [""]:
            if len(fields) != column_count:
                raise ValueError
            yield table_kind, fields[0], fields[1:]


def _number_or_nan(text: str) -> float:
    """Return a number; NaN for `-` and `nan`, which LIKWID prints if it has no count."""
    return math.nan if text in ("-", "nan", "-nan") else parsed_number(text)


TOOLS: tuple[Tool, ...] = tuple(Likwid(group, scope) for group, scope in groups("likwid").items())
