"""Memory of a process on one NUMA node: bound before it starts, read back while it runs.

Binding uses set_mempolicy(2), which needs no library or tool and applies to everything that the
program allocates, shared memory included. /proc/PID/numa_maps then shows where the kernel has
placed it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Iterable
from pathlib import Path

from nimc.base.kernel_text import read

_LIBC = ctypes.CDLL(None, use_errno=True)
#: Architecture -> number of the system call.
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "ppc64le": 261}
_MPOL_DEFAULT = 0
_MPOL_BIND = 2
_LONG_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)
_NODES = Path("/sys/devices/system/node")
_KIB = 1024

#: Names of shared memory in numa_maps, which escapes the blank in them.
_SHARED = re.compile(r"file=(/dev/shm/|/SYSV|/memfd:|/dev/zero|/anon_hugepage)")
_PAGES = re.compile(r"\bN([0-9]{1,9})=([0-9]{1,20})\b")
_PINNED = re.compile(r"^VmPin:\s+([0-9]{1,20}) kB$", re.MULTILINE)
_PAGE_KIB = re.compile(r"\bkernelpagesize_kB=([0-9]{1,20})\b")


def bind(node: int | None) -> None:
    """Bind what the calling thread and its children allocate from now on; None removes the binding.

    Raises OSError if the kernel refuses.
    """
    number = _SET_MEMPOLICY.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"set_mempolicy: number unknown on {os.uname().machine}")
    mode, mask, bits = _MPOL_DEFAULT, None, 0
    if node is not None:
        mode, bits = _MPOL_BIND, (node // _LONG_BITS + 1) * _LONG_BITS
        mask = (ctypes.c_ulong * (bits // _LONG_BITS))()
        mask[node // _LONG_BITS] = 1 << node % _LONG_BITS
    # The kernel uses one bit less than `maxnode`.
    if _LIBC.syscall(number, mode, mask, bits + 1 if bits else 0):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def check_binding(node: int | None) -> None:
    """Check that a child can be bound to a node. Raises OSError, which says why it cannot."""
    if node is None:
        return
    there = sorted(int(path.name[4:]) for path in _NODES.glob("node[0-9]*"))
    if node not in there:
        known = ", ".join(map(str, there)) or "none"
        raise OSError(errno.EINVAL, f"NUMA node {node}: this host has {known}")
    try:
        bind(node)
        bind(None)
    except OSError as error:
        text = f"memory cannot be bound to NUMA node {node}: {error.strerror}"
        raise OSError(error.errno, text) from None


def buffers_b(pid: int, least_b: int) -> dict[int, int]:
    """NUMA node -> bytes of a process's buffers there; empty if unknown."""
    return read_maps(read(Path(f"/proc/{pid}/numa_maps")).splitlines(), least_b)


def pinned_b(pid: int) -> int | None:
    """Pinned memory of a process, bytes: its pages cannot move. None if unknown.

    Registering memory with an RDMA device pins it.
    """
    found = _PINNED.search(read(Path(f"/proc/{pid}/status")))
    return int(found[1]) * _KIB if found else None


def read_maps(lines: Iterable[str], least_b: int) -> dict[int, int]:
    """NUMA node -> bytes of a process's buffers there, from the lines of numa_maps.

    Buffers are the anonymous and shared mappings of at least `least_b`, the size of one message.
    Programs and libraries do not count: they are where the page cache put them.
    """
    found: dict[int, int] = {}
    for line in lines:
        page = _PAGE_KIB.search(line)
        if page is None or not ("anon=" in line or _SHARED.search(line)):
            continue
        by_node = {int(n): int(pages) * int(page[1]) * _KIB for n, pages in _PAGES.findall(line)}
        if sum(by_node.values()) >= least_b:
            for node, size_b in by_node.items():
                found[node] = found.get(node, 0) + size_b
    return found
