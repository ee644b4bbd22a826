"""Facts of hosts that are made of files, and facts of this host compared with lscpu."""

import json
import shutil
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from records.machine import host
from records.machine.devices import (
    Device,
    Port,
    mpi_variables,
    mpi_variables_of_all,
    numa_node,
)
from records.machine.host import FAMILIES, Cache, Interface, NumaNode
from tests.conductor.sysfs import big_host, write
from tests.records.machine.made import INTERRUPTS, SERVER, XEON

MIB, GIB = 2**20, 2**30
CPU, CGROUP, IB = "sys/devices/system/cpu", "sys/fs/cgroup", "sys/class/infiniband"
PCI, DMI = "sys/bus/pci/devices", "sys/class/dmi/id"
HSN, GROUPS = "sys/class/net/hsn0", "sys/kernel/iommu_groups"
#: Facts of a host without any file.
NOTHING: dict[str, Any] = {
    "memory_b": 0,
    "llc_total_b": None,
    "l2_b": None,
    "rdma": [],
    "governor": None,
    "bios": None,
    "microcode": None,
    "transparent_huge_pages": None,
    "iommu": None,
    "ddio": None,
    "prefetchers": None,
    "resctrl": None,
    "interrupts": {},
    "numa_balancing": None,
    "hypervisor": None,
    "processor": "",
    "cpu_quota": None,
    "interfaces": [],
}
HARDWARE = {
    "sockets": 2,
    "cores": 8,
    "threads": 16,
    "memory_b": 64 * GIB,
    "llc_total_b": 64 * MIB,
    "cpu_model": "Example 8-Core",
    "governor": "performance",
    "processor": "",
    # The loopback and an interface that is down are left out.
    "interfaces": [Interface("eth1", 1.25e9, 9000)],
    "rdma": [
        Device(
            name="mlx5_0",
            transport="InfiniBand",
            firmware="20.31.1014",
            numa_node=2,
            ports=[Port(1, "ACTIVE", "InfiniBand", 12.5e9)],
        ),
        Device(
            name="rxe0",
            transport="soft-RoCE",
            firmware="0.0.0",
            numa_node=None,
            ports=[Port(1, "ACTIVE", "Ethernet", 2.5e9 / 8)],
        ),
    ],
}
#: A host with limits in control groups of version 2.
VERSION_2 = {
    "proc/self/cgroup": "0::/jobs/one",
    f"{CGROUP}/jobs/one/cpu.max": "300000 100000",
    f"{CGROUP}/jobs/cpu.max": "150000 100000",  # the lower limit of the parent group holds
    f"{CGROUP}/cpu.max": "max 100000",
    f"{CGROUP}/jobs/one/memory.max": "1073741824",
    f"{CGROUP}/jobs/memory.max": "2147483648",
    f"{CGROUP}/memory.max": "max",
    "proc/meminfo": "MemTotal: 4194304 kB",
}
#: A host with limits in control groups of version 1.
VERSION_1 = {
    "proc/self/cgroup": "3:cpu,cpuacct:/box\n2:memory:/box",
    f"{CGROUP}/cpu,cpuacct/box/cpu.cfs_quota_us": "200000",
    f"{CGROUP}/cpu,cpuacct/box/cpu.cfs_period_us": "100000",
    f"{CGROUP}/memory/box/memory.limit_in_bytes": "9223372036854771712",
    "proc/meminfo": "MemTotal: 4194304 kB",
}
SERVER_FACTS = {
    "microcode": "0x2007006",
    "bios": "American Megatrends Inc. 3.4 10/30/2020",
    "transparent_huge_pages": "madvise",
    "iommu": "identity (intel_iommu=on iommu=pt)",
}
IOMMU = {"sys/class/iommu/d/name": "d"}
TYPES = {f"{GROUPS}/0/type": "DMA", f"{GROUPS}/7/type": "identity"}
SCHEMATA = "    MB:0=100;1= 90\n    L3:0=7ff;1=0f0"
HSN_0 = Interface("hsn0", None, 0)
#: Devices of which some have a known transport or NUMA node.
DEVICES = {
    f"{IB}/a/ports/1/state": "",
    f"{IB}/b/ports/1/link_layer": "InfiniBand",
    f"{IB}/b/ports/2/link_layer": "Ethernet",
    f"{IB}/b/ports/2/rate": "0.5 Gb/sec (1X)",
    f"{IB}/b/device/numa_node": "0",
    f"{IB}/c/device/numa_node": "-1",
    "sys/class/cxi/cxi0/device/numa_node": "3",
}
DETECTED_DEVICES = [
    Device(
        name="a",
        transport="InfiniBand",
        firmware=None,
        numa_node=None,
        ports=[Port(1, "unknown", "unknown", None)],
    ),
    Device(name="b", transport="RoCE", firmware=None, numa_node=0, ports=[
        Port(1, "unknown", "InfiniBand", None), Port(2, "unknown", "Ethernet", 0.5e9 / 8),
    ]),
    Device(name="c", transport="InfiniBand", firmware=None, numa_node=None, ports=[]),
    Device(name="cxi0", transport="Slingshot", firmware=None, numa_node=3, ports=[]),
]  # fmt: skip
#: POWER and many virtual machines number threads like this: threads 0 and 1 are those of the first
#: core, 2 and 3 those of the second.
PAIRS = {f"{CPU}/cpu{n}/topology/core_id": str(n // 2) for n in range(4)}


def link(state: str, carrier: str) -> dict[str, str]:
    return {f"{HSN}/operstate": state, f"{HSN}/carrier": carrier}


@pytest.mark.parametrize(
    ("files", "facts"),
    [
        ({}, NOTHING),
        (VERSION_2, {"cpu_quota": 1.5, "memory_b": GIB}),
        (VERSION_1, {"cpu_quota": 2.0, "memory_b": 4 * GIB}),
        ({"proc/self/cgroup": "3:cpu:/", f"{CGROUP}/cpu/cpu.cfs_quota_us": "-1"}, NOTHING),
        (SERVER, SERVER_FACTS),
        ({"proc/cpuinfo": "microcode\t: 0x2\n\nmicrocode\t: 0x1"}, {"microcode": "0x1, 0x2"}),
        ({"proc/sys/kernel/numa_balancing": "1"}, {"numa_balancing": "on"}),
        ({"proc/sys/kernel/numa_balancing": "2"}, {"numa_balancing": "memory tiering"}),
        # Before Linux 5.11, groups of the IOMMU have no type.
        ({**IOMMU, "proc/cmdline": "quiet amd_iommu=off"}, {"iommu": "on (amd_iommu=off)"}),
        ({**IOMMU, **TYPES}, {"iommu": "DMA, identity"}),
        ({"proc/cpuinfo": XEON}, {"hypervisor": "unknown", "processor": "GenuineIntel-6-85-7"}),
        ({"proc/cpuinfo": XEON, f"{DMI}/product_name": "KVM"}, {"hypervisor": "KVM"}),
        # Each thread is a core of its own.
        ({f"{CPU}/online": "0-3"}, {"cores": 4, "usable_cores": [0, 2, 3]}),
        ({f"{CPU}/online": "0-3", **PAIRS}, {"cores": 2, "threads": 4, "usable_cores": [0, 2]}),
        (INTERRUPTS, {"interrupts": {"mlx5_0": {"0-31": 1, "63": 2}}}),
        ({"sys/fs/resctrl/schemata": SCHEMATA}, {"resctrl": "L3:0=7ff;1=0f0 MB:0=100;1=90"}),
        (DEVICES, {"rdma": DETECTED_DEVICES}),
        # If the driver does not say whether a link is up, its carrier shows it.
        ({**link("unknown", "1"), f"{HSN}/speed": "-1"}, {"interfaces": [HSN_0]}),
        (link("unknown", "0"), {"interfaces": []}),
        (link("down", "1"), {"interfaces": []}),
    ],
)
def test_facts_of_a_host_made_of_files(
    files: dict[str, str], facts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host.os, "sched_getaffinity", lambda _: {0, 2, 3})
    made_host = host.detect(write(tmp_path, files))
    assert {name: getattr(made_host, name) for name in facts} == facts
    assert len(made_host.numa_nodes) == 1
    json.dumps(made_host.as_dict())


def test_a_big_host(tmp_path: Path) -> None:
    big = host.detect(big_host(tmp_path))
    assert {name: getattr(big, name) for name in HARDWARE} == HARDWARE
    assert [node.number for node in big.numa_nodes] == [0, 1, 2, 3]
    assert big.numa_nodes[1] == NumaNode(1, [2, 3, 10, 11], 16 * GIB)
    assert host.nodes_with_cores(big.numa_nodes) == [0, 1, 2, 3]
    # Node 1 has a core and memory of unknown size. Node 2 has memory only.
    apart = [NumaNode(1, [0], 0), NumaNode(2, [], 5)]
    assert (host.nodes_with_cores(apart), host.memory_only_nodes(apart)) == ([1], [2])
    # Each last-level cache counts once.
    assert len(big.last_level_caches) == 4
    assert big.last_level_caches[3] == Cache(3, 16 * MIB, [6, 7, 14, 15])
    record = json.loads(json.dumps(big.as_dict()))
    assert record["rdma"][0]["ports"][0]["rate_b_s"] == 12.5e9
    (tmp_path / "sys/class/iommu").mkdir()
    assert host.iommu(tmp_path) == "none"
    assert [numa_node(name, DETECTED_DEVICES) for name in (None, "b", "cxi0", "d")] == [
        None,
        0,
        3,
        None,
    ]


@pytest.mark.parametrize(
    ("usable", "first"),
    [
        (range(16), [0, 1, 2, 3, 4, 5, 6, 7]),
        # Only the second threads of cores 0 to 3 may be used.
        (range(4, 16), [4, 5, 6, 7, 8, 9, 10, 11]),
        ([3, 11], [3]),
    ],
)
def test_hardware_threads_of_one_core_count_once(
    usable: list[int], first: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host.os, "sched_getaffinity", lambda _: set(usable))
    assert host.detect(big_host(tmp_path)).usable_cores == first


@pytest.mark.skipif(shutil.which("lscpu") is None, reason="lscpu (util-linux) is missing")
def test_facts_of_this_host_agree_with_lscpu() -> None:
    shown = subprocess.check_output(["lscpu", "-p=CPU,CORE,SOCKET,NODE"], text=True)
    rows = [line.split(",") for line in shown.splitlines() if not line.startswith("#")]
    this_host = host.detect()
    assert this_host.threads == len(rows)
    assert this_host.cores == len({row[1] for row in rows})
    assert this_host.sockets == len({row[2] for row in rows})
    assert len([node for node in this_host.numa_nodes if node.cpus]) == len(
        {row[3] for row in rows}
    )
    answer = subprocess.run(["lscpu", "-B", "-C", "-J"], capture_output=True, text=True)
    if caches := json.loads(answer.stdout)["caches"] if answer.returncode == 0 else []:
        last = max(caches, key=lambda cache: int(cache["level"]))
        assert this_host.llc_total_b == int(last["all-size"])
        assert this_host.l2_b in (
            None,
            *(int(cache["one-size"]) for cache in caches if cache["level"] == 2),
        )


CPUINFO = "vendor_id\t: {}\ncpu family\t: 6\nmodel\t\t: {}\nstepping\t: 4"


@pytest.mark.parametrize(
    ("vendor", "model", "ddio", "prefetchers"),
    [
        # If two sockets differ, both values are shown. In other processors, these registers have
        # another meaning.
        ("GenuineIntel", 85, "600, 7e0", "all on | off: L2, L1 stride"),
        ("GenuineIntel", 106, None, "all on | off: L2, L1 stride"),
        ("AuthenticAMD", 85, None, None),
    ],
)
def test_registers_of_intels_processors(
    vendor: str, model: int, ddio: str | None, prefetchers: str | None, tmp_path: Path
) -> None:
    """In /dev/cpu/N/msr, the number of a register is the offset of its eight bytes."""
    write(tmp_path, {"proc/cpuinfo": CPUINFO.format(vendor, model)})
    for cpu, values in {0: {0xC8B: 0x600, 0x1A4: 0}, 12: {0xC8B: 0x7E0, 0x1A4: 0b1001}}.items():
        path = tmp_path / f"dev/cpu/{cpu}/msr"
        path.parent.mkdir(parents=True)
        with path.open("wb") as file:
            for number, value in values.items():
                file.seek(number)
                file.write(value.to_bytes(8, "little"))
    assert (host.ddio(tmp_path), host.prefetchers(tmp_path)) == (ddio, prefetchers)


GRACE = "processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x0\nCPU part\t: 0xd4f\n"


@pytest.mark.parametrize(
    ("cpuinfo", "identity"),
    [
        (XEON, "GenuineIntel-6-85-7"),
        (GRACE, "ARM-0x41-0xd4f"),
        *((text, "") for text in ("", "processor : 0\n", "vendor_id : x\ncpu family : 6\n")),
    ],
)
def test_the_first_processor_is_identified(cpuinfo: str, identity: str) -> None:
    assert host.processor_identity(cpuinfo) == identity


@pytest.mark.parametrize(
    ("family", "identities"),
    {
        # Intel's models are from the kernel's arch/x86/include/asm/intel-family.h, AMD's families
        # and models from its arch/x86/kernel/cpu/amd.c.
        "Sandy Bridge-EP": ["GenuineIntel-6-45-7"],
        "Haswell-EP": ["GenuineIntel-6-63-2"],
        "Broadwell-EP": ["GenuineIntel-6-79-1"],
        "Skylake-SP": ["GenuineIntel-6-85-4"],
        "Cascade Lake": ["GenuineIntel-6-85-7"],
        "Ice Lake-SP": ["GenuineIntel-6-106-6"],
        "Sapphire Rapids": ["GenuineIntel-6-143-8"],
        "Emerald Rapids": ["GenuineIntel-6-207-2"],
        "Granite Rapids": ["GenuineIntel-6-173-1"],
        "Zen 2": ["AuthenticAMD-23-49-0"],
        "Zen 3": ["AuthenticAMD-25-1-1"],
        # EPYC 7A53 (Frontier and LUMI) and MI300A (El Capitan) are from likwid's topology.h.
        "Trento": ["AuthenticAMD-25-48-1"],
        "MI300A": ["AuthenticAMD-25-144-1"],
        "Zen 4": ["AuthenticAMD-25-17-1", "AuthenticAMD-25-160-2"],
        "Zen 5": ["AuthenticAMD-26-2-1", "AuthenticAMD-26-17-0"],
        "A64FX": ["ARM-0x46-0x001"],
        "Grace": ["ARM-0x41-0xd4f"],
        None: ["", "GenuineIntel-6-85-11", "GenuineIntel-6-58-9"],
    }.items(),
)
def test_the_family_of_a_processor(family: str | None, identities: list[str]) -> None:
    assert {host.processor_family(identity) for identity in identities} == {family}


def test_no_identity_belongs_to_two_families() -> None:
    patterns = [pattern for family in FAMILIES.values() for pattern in family]
    vendors = ("GenuineIntel-6", *(f"AuthenticAMD-{family}" for family in (21, 23, 25, 26)))
    for vendor in vendors:
        for model in range(256):
            for stepping in range(16):
                cpu = f"{vendor}-{model}-{stepping}"
                assert sum(fnmatchcase(cpu, pattern) for pattern in patterns) <= 1, cpu


@pytest.mark.parametrize(
    ("device", "rail_name", "expected"),
    [
        ("mlx5_0", None, {"UCX_NET_DEVICES": "mlx5_0:1", "MV2_IBA_HCA": "mlx5_0"}),
        ("hfi1_3", "hfi1_3:1", {"UCX_NET_DEVICES": "hfi1_3:1", "HFI_UNIT": "3"}),
        ("mlx", "mlx:1", {"UCX_NET_DEVICES": "mlx:1"}),
        # Writers use the interface below a soft-RoCE device; a rail may be the device itself.
        ("rxe0", None, {"UCX_NET_DEVICES": "eth1", "FI_TCP_IFACE": "eth1"}),
        ("rxe0", "rxe0:1", {"UCX_NET_DEVICES": "rxe0:1", "FI_VERBS_DEVICE_NAME": "rxe0"}),
        ("eth1", None, {"OMPI_MCA_btl_tcp_if_include": "eth1"}),
    ],
)
def test_mpi_goes_over_one_device(
    device: str, rail_name: str | None, expected: dict[str, str], tmp_path: Path
) -> None:
    root = big_host(tmp_path) / "sys"
    if rail_name:
        options = mpi_variables_of_all({device: rail_name}, root)
    else:
        options = mpi_variables(device, root)
    assert expected.items() <= options.items()
    omni_path = device.startswith("hfi1")
    assert len(options) == (8 if omni_path else 5 if ":" in options["UCX_NET_DEVICES"] else 3)


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        ("AuthenticAMD-25-17-1", "AuthenticAMD family 25, model 17"),
        ("GenuineIntel-6-143-8", "GenuineIntel family 6, model 143"),
        ("ARM-0x41-0xd4f", "ARM implementer 0x41, part 0xd4f"),
        ("", "unknown"),
    ],
)
def test_a_processor_is_named_by_its_family(identity: str, words: str) -> None:
    assert host.processor_words(identity) == words
