"""Facts about this host, detected; unknown ones are None or empty."""

from __future__ import annotations

import os
import platform
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from analysis.processors import identity
from injection.machine import cgroup, devices, settings, tuning
from injection.machine.kernel_text import number
from injection.machine.kernel_text import read as _read

_KIB = 1024
#: More than any kernel is built for.
_MOST_CPUS = 1 << 16


@dataclass(frozen=True)
class NumaNode:
    """One NUMA node; a node without CPUs has only memory."""

    number: int
    cpus: list[int]
    memory_b: int


@dataclass(frozen=True)
class Cache:
    """One data or unified cache."""

    level: int
    size_b: int
    #: CPUs that share it.
    cpus: list[int]


@dataclass(frozen=True)
class Interface:
    """One network interface that is up and not the loopback."""

    name: str
    #: Bytes per second; None if unknown.
    rate_b_s: float | None
    mtu_b: int


@dataclass(frozen=True)
class Host:
    """Hardware and kernel of a node."""

    hostname: str
    kernel: str
    cpu_model: str
    #: `analysis.processors.identity`: vendor, family, model and stepping; empty if unknown.
    processor: str
    sockets: int
    cores: int
    #: Hardware threads that are online.
    threads: int
    #: CPUs that this process may use, and the first of them on each core.
    usable_cpus: list[int]
    usable_cores: list[int]
    #: Limit of their CPU time, in CPUs; None if not limited.
    cpu_quota: float | None
    #: NUMA nodes; a host that reports none has one.
    numa_nodes: list[NumaNode]
    #: Last-level caches, each once, and the sum of their sizes, bytes.
    last_level_caches: list[Cache]
    llc_total_b: int
    #: Memory that may be used: the host's, or less if a control group limits it, bytes.
    memory_b: int
    #: Frequency governor; several names if CPUs differ.
    governor: str | None
    #: Product name of the virtual machine, or `unknown`; None on bare metal.
    hypervisor: str | None
    #: Firmware and settings (`injection.machine.settings`); None if unknown.
    bios: str | None
    microcode: str | None
    iommu: str | None
    transparent_huge_pages: str | None
    #: What operators tune (`injection.machine.tuning`); None if it cannot be read.
    ddio: str | None
    prefetchers: str | None
    resctrl: str | None
    rdma: list[devices.Device]
    interfaces: list[Interface]

    def as_dict(self) -> dict[str, Any]:
        """The facts as JSON values."""
        return asdict(self)


def detect(root: Path = Path("/")) -> Host:
    """Read the facts from /proc and /sys below `root`; name, kernel and affinity from this host."""
    system = root / "sys/devices/system"
    cpus = _online(system / "cpu")
    usable = sorted(os.sched_getaffinity(0))
    memory_b = _meminfo_b(root / "proc/meminfo", "MemTotal")
    caches = _last_level_caches(system / "cpu", cpus)
    return Host(
        hostname=socket.gethostname(),
        kernel=platform.release(),
        cpu_model=_cpu_model(root),
        processor=identity(_read(root / "proc/cpuinfo")),
        sockets=len({_socket(system / "cpu", cpu) for cpu in cpus}),
        cores=len(_one_a_core(system / "cpu", cpus)),
        threads=len(cpus),
        usable_cpus=usable,
        usable_cores=_one_a_core(system / "cpu", usable),
        cpu_quota=cgroup.cpu_quota(root),
        numa_nodes=_numa_nodes(system / "node") or [NumaNode(0, cpus, memory_b)],
        last_level_caches=caches,
        llc_total_b=sum(cache.size_b for cache in caches),
        memory_b=min(memory_b, cgroup.memory_limit_b(root) or memory_b),
        governor=_governor(system / "cpu", cpus),
        hypervisor=_hypervisor(root),
        bios=settings.bios(root),
        microcode=settings.microcode(root),
        iommu=settings.iommu(root),
        transparent_huge_pages=settings.transparent_huge_pages(root),
        ddio=tuning.ddio(root),
        prefetchers=tuning.prefetchers(root),
        resctrl=tuning.resctrl(root),
        rdma=devices.detect(root / "sys"),
        interfaces=_interfaces(root / "sys/class/net"),
    )


