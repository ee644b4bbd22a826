"""Detects facts about this host. Unknown facts are None or empty."""

from __future__ import annotations

import os
import platform
import re
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from records.kernel_text import cpu_list, cpu_list_text, number
from records.kernel_text import read as _read
from records.machine import devices

# Limits that control groups, version 1 or 2, set for this process. Files are read below a root
# path.


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return the limit of CPU time, in CPUs; None if there is none."""
    quotas = [_quota(folder) for folder in _group_folders(root, "cpu")]
    return min((quota for quota in quotas if quota is not None), default=None)


def memory_limit_b(root: Path = Path("/")) -> int | None:
    """Return the limit of memory, bytes; None if there is none.

    Without a limit, version 1 shows its largest page-aligned number. So callers use the minimum of
    the returned limit and the host's memory.
    """
    names = ("memory.max", "memory.limit_in_bytes")
    texts = [_read(folder / name) for folder in _group_folders(root, "memory") for name in names]
    limits_b = [number(text) for text in texts]
    return min((limit_b for limit_b in limits_b if limit_b is not None), default=None)


def _group_folders(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of the control groups of this process, and of all groups above them.

    Lines of /proc/self/cgroup are `number:controllers:path`. The line of version 2 has no
    controllers. Version 1 has a folder for each set of controllers. The folder's name lists them in
    any order (`cpu,cpuacct` for `cpuacct,cpu`), or names only one of them.
    """
    top = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, controllers_and_path = line.partition(":")
        controllers, _, path = controllers_and_path.partition(":")
        if not controllers:
            hierarchies = [top]
        elif controller in controllers.split(","):
            folders = sorted(top.glob("*"))
            hierarchies = [folder for folder in folders if controller in folder.name.split(",")]
        else:
            continue
        for hierarchy in hierarchies:
            group = hierarchy / path.strip("/")
            yield group
            yield from (parent for parent in group.parents if parent.is_relative_to(hierarchy))


def _quota(folder: Path) -> float | None:
    """Return the limit that a group sets on CPU time, in CPUs; None if it sets none."""
    limit, _, period = _read(folder / "cpu.max").partition(" ")
    if not period:
        limit = _read(folder / "cpu.cfs_quota_us")
        period = _read(folder / "cpu.cfs_period_us")
    time_us, period_us = number(limit), number(period)
    if time_us is None or time_us < 0 or not period_us:
        return None
    return time_us / period_us


# The CPUs to which interrupts of network devices are bound.


def interrupts_of_devices(root: Path = Path("/")) -> dict[str, dict[str, int]]:
    """Return device -> CPUs -> number of the device's interrupts that are bound to these CPUs.

    Devices are RDMA devices and network interfaces; CPUs are listed as the kernel does. A device
    whose interrupts are unknown, such as a virtual one, is left out.
    """
    by_device = {}
    for device, irqs in irqs_of_devices(root).items():
        counts = Counter[str]()
        for irq in irqs:
            folder = root / "proc/irq" / irq
            # The CPUs that get the interrupt. Kernels before 4.14 show only those that may get it.
            cpus = _read(folder / "effective_affinity_list") or _read(folder / "smp_affinity_list")
            if cpus:
                counts[cpus] += 1
        if counts:
            by_device[device] = dict(sorted(counts.items()))
    return by_device


def irqs_of_devices(root: Path = Path("/")) -> dict[str, list[str]]:
    """Return the kernel's numbers of the interrupts of each RDMA device and network interface."""
    return {
        device.parent.name: [path.name for path in device.glob("msi_irqs/*")]
        for folder in ("infiniband", "net")
        for device in sorted((root / "sys/class" / folder).glob("*/device"))
    }


# Settings and firmware of a host that influence memory contention. Any user can read them.


