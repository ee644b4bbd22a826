"""Files of /proc and sysfs as text and numbers; what is not what it should be is unknown."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

#: The kernel's numbers have 64 bits.
_NUMBER = re.compile(r"\s*(-?[0-9]{1,20})\s*")
#: More CPUs than any kernel is built for.
_MAX_CPUS = 1 << 16
#: Columns of /proc/PID/stat after the name: parent, flags, times (own, then of children that were
#: waited for; each in user and in system mode), start.
_STAT_COLUMNS = (1, 6, 11, 12, 13, 14, 19)
_CPU_COLUMN = 36
#: Errors of this process, which say nothing of the file.
_OWN_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def read(path: Path | str) -> str:
    """The file's text without space around it; empty if the kernel does not give it.

    Raises OSError if this process has no file or memory left.
    """
    # Unbuffered, and no `Path` for the files of all processes: agents read these every second.
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read().decode(errors="replace").strip()
    except OSError as error:
        if error.errno in _OWN_ERRORS:
            raise
        return ""


@contextmanager
def gone_or_hidden() -> Iterator[None]:
    """Within this context a process may have ended, or be another user's. Other errors are raised.

    These are of this process, such as that it has no file left, and say nothing of the other.
    """
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        yield


def number(text: str) -> int | None:
    """The whole number that a text is; None if it is none of the kernel's."""
    match = _NUMBER.fullmatch(text)
    return int(match[1]) if match else None


def numa_node_of(device: Path) -> int | None:
    """NUMA node of the device with this folder; None if the host has only one."""
    node = number(read(device / "numa_node"))
    return node if node is not None and node >= 0 else None


def cpu_list(text: str) -> list[int]:
    """The kernel's list of CPUs, `0-3,8`, as [0, 1, 2, 3, 8]. Raises ValueError."""
    cpus: list[int] = []
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            low, high = number(first), number(last or first)
            if low is None or high is None or not 0 <= low <= high < _MAX_CPUS:
                raise ValueError(f"{part!r} found; allowed: CPUs such as 0-3,8")
            cpus += range(low, high + 1)
    return cpus


def cpu_list_text(cpus: Collection[int]) -> str:
    """[0, 1, 2, 8] as `0-2,8`."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and parts[-1][-1] == cpu - 1:
            parts[-1][1:] = [cpu]
        else:
            parts.append([cpu])
    return ",".join("-".join(map(str, part)) for part in parts)


class ProcessStat(NamedTuple):
    """A process or a thread at one time (proc_pid_stat(5)); times in `TICKS_PER_S`."""

    name: str
    #: `R` runs, `T` and `t` are stopped, `Z` and `X` have ended, ...
    state: str
    parent: int
    flags: int
    #: Processor time that it has used, and that of children that it has waited for.
    used_ticks: int
    children_ticks: int
    #: When it started; with its PID this identifies it.
    start_ticks: int
    #: The CPU that it ran on last.
    cpu: int | None


TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def stat_of(process: Path | str) -> ProcessStat | None:
    """The file `stat` in the folder of a process or thread; None if it is gone.

    Raises OSError if that cannot be known.
    """
    head, _, rest = read(f"{process}/stat").rpartition(")")
    fields = rest.split()
    try:
        columns = [int(fields[column]) for column in _STAT_COLUMNS]
    except (IndexError, ValueError):
        return None
    parent, flags, user, system, children_user, children_system, started = columns
    return ProcessStat(
        name=head.partition("(")[2],
        state=fields[0],
        parent=parent,
        flags=flags,
        used_ticks=user + system,
        children_ticks=children_user + children_system,
        start_ticks=started,
        cpu=number("".join(fields[_CPU_COLUMN : _CPU_COLUMN + 1])),
    )


def pids(proc: Path = Path("/proc")) -> list[int]:
    """Ids of all processes, or of the threads in the folder `task` of one; none without it."""
    with suppress(FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return [int(entry) for entry in os.listdir(proc) if entry.isdecimal()]
    return []


def stats(proc: Path = Path("/proc")) -> Iterator[tuple[int, ProcessStat]]:
    """Id and state of every process or thread that is still there."""
    for pid in pids(proc):
        if stat := stat_of(f"{proc}/{pid}"):
            yield pid, stat


def with_descendants(roots: Iterable[int], processes: Mapping[int, ProcessStat]) -> set[int]:
    """The `processes` that descend from `roots`, and these."""
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    reached, queue = set[int](), [pid for pid in roots if pid in processes]
    while queue:
        pid = queue.pop()
        if pid not in reached:  # PIDs may have been used again while they were read
            reached.add(pid)
            queue += children.get(pid, [])
    return reached