def cpu_list(text: str) -> list[int]:
    """The kernel's list of CPUs, `0-3,8`, as [0, 1, 2, 3, 8]. Raises ValueError."""
    cpus: list[int] = []
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            low, high = number(first), number(last or first)
            if low is None or high is None or not 0 <= low <= high < _MOST_CPUS:
                raise ValueError(f"{part!r} found; allowed: CPUs such as 0-3,8")
            cpus += range(low, high + 1)
    return cpus


def _cpus(path: Path) -> list[int]:
    with suppress(ValueError):
        return cpu_list(_read(path))
    return []


def _online(folder: Path) -> list[int]:
    listed = _cpus(folder / "online")
    return listed or sorted(int(path.name[3:]) for path in folder.glob("cpu[0-9]*"))


def _socket(folder: Path, cpu: int) -> str:
    return _read(folder / f"cpu{cpu}/topology/physical_package_id")


def _one_a_core(folder: Path, cpus: list[int]) -> list[int]:
    """The first CPU of each core; a CPU whose core is unknown counts as a core."""
    first: dict[tuple[str, ...], int] = {}
    for cpu in cpus:
        topology = folder / f"cpu{cpu}/topology"
        core = _read(topology / "core_id") or f"cpu{cpu}"
        first.setdefault((_socket(folder, cpu), _read(topology / "die_id"), core), cpu)
    return list(first.values())


def _numa_nodes(folder: Path) -> list[NumaNode]:
    return [
        NumaNode(
            number=int(path.name[4:]),
            cpus=_cpus(path / "cpulist"),
            memory_b=_meminfo_b(path / "meminfo", "MemTotal"),
        )
        for path in sorted(folder.glob("node[0-9]*"), key=lambda path: int(path.name[4:]))
    ]


def _last_level_caches(folder: Path, cpus: list[int]) -> list[Cache]:
    """Each cache of the highest level once, identified by the CPUs that share it."""
    found: dict[tuple[int, str], Cache] = {}
    for cpu in cpus:
        for path in (folder / f"cpu{cpu}/cache").glob("index[0-9]*"):
            # The kernel writes sizes as `32768K`.
            level, size_kib = number(_read(path / "level")), number(_read(path / "size")[:-1])
            if _read(path / "type") != "Instruction" and level and size_kib:
                shared = _read(path / "shared_cpu_list")
                cpus_of = _cpus(path / "shared_cpu_list")
                found[level, shared] = Cache(level, size_kib * _KIB, cpus_of)
    last = max((level for level, _ in found), default=0)
    return [cache for (level, _), cache in found.items() if level == last]


def _cpu_model(root: Path) -> str:
    """Model name in /proc/cpuinfo; some ARM hosts have it only in the device tree."""
    for line in _read(root / "proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "cpu", "Model"):
            return value.strip()
    return _read(root / "proc/device-tree/model").rstrip("\0") or platform.machine()


def _governor(folder: Path, cpus: list[int]) -> str | None:
    names = {_read(folder / f"cpu{cpu}/cpufreq/scaling_governor") for cpu in cpus} - {""}
    return ", ".join(sorted(names)) or None


def _hypervisor(root: Path) -> str | None:
    flags = next(
        (
            line.split(":", 1)[1].split()
            for line in _read(root / "proc/cpuinfo").splitlines()
            if line.startswith("flags")
        ),
        [],
    )
    if "hypervisor" not in flags:
        return None
    return _read(root / "sys/class/dmi/id/product_name") or "unknown"


def _interfaces(folder: Path) -> list[Interface]:
    return [
        Interface(
            name=path.name,
            rate_b_s=speed * 1e6 / 8 if (speed := _integer(path / "speed")) > 0 else None,
            mtu_b=_integer(path / "mtu"),
        )
        for path in sorted(folder.glob("*"))
        if path.name != "lo" and _read(path / "operstate") == "up"
    ]


def _meminfo_b(path: Path, name: str) -> int:
    """A line such as `MemTotal:  16 kB`, or `Node 0 MemTotal:  16 kB`; kB there is 1024 bytes."""
    for line in _read(path).splitlines():
        words = line.split()
        if f"{name}:" in words:
            return (number("".join(words[words.index(f"{name}:") + 1 :][:1])) or 0) * _KIB
    return 0


def _integer(path: Path) -> int:
    """The number in a file; 0 if there is none, or the driver refuses to report it."""
    return number(_read(path)) or 0
