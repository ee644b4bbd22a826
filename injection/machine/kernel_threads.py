"""Processor time of a host's kernel threads, in which drivers and network stacks do part of their
work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from injection.machine import kernel_text

#: Flag of kernel threads in /proc/PID/stat (PF_KTHREAD).
KERNEL_THREAD = 0x00200000
#: Threads whose time the kernel counts as time in soft interrupts already.
_IN_SOFTIRQ = "(ksoftirqd/"
#: Fields of /proc/PID/stat after the name: flags, user and system time, start.
_FLAGS, _USER, _SYSTEM, _STARTED = 6, 11, 12, 19


class KernelThreads:
    """Adds up what kernel threads use from one reading to the next.

    A thread that ends between two readings keeps what it had used at the first.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = root / "proc"
        self._total = 0
        #: PID and start of a thread -> ticks used at the last reading.
        self._used = dict(_threads(self._proc))

    @property
    def shown(self) -> bool:
        """Whether /proc shows any; in a container it does not."""
        return bool(self._used)

    def read_s(self) -> float:
        """Time that all of them have used since the first reading, seconds."""
        now = dict(_threads(self._proc))
        self._total += sum(max(used - self._used.get(each, 0), 0) for each, used in now.items())
        self._used = now
        return self._total / os.sysconf("SC_CLK_TCK")


def _threads(proc: Path) -> Iterator[tuple[tuple[int, int], int]]:
    """PID and start of each kernel thread, and the ticks that it has used."""
    for pid in filter(str.isdigit, os.listdir(proc) if proc.is_dir() else ()):
        head, _, rest = kernel_text.read(proc / pid / "stat").rpartition(")")
        fields = rest.split()
        # Neither if it is gone, nor if that is not what the kernel writes.
        with suppress(IndexError):
            flags, user, system, started = (
                kernel_text.number(fields[at]) or 0 for at in (_FLAGS, _USER, _SYSTEM, _STARTED)
            )
            if flags & KERNEL_THREAD and _IN_SOFTIRQ not in head:
                yield (int(pid), started), user + system
