"""What the kernel says: /proc and sysfs of a small host made of files. Nothing may be raised."""

import dataclasses
import io
import struct
from pathlib import Path

from conductor import counters
from records import kernel_text, processes
from records.machine import host, load, node_counters
from records.machine.load import KernelThreads
from records.machine.program import compilers_in, mpi_library
from testbed import containers, namespaces
from tests.conductor import sysfs
from tests.fuzz.target import Target, finite, lay_out, text_of, tree
from tests.records.machine.test_host import FILES as INTERRUPTS
from tests.records.machine.test_host import SERVER
from tests.records.machine.test_load import BLOCK, process
from tests.records.machine.test_node_counters import FILES

_CPU, _NODE, _IB = (
    "sys/devices/system/cpu",
    "sys/devices/system/node",
    "sys/class/infiniband/mlx5_0",
)
_LDD = b"\tlibm.so.6 => /lib/libm.so.6 (0x1)\n\tlibmpi.so.40 => /opt/libmpi.so.40 (0x2)\n"
_NAMES = b"\0.comment\0.shstrtab\0"
_COMMENT = b"GCC: (Debian 12.2.0-14) 12.2.0\0"


def _elf() -> bytes:
    """A program of two sections: names, and what the compiler wrote."""
    at = 64 + len(_NAMES)
    table = at + len(_COMMENT)
    header = b"\x7fELF\x02\x01".ljust(40, b"\0") + struct.pack("<Q", table)
    header = header.ljust(58, b"\0") + struct.pack("<HHH", 64, 2, 0)
    entries = [(10, 64, len(_NAMES)), (1, at, len(_COMMENT))]
    packed = [struct.pack("<I20xQQ", *entry).ljust(64, b"\0") for entry in entries]
    return header + _NAMES + _COMMENT + b"".join(packed)


_ELF = _elf()
_HOST = {
    **INTERRUPTS,
    **SERVER,
    f"{_CPU}/online": "0",
    f"{_CPU}/cpu0/topology/physical_package_id": "0",
    f"{_CPU}/cpu0/topology/core_id": "0",
    f"{_CPU}/cpu0/cpufreq/scaling_governor": "performance",
    f"{_CPU}/cpu0/cpufreq/scaling_cur_freq": "2400000",
    f"{_CPU}/cpu0/cache/index3/level": "3",
    f"{_CPU}/cpu0/cache/index3/type": "Unified",
    f"{_CPU}/cpu0/cache/index3/size": "16384K",
    f"{_CPU}/cpu0/cache/index3/shared_cpu_list": "0,8-9",
    f"{_NODE}/node0/cpulist": "0-1",
    f"{_NODE}/node0/meminfo": "Node 0 MemTotal:       16777216 kB",
    f"{_IB}/fw_ver": "20.31.1014",
    f"{_IB}/device/numa_node": "2",
    f"{_IB}/ports/1/state": "4: ACTIVE",
    f"{_IB}/ports/1/link_layer": "InfiniBand",
    f"{_IB}/ports/1/rate": "100 Gb/sec (4X EDR)",
    "sys/class/net/eth1/operstate": "up",
    "sys/class/net/eth1/speed": "10000",
    "sys/class/net/eth1/mtu": "9000",
    "sys/fs/cgroup/cpu.max": "150000 100000",
    "sys/fs/cgroup/memory.max": "1073741824",
    "proc/meminfo": "MemTotal:       67108864 kB\nMemFree:        1 kB",
    "sys/fs/resctrl/schemata": "    MB:0=100;1= 90\n    L3:0=7ff;1=0f0",
    "dev/cpu/0/msr": "\0" * 4000,
    "proc/cpuinfo": "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nstepping\t: 4\n"
    "processor\t: 0\nmicrocode\t: 0x1\nflags\t\t: fpu hypervisor",
    "proc/self/cgroup": "1:cpu:/a\n0::/",
}  # fmt: skip
_COUNTERS = {**FILES, "proc/net/dev": sysfs.PROC_NET_DEV}
_LOAD = {
    **process(1, 0, "init"),
    **process(77, 1, "work (x)", used=250, block=BLOCK),
    **process(78, 77, "work", used=10, children=3),
    "proc/78/task/78/stat": process(78, 77, "work", used=10)["proc/78/stat"],
    "proc/78/task/78/status": "Name:\twork\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1,5",
    f"{_CPU}/online": "0-7",
    "proc/stat": "cpu  9 0 9 9 0 1 2 3 0 0\nintr 12345",
    f"{_CPU}/cpu0/cpufreq/scaling_cur_freq": "2400000",
    "proc/cpuinfo": "processor\t: 0\ncpu MHz\t\t: 2400.1\nflags\t\t: fpu aperfmperf",
}
_NUMA_MAPS = b"""7f00 bind:1 anon=300 dirty=300 N0=44 N1=256 kernelpagesize_kB=4
7f20 default file=/dev/shm/ucx mapped=900 N0=900 kernelpagesize_kB=2048
"""
_STATUS = b"Name:\tx\nNSpid:\t4711\t12\nVmPin:\t      64 kB\n"
_MOUNTS = b"""cgroup /sys/fs/cgroup/freezer cgroup rw,freezer 0 0
cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0
"""


def _host(text: bytes, folder: Path) -> None:
    found = host.detect(lay_out(text, folder, _HOST))
    dataclasses.asdict(found)
    finite(found.cpu_quota, *(each.rate_b_s for each in found.interfaces))
    finite(*(port.rate_b_s for device in found.rdma for port in device.ports))


def _node(text: bytes, folder: Path) -> None:
    root = lay_out(text, folder, _COUNTERS)
    finite(*(each.value for each in node_counters.read(root).values()))
    for device in ("mlx5_0", "eth1"):
        for passed in counters.DIRECTIONS:
            counters.read(device, passed, root)


def _load(text: bytes, folder: Path) -> None:
    root = lay_out(text, folder, _LOAD)
    first = load.read(BLOCK, [1], root=root)
    second = load.read(BLOCK, [77], [78], first, root)
    finite(*(load.foreign_s(first, second) or {}).values())
    finite(load.frequency_hz([0], root), load.frequency_hz([], root))
    finite(KernelThreads(root).read_s())
    load.left_free(load.busy_cpus([77, 78], 0.1, root), root)


def _cpus(text: bytes, _: Path) -> None:
    assert len(kernel_text.cpu_list(text_of(text))) < 1 << 20


TARGETS = [
    Target("kernel.host", _host, [tree(_HOST)]),
    Target("kernel.counters", _node, [tree(_COUNTERS)]),
    Target("kernel.load", _load, [tree(_LOAD)]),
    Target("elf.comment", lambda text, _: compilers_in(io.BytesIO(text)), [_ELF]),
    Target("ldd.mpi", lambda text, _: mpi_library(text_of(text)), [_LDD]),
    Target("kernel.cpu list", _cpus, [b"0-3,8"], (ValueError,)),
    Target("kernel.numa_maps", lambda text, _: processes.read_maps(text_of(text).splitlines(), 1),
           [_NUMA_MAPS]),
    Target("kernel.status", lambda text, _: namespaces.inner_pid(text_of(text)), [_STATUS]),
    Target("kernel.mounts", lambda text, _: containers.kind_of(text_of(text)), [_MOUNTS]),
]  # fmt: skip
