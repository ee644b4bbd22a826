"""Facts about this host, detected; unknown ones are None or empty."""

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

from records.kernel_text import as_list, cpu_list, number
from records.kernel_text import read as _read
from records.machine import devices

# Limits of this process by control groups, version 1 or 2. Reads below a root path.


def cpu_quota(root: Path = Path("/")) -> float | None:
    """CPU time that may be used, in cores; None if not limited."""
    quotas = [quota for folder in _folders(root, "cpu") if (quota := _quota(folder)) is not None]
    return min(quotas, default=None)


def memory_limit_b(root: Path = Path("/")) -> int | None:
    """Memory that may be used, bytes; None if not limited.

    Version 1 shows its largest page-aligned number if there is no limit; callers take the minimum
    of this and the host's memory.
    """
    names = ("memory.max", "memory.limit_in_bytes")
    texts = [_read(folder / name) for folder in _folders(root, "memory") for name in names]
    return min((limit_b for text in texts if (limit_b := number(text)) is not None), default=None)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """Folders of the groups that limit this process, from its own up to the root.

    Lines of /proc/self/cgroup are `number:controllers:path`; version 2's has no controllers.
    Version 1 has a folder for each set of controllers, named in any order (`cpu,cpuacct` for
    `cpuacct,cpu`), or by one of them.
    """
    top = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers and controller not in controllers.split(","):
            continue
        named = (folder for folder in top.glob("*") if controller in folder.name.split(","))
        for base in sorted(named) if controllers else [top]:
            group = base / path.strip("/")
            yield group
            yield from (above for above in group.parents if above.is_relative_to(base))


def _quota(folder: Path) -> float | None:
    limit, _, period = _read(folder / "cpu.max").partition(" ")
    if not period:
        limit = _read(folder / "cpu.cfs_quota_us")
        period = _read(folder / "cpu.cfs_period_us")
    time_us, period_us = number(limit), number(period)
    if time_us is None or time_us < 0 or not period_us:
        return None
    return time_us / period_us


# To which CPUs the interrupts of network devices are bound. Read only: binding them needs root.


def interrupts_of_devices(root: Path = Path("/")) -> dict[str, dict[str, int]]:
    """RDMA device or network interface -> CPUs (the kernel's list) -> number of its interrupts.

    Without devices whose interrupts are unknown, as those of virtual ones.
    """
    by_device = {}
    for device, irqs in irqs_of_devices(root).items():
        folders = [root / "proc/irq" / irq for irq in irqs]
        # Where an interrupt goes, or may go: kernels before 4.14 lack the first.
        lists = [
            _read(path / "effective_affinity_list") or _read(path / "smp_affinity_list")
            for path in folders
        ]
        if numbers := Counter(filter(None, lists)):
            by_device[device] = dict(sorted(numbers.items()))
    return by_device


def irqs_of_devices(root: Path = Path("/")) -> dict[str, list[str]]:
    """RDMA device or network interface -> its interrupts, by the kernel's number."""
    return {
        device.parent.name: [path.name for path in device.glob("msi_irqs/*")]
        for folder in ("infiniband", "net")
        for device in sorted((root / "sys/class" / folder).glob("*/device"))
    }


# Settings and firmware of a host that change what memory contention costs, read without root.


def microcode(root: Path) -> str | None:
    """Revision of the processor's microcode; several if CPUs differ."""
    revisions = re.findall(r"^microcode\s*:\s*(\S+)", _read(root / "proc/cpuinfo"), re.MULTILINE)
    return ", ".join(sorted(set(revisions))) or None


def bios(root: Path) -> str | None:
    """Vendor, version and date of the firmware that started the host."""
    folder = root / "sys/class/dmi/id"
    words = [_read(folder / f"bios_{name}") for name in ("vendor", "version", "date")]
    return " ".join(word for word in words if word) or None


def transparent_huge_pages(root: Path) -> str | None:
    """`always`, `madvise` or `never`: the kernel marks the chosen one with brackets."""
    text = _read(root / "sys/kernel/mm/transparent_hugepage/enabled")
    chosen = re.search(r"\[(\w+)\]", text)
    return chosen[1] if chosen else None


