"""Interrupts of made devices: a real NIC has one for each queue.

Values that operators tune, on hosts made of files.
"""

import json
import shutil
import subprocess

import pytest

from records import kernel_text
from records.machine import host
from records.machine.host import Cache, Interface, NumaNode, interrupts_of_devices
from tests.conductor.sysfs import big_host, write

MIB, GIB = 2**20, 2**30


def test_a_big_host(tmp_path):
    big = host.detect(big_host(tmp_path))
    assert (big.sockets, big.cores, big.threads) == (2, 8, 16)
    assert [node.number for node in big.numa_nodes] == [0, 1, 2, 3]
    assert big.numa_nodes[1] == NumaNode(1, [2, 3, 10, 11], 16 * GIB)
    assert big.memory_b == 64 * GIB
    # Each last-level cache counts once.
    assert len(big.last_level_caches) == 4
    assert big.last_level_caches[3] == Cache(3, 16 * MIB, [6, 7, 14, 15])
    assert big.llc_total_b == 64 * MIB
    assert [device.name for device in big.rdma] == ["mlx5_0", "rxe0"]
    assert [device.firmware for device in big.rdma] == ["20.31.1014", "0.0.0"]
    assert big.interfaces == [Interface("eth1", 1.25e9, 9000)]
    assert (big.cpu_model, big.governor) == ("Example 8-Core", "performance")
    assert (big.processor, big.hypervisor) == ("", None)
    record = json.loads(json.dumps(big.as_dict()))
    assert record["numa_nodes"][0]["cpus"] == [0, 1, 8, 9]
    assert record["rdma"][0]["ports"][0]["rate_b_s"] == 12.5e9


@pytest.mark.parametrize(
    ("usable", "first"),
    [
        (range(16), [0, 1, 2, 3, 4, 5, 6, 7]),
        # Of cores 0 to 3 only the second threads may be used.
        (range(4, 16), [4, 5, 6, 7, 8, 9, 10, 11]),
        ([3, 11], [3]),
    ],
)
def test_hardware_threads_of_one_core_count_once(tmp_path, monkeypatch, usable, first):
    monkeypatch.setattr(host.os, "sched_getaffinity", lambda _: set(usable))
    assert host.detect(big_host(tmp_path)).usable_cores == first


