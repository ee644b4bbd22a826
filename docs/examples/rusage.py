"""rusage: the kernel's resource usage of each rank. Needs neither perf nor privileges."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from reframe_tests.tools.base import FOLDER_PLACEHOLDER, RANK, CounterRow, Tool, ToolError, files_of

#: Arguments: folder, Python, `_COUNTING_SCRIPT`, application. Starts `_COUNTING_SCRIPT` on a rank.
_RANK_SCRIPT = f'exec "$2" -c "$3" "$1/rank-{RANK}.json" "$@"'
#: Arguments: file, those of `_RANK_SCRIPT`. Runs the application and writes the kernel's counts.
_COUNTING_SCRIPT = """
import json, resource, subprocess, sys
path, _folder, _python, _script, *application = sys.argv[1:]
status = subprocess.call(application)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(path, "w") as file:
    json.dump({name: getattr(used, name) for name in dir(used) if name.startswith("ru_")}, file)
sys.exit(status if status >= 0 else 128 - status)
"""
#: Field -> event and unit.
_EVENTS = {
    "ru_utime": ("user-time", "s"),
    "ru_stime": ("system-time", "s"),
    "ru_minflt": ("minor-faults", "count"),
    "ru_majflt": ("major-faults", "count"),
    "ru_nvcsw": ("voluntary-switches", "count"),
    "ru_nivcsw": ("involuntary-switches", "count"),
}


class Rusage(Tool):
    """The tool `rusage`."""

    name = "rusage"

    def wrap(self, launcher: Sequence[str], application: Sequence[str]) -> list[str]:
        """Return a shell that expands the rank and becomes Python, which runs the application."""
        rank_shell = ["sh", "-c", _RANK_SCRIPT, self.name, FOLDER_PLACEHOLDER]
        return [*launcher, *rank_shell, sys.executable, _COUNTING_SCRIPT, *application]

    def parse(self, folder: Path, ranks: int) -> list[CounterRow]:
        """See `base.Tool`."""
        rows = []
        for rank, path in files_of(folder, ranks, "rank").items():
            try:
                used = json.loads(path.read_text())
                rows += [
                    CounterRow(rank=rank, event=event, value=float(used[field]), unit=unit)
                    for field, (event, unit) in _EVENTS.items()
                ]
            except (ValueError, KeyError, TypeError):
                raise ToolError(f"{path}: not a file of rusage, or truncated") from None
        return rows

    def why_missing(self) -> str | None:
        """Return None: every Unix has `getrusage`."""
        return None


TOOL: Tool = Rusage()