#: `kernel.numa_balancing` -> what it says; a kernel without the setting has no balancing.
_BALANCING = {"0": "off", "1": "on", "2": "memory tiering", "3": "on, memory tiering"}


def numa_balancing(root: Path) -> str | None:
    """Return whether the kernel moves pages to the NUMA node that uses them; None if unknown.

    Pages that are locked for RDMA cannot be moved, whatever it says.
    """
    text = _read(root / "proc/sys/kernel/numa_balancing")
    return _BALANCING.get(text, text) or None


def iommu(root: Path) -> str | None:
    """Kinds of the IOMMU's domains: `DMA`, `DMA-FQ`, `identity`; `on` if unknown, or `none`.

    Options of the kernel's command line that name an IOMMU follow in brackets.
    """
    units = root / "sys/class/iommu"
    if not units.is_dir():
        return None
    kinds = {_read(path) for path in root.glob("sys/kernel/iommu_groups/*/type")} - {""}
    state = ", ".join(sorted(kinds)) or "on" if any(units.iterdir()) else "none"
    options = [word for word in _read(root / "proc/cmdline").split() if "iommu" in word]
    return f"{state} ({' '.join(options)})" if options else state


# Settings that operators tune against memory contention: the values read, whoever set them.
#
# nimc sets none of them. Registers are readable by root only; what cannot be read is None.


#: Ways of the last-level cache that devices write to, on Intel processors of model 85 (Farshin et
#: al., ATC 2020); and the hardware prefetchers, of which a set bit turns one off.
_DDIO_WAYS, _DDIO_MODEL = 0xC8B, "GenuineIntel-6-85-"
_PREFETCH, _PREFETCH_MODEL = 0x1A4, "GenuineIntel-6-"
_PREFETCHERS = ("L2", "L2 adjacent line", "L1", "L1 stride")
_REGISTER_B = 8
_LINE = re.compile(r"[A-Z0-9_]{1,16}: *[0-9]{1,4}=[0-9A-Za-z; =]{1,4096}")


def ddio(root: Path) -> str | None:
    """Mask of the ways that devices write to, hexadecimal; several if sockets differ."""
    values = _registers(root, _DDIO_WAYS, _DDIO_MODEL)
    return ", ".join(f"{value:x}" for value in values) or None


def prefetchers(root: Path) -> str | None:
    """`all on`, or those that are off; several if CPUs differ."""
    shown = []
    for value in _registers(root, _PREFETCH, _PREFETCH_MODEL):
        off = [name for bit, name in enumerate(_PREFETCHERS) if value >> bit & 1]
        shown.append(f"off: {', '.join(off)}" if off else "all on")
    return " | ".join(shown) or None


def resctrl(root: Path) -> str | None:
    """The default group's schemata, one resource after the other: `L3:0=7ff;1=7ff MB:0=100`."""
    lines = map(str.strip, _read(root / "sys/fs/resctrl/schemata").splitlines())
    schemata = [line.replace(" ", "") for line in lines if _LINE.fullmatch(line)]
    return " ".join(sorted(schemata)) or None


