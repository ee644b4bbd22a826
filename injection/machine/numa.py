"""Memory of a process on one NUMA node: bound before it starts, looked up while it runs.

Binding is set_mempolicy(2), which needs no library and no tool, and holds for all that the program
allocates, in shared memory as well. The look-up is /proc/PID/numa_maps: what the kernel placed,
whatever was asked.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Iterable
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
#: Number of the system call, by the kernel's name of the architecture.
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "ppc64le": 261}
_MPOL_DEFAULT = 0
_MPOL_BIND = 2
_LONG_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)
_NODES = Path("/sys/devices/system/node")
_KIB = 1024

#: Files behind which lies shared memory, as numa_maps writes their names; it escapes the blank.
_SHARED = re.compile(r"file=(/dev/shm/|/SYSV|/memfd:|/dev/zero|/anon_hugepage)")
_PAGES = re.compile(r"\bN(\d+)=(\d+)\b")
_PINNED = re.compile(r"^VmPin:\s+(\d+) kB$", re.MULTILINE)
_PAGE_KIB = re.compile(r"\bkernelpagesize_kB=(\d+)")


def bind(node: int | None) -> None:
    """Bind what the calling thread and its children allocate from now on; None undoes it.

    Raises OSError where the kernel refuses.
    """
    number = _SET_MEMPOLICY.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"no system call known on {os.uname().machine}")
    mode, mask, bits = _MPOL_DEFAULT, None, 0
    if node is not None:
        mode, bits = _MPOL_BIND, (node // _LONG_BITS + 1) * _LONG_BITS
        mask = (ctypes.c_ulong * (bits // _LONG_BITS))()
        mask[node // _LONG_BITS] = 1 << node % _LONG_BITS
    # The kernel takes one bit less than it is told.
    if _LIBC.syscall(number, mode, mask, bits + 1 if bits else 0):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def demand(node: int | None) -> None:
    """Make sure that a child can be bound to a node: raises OSError, which says why it cannot."""
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
    """NUMA node -> bytes of a process's buffers there; empty where the kernel does not tell."""
    try:
        text = Path(f"/proc/{pid}/numa_maps").read_text()
    except OSError:
        return {}
    return read_maps(text.splitlines(), least_b)


def pinned_b(pid: int) -> int | None:
    """Memory of a process that a device may reach at any time, bytes: no page of it can move.

    Registering memory with an RDMA device pins it. None where the kernel does not tell.
    """
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = _PINNED.search(text)
    return int(found[1]) * _KIB if found else None


def read_maps(lines: Iterable[str], least_b: int) -> dict[int, int]:
    """As `buffers_b`, from the lines of numa_maps.

    Buffers are the anonymous and shared mappings that hold at least `least_b`, the size of one
    message: what is smaller cannot be one, and programs and libraries lie where the page cache put
    them.
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
