"""Whether the kernel lets this user count CPU cycles; tries it as `perf stat` would."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: Numbers of the system call perf_event_open.
_SYSCALL = {"x86_64": 298, "aarch64": 241, "ppc64le": 319, "riscv64": 241}
#: perf_event_attr: type hardware (0), its size, config cycles (0), and the flags `disabled`,
#: `exclude_kernel` and `exclude_hv`, which need no privilege beyond a paranoia of 2.
_ATTR_B = 112
_FLAGS = 1 | 1 << 5 | 1 << 6
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


@dataclass(frozen=True)
class Unavailable:
    """Why cycles cannot be counted, and what would help."""

    text: str
    remedy: str


def unavailable() -> Unavailable | None:
    """None if this process may count its own cycles."""
    number = _SYSCALL.get(platform.machine())
    if number is None:
        return Unavailable(f"not checked on {platform.machine()}", "try 'perf stat true'")
    attr = struct.pack("IIQQQQQ", 0, _ATTR_B, 0, 0, 0, 0, _FLAGS).ljust(_ATTR_B, b"\0")
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(number, ctypes.c_char_p(attr), 0, -1, -1, 0)
    if fd >= 0:
        os.close(fd)
        return None
    return explain(ctypes.get_errno(), _paranoid())


def explain(code: int, paranoid: str) -> Unavailable:
    """What an error of the system call means."""
    if code in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
        return Unavailable(
            "the CPU has no hardware counters (usual on a virtual machine)",
            "measure on bare metal, or give the virtual machine a PMU",
        )
    if code in (errno.EACCES, errno.EPERM):
        return Unavailable(
            f"not allowed (perf_event_paranoid is {paranoid})",
            "sysctl kernel.perf_event_paranoid=1, or run with CAP_PERFMON",
        )
    return Unavailable(os.strerror(code), "see dmesg")


def _paranoid() -> str:
    with suppress(OSError):
        return _PARANOID.read_text().strip()
    return "unknown"