def _registers(root: Path, register: int, model: str) -> list[int]:
    """The distinct values of a register over all CPUs of that model; empty if unreadable."""
    if not processor_identity(_read(root / "proc/cpuinfo")).startswith(model):
        return []
    values = set()
    for path in (root / "dev/cpu").glob("[0-9]*/msr"):
        try:
            with path.open("rb", buffering=0) as file:
                data = os.pread(file.fileno(), _REGISTER_B, register)
        except OSError:
            return []
        if len(data) == _REGISTER_B:
            values.add(int.from_bytes(data, "little"))
    return sorted(values)


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

    #: The highest there is, and its size, bytes.
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

    #: Names of the host, its kernel and its processor, by the host itself.
    hostname: str
    kernel: str
    cpu_model: str
    #: `processor_identity`: vendor, family, model and stepping; empty if unknown.
    processor: str
    #: Sockets, cores with a thread online, and hardware threads that are online.
    sockets: int
    cores: int
    threads: int
    #: CPUs that the reading process may use (on a shared host the origin's only), and the first of
    #: them on each core.
    usable_cpus: list[int]
    usable_cores: list[int]
    #: Limit of their CPU time, in CPUs; None if not limited.
    cpu_quota: float | None
    #: NUMA nodes; a host that reports none has one.
    numa_nodes: list[NumaNode]
    #: Last-level caches whose size is known, each once, and the sum of the sizes, bytes; None if
    #: that of any is unknown.
    last_level_caches: list[Cache]
    llc_total_b: int | None
    #: The smallest level-2 cache, bytes; None if the kernel says no size.
    l2_b: int | None
    #: Caches that lie before the memory of nodes (HBM of Xeon Max in cache mode), bytes; 0 without.
    memory_side_cache_b: int
    #: Memory that may be used: the host's without that of GPUs, or less if a control group limits
    #: it, bytes.
    memory_b: int
    #: Frequency governor; several names if CPUs differ.
    governor: str | None
    #: Product name of the virtual machine, or `unknown`; None on bare metal.
    hypervisor: str | None
    #: Vendor, version and date of the firmware; revision of the microcode. None if unknown.
    bios: str | None
    microcode: str | None
    #: Kinds of the IOMMU's domains, or `none`, and the kernel's options for it; None if unknown.
    iommu: str | None
    #: `always`, `madvise` or `never`; None if unknown.
    transparent_huge_pages: str | None
    #: `kernel.numa_balancing`: `off`, `on`, `memory tiering`; None if unknown.
    numa_balancing: str | None
    #: Mask of the cache ways that devices write to, hexadecimal; None if not readable (root only).
    ddio: str | None
    #: `all on`, or the hardware prefetchers that are off; None if not readable (root only).
    prefetchers: str | None
    #: Schemata of the default group; None if not mounted.
    resctrl: str | None
    #: RDMA devices.
    rdma: list[devices.Device]
    #: Network interfaces that are up, without the loopback.
    interfaces: list[Interface]
    #: Device -> CPUs -> number of its interrupts that are bound to them.
    interrupts: dict[str, dict[str, int]]

    def as_dict(self) -> dict[str, Any]:
        """The facts as JSON values."""
        return asdict(self)


