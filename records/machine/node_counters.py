"""Reads counters of a node and of its network devices, mostly from files of the kernel.

The counters are read before and after a run. The difference shows what the whole node did in the
run, whichever program caused it. Counters that a node lacks are listed once, with what the node
would need for them. This module uses only the standard library.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from records import kernel_text
from records.machine import cpu_load, host
from records.machine.cpu_load import KernelThreads
from records.programs import ask
from records.sample import IRQ_TIME, KERNEL_THREADS_TIME, SOFTIRQ_TIME

#: `total` is counted from boot on; `gauge` is a state at the time of the reading.
Kind = Literal["total", "gauge"]

#: Time within which a driver must answer `ethtool`, seconds.
_TIMEOUT_S = 2
#: Folders that may contain `ethtool`, and that many users do not have on PATH.
_SYSTEM_PATH = "/usr/sbin:/sbin"


@dataclass(frozen=True)
class NodeCounter:
    """One counter at one time."""

    value: float
    #: Unit, SI: `count`, `s`, `B`, `J`, `Hz`, and `1` for shares.
    unit: str
    kind: Kind = "total"


#: Name, value (None: not readable) and unit of each counter of a source.
Counts = Iterator[tuple[str, float | None, str]]


def read(root: Path = Path("/")) -> dict[str, NodeCounter]:
    """Return all counters in files below `root`, by names such as `psi:memory/some`."""
    counters: dict[str, NodeCounter] = {}
    for read_source, _ in _SOURCES.values():
        counters |= _readable(read_source(root))
    return counters


def _readable(counts: Counts) -> dict[str, NodeCounter]:
    return {name: NodeCounter(value, unit) for name, value, unit in counts if value is not None}


def increase(
    before: Mapping[str, NodeCounter], after: Mapping[str, NodeCounter]
) -> dict[str, NodeCounter]:
    """Return the increases of totals between two readings, and gauges as they were at the second.

    A total that is less than before was reset or has wrapped, and is left out.
    """
    increases = {}
    for name, now in after.items():
        if now.kind == "gauge":
            increases[name] = now
        elif name in before and now.value >= before[name].value:
            increases[name] = NodeCounter(now.value - before[name].value, now.unit)
    return increases


_TICK_S = 1 / kernel_text.TICKS_PER_S


def _stat(root: Path) -> Counts:
    """Yield interrupts, context switches and time in interrupts, from /proc/stat."""
    lines = {words[0]: words for line in _lines(root / "proc/stat") if (words := line.split())}
    for key, column, name, unit, factor in (
        ("ctxt", 1, "context-switches", "count", 1.0),
        ("intr", 1, "interrupts", "count", 1.0),
        ("cpu", 6, IRQ_TIME, "s", _TICK_S),
        ("cpu", 7, SOFTIRQ_TIME, "s", _TICK_S),
    ):
        words = lines.get(key, [])
        text = words[column] if column < len(words) else ""
        yield name, _count(text, factor), unit


def _softirqs(root: Path) -> Counts:
    """Yield the numbers of soft interrupts of networking, summed over CPUs."""
    for line in _lines(root / "proc/softirqs"):
        name, _, columns = line.partition(":")
        texts = columns.split()
        counts = [count for text in texts if (count := _count(text)) is not None]
        if name.strip() in ("NET_RX", "NET_TX") and texts and len(counts) == len(texts):
            yield f"softirqs:{name.strip()}", sum(counts), "count"


def _pressure(root: Path) -> Counts:
    """Yield the time in which some, or all, tasks waited for a resource."""
    for resource in ("cpu", "memory", "io"):
        for line in _lines(root / "proc/pressure" / resource):
            if total := re.match(r"(some|full) .*total=([0-9]{1,20})$", line):
                yield f"psi:{resource}/{total[1]}", int(total[2]) * 1e-6, "s"


#: Counters of /proc/vmstat: NUMA balancing, migration of pages, huge pages, faults.
_VMSTAT = (
    "numa_hit",
    "numa_miss",
    "numa_foreign",
    "numa_hint_faults",
    "numa_pages_migrated",
    "pgmigrate_success",
    "thp_fault_alloc",
    "thp_fault_fallback",
    "thp_collapse_alloc",
    "thp_split_page",
    "pgfault",
    "pgmajfault",
)


def _vmstat(root: Path) -> Counts:
    for line in _lines(root / "proc/vmstat"):
        name, _, text = line.partition(" ")
        if name in _VMSTAT:
            yield f"vmstat:{name}", _count(text), "count"


def _resctrl(root: Path) -> Counts:
    """Yield the bytes that the node's tasks, but not its devices, moved between L3 and memory."""
    for path in sorted(root.glob("sys/fs/resctrl/mon_data/mon_L3_*/mbm_*_bytes")):
        cache = path.parent.name.removeprefix("mon_")
        yield f"resctrl:{cache}/{path.name}", _count_in(path), "B"