def microcode(root: Path) -> str | None:
    """Return the revision of the processor's microcode; several if CPUs differ, None if unknown."""
    revisions = re.findall(r"^microcode\s*:\s*(\S+)", _read(root / "proc/cpuinfo"), re.MULTILINE)
    return ", ".join(sorted(set(revisions))) or None


def bios(root: Path) -> str | None:
    """Return vendor, version and date of the firmware that started the host; None if unknown."""
    folder = root / "sys/class/dmi/id"
    words = [_read(folder / f"bios_{name}") for name in ("vendor", "version", "date")]
    return " ".join(word for word in words if word) or None


def transparent_huge_pages(root: Path) -> str | None:
    """Return the current setting, `always`, `madvise` or `never`; None if unknown.

    The kernel shows all settings, with the current one in brackets.
    """
    text = _read(root / "sys/kernel/mm/transparent_hugepage/enabled")
    current = re.search(r"\[(\w+)\]", text)
    return current[1] if current else None


#: Value of `kernel.numa_balancing` -> its meaning.
_BALANCING = {"0": "off", "1": "on", "2": "memory tiering", "3": "on, memory tiering"}


def numa_balancing(root: Path) -> str | None:
    """Return how the kernel moves pages to the NUMA node that uses them: `off`, `on`, ...

    With `memory tiering`, the kernel moves pages between fast and slow memory. None if unknown.

    Pages that are locked for RDMA are never moved.
    """
    text = _read(root / "proc/sys/kernel/numa_balancing")
    return _BALANCING.get(text, text) or None


def iommu(root: Path) -> str | None:
    """Return the kinds of the IOMMU's domains: `DMA`, `DMA-FQ`, `identity`.

    `on` if an IOMMU does not show its kinds, `none` without an IOMMU, None if unknown. Options
    of the kernel's command line that name an IOMMU follow in parentheses.
    """
    iommu_folder = root / "sys/class/iommu"
    if not iommu_folder.is_dir():
        return None
    state = "none"
    if any(iommu_folder.iterdir()):
        kinds = {_read(path) for path in root.glob("sys/kernel/iommu_groups/*/type")} - {""}
        state = ", ".join(sorted(kinds)) or "on"
    options = [word for word in _read(root / "proc/cmdline").split() if "iommu" in word]
    return f"{state} ({' '.join(options)})" if options else state


# Settings that operators tune against memory contention. nimc only reads them. A setting that
# cannot be read is None; only root can read registers.


#: Register with the ways of the last-level cache that devices write to, and the start of the
#: identities of processors that have it (Farshin et al., ATC 2020).
_DDIO_REGISTER, _DDIO_PROCESSORS = 0xC8B, "GenuineIntel-6-85-"
#: Register of the hardware prefetchers, and the start of the identities of processors that have it.
#: Each bit that is set turns one prefetcher off.
_PREFETCHER_REGISTER, _PREFETCHER_PROCESSORS = 0x1A4, "GenuineIntel-6-"
#: The prefetchers, by the number of their bit.
_PREFETCHERS = ("L2", "L2 adjacent line", "L1", "L1 stride")
_REGISTER_B = 8
_SCHEMATA_LINE = re.compile(r"[A-Z0-9_]{1,16}: *[0-9]{1,4}=[0-9A-Za-z; =]{1,4096}")


def ddio(root: Path) -> str | None:
    """Return the mask of the cache ways that devices write to, hexadecimal.

    If CPUs have different masks, all masks are returned, separated by commas.
    """
    masks = _register_values(root, _DDIO_REGISTER, _DDIO_PROCESSORS)
    return ", ".join(f"{mask:x}" for mask in masks) or None


def prefetchers(root: Path) -> str | None:
    """Return `all on`, or the prefetchers that are off; if CPUs differ, several such texts."""
    states = []
    for value in _register_values(root, _PREFETCHER_REGISTER, _PREFETCHER_PROCESSORS):
        off = [name for bit, name in enumerate(_PREFETCHERS) if value >> bit & 1]
        states.append(f"off: {', '.join(off)}" if off else "all on")
    return " | ".join(states) or None