def detect(root: Path = Path("/")) -> Host:
    """Read the facts from /proc and /sys below `root`; name, kernel and affinity from this host."""
    system = root / "sys/devices/system"
    present = sorted(int(path.name[3:]) for path in (system / "cpu").glob("cpu[0-9]*"))
    usable = sorted(os.sched_getaffinity(0))
    cpus = _cpus(system / "cpu/online") or _online(system / "cpu", present) or usable
    gpu_nodes = _gpu_nodes(root)
    nodes = _numa_nodes(system / "node")
    gpu_b = sum(node.memory_b for node in nodes if node.number in gpu_nodes)
    memory_b = max(0, _memory_b(root / "proc/meminfo") - gpu_b)
    nodes = [node for node in nodes if node.number not in gpu_nodes]
    caches, llc_total_b, l2_b = _caches(system / "cpu", cpus)
    governors = {_read(system / f"cpu/cpu{cpu}/cpufreq/scaling_governor") for cpu in cpus}
    cpuinfo = _read(root / "proc/cpuinfo")
    processor = processor_identity(cpuinfo)
    flags = re.search(r"^flags\s*:.*\bhypervisor\b", cpuinfo, re.MULTILINE)
    product = _read(root / "sys/class/dmi/id/product_name") or "unknown"
    return Host(
        hostname=socket.gethostname(),
        kernel=platform.release(),
        cpu_model=_cpu_model(root),
        processor=processor,
        sockets=len({_socket(system / "cpu", cpu) for cpu in cpus}),
        cores=len(_first_of_each_core(system / "cpu", cpus, processor)),
        threads=len(cpus),
        usable_cpus=usable,
        usable_cores=_first_of_each_core(system / "cpu", usable, processor),
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
        hypervisor=product if flags else None,
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


def _cpus(path: Path) -> list[int]:
    return _numbers(_read(path))


def _numbers(text: str) -> list[int]:
    with suppress(ValueError):
        return cpu_list(text)
    return []


def _online(folder: Path, cpus: list[int]) -> list[int]:
    """CPUs that are not off, where the kernel has no list of them."""
    return [cpu for cpu in cpus if _read(folder / f"cpu{cpu}/online") != "0"]


def _socket(folder: Path, cpu: int) -> str:
    return _read(folder / f"cpu{cpu}/topology/physical_package_id")


def _first_of_each_core(folder: Path, cpus: list[int], processor: str) -> list[int]:
    """The first CPU of each core; a CPU whose core is unknown counts as a core."""
    compute_units = processor.startswith(_COMPUTE_UNITS)
    first: dict[tuple[str, ...], int] = {}
    for cpu in cpus:
        first.setdefault(_core(folder, cpu, compute_units), cpu)
    return list(first.values())


#: AMD's family 15h: the kernel calls the cores of a compute unit threads of one core.
_COMPUTE_UNITS = "AuthenticAMD-21-"


def _core(folder: Path, cpu: int, compute_units: bool) -> tuple[str, ...]:
    """The mark that the threads of one core share: the kernel's list of these threads.

    Cores of a compute unit differ in their L1 data caches. On other processors these caches are
    not used: a virtual machine may show one for each thread. Numbers of cores begin again in each
    socket, die and, on ARM, cluster.
    """
    topology = folder / f"cpu{cpu}/topology"
    for name in ("core_cpus", "thread_siblings"):  # the second before Linux 5.3
        if threads := _cpu_set(topology, name):
            return (threads, _l1_of(folder, cpu) if compute_units else "")
    die, cluster, core = (_read(topology / f"{part}_id") for part in ("die", "cluster", "core"))
    return (_socket(folder, cpu), die, cluster, core or f"cpu{cpu}")


def _l1_of(folder: Path, cpu: int) -> str:
    """The CPUs that share an L1 data cache; empty if unknown."""
    for path in (folder / f"cpu{cpu}/cache").glob("index[0-9]*"):
        if _read(path / "level") == "1" and _read(path / "type") in ("Data", "Unified"):
            return _cpu_set(path, "shared_cpu")
    return ""


def _cpu_set(folder: Path, name: str) -> str:
    """CPUs as the kernel lists them; older ones show them as a mask alone. Empty if unknown."""
    for file in (f"{name}_list", f"{name}list"):
        if listed := _read(folder / file):
            return listed
    for file in (name, f"{name}_map", f"{name}map"):
        words = _read(folder / file).replace(",", "")
        if re.fullmatch(r"[0-9a-f]{1,16384}", words):
            bits = int(words, 16)
            return as_list([cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1])
    return ""


def _numa_nodes(folder: Path) -> list[NumaNode]:
    paths = {int(path.name[4:]): path for path in folder.glob("node[0-9]*")}
    return [
        NumaNode(number, _numbers(_cpu_set(path, "cpu")), _memory_b(path / "meminfo"))
        for number, path in sorted(paths.items())
    ]


def _gpu_nodes(root: Path) -> set[int]:
    """Numbers of the NUMA nodes that are a GPU's memory (GH200, V100 beside POWER9).

    The kernel shows them as any node without CPUs; the GPU's driver says which.
    """
    texts = map(_read, (root / "proc/driver/nvidia/gpus").glob("*/numa_status"))
    matches = (re.search(r"^Node:\s*(\d{1,4})$", text, re.MULTILINE) for text in texts)
    return {int(match[1]) for match in matches if match}


def nodes_with_cores(nodes: list[NumaNode]) -> list[int]:
    """Numbers of the nodes that have CPUs and memory, or CPUs if no memory is reported."""
    with_cpus = [node for node in nodes if node.cpus]
    # If the kernel gives no figure of memory, nobody knows which of them have some.
    with_memory = [node.number for node in with_cpus if node.memory_b]
    return with_memory or [node.number for node in with_cpus]


def memory_only_nodes(nodes: list[NumaNode]) -> list[int]:
    """Numbers of the nodes that have memory and no CPUs."""
    return [node.number for node in nodes if node.memory_b and not node.cpus]


def _caches(folder: Path, cpus: list[int]) -> tuple[list[Cache], int | None, int | None]:
    """Each cache of the highest level once, by the CPUs that share it; their sum; the smallest L2.

    Many kernels on ARM and in virtual machines know levels, but no sizes.
    """
    sizes_kib: dict[tuple[int, str], int | None] = {}
    for cpu in cpus:
        for path in (folder / f"cpu{cpu}/cache").glob("index[0-9]*"):
            level = number(_read(path / "level"))
            if _read(path / "type") != "Instruction" and level:
                shared = _cpu_set(path, "shared_cpu") or str(cpu)
                # The kernel writes sizes as `32768K`.
                sizes_kib[level, shared] = number(_read(path / "size")[:-1])
    last = max((level for level, _ in sizes_kib), default=0)
    sizes = {shared: kib for (level, shared), kib in sizes_kib.items() if level == last}
    caches = [Cache(last, kib * _KIB, _numbers(shared)) for shared, kib in sizes.items() if kib]
    is_known = caches and len(caches) == len(sizes)
    l2_kib = min((kib for (level, _), kib in sizes_kib.items() if level == 2 and kib), default=None)
    total_b = sum(cache.size_b for cache in caches) if is_known else None
    return caches, total_b, l2_kib and l2_kib * _KIB


def _cpu_model(root: Path) -> str:
    """Model name in /proc/cpuinfo; some ARM hosts have it only in the device tree."""
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
    """Many drivers do not say whether a link is up; it is then if it has a carrier."""
    state = _read(interface / "operstate")
    return state == "up" or (state == "unknown" and _read(interface / "carrier") == "1")


def _memory_b(path: Path) -> int:
    """Bytes of a line `MemTotal:  16 kB`, or `Node 0 MemTotal:  16 kB`; kB means 1024 bytes."""
    match = re.search(r"\bMemTotal: +([0-9]{1,20})\b", _read(path))
    return int(match[1]) * _KIB if match else 0


# Families of processors, as far as their counters differ.
#
# A processor's identity is `GenuineIntel-6-85-7` (vendor, family, model and stepping of
# /proc/cpuinfo) or `ARM-0x41-0xd4f` (implementer and part). A family has shell patterns of it, so
# that both this module and a shell on a compute node can match them.


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
    "Zen 4": ("AuthenticAMD-25-1[6-9]-*", "AuthenticAMD-25-16[0-9]-*"),
    "Zen 5": ("AuthenticAMD-26-[0-9]-*", "AuthenticAMD-26-1[0-9]-*"),
    "A64FX": ("ARM-0x46-0x001",),
    "Grace": ("ARM-0x41-0xd4f",),
}

