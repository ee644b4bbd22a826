"""Reads files of /proc and sysfs as text and numbers; unexpected content counts as unknown."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

#: A whole number as the kernel prints it. It has at most 64 bits, so at most 20 digits.
_NUMBER = re.compile(r"\s*(-?[0-9]{1,20})\s*")
#: Upper limit of CPU numbers. No kernel is built for so many CPUs.
_MAX_CPUS = 1 << 16
#: Columns of /proc/PID/stat after the name: parent; flags; time of the process in user and in
#: system mode; both times of the children that it has waited for; start time.
_STAT_COLUMNS = (1, 6, 11, 12, 13, 14, 19)
#: The column of the CPU on which the process ran last.
_CPU_COLUMN = 36
#: Errors whose cause is the state of this process and not the file.
_OWN_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def read(path: Path | str) -> str:
    """The text of a file without surrounding blanks; empty if the file cannot be read.

    Raises OSError if this process can open no more files, or has no memory.
    """
    # Agents read files of all processes every second. To save time, the file is read unbuffered,
    # and the path may be a text.
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read().decode(errors="replace").strip()
    except OSError as error:
        if error.errno in _OWN_ERRORS:
            raise
        return ""


@contextmanager
def suppress_gone_or_hidden() -> Iterator[None]:
    """Suppress errors that occur because the process that is read has ended or is another user's.

    Other errors are raised, since their cause is the reading process. For example, it may have too
    many open files.
    """
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        yield


def number(text: str) -> int | None:
    """The text as a whole number; None if it is not one, or has more than 20 digits."""
    match = _NUMBER.fullmatch(text)
    return int(match[1]) if match else None


def numa_node_of(device: Path) -> int | None:
    """NUMA node of the device with this folder; None if unknown, as on a host with only one."""
    node = number(read(device / "numa_node"))
    return node if node is not None and node >= 0 else None


def cpu_list(text: str) -> list[int]:
    """Return [0, 1, 2, 3, 8] for the kernel's list `0-3,8`. Raises ValueError for other texts."""
    cpus: list[int] = []
    for cpu_range in text.strip().split(","):
        if cpu_range:
            first, _, last = cpu_range.partition("-")
            low, high = number(first), number(last or first)
            if low is None or high is None or not 0 <= low <= high < _MAX_CPUS:
                raise ValueError(f"{cpu_range!r} found; allowed: CPUs such as 0-3,8")
            cpus += range(low, high + 1)
    return cpus


def cpu_list_text(cpus: Collection[int]) -> str:
    """Return CPUs as the kernel lists them: `0-2,8` for [0, 1, 2, 8]."""
    ranges: list[tuple[int, int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            first, _ = ranges.pop()
            ranges.append((first, cpu))
        else:
            ranges.append((cpu, cpu))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


class ProcessStat(NamedTuple):
    """A process or a thread at one time (proc_pid_stat(5)); a tick is 1 / `TICKS_PER_S` seconds."""

    name: str
    #: `R` runs, `T` and `t` are stopped, `Z` and `X` have ended, ...
    state: str
    parent: int
    flags: int
    #: Processor time of the process, and of the children that it has waited for.
    used_ticks: int
    children_ticks: int
    #: Start time, which together with the PID identifies the process.
    start_ticks: int
    #: The CPU on which it ran last; None if unknown.
    cpu: int | None


TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def stat_of(folder: Path | str) -> ProcessStat | None:
    """The state of the process or thread with this folder; None if it is gone.

    Raises OSError as `read` does.
    """
    pid_and_name, _, columns_text = read(f"{folder}/stat").rpartition(")")
    fields = columns_text.split()
    try:
        columns = [int(fields[column]) for column in _STAT_COLUMNS]
    except (IndexError, ValueError):
        return None
    (
        parent,
        flags,
        user_ticks,
        system_ticks,
        children_user_ticks,
        children_system_ticks,
        start_ticks,
    ) = columns
    cpu_text = fields[_CPU_COLUMN] if len(fields) > _CPU_COLUMN else ""
    return ProcessStat(
        name=pid_and_name.partition("(")[2],
        state=fields[0],
        parent=parent,
        flags=flags,
        used_ticks=user_ticks + system_ticks,
        children_ticks=children_user_ticks + children_system_ticks,
        start_ticks=start_ticks,
        cpu=number(cpu_text),
    )


def pids(proc: Path = Path("/proc")) -> list[int]:
    """Ids of all processes, or, if `proc` is the folder `task` of a process, of its threads.

    Empty if there is no such folder.
    """
    with suppress(FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return [int(entry) for entry in os.listdir(proc) if entry.isdecimal()]
    return []


def stats(proc: Path = Path("/proc")) -> Iterator[tuple[int, ProcessStat]]:
    """Id and state of each process or thread in `proc`, as `pids` finds them.

    An ended process is listed until its parent has waited for it.
    """
    for pid in pids(proc):
        if stat := stat_of(f"{proc}/{pid}"):
            yield pid, stat


def with_descendants(root_pids: Iterable[int], processes: Mapping[int, ProcessStat]) -> set[int]:
    """Ids of the root processes that `processes` contains, and of all their descendants."""
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    reached, queue = set[int](), [pid for pid in root_pids if pid in processes]
    while queue:
        pid = queue.pop()
        if pid not in reached:  # a PID that was used again while PIDs were read can make a cycle
            reached.add(pid)
            queue += children.get(pid, [])
    return reached