def resctrl(root: Path) -> str | None:
    """Return the default group's schemata of all resources, such as `L3:0=7ff;1=7ff MB:0=100`."""
    lines = map(str.strip, _read(root / "sys/fs/resctrl/schemata").splitlines())
    schemata = [line.replace(" ", "") for line in lines if _SCHEMATA_LINE.fullmatch(line)]
    return " ".join(sorted(schemata)) or None


def _register_values(root: Path, register: int, model: str) -> list[int]:
    """Return the distinct values of a register on all CPUs.

    Empty if the processor's identity does not begin with `model`, or the register cannot be read.
    """
    if not processor_identity(_read(root / "proc/cpuinfo")).startswith(model):
        return []
    values = set()
    for path in (root / "dev/cpu").glob("[0-9]*/msr"):
        try:
            with path.open("rb", buffering=0) as file:
                content = os.pread(file.fileno(), _REGISTER_B, register)
        except OSError:
            return []
        if len(content) == _REGISTER_B:
            values.add(int.from_bytes(content, "little"))
    return sorted(values)


# The host's hardware and kernel.


_KIB = 1024


@dataclass(frozen=True)
class NumaNode:
    """One NUMA node; a node without CPUs has only memory."""

    #: Its number in the kernel, its CPUs, and its memory, bytes.
    number: int
    cpus: list[int]
    memory_b: int


@dataclass(frozen=True)
class Cache:
    """One data or unified cache."""

    #: Its level, the highest of the host, and its size, bytes.
    level: int
    size_b: int
    #: CPUs that share it.
    cpus: list[int]


@dataclass(frozen=True)
class Interface:
    """One network interface that is up and not the loopback."""

    #: Its name in the kernel.
    name: str
    #: Rate of the link, bytes per second; None if unknown.
    rate_b_s: float | None
    #: Largest packet, bytes.
    mtu_b: int


@dataclass(frozen=True, kw_only=True)
class Host:
    """Hardware and kernel of a node."""

    #: Names of the host, its kernel and its processor, as the host reports them.
    hostname: str
    kernel: str
    cpu_model: str
    #: `processor_identity`: vendor, family, model and stepping; empty if unknown.
    processor: str
    #: Numbers of sockets, of cores with a thread online, and of hardware threads that are online.
    sockets: int
    cores: int
    threads: int
    #: CPUs that the reading process may use, and the first of these on each core. On a host that is
    #: both origin and target, they are the origin's CPUs.
    usable_cpus: list[int]
    usable_cores: list[int]
    #: Limit of the CPU time of the reading process, in CPUs; None if not limited.
    cpu_quota: float | None
    #: NUMA nodes. If the host reports none, there is one node, with all CPUs and all memory.
    numa_nodes: list[NumaNode]
    #: Last-level caches whose size is known, each once.
    last_level_caches: list[Cache]
    #: Sum of the sizes of all last-level caches, bytes; None if a size is unknown.
    llc_total_b: int | None
    #: The smallest level-2 cache, bytes; None if the kernel shows no size.
    l2_b: int | None
    #: Caches in front of the memory of NUMA nodes (HBM of Xeon Max in cache mode), bytes; 0 if
    #: there are none.
    memory_side_cache_b: int
    #: The host's memory without that of GPUs, or the limit of a control group if that is less,
    #: bytes.
    memory_b: int
    #: Frequency governor; several names if CPUs differ, None if unknown.
    governor: str | None
    #: Product name of the virtual machine, or `unknown`; None on bare metal, and if the processor
    #: does not show that it is virtual (ARM).
    hypervisor: str | None
    #: Vendor, version and date of the firmware; revision of the microcode. None if unknown.
    bios: str | None
    microcode: str | None
    #: Kinds of the IOMMU's domains, or `none`, and the kernel's IOMMU options; None if unknown.
    iommu: str | None
    #: `always`, `madvise` or `never`; None if unknown.
    transparent_huge_pages: str | None
    #: `kernel.numa_balancing`: `off`, `on`, `memory tiering`; None if unknown.
    numa_balancing: str | None
    #: Mask of the cache ways that devices write to, hexadecimal; None if not readable (root only).
    ddio: str | None
    #: `all on`, or the hardware prefetchers that are off; None if not readable (root only).
    prefetchers: str | None
    #: Schemata of the default group of resctrl; None if resctrl is not mounted.
    resctrl: str | None
    #: RDMA devices.
    rdma: list[devices.Device]
    #: Network interfaces that are up, without the loopback.
    interfaces: list[Interface]
    #: Device -> CPUs -> number of the device's interrupts that are bound to these CPUs.
    interrupts: dict[str, dict[str, int]]

    def as_dict(self) -> dict[str, Any]:
        """Return the facts as JSON values."""
        return asdict(self)