#: An awk program that prints the identity from /proc/cpuinfo; `identity` in the shell's words.
IDENTITY_AWK = (
    '-F"[ \\t]*: *" \'$1=="vendor_id"{v=$2} $1=="cpu family"{f=$2} $1=="model"{m=$2}'
    ' $1=="stepping"{print v"-"f"-"m"-"$2; exit} $1=="CPU implementer"{i=$2}'
    ' $1=="CPU part"{print "ARM-"i"-"$2; exit}\''
)


def processor_identity(cpuinfo: str) -> str:
    """The identity of the first processor in the text of /proc/cpuinfo; empty if unknown."""
    fields: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    x86 = [fields.get(name) for name in ("vendor_id", "cpu family", "model", "stepping")]
    arm = [fields.get(name) for name in ("CPU implementer", "CPU part")]
    parts = x86 if all(x86) else ["ARM", *arm] if all(arm) else []
    return "-".join(part for part in parts if part)


def processor_words(identity: str) -> str:
    """`AuthenticAMD family 25, model 17` of an identity; `unknown` without one."""
    vendor, *numbers = identity.split("-")
    if vendor == "ARM" and len(numbers) == 2:
        return f"ARM implementer {numbers[0]}, part {numbers[1]}"
    if len(numbers) == 3:
        return f"{vendor} family {numbers[0]}, model {numbers[1]}"
    return identity or "unknown"


def processor_family(identity: str) -> str | None:
    """The family of an identity; None if it is not in the table."""
    for family, patterns in FAMILIES.items():
        if any(fnmatchcase(identity, pattern) for pattern in patterns):
            return family
    return None