#: Counters of RDMA ports that show congestion, loss and waiting.
_RDMA_NAMES = (
    "np_cnp_sent",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "np_ecn_marked_roce_packets",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "rx_write_requests",
    "port_xmit_wait",
    "port_xmit_discards",
    "port_rcv_errors",
)


#: Counters with 16 or 32 bits that stop at their largest value until they are cleared, as the
#: InfiniBand specification says (Linux: `infiniband/core/sysfs.c`). How much they have missed since
#: then is unknown.
_STOPS_AT = {
    "port_xmit_wait": (1 << 32) - 1,
    "port_xmit_discards": (1 << 16) - 1,
    "port_rcv_errors": (1 << 16) - 1,
}


def _rdma(root: Path) -> Counts:
    for name, value in _rdma_counts(root):
        if not _has_stopped(name, value):
            yield name, value, "count"


def _rdma_counts(root: Path) -> Iterator[tuple[str, float | None]]:
    """Yield name and value of each counter of each RDMA port, including counters that stopped."""
    for port in sorted((root / "sys/class/infiniband").glob("*/ports/[0-9]*")):
        for folder in ("counters", "hw_counters"):
            for name in _RDMA_NAMES:
                value = _count_in(port / folder / name)
                yield f"{port.parents[1].name}/{port.name}:{name}", value


def _has_stopped(name: str, value: float | None) -> bool:
    return value is not None and value == _STOPS_AT.get(name.rpartition(":")[2])


_NET_NAMES = ("rx_dropped", "tx_dropped", "rx_missed_errors", "rx_fifo_errors", "rx_over_errors")


def _net(root: Path) -> Counts:
    """Yield the numbers of packets that network interfaces lost, without virtual interfaces."""
    for interface in _interfaces(root):
        for name in _NET_NAMES:
            file = root / "sys/class/net" / interface / "statistics" / name
            yield f"{interface}:{name}", _count_in(file), "count"


def _energy(root: Path) -> Counts:
    """Yield the energy of processors and memory, by zone of RAPL; AMD's zones have the same names.

    A zone starts again from 0 after its largest value, which it reaches in 10 to 60 minutes.
    """
    for zone in sorted((root / "sys/class/powercap").glob("intel-rapl:*")):
        name = f"{zone.name.removeprefix('intel-rapl:')}/{kernel_text.read(zone / 'name')}"
        yield f"energy:{name}", _count_in(zone / "energy_uj", 1e-6), "J"


def _interfaces(root: Path) -> list[str]:
    """Return the network interfaces that are hardware."""
    return sorted(path.parent.name for path in (root / "sys/class/net").glob("*/device"))