def detect(root: Path = Path("/")) -> Host:
    """Read the facts from /proc and /sys below `root`.

    The host's name, the kernel and the affinity are always those of this host.
    """
    system = root / "sys/devices/system"
    present = sorted(
        int(path.name.removeprefix("cpu")) for path in (system / "cpu").glob("cpu[0-9]*")
    )
    usable = sorted(os.sched_getaffinity(0))
    listed_cpus = _cpu_numbers(_read(system / "cpu/online"))
    cpus = listed_cpus or _online(system / "cpu", present) or usable
    gpu_nodes = _gpu_nodes(root)
    nodes = _numa_nodes(system / "node")
    gpu_b = sum(node.memory_b for node in nodes if node.number in gpu_nodes)
    memory_b = max(0, _memory_b(root / "proc/meminfo") - gpu_b)
    nodes = [node for node in nodes if node.number not in gpu_nodes]
    caches, llc_total_b, l2_b = _caches(system / "cpu", cpus)
    governors = {_read(system / f"cpu/cpu{cpu}/cpufreq/scaling_governor") for cpu in cpus}
    cpuinfo = _read(root / "proc/cpuinfo")
    processor = processor_identity(cpuinfo)
    hypervisor_flag = re.search(r"^flags\s*:.*\bhypervisor\b", cpuinfo, re.MULTILINE)
    product = _read(root / "sys/class/dmi/id/product_name") or "unknown"
    return Host(
        hostname=socket.gethostname(),
        kernel=platform.release(),
        cpu_model=_cpu_model(root),
        processor=processor,
        sockets=len({_socket(system / "cpu", cpu) for cpu in cpus}),
        cores=len(_first_cpus_of_cores(system / "cpu", cpus, processor)),
        threads=len(cpus),
        usable_cpus=usable,
        usable_cores=_first_cpus_of_cores(system / "cpu", usable, processor),
        cpu_quota=cpu_quota(root),
        numa_nodes=nodes or [NumaNode(0, cpus, memory_b)],
        last_level_caches=caches,
        llc_total_b=llc_total_b,
        l2_b=l2_b,
        memory_side_cache_b=sum(
            number(_read(path)) or 0
            for path in (system / "node").glob("node[0-9]*/memory_side_cache/index[0-9]*/size")
        ),
        memory_b=min(memory_b, memory_limit_b(root) or memory_b),
        governor=", ".join(sorted(governors - {""})) or None,
        hypervisor=product if hypervisor_flag else None,
        bios=bios(root),
        microcode=microcode(root),
        iommu=iommu(root),
        transparent_huge_pages=transparent_huge_pages(root),
        numa_balancing=numa_balancing(root),
        ddio=ddio(root),
        prefetchers=prefetchers(root),
        resctrl=resctrl(root),
        rdma=devices.detect(root / "sys"),
        interfaces=_interfaces(root / "sys/class/net"),
        interrupts=interrupts_of_devices(root),
    )


