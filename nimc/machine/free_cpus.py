"""The CPUs that an application leaves free: those on which none of its busy threads may run.

How an application is bound on other hosts is up to the launcher, so it is read, not assumed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from nimc.base import kernel_text
from nimc.machine.host import cpu_list

#: A thread that used less of its time is a launcher or a helper, and takes no core. A thread of the
#: application gets more even of a core that it shares with a dozen others.
_BUSY = 0.05
#: Fields of /proc/PID/task/TID/stat after the name: user and system time.
_TIMES = slice(11, 13)
_ALLOWED = re.compile(r"^Cpus_allowed_list:\s*(\S+)", re.MULTILINE)


def busy_cpus(pids: Iterable[int], over_s: float, root: Path = Path("/")) -> set[int]:
    """CPUs on which the busy threads of these processes, started `over_s` ago, may run."""
    least = _BUSY * over_s * os.sysconf("SC_CLK_TCK")
    found: set[int] = set()
    for pid in pids:
        for task in (root / f"proc/{pid}/task").glob("[0-9]*"):
            fields = kernel_text.read(task / "stat").rpartition(")")[2].split()
            used = sum(kernel_text.number(text) or 0 for text in fields[_TIMES])
            if used and used >= least:
                found |= _allowed(task)
    return found


def _allowed(task: Path) -> set[int]:
    listed = _ALLOWED.search(kernel_text.read(task / "status"))
    try:
        return set(cpu_list(listed[1])) if listed else set()
    except ValueError:
        return set()


def left_free(busy: Collection[int], root: Path = Path("/")) -> str | None:
    """The other CPUs of this host as the kernel lists them, `0-3,8`; None if nothing was busy."""
    if not busy:
        return None
    try:
        online = cpu_list(kernel_text.read(root / "sys/devices/system/cpu/online"))
    except ValueError:
        return None
    return as_list(set(online) - set(busy))


def as_list(cpus: Collection[int]) -> str:
    """[0, 1, 2, 8] as `0-2,8`."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and parts[-1][-1] == cpu - 1:
            parts[-1][1:] = [cpu]
        else:
            parts.append([cpu])
    return ",".join("-".join(map(str, part)) for part in parts)