#: Source -> the function that reads its counters from files below a root folder, and what the
#: source needs.
_SOURCES: dict[str, tuple[Callable[[Path], Counts], str]] = {
    "interrupts": (_stat, "/proc/stat"),
    "soft interrupts": (_softirqs, "/proc/softirqs"),
    "pressure": (_pressure, "a kernel with CONFIG_PSI, not booted with psi=0"),
    "pages": (_vmstat, "/proc/vmstat"),
    "resctrl": (_resctrl, "memory bandwidth monitoring of the processor, and resctrl mounted"),
    "RDMA": (_rdma, "an RDMA device with hw_counters"),
    "network": (_net, "a network interface of a device"),
    "energy": (_energy, "RAPL, and energy_uj below /sys/class/powercap readable by users"),
}


#: Counters that are taken from the output of `ethtool -S`: pattern of the name, unit, factor and
#: kind, as the kernel documents them (mlx5/counters.rst). The first is the percentage of the last
#: second in which the device could not write for lack of PCIe credits. The second is the number of
#: seconds in which that percentage was above 30 %. `pci_bw_..._high` counts how often the device's
#: PCIe traffic rose above a threshold (90 %), and `..._low` how often it fell below another
#: threshold. PCIe is congested while `high` is above `low`.
_ETHTOOL: tuple[tuple[str, str, float, Kind], ...] = (
    (r"outbound_pci_stalled_wr", "1", 0.01, "gauge"),
    (r"outbound_pci_stalled_wr_events", "s", 1.0, "total"),
    (r"outbound_pci_buffer_overflow", "count", 1.0, "total"),
    (r"pci_bw_(in|out)bound_(high|low)", "count", 1.0, "total"),
    (r"rx_discards_phy|rx_out_of_buffer|rx_prio\d_(discards|buf_discard|cong_discard)", "count",
     1.0, "total"),
    (r"[rt]x_prio\d_pause", "count", 1.0, "total"),
    (r"[rt]x_prio\d_pause_duration", "s", 1e-6, "total"),
    (r"[rt]x_global_pause|[rt]x_pause_ctrl_phy", "count", 1.0, "total"),
    (r"[rt]x_global_pause_duration", "s", 1e-6, "total"),
)  # fmt: skip


def parse_ethtool(interface: str, ethtool_output: str) -> dict[str, NodeCounter]:
    """Return the counters in the output of `ethtool -S` that `_ETHTOOL` lists."""
    counters = {}
    line = re.compile(r"^\s*([\w.]+): ([0-9]{1,20})\s*$", re.MULTILINE)
    for name, value in line.findall(ethtool_output):
        for pattern, unit, factor, kind in _ETHTOOL:
            if re.fullmatch(pattern, name):
                counters[f"{interface}:{name}"] = NodeCounter(int(value) * factor, unit, kind)
    return counters


def read_ethtool(interface: str) -> dict[str, NodeCounter]:
    """Return an interface's counters of `ethtool`; empty if program or driver lacks them."""
    path = f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM_PATH}"
    program = shutil.which("ethtool", path=path) or "ethtool"
    return parse_ethtool(interface, ask([program, "-S", interface], timeout_s=_TIMEOUT_S).stdout)


#: End of the name of a counter that counts only on the CPUs that the application leaves free.
ON_FREE_CPUS = " on free CPUs"
#: Title of a column of /proc/interrupts.
_CPU = re.compile(r"CPU[0-9]{1,9}")


def interrupts_by_cpu(root: Path = Path("/")) -> dict[str, dict[int, float]]:
    """Return the numbers of interrupts since boot: `DEVICE:interrupts` -> CPU -> number.

    Devices are RDMA devices and network interfaces.
    """
    counts_by_irq = _counts_by_irq(_lines(root / "proc/interrupts"))
    counters: dict[str, dict[int, float]] = {}
    for device, irqs in host.irqs_of_devices(root).items():
        rows = [counts_by_irq[irq] for irq in irqs if irq in counts_by_irq]
        if rows:
            counters[f"{device}:interrupts"] = {
                cpu: sum(row[cpu] for row in rows) for cpu in rows[0]
            }
    return counters