def _cpu_numbers(listed: str) -> list[int]:
    """Return the CPUs in a list as the kernel writes it; empty if the list is invalid."""
    with suppress(ValueError):
        return cpu_list(listed)
    return []


def _online(folder: Path, cpus: list[int]) -> list[int]:
    """Return the CPUs that their own files do not show as offline, for kernels without a list."""
    return [cpu for cpu in cpus if _read(folder / f"cpu{cpu}/online") != "0"]


def _socket(folder: Path, cpu: int) -> str:
    return _read(folder / f"cpu{cpu}/topology/physical_package_id")


def _first_cpus_of_cores(folder: Path, cpus: list[int], processor: str) -> list[int]:
    """Return the first CPU of each core; a CPU whose core is unknown counts as a core."""
    has_compute_units = processor.startswith(_PROCESSORS_WITH_COMPUTE_UNITS)
    first_cpus: dict[tuple[str, ...], int] = {}
    for cpu in cpus:
        first_cpus.setdefault(_core_key(folder, cpu, has_compute_units), cpu)
    return list(first_cpus.values())


#: Start of the identities of AMD's family 15h. To the kernel, the cores of one of its compute units
#: are threads of one core.
_PROCESSORS_WITH_COMPUTE_UNITS = "AuthenticAMD-21-"


def _core_key(folder: Path, cpu: int, has_compute_units: bool) -> tuple[str, ...]:
    """Return the words that identify a CPU's core: mainly the kernel's list of the core's threads.

    Cores of a compute unit differ only in their L1 data caches. On other processors these caches
    are ignored, since a virtual machine may show one for each thread. If the kernel has no list of
    threads, the core's number is used. Cores are numbered anew in each socket, die and, on ARM,
    cluster.
    """
    topology = folder / f"cpu{cpu}/topology"
    for name in ("core_cpus", "thread_siblings"):  # Linux before 5.3 has only the second
        if threads := _cpu_set(topology, name):
            return (threads, _l1_sharers(folder, cpu) if has_compute_units else "")
    die, cluster, core = (_read(topology / f"{unit}_id") for unit in ("die", "cluster", "core"))
    return (_socket(folder, cpu), die, cluster, core or f"cpu{cpu}")


def _l1_sharers(folder: Path, cpu: int) -> str:
    """Return the CPUs that share a CPU's L1 data cache; empty if unknown."""
    for path in (folder / f"cpu{cpu}/cache").glob("index[0-9]*"):
        if _read(path / "level") == "1" and _read(path / "type") in ("Data", "Unified"):
            return _cpu_set(path, "shared_cpu")
    return ""


def _cpu_set(folder: Path, name: str) -> str:
    """Return CPUs as the kernel lists them; empty if unknown.

    Older kernels have only a mask.
    """
    for file in (f"{name}_list", f"{name}list"):
        if cpus := _read(folder / file):
            return cpus
    for file in (name, f"{name}_map", f"{name}map"):
        digits = _read(folder / file).replace(",", "")
        if re.fullmatch(r"[0-9a-f]{1,16384}", digits):
            mask = int(digits, 16)
            return cpu_list_text([cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1])
    return ""


def _numa_nodes(folder: Path) -> list[NumaNode]:
    paths = {int(path.name.removeprefix("node")): path for path in folder.glob("node[0-9]*")}
    return [
        NumaNode(node, _cpu_numbers(_cpu_set(path, "cpu")), _memory_b(path / "meminfo"))
        for node, path in sorted(paths.items())
    ]


def _gpu_nodes(root: Path) -> set[int]:
    """Return the numbers of the NUMA nodes that are a GPU's memory (GH200, V100 beside POWER9).

    To the kernel they are like any node without CPUs. The GPU's driver says which nodes they are.
    """
    texts = map(_read, (root / "proc/driver/nvidia/gpus").glob("*/numa_status"))
    matches = (re.search(r"^Node:\s*(\d{1,4})$", text, re.MULTILINE) for text in texts)
    return {int(match[1]) for match in matches if match}


