"""Facts of the host that this runs on, detected."""

from __future__ import annotations

import os
import platform
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_KIB = 1024


@dataclass(frozen=True)
class Host:
    """What a node is made of."""

    hostname: str
    kernel: str
    #: CPUs that this process may use.
    usable_cpus: list[int]
    sockets: int
    #: Numbers of the NUMA nodes.
    numa_nodes: list[int]
    #: All last-level caches together, and memory, bytes.
    llc_total_b: int
    memory_b: int

    def as_dict(self) -> dict[str, Any]:
        """The facts as JSON holds them."""
        return asdict(self)


def detect(root: Path = Path("/")) -> Host:
    """Read the facts from /proc and /sys below `root`."""
    cpus = sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*"))
    sockets = {_read(cpu / "topology/physical_package_id") for cpu in cpus}
    nodes = sorted(
        int(node.name[4:]) for node in (root / "sys/devices/system/node").glob("node[0-9]*")
    )
    return Host(
        hostname=socket.gethostname(),
        kernel=platform.release(),
        usable_cpus=sorted(os.sched_getaffinity(0)),
        sockets=len(sockets),
        numa_nodes=nodes or [0],
        llc_total_b=sum(_last_level_caches(cpus).values()),
        memory_b=_memory_b(root),
    )


def _read(path: Path) -> str:
    with suppress(OSError):
        return path.read_text().strip()
    return ""


def _last_level_caches(cpus: list[Path]) -> dict[str, int]:
    """Each last-level cache once, by the CPUs that share it, bytes."""
    caches: dict[str, int] = {}
    for cpu in cpus:
        levels = sorted(cpu.glob("cache/index[0-9]*"), key=lambda index: _read(index / "level"))
        if levels:
            size = _read(levels[-1] / "size").rstrip("K")
            shared = _read(levels[-1] / "shared_cpu_list")
            caches[shared] = int(size or 0) * _KIB
    return caches


def _memory_b(root: Path) -> int:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * _KIB
    return 0