def _counts_by_irq(lines: Sequence[str]) -> dict[str, dict[int, float]]:
    """Return interrupt -> CPU -> number, from /proc/interrupts.

    An interrupt without a number for each CPU is left out.
    """
    header, *rows = [line.split() for line in lines] or [[]]
    if not all(map(_CPU.fullmatch, header)):
        return {}
    cpus = [int(name.removeprefix("CPU")) for name in header]
    counts_by_irq = {}
    for irq, *texts in filter(None, rows):
        counts = [count for text in texts[: len(cpus)] if (count := _count(text)) is not None]
        if len(counts) == len(cpus):
            counts_by_irq[irq.rstrip(":")] = dict(zip(cpus, counts, strict=True))
    return counts_by_irq


def increase_on_free_cpus(
    before: Mapping[str, Mapping[int, float]],
    after: Mapping[str, Mapping[int, float]],
    free: Collection[int],
) -> dict[str, NodeCounter]:
    """Return the increase of each counter on all CPUs, and on the CPUs in `free`.

    A counter that is lower than before on a CPU was reset or has overflowed; it is left out.
    """
    increases = {}
    for name, by_cpu in after.items():
        unit = "s" if name == KERNEL_THREADS_TIME else "count"
        earlier = before.get(name, {})
        increase_by_cpu = {cpu: value - earlier.get(cpu, 0.0) for cpu, value in by_cpu.items()}
        if any(increase < 0 for increase in increase_by_cpu.values()):
            continue
        on_free_cpus = sum(value for cpu, value in increase_by_cpu.items() if cpu in free)
        increases[name] = NodeCounter(sum(increase_by_cpu.values()), unit)
        increases[f"{name}{ON_FREE_CPUS}"] = NodeCounter(on_free_cpus, unit)
    return increases


class NodeReader:
    """Reads the counters of this node, and says which are absent."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        #: Interfaces whose driver has some of the counters in `_ETHTOOL`.
        self._ethtool_interfaces = [name for name in _interfaces(root) if read_ethtool(name)]
        self._threads = KernelThreads(root)
        #: Source without any counter, or counter that has stopped -> what it needs.
        self.absent_counters = {
            name: needs
            for name, (read_source, needs) in _SOURCES.items()
            if not _readable(read_source(root))
        }
        for name, value in _rdma_counts(root):
            if _has_stopped(name, value):
                needs = "a counter that has not stopped at its largest value (perfquery -R)"
                self.absent_counters[name] = needs
        if not self._threads.are_visible:
            self.absent_counters["kernel threads"] = "a /proc that shows them, unlike a container's"
        if not self._ethtool_interfaces:
            self.absent_counters["ethtool"] = (
                "the program ethtool, and a driver with these counters (mlx5)"
            )
        if cpu_load.frequency_hz([], root) is None:
            self.absent_counters["frequency"] = "a cpufreq driver; most virtual machines have none"

    def read(self) -> dict[str, NodeCounter]:
        """Read all counters. This may start a program, so call it outside of the timed window."""
        counters = read(self._root)
        for interface in self._ethtool_interfaces:
            counters |= read_ethtool(interface)
        if self._threads.are_visible:
            counters[KERNEL_THREADS_TIME] = NodeCounter(self._threads.read_s(), "s")
        return counters

    def by_cpu(self) -> dict[str, dict[int, float]]:
        """Read interrupts of devices by CPU; add the times of kernel threads at the last `read`."""
        threads = (
            {KERNEL_THREADS_TIME: self._threads.by_cpu_s()} if self._threads.are_visible else {}
        )
        return {**interrupts_by_cpu(self._root), **threads}


def _lines(path: Path) -> list[str]:
    return kernel_text.read(path).splitlines()


def _count(text: str, factor: float = 1.0) -> float | None:
    number = kernel_text.number(text)
    return None if number is None else number * factor


def _count_in(file: Path, factor: float = 1.0) -> float | None:
    """Return the number in a file; None for any other content, such as resctrl's `Unavailable`."""
    return _count(kernel_text.read(file), factor)