def nodes_with_cores(nodes: list[NumaNode]) -> list[int]:
    """Return the numbers of the nodes with CPUs and memory.

    If no node with CPUs reports memory, the numbers of all nodes with CPUs are returned.
    """
    with_cpus = [node for node in nodes if node.cpus]
    with_memory = [node.number for node in with_cpus if node.memory_b]
    return with_memory or [node.number for node in with_cpus]


def memory_only_nodes(nodes: list[NumaNode]) -> list[int]:
    """Return the numbers of the nodes that have memory and no CPUs."""
    return [node.number for node in nodes if node.memory_b and not node.cpus]


def _caches(folder: Path, cpus: list[int]) -> tuple[list[Cache], int | None, int | None]:
    """Return the last-level caches, each once; the sum of their sizes; the size of the smallest L2.

    A cache is identified by the CPUs that share it. Sizes are in bytes, or None if unknown. Many
    kernels on ARM and in virtual machines know levels, but no sizes.
    """
    sizes_kib: dict[tuple[int, str], int | None] = {}
    for cpu in cpus:
        for path in (folder / f"cpu{cpu}/cache").glob("index[0-9]*"):
            level = number(_read(path / "level"))
            if _read(path / "type") != "Instruction" and level:
                sharers = _cpu_set(path, "shared_cpu") or str(cpu)
                # The kernel writes sizes as `32768K`.
                sizes_kib[level, sharers] = number(_read(path / "size")[:-1])
    last_level = max((level for level, _ in sizes_kib), default=0)
    last_level_sizes_kib = {
        sharers: size_kib for (level, sharers), size_kib in sizes_kib.items() if level == last_level
    }
    caches = [
        Cache(last_level, size_kib * _KIB, _cpu_numbers(sharers))
        for sharers, size_kib in last_level_sizes_kib.items()
        if size_kib
    ]
    all_known = caches and len(caches) == len(last_level_sizes_kib)
    total_b = sum(cache.size_b for cache in caches) if all_known else None
    l2_sizes_kib = [size_kib for (level, _), size_kib in sizes_kib.items() if level == 2]
    return caches, total_b, min((size * _KIB for size in l2_sizes_kib if size), default=None)


