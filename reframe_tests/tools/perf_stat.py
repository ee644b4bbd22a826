"""perf stat: kernel and hardware counters of each rank, without a change of the binary.

As a level of the factor `tool`, `perf_stat` counts generic events. Further levels, such as
`perf_stat:memory`, count the events of a group of `records.roles`. These events depend on the
processor and are chosen where the rank runs. `perf_stat:memory` counts each rank. `perf_stat:dram`
counts once per node and system-wide, since uncore counters belong to no process.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from records.machine.host import (
    FAMILIES,
    IDENTITY_AWK,
    processor_family,
    processor_identity,
    processor_words,
)
from records.programs import ProgramAnswer, ask
from records.roles import METRIC_GROUPS, Scope, counts, groups
from records.sample import event_parts
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

#: Software events, which the kernel counts on every host, and hardware events. Current processors
#: can count these hardware events at the same time, without multiplexing.
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
#: Events that happen in the kernel. At user level (`:u`) their count is always 0.
_KERNEL_EVENTS = ("context-switches", "cpu-migrations")
_STATES: dict[str, State] = {"<not supported>": "not supported", "<not counted>": "not counted"}
#: Unit that perf prints -> SI unit and factor. Units that are not listed remain as printed.
_UNITS = {
    "": ("count", 1.0),
    "msec": ("s", 1e-3),
    "ns": ("s", 1e-9),
    "Bytes": ("B", 1.0),
    "MiB": ("B", 2.0**20),
}
#: Event that is counted with every group, so that perf leaves a file even if the processor has no
#: event of the group.
_COMMON_EVENT = "task-clock"

#: Clears the script's variables, since the environment may have variables of these names.
_CLEAR_VARIABLES = "scope= group_events= metrics=; "
#: Shell script that starts a rank of the application with perf. Arguments: folder, events,
#: `_APPLICATION_SCRIPT`, application. LC_ALL=C gives numbers with a decimal point. perf exits with
#: 0 if a signal ended the application, or if it ended before perf waited for it. So the inner
#: script writes the application's status to descriptor 4. Descriptor 3 is the application's output.
_RANK_SCRIPT = (
    f'exec 3>&1; status=$(LC_ALL=C perf stat -j $scope -o "$1/rank-{RANK}.json"'
    ' -e "$2${group_events:+,$group_events}" ${metrics:+-M "$metrics"}'
    ' -- sh -c "$3" perf_stat "${LC_ALL-}" "$@"'
    ' 4>&1 >&3 3>&-); exit "${status:-$?}"'
)
#: Shell script that perf starts. Arguments: the caller's LC_ALL, and the arguments of
#: `_RANK_SCRIPT`.
_APPLICATION_SCRIPT = (
    '[ -n "$1" ] && export LC_ALL="$1" || unset LC_ALL; shift 4; "$@" 4>&-; echo $? >&4'
)

_TRIAL_COMMAND = ("perf", "stat", "-j", "-e", "task-clock", "true")
#: perf's exit status for an unknown option.
_USAGE_STATUS = 129
CPUINFO = Path("/proc/cpuinfo")
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
#: Above this level Debian and Ubuntu do not let users count anything.
_PARANOID_MAX = 2


class PerfStat(Tool):
    """A tool (`base.Tool`) that counts `EVENTS`, or the events of a group."""

    def __init__(self, group: str = "", scope: Scope = "rank") -> None:
        self.name = f"perf_stat:{group}" if group else "perf_stat"
        self._group, self._scope = group, scope

    def wrap(self, launcher: Sequence[str], application: Sequence[str]) -> list[str]:
        """See `Tool.wrap`."""
        events = _COMMON_EVENT if self._group else ",".join(EVENTS)
        system_wide = (
            f"{base.first_rank_of_node_only(3)}scope=-a; " if self._scope == "node" else ""
        )
        event_choice = _event_choice(self._group) if self._group else ""
        script = _CLEAR_VARIABLES + system_wide + event_choice + _RANK_SCRIPT
        arguments = [FOLDER_PLACEHOLDER, events, _APPLICATION_SCRIPT]
        return [*launcher, "sh", "-c", script, "perf_stat", *arguments, *application]

    def parse(self, folder: Path, ranks: int) -> list[CounterRow]:
        """See `Tool.parse`."""
        files = base.files_of(folder, ranks, self._scope)
        rows = []
        for rank, path in files.items():
            events, metrics = _requested_events(path) if self._group else (EVENTS, ())
            rows += _rows(path, rank, events=events, metrics=metrics)
        return rows

    def why_missing(self) -> str | None:
        """Return why perf cannot count here, or None."""
        answer = _trial_answer(os.environ.get("PATH"))
        if answer.is_missing:
            return "perf is not installed (Debian: linux-perf, RHEL: perf)"
        if answer.status is None:
            return f"perf stat does not run: {answer.reason}"
        if answer.ok:
            return self._why_no_counts() if self._group else None
        if answer.status == _USAGE_STATUS:
            return "this perf has no JSON output (perf stat -j); install perf of Linux 6.0 or later"
        paranoid = 0
        with suppress(OSError, ValueError):
            paranoid = int(PARANOID.read_text())
        if paranoid > _PARANOID_MAX:
            return (
                f"the kernel does not let users count (kernel.perf_event_paranoid is {paranoid}):"
                f" sysctl kernel.perf_event_paranoid={_PARANOID_MAX}"
            )
        return f"perf stat fails with exit status {answer.status}: {answer.first_line}"

    def _why_no_counts(self) -> str | None:
        """Return why this host counts no event of the group; None if it counts at least one."""
        processor = processor_identity(CPUINFO.read_text(errors="replace"))
        requested = counts("perf_stat", self._group, processor_family(processor))
        if not requested:
            return f"no events are known for this processor, {processor_words(processor)}"
        events = ", ".join(event for row in requested for event in row.events)
        try:
            if not _has_counters(os.environ.get("PATH")):
                return "this host has no hardware counters (measure on a machine that has)"
            rows = base.try_out(self)
        except ToolError as error:
            if "event syntax error" in str(error):
                return f"this perf or kernel does not know all of {events} (install a newer perf)"
            return str(error)
        if _has_count(rows, {event_parts(row.event)[0] for row in rows} - {_COMMON_EVENT}):
            return None
        return f"this host counts none of {events} (measure on a machine with counters)"


# All groups use the same perf, so its answers are cached, for each PATH on which it may be found.


@cache
def _trial_answer(_path: str | None) -> ProgramAnswer:
    return ask(_TRIAL_COMMAND)


@cache
def _has_counters(_path: str | None) -> bool:
    """Return whether the processor's own counters count. Raises ToolError."""
    return _has_count(base.try_out(TOOL), {"cycles"})


