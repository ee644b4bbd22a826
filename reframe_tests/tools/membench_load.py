"""membench on other cores next to the application: how much of its time needs memory bandwidth.

The level `membench:nt_write:2` keeps the last two cores of each node busy with streaming stores
while the application runs, `membench:mix:2` with loads and stores through the caches. The
application must leave these cores free (`reserved_cores`, or the origin's core of a shared host).
The price of the level is the slowdown next to so many cores (docs/slowdown.md).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from reframe_tests.tools import base
from reframe_tests.tools.base import FOLDER, RANK, CounterRow, Tool, ToolError, figure

PROGRAM = "membench"
#: Kernels and numbers of cores next to the application, a level each.
_KERNELS = ("nt_write", "mix")
_CORES = (1, 2, 4, 8)
_SCRIPT = Path(__file__).with_name("membench_start.py")
#: Arguments: Python, script, folder, kernel, cores, application. Other ranks of the node only run
#: that.
_START = (
    f"{base.first_of_node(5)}python=$1 script=$2 folder=$3; shift 3;"
    f' exec "$python" -S "$script" "$folder/rank-{RANK}.json" "$@"'
)


class MembenchLoad(Tool):
    """See `base.Tool`; `cores` is their number next to the application."""

    def __init__(self, kernel: str, cores: int) -> None:
        self.name = f"{PROGRAM}:{kernel}:{cores}"
        self._kernel, self._cores = kernel, cores

    def wrap(self, launcher: Sequence[str], application: Sequence[str]) -> list[str]:
        """See the interface."""
        start = [sys.executable, str(_SCRIPT), FOLDER, self._kernel, str(self._cores)]
        return [*launcher, "sh", "-c", _START, self.name, *start, *application]

    def parse(self, folder: Path, ranks: int) -> list[CounterRow]:
        """The cores that membench kept busy while the application ran, one row per node."""
        return [
            CounterRow(rank, "membench-cores", _busy(path), "1")
            for rank, path in base.files_of(folder, ranks, "node").items()
        ]

    def missing(self) -> str | None:
        """See the interface."""
        if shutil.which(PROGRAM) is None:
            return "no membench on PATH (make -C reframe_tests/src/membench)"
        if (os.cpu_count() or 1) <= self._cores:
            return f"{os.cpu_count()} processors leave none for the application"
        return None


def _busy(path: Path) -> float:
    try:
        found = json.loads(path.read_text(errors="replace"))
        return figure(figure(found["busy_s"]) / figure(found["elapsed_s"]))
    except (ValueError, KeyError, TypeError, ZeroDivisionError, RecursionError):
        raise ToolError(f"{path}: not a file of {PROGRAM}, or truncated") from None


TOOLS: tuple[Tool, ...] = tuple(
    MembenchLoad(kernel, cores) for kernel in _KERNELS for cores in _CORES
)