def _cpu_model(root: Path) -> str:
    """Return the model name in /proc/cpuinfo; some ARM hosts have it only in the device tree."""
    for line in _read(root / "proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "cpu", "Model"):
            return value.strip()
    return _read(root / "proc/device-tree/model").rstrip("\0") or platform.machine()


def _interfaces(folder: Path) -> list[Interface]:
    interfaces = []
    for path in sorted(folder.glob("*")):
        if path.name == "lo" or not _is_up(path):
            continue
        speed_mbit_s = number(_read(path / "speed")) or 0  # some drivers report none, or -1
        interfaces.append(
            Interface(
                name=path.name,
                rate_b_s=speed_mbit_s * 1e6 / 8 if speed_mbit_s > 0 else None,
                mtu_b=number(_read(path / "mtu")) or 0,
            )
        )
    return interfaces


def _is_up(interface: Path) -> bool:
    """Return whether a link is up. If the driver does not say so, the carrier decides."""
    state = _read(interface / "operstate")
    return state == "up" or (state == "unknown" and _read(interface / "carrier") == "1")


def _memory_b(path: Path) -> int:
    """Return the bytes in a line `MemTotal:  16 kB`, or `Node 0 MemTotal:  16 kB`, of a file.

    In these lines, kB means 1024 bytes. Returns 0 if there is no such line.
    """
    match = re.search(r"\bMemTotal: +([0-9]{1,20})\b", _read(path))
    return int(match[1]) * _KIB if match else 0


# Families of processors. Processors of a family have the same counters.
#
# A processor's identity is `GenuineIntel-6-85-7` (vendor, family, model and stepping of
# /proc/cpuinfo) or `ARM-0x41-0xd4f` (implementer and part). A family is given by shell patterns of
# identities, which this module and a shell on a compute node can both match.


#: Family -> patterns of identities.
FAMILIES: dict[str, tuple[str, ...]] = {
    "Westmere-EP": ("GenuineIntel-6-44-*",),
    "Sandy Bridge-EP": ("GenuineIntel-6-45-*",),
    "Haswell-EP": ("GenuineIntel-6-63-*",),
    "Broadwell-EP": ("GenuineIntel-6-79-*",),
    "Skylake-SP": ("GenuineIntel-6-85-[0-4]",),
    "Cascade Lake": ("GenuineIntel-6-85-[5-9]",),
    "Ice Lake-SP": ("GenuineIntel-6-106-*", "GenuineIntel-6-108-*"),
    "Sapphire Rapids": ("GenuineIntel-6-143-*",),
    "Emerald Rapids": ("GenuineIntel-6-207-*",),
    "Granite Rapids": ("GenuineIntel-6-173-*", "GenuineIntel-6-174-*"),
    "Piledriver": ("AuthenticAMD-21-2-*", "AuthenticAMD-21-1[0-9]-*"),
    "Zen 2": ("AuthenticAMD-23-49-*",),
    "Zen 3": ("AuthenticAMD-25-[0-9]-*",),
    # EPYC 7A53: cores of Zen 3, for which perf since 6.1 takes the names of Zen 4's events.
    "Trento": ("AuthenticAMD-25-48-*",),
    "Zen 4": ("AuthenticAMD-25-1[6-9]-*", "AuthenticAMD-25-16[0-9]-*"),
    # Cores of Zen 4 with another memory.
    "MI300A": ("AuthenticAMD-25-144-*",),
    "Zen 5": ("AuthenticAMD-26-[0-9]-*", "AuthenticAMD-26-1[0-9]-*"),
    "A64FX": ("ARM-0x46-0x001",),
    "Grace": ("ARM-0x41-0xd4f",),
}

_AWK_RULES = (
    '$1=="vendor_id"{vendor=$2} $1=="cpu family"{family=$2} $1=="model"{model=$2} '
    '$1=="stepping"{print vendor "-" family "-" model "-" $2; exit} '
    '$1=="CPU implementer"{implementer=$2} '
    '$1=="CPU part"{print "ARM-" implementer "-" $2; exit}'
)
#: Arguments of awk, in a shell, that make it print the identity from /proc/cpuinfo.
IDENTITY_AWK = rf"""-F"[ \t]*: *" '{_AWK_RULES}'"""


def processor_identity(cpuinfo: str) -> str:
    """Return the identity of the first processor in the text of /proc/cpuinfo; empty if unknown."""
    fields: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    x86 = [fields.get(name, "") for name in ("vendor_id", "cpu family", "model", "stepping")]
    if all(x86):
        return "-".join(x86)
    arm = [fields.get(name, "") for name in ("CPU implementer", "CPU part")]
    return "-".join(["ARM", *arm]) if all(arm) else ""


def processor_words(identity: str) -> str:
    """Return an identity in words, such as `AuthenticAMD family 25, model 17`, or `unknown`."""
    match identity.split("-"):
        case "ARM", implementer, part:
            return f"ARM implementer {implementer}, part {part}"
        case vendor, family, model, _stepping:
            return f"{vendor} family {family}, model {model}"
    return identity or "unknown"


def processor_family(identity: str) -> str | None:
    """Return the family of an identity; None if it is not in the table."""
    for family, patterns in FAMILIES.items():
        if any(fnmatchcase(identity, pattern) for pattern in patterns):
            return family
    return None