def test_threads_may_be_numbered_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.setattr(host.os, "sched_getaffinity", lambda _: {0, 2, 3})
    cpu = "sys/devices/system/cpu"
    here = host.detect(write(tmp_path, {f"{cpu}/online": "0-3"}))
    assert (here.cores, here.usable_cores) == (4, [0, 2, 3])  # each of unknown id is one
    # As POWER and many virtual machines do: 0 and 1 are the first core's, 2 and 3 the second's.
    cores = {f"{cpu}/cpu{n}/topology/core_id": str(n // 2) for n in range(4)}
    here = host.detect(write(tmp_path, cores))
    assert (here.cores, here.threads, here.usable_cores) == (2, 4, [0, 2])


def test_a_virtual_machine_is_named_where_it_tells(tmp_path):
    flags = {"proc/cpuinfo": "flags\t: fpu hypervisor"}
    assert host.detect(write(tmp_path, flags)).hypervisor == "unknown"
    named = {"sys/class/dmi/id/product_name": "KVM Virtual Machine"}
    assert host.detect(write(tmp_path, named)).hypervisor == "KVM Virtual Machine"


def test_a_host_that_tells_nothing_is_still_a_host(tmp_path):
    bare = host.detect(tmp_path)
    assert (bare.memory_b, bare.llc_total_b, bare.rdma, bare.governor) == (0, None, [], None)
    assert (bare.bios, bare.microcode, bare.transparent_huge_pages, bare.iommu) == (None,) * 4
    assert (bare.ddio, bare.prefetchers, bare.resctrl, bare.interrupts) == (None, None, None, {})
    assert len(bare.numa_nodes) == 1
    json.dumps(bare.as_dict())


@pytest.mark.parametrize(("text", "cpus"), [("0-3,8", [0, 1, 2, 3, 8]), ("5", [5]), ("", [])])
def test_lists_of_cpus(text, cpus):
    assert kernel_text.cpu_list(f"{text}\n") == cpus
    assert kernel_text.as_list(cpus[::-1]) == text


@pytest.mark.skipif(shutil.which("lscpu") is None, reason="lscpu (util-linux) is missing")
def test_this_host_is_what_lscpu_says():
    shown = subprocess.check_output(["lscpu", "-p=CPU,CORE,SOCKET,NODE"], text=True)
    rows = [line.split(",") for line in shown.splitlines() if not line.startswith("#")]
    here = host.detect()
    assert here.threads == len(rows)
    assert here.cores == len({row[1] for row in rows})
    assert here.sockets == len({row[2] for row in rows})
    assert len([node for node in here.numa_nodes if node.cpus]) == len({row[3] for row in rows})
    answer = subprocess.run(["lscpu", "-B", "-C", "-J"], capture_output=True, text=True)
    if caches := json.loads(answer.stdout)["caches"] if answer.returncode == 0 else []:
        last = max(caches, key=lambda cache: int(cache["level"]))
        assert here.llc_total_b == int(last["all-size"])
        assert here.l2_b in (None, *(int(of["one-size"]) for of in caches if of["level"] == 2))


CGROUP = "sys/fs/cgroup"


@pytest.mark.parametrize(
    ("files", "quota", "memory_b"),
    [
        (
            {
                "proc/self/cgroup": "0::/jobs/one",
                f"{CGROUP}/jobs/one/cpu.max": "300000 100000",
                f"{CGROUP}/jobs/cpu.max": "150000 100000",  # the group above binds
                f"{CGROUP}/cpu.max": "max 100000",
                f"{CGROUP}/jobs/one/memory.max": "1073741824",
                f"{CGROUP}/jobs/memory.max": "2147483648",
                f"{CGROUP}/memory.max": "max",
            },
            *(1.5, GIB),
        ),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/box\n2:memory:/box",
                f"{CGROUP}/cpu,cpuacct/box/cpu.cfs_quota_us": "200000",
                f"{CGROUP}/cpu,cpuacct/box/cpu.cfs_period_us": "100000",
                f"{CGROUP}/memory/box/memory.limit_in_bytes": "9223372036854771712",
            },
            *(2.0, 9223372036854771712),
        ),
        ({}, None, None),
        ({"proc/self/cgroup": "3:cpu:/", f"{CGROUP}/cpu/cpu.cfs_quota_us": "-1"}, None, None),
    ],
    ids=["version 2", "version 1", "no group", "no limit"],
)
def test_limits_of_control_groups(tmp_path, files, quota, memory_b):
    root = write(tmp_path, {**files, "proc/meminfo": "MemTotal: 4194304 kB"})
    assert (host.cpu_quota(root), host.memory_limit_b(root)) == (quota, memory_b)
    assert host.detect(root).memory_b == min(memory_b or 4 * GIB, 4 * GIB)


FILES = {
    "sys/class/infiniband/mlx5_0/device/msi_irqs/90": "msix",
    "sys/class/infiniband/mlx5_0/device/msi_irqs/91": "msix",
    "sys/class/infiniband/mlx5_0/device/msi_irqs/92": "msix",
    "sys/class/net/eth0/device/msi_irqs/40": "msi",
    "sys/class/net/veth0/address": "02:00:00:00:00:01",
    "proc/irq/90/smp_affinity_list": "0-63",
    "proc/irq/90/effective_affinity_list": "63",
    "proc/irq/91/smp_affinity_list": "63",
    "proc/irq/91/effective_affinity_list": "63",
    # An older kernel's.
    "proc/irq/92/smp_affinity_list": "0-31",
    # Of eth0's nothing is known.
}


def test_each_device_with_the_cpus_of_its_interrupts(tmp_path):
    assert interrupts_of_devices(write(tmp_path, FILES)) == {"mlx5_0": {"0-31": 1, "63": 2}}