def _has_count(rows: Sequence[CounterRow], events: Collection[str]) -> bool:
    """Return whether one of these events has a value; an event's name may end with `:u`."""
    return any(row.value is not None and event_parts(row.event)[0] in events for row in rows)


def _event_choice(group: str) -> str:
    """Return shell code that sets `group_events` or `metrics` by the processor.

    It also writes both to the file `rank-RANK.events`.
    """
    variable = "metrics" if group in METRIC_GROUPS else "group_events"
    cases = []
    for family, patterns in FAMILIES.items():
        events = [event for row in counts("perf_stat", group, family) for event in row.events]
        if events:
            cases.append(f"{'|'.join(patterns)}) {variable}={','.join(events)};;")
    note = f'echo "$group_events $metrics" > "$1/rank-{RANK}.events"; '
    return f'case "$(awk {IDENTITY_AWK} /proc/cpuinfo)" in {" ".join(cases)} esac; {note}'


def _requested_events(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the events and metrics that a rank requested, from the file that it left."""
    note = path.with_suffix(".events")
    try:
        group_events, _, metrics = note.read_text(errors="replace").rstrip("\n").partition(" ")
    except OSError:
        raise ToolError(f"{note}: no such file") from None
    events = (_COMMON_EVENT, *filter(None, group_events.split(",")))
    return events, tuple(filter(None, metrics.split(",")))


def _rows(
    path: Path, rank: int, *, events: Sequence[str], metrics: Sequence[str]
) -> list[CounterRow]:
    rows: dict[str, CounterRow] = {}
    records = _records(path)
    for record in records:
        if not record.get("event") or "counter-value" not in record:
            continue  # a further metric of the previous line
        row = _row(path, rank, record)
        if metrics and event_parts(row.event)[0] not in events:
            continue  # an event from which perf computes a metric
        if row.event in rows:
            raise ToolError(f"{path}: duplicate event {row.event}")
        rows[row.event] = row
    if len(rows) < len(events):
        raise ToolError(
            f"{path}: {len(rows)} of {len(events)} events; perf was killed or the file truncated"
        )
    return [*rows.values(), *(_metric(name, rank, records) for name in metrics)]


def _metric(name: str, rank: int, records: Sequence[dict[str, Any]]) -> CounterRow:
    """Return the row of a requested metric."""
    shares = []
    for record in records:
        with suppress(KeyError, ValueError):
            shares.append(parsed_number(record["pcnt-running"]) / 100)
    share = min(shares, default=None)
    record, unit = _metric_record(name, records)
    try:
        value = parsed_number(record["metric-value"])
    except (KeyError, ValueError):
        return CounterRow(rank=rank, event=name, value=None, unit="1", state="not supported")
    if unit == "%":
        value, unit = value / 100, ""
    state: State = "counted" if share is None or share >= 1 else "multiplexed"
    return CounterRow(
        rank=rank, event=name, value=value, unit=unit or "1", state=state, running_share=share
    )


def _metric_record(name: str, records: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], str]:
    """Return the record of a metric, and the metric's unit; an empty record if there is none.

    perf prints the unit before the name: `%  tma_memory_bound`.
    """
    for record in records:
        unit, _, printed_name = str(record.get("metric-unit", "")).rpartition(" ")
        if printed_name == name:
            return record, unit.strip()
    return {}, ""


def _records(path: Path) -> list[dict[str, Any]]:
    """Return the JSON objects of a file, one per line."""
    records = []
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if line.startswith("#") or not line.strip():
            continue
        try:
            # Some versions print a comma after the last field.
            record = json.loads(re.sub(r",\s*}\s*$", "}", line))
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise ToolError(f"{path}:{number}: incomplete line of perf stat -j")
        records.append(record)
    return records


def _row(path: Path, rank: int, record: dict[str, Any]) -> CounterRow:
    event, printed_value = str(record["event"]), str(record["counter-value"])
    printed_unit = str(record.get("unit", ""))
    unit, factor = _UNITS.get(printed_unit, (printed_unit, 1.0))
    base_event, modifiers = event_parts(event)
    user_level_only = "u" in modifiers and "k" not in modifiers
    state: State | None = _STATES.get(printed_value)
    if base_event in _KERNEL_EVENTS and user_level_only:
        state = "not counted"
    if state:
        return CounterRow(rank=rank, event=event, value=None, unit=unit, state=state)
    try:
        value = parsed_number(printed_value) * factor
        share = parsed_number(record["pcnt-running"]) / 100
    except (KeyError, ValueError):
        raise ToolError(f"{path}: event {event}: not a number, or no pcnt-running") from None
    if share <= 0:
        return CounterRow(rank=rank, event=event, value=None, unit=unit, state="not counted")
    state = "counted" if share >= 1 else "multiplexed"
    return CounterRow(
        rank=rank, event=event, value=value, unit=unit, state=state, running_share=share
    )


TOOL = PerfStat()
TOOLS: tuple[Tool, ...] = (
    TOOL,
    *(PerfStat(group, scope) for group, scope in groups("perf_stat").items()),
)
