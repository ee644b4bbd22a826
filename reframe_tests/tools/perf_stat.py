"""perf stat: kernel and hardware counters of each rank, without a change of the binary."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reframe_tests.tools.base import FOLDER, RANK, CounterRow, State, Tool, ToolError, rank_files

#: Software events, which the kernel counts on every host, and hardware events: few enough for
#: current processors to count without multiplexing.
EVENTS = (
    "task-clock",
    "context-switches",
    "cpu-migrations",
    "page-faults",
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
)
#: Events in the kernel: counted only at user level (`:u`) they are always 0.
_IN_KERNEL = ("context-switches", "cpu-migrations")
_STATES: dict[str, State] = {"<not supported>": "not supported", "<not counted>": "not counted"}
#: Unit that perf prints -> unit and factor; other units are unchanged.
_UNITS = {"": ("count", 1.0), "msec": ("s", 1e-3), "ns": ("s", 1e-9)}

#: Arguments: folder, events, `_INNER`, application. LC_ALL=C gives numbers with a decimal point.
_OUTER = (
    f'exec env LC_ALL=C perf stat -j -o "$1/rank-{RANK}.json" -e "$2"'
    ' -- sh -c "$3" perf_stat "$LC_ALL" "$@"'
)
#: perf exits with 0 if a signal ended the application; this shell exits with 128 + signal.
_INNER = '[ -n "$1" ] && export LC_ALL="$1" || unset LC_ALL; shift 4; "$@"; exit $?'

_TRY = ("perf", "stat", "-j", "-e", "task-clock", "true")
_TIMEOUT_S = 30
#: perf's exit status for an unknown option.
_USAGE = 129
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
#: Above this level Debian and Ubuntu do not let users count anything.
_PARANOID_MAX = 2


class PerfStat:
    """See `base.Tool`."""

    name = "perf_stat"

    def wrap(self, launcher: Sequence[str], application: Sequence[str]) -> list[str]:
        """See the interface."""
        script = ["sh", "-c", _OUTER, self.name, FOLDER, ",".join(EVENTS), _INNER]
        return [*launcher, *script, *application]

    def environment(self) -> dict[str, str]:
        """Nothing."""
        return {}

    def parse(self, folder: Path, ranks: int) -> list[CounterRow]:
        """See the interface."""
        files = rank_files(folder, ranks)
        return [row for rank, path in enumerate(files) for row in _rows(path, rank)]

    def missing(self) -> str | None:
        """See the interface."""
        try:
            done = subprocess.run(
                _TRY, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S
            )
        except FileNotFoundError:
            return "perf is not installed (Debian: linux-perf, RHEL: perf)"
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"perf stat does not run: {error}"
        if done.returncode == 0:
            return None
        if done.returncode == _USAGE:
            return "this perf has no JSON output (perf stat -j); install perf of Linux 6.0 or later"
        paranoid = _paranoid()
        if paranoid is not None and paranoid > _PARANOID_MAX:
            return (
                f"the kernel does not let users count (kernel.perf_event_paranoid is {paranoid}):"
                f" sysctl kernel.perf_event_paranoid={_PARANOID_MAX}"
            )
        first = next(filter(None, map(str.strip, done.stderr.splitlines())), "no message")
        return f"perf stat fails with exit status {done.returncode}: {first}"


def _paranoid() -> int | None:
    try:
        return int(_PARANOID.read_text())
    except (OSError, ValueError):
        return None


def _rows(path: Path, rank: int) -> list[CounterRow]:
    rows: dict[str, CounterRow] = {}
    for record in _records(path):
        if not record.get("event") or "counter-value" not in record:
            continue  # another metric of the previous line
        row = _row(path, rank, record)
        if row.event in rows:
            raise ToolError(f"{path}: duplicate event {row.event}")
        rows[row.event] = row
    if len(rows) < len(EVENTS):
        raise ToolError(
            f"{path}: {len(rows)} of {len(EVENTS)} events; perf was killed or the file truncated"
        )
    return list(rows.values())


def _records(path: Path) -> list[dict[str, Any]]:
    """The objects of a file, one per line. Some versions print a comma after the last field."""
    found = []
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if line.startswith("#") or not line.strip():
            continue
        try:
            record = json.loads(re.sub(r",\s*}\s*$", "}", line))
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise ToolError(f"{path}:{number}: incomplete line of perf stat -j")
        found.append(record)
    return found


def _row(path: Path, rank: int, record: dict[str, Any]) -> CounterRow:
    event, text = str(record["event"]), str(record["counter-value"])
    unit, factor = _UNITS.get(str(record.get("unit", "")), (str(record.get("unit")), 1.0))
    plain, modifiers = _parts(event)
    hidden = plain in _IN_KERNEL and "u" in modifiers and "k" not in modifiers
    state: State | None = "not counted" if hidden else _STATES.get(text)
    if state:
        return CounterRow(rank, event, None, unit, state)
    try:
        value, share = float(text) * factor, float(record["pcnt-running"]) / 100
    except (KeyError, TypeError, ValueError):
        raise ToolError(f"{path}: event {event}: not a number, or no pcnt-running") from None
    if share <= 0:
        return CounterRow(rank, event, None, unit, "not counted")
    state = "counted" if share >= 1 else "multiplexed"
    return CounterRow(rank, event, value, unit, state, share)


def _parts(event: str) -> tuple[str, str]:
    """`cycles` and `u` of `cycles:u` and of `cpu_core/cycles/u`."""
    if event.count("/") == 2:
        _, event, modifiers = event.split("/")
        return event, modifiers
    event, _, modifiers = event.partition(":")
    return event, modifiers


TOOL: Tool = PerfStat()