#: As the kernel and the firmware of a server with an Intel processor present them.
SERVER = {
    "proc/cpuinfo": "processor\t: 0\nmicrocode\t: 0x2007006\n\nmicrocode\t: 0x2007006",
    "sys/class/dmi/id/bios_vendor": "American Megatrends Inc.",
    "sys/class/dmi/id/bios_version": "3.4",
    "sys/class/dmi/id/bios_date": "10/30/2020",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    "sys/class/iommu/dmar0/intel-iommu/version": "1:0",
    "sys/class/iommu/dmar1/intel-iommu/version": "1:0",
    "sys/kernel/iommu_groups/0/type": "identity",
    "sys/kernel/iommu_groups/1/type": "identity",
    "proc/cmdline": "BOOT_IMAGE=/vmlinuz ro intel_iommu=on iommu=pt quiet",
}


def test_firmware_and_settings_of_a_server(tmp_path):
    here = host.detect(write(big_host(tmp_path), SERVER))
    assert here.microcode == "0x2007006"
    assert here.bios == "American Megatrends Inc. 3.4 10/30/2020"
    assert here.transparent_huge_pages == "madvise"
    assert here.iommu == "identity (intel_iommu=on iommu=pt)"

    text = "microcode\t: 0x2\n\nmicrocode\t: 0x1\n\nmicrocode\t: 0x2"
    assert host.microcode(write(tmp_path, {"proc/cpuinfo": text})) == "0x1, 0x2"


def test_kinds_of_the_iommu_s_domains(tmp_path):
    (tmp_path / "sys/class/iommu").mkdir(parents=True)
    assert host.iommu(tmp_path) == "none"
    write(tmp_path, {"sys/class/iommu/dmar0/name": "dmar0", "proc/cmdline": "quiet amd_iommu=off"})
    assert host.iommu(tmp_path) == "on (amd_iommu=off)"  # before 5.11 groups have no type
    groups = "sys/kernel/iommu_groups"
    write(tmp_path, {"proc/cmdline": "", f"{groups}/0/type": "DMA", f"{groups}/7/type": "identity"})
    assert host.iommu(tmp_path) == "DMA, identity"


CPUINFO = "vendor_id\t: {}\ncpu family\t: 6\nmodel\t\t: {}\nstepping\t: 4"
SKYLAKE = {"proc/cpuinfo": CPUINFO.format("GenuineIntel", 85)}


def registers(root, cpu, values):
    """/dev/cpu/N/msr: a register's number is its offset, eight bytes each."""
    path = root / f"dev/cpu/{cpu}/msr"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        for number, value in values.items():
            file.seek(number)
            file.write(value.to_bytes(8, "little"))
    return root


def test_sockets_that_differ_are_both_shown(tmp_path):
    root = registers(write(tmp_path, SKYLAKE), 0, {0xC8B: 0x600, 0x1A4: 0})
    assert (host.ddio(root), host.prefetchers(root)) == ("600", "all on")
    registers(root, 12, {0xC8B: 0x7E0, 0x1A4: 0b1001})
    assert host.ddio(root) == "600, 7e0"
    assert host.prefetchers(root) == "all on | off: L2, L1 stride"


@pytest.mark.parametrize(
    ("vendor", "model", "ddio", "prefetchers"),
    [("GenuineIntel", 106, None, "all on"), ("AuthenticAMD", 85, None, None)],
)
def test_registers_of_other_processors_mean_something_else(
    tmp_path, vendor, model, ddio, prefetchers
):
    files = {"proc/cpuinfo": CPUINFO.format(vendor, model)}
    root = registers(write(tmp_path, files), 0, {0xC8B: 0x600, 0x1A4: 0})
    assert (host.ddio(root), host.prefetchers(root)) == (ddio, prefetchers)


def test_schemata_without_the_kernel_s_padding(tmp_path):
    text = "    MB:0=100;1= 90\n    L3:0=7ff;1=0f0"
    root = write(tmp_path, {"sys/fs/resctrl/schemata": text})
    assert host.resctrl(root) == "L3:0=7ff;1=0f0 MB:0=100;1=90"
