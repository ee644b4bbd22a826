"""The made machine `box`, whose fields a test may change, and made files of /proc and /sys."""

from typing import Any

from records.machine import cpu_load
from records.machine.site import Machine


def machine(policy: str = "hetjob", **changes: Any) -> Machine:
    fields = {
        "name": "box",
        "description": "",
        "injector": "perftest",
        "origins": {"policy": policy},
    }
    return Machine.model_validate(fields | changes)


#: Value of the environment variable that marks the processes of a block.
BLOCK = "0123abcd"
#: Flags of kernel threads in /proc/PID/stat.
KERNEL = 0x00208040


def stat(
    pid: int, parent: int, name: str, state: str = "S", flags: int = 0, used: int = 0,
    children: int = 0, start: int = 5, system: int = 0, cpu: int = 0,
) -> str:  # fmt: skip
    """Return the text of /proc/PID/stat, in the format of proc(5).

    Times are in ticks: `used` in user mode, `system` in system mode, and `children` that of ended
    children.
    """
    # The columns after the state are ppid pgrp session tty tpgid flags, four counts of faults,
    # utime stime cutime cstime, priority nice threads itrealvalue, start, 15 columns on memory and
    # signals, exit signal, CPU.
    times = f"{used} {system} {children} 0"
    columns = f"{parent} 1 1 0 -1 {flags} 0 0 0 0 {times} 20 0 1 0 {start} {'0 ' * 15}17 {cpu} 0 0"
    return f"{pid} ({name}) {state} {columns}"


def process(
    pid: int, parent: int, name: str = "work", used: int = 0, children: int = 0, *,
    block: str = "", **more: Any,
) -> dict[str, str]:  # fmt: skip
    """Return the two files of a process in /proc: path -> text."""
    environment = f"HOME=/\0{cpu_load.BLOCK_VARIABLE}={block}\0" if block else "HOME=/\0"
    text = stat(pid, parent, name, used=used, children=children, **more)
    return {f"proc/{pid}/stat": text, f"proc/{pid}/environ": environment}


def thread(
    pid: int, name: str, user: int, system: int, start: int, flags: int = KERNEL, cpu: int = 0
) -> dict[str, str]:
    """Return the file of a kernel thread in /proc: path -> text."""
    text = stat(pid, 2, name, flags=flags, used=user, system=system, start=start, cpu=cpu)
    return {f"proc/{pid}/stat": text}


_CPU, _IB = "sys/devices/system/cpu", "sys/class/infiniband/mlx5_0"
LOAD = {
    **process(1, 0, "init"),
    **process(77, 1, "work (x)", used=250, block=BLOCK),
    **process(78, 77, "work", used=10, children=3),
    "proc/78/task/78/stat": stat(78, 77, "work", used=10),
    "proc/78/task/78/status": "Name:\twork\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1,5",
    f"{_CPU}/online": "0-7",
    "proc/stat": "cpu  9 0 9 9 0 1 2 3 0 0\nintr 12345",
    f"{_CPU}/cpu0/cpufreq/scaling_cur_freq": "2400000",
    "proc/cpuinfo": "processor\t: 0\ncpu MHz\t\t: 2400.1\nflags\t\t: fpu aperfmperf",
}
COUNTERS = {
    "proc/stat": "cpu  10 0 20 30 0 40 500 6 0 0\ncpu0 1 1 1 1 1 1 1 1\nintr 1234 5 6\nctxt 777",
    "proc/softirqs": "          CPU0       CPU1\n NET_TX:   1  2\n NET_RX:  30  12\n TIMER:  9  9",
    "proc/pressure/memory": (
        "some avg10=0.00 avg60=0.00 avg300=0.29 total=155545234\n"
        "full avg10=0.00 avg60=0.00 avg300=0.25 total=132749597"
    ),
    "proc/vmstat": "nr_free_pages 5\nnuma_pages_migrated 12\nthp_fault_alloc 77031\npgfault 3",
    f"{_CPU}/cpu0/cpufreq/scaling_cur_freq": "2000000",
    f"{_CPU}/cpu1/cpufreq/scaling_cur_freq": "3000000",
    "sys/fs/resctrl/mon_data/mon_L3_00/mbm_total_bytes": "4096",
    "sys/fs/resctrl/mon_data/mon_L3_01/mbm_total_bytes": "Unavailable",
    f"{_IB}/ports/1/hw_counters/np_cnp_sent": "17",
    f"{_IB}/ports/1/counters/port_xmit_wait": "5",
    f"{_IB}/ports/1/counters/port_rcv_data": "99",
    "sys/class/powercap/intel-rapl:0/name": "package-0\n",
    "sys/class/powercap/intel-rapl:0/energy_uj": "262143328850\n",
    "sys/class/powercap/intel-rapl:0:1/name": "dram\n",
    "sys/class/powercap/intel-rapl:0:1/energy_uj": "5000000\n",
    "sys/class/powercap/intel-rapl:1/name": "package-1\n",
    "sys/class/net/eth0/device/vendor": "0x15b3",
    "sys/class/net/eth0/statistics/rx_dropped": "3",
    "sys/class/net/eth0/statistics/rx_bytes": "1000",
    "sys/class/net/lo/statistics/rx_dropped": "8",
    "sys/class/net/veth7/statistics/rx_dropped": "9",
    **thread(2, "kthreadd", 0, 250, 1),
}
#: The names and units are those of the kernel's documentation (mlx5/counters.rst). The figures are
#: made.
ETHTOOL = """NIC statistics:
     rx_packets: 1000
     rx_discards_phy: 12
     tx_prio3_pause: 7
     tx_prio3_pause_duration: 250000
     rx_global_pause: 1
     tx_pause_ctrl_phy: 8
     tx_global_pause_duration: 3000
     outbound_pci_stalled_wr: 23
     outbound_pci_stalled_wr_events: 4
     outbound_pci_buffer_overflow: 6
     pci_bw_inbound_high: 5
     pci_bw_outbound_low: 3
     pci_bw_stale_event: 9
     rx0_cache_full: 5
"""
XEON = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz
stepping\t: 7
processor\t: 1
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
stepping\t: 4
microcode\t: 0x2007006
flags\t\t: fpu hypervisor
"""
#: Files with which kernel and firmware describe a server with an Intel processor.
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
#: A network card has an interrupt for each queue. The last interrupt has no file of its effective
#: CPUs, as in older kernels.
INTERRUPTS = {
    **{f"{_IB}/device/msi_irqs/{number}": "msix" for number in (90, 91, 92)},
    "sys/class/net/eth0/device/msi_irqs/40": "msi",
    "sys/class/net/veth0/address": "02:00:00:00:00:01",
    "proc/irq/90/smp_affinity_list": "0-63",
    "proc/irq/90/effective_affinity_list": "63",
    "proc/irq/91/smp_affinity_list": "63",
    "proc/irq/91/effective_affinity_list": "63",
    "proc/irq/92/smp_affinity_list": "0-31",
}
#: A host with files of every kind.
HOST = {
    **INTERRUPTS,
    **SERVER,
    f"{_CPU}/online": "0",
    f"{_CPU}/cpu0/topology/physical_package_id": "0",
    f"{_CPU}/cpu0/topology/core_id": "0",
    f"{_CPU}/cpu0/cpufreq/scaling_governor": "performance",
    f"{_CPU}/cpu0/cache/index3/level": "3",
    f"{_CPU}/cpu0/cache/index3/type": "Unified",
    f"{_CPU}/cpu0/cache/index3/size": "16384K",
    f"{_CPU}/cpu0/cache/index3/shared_cpu_list": "0,8-9",
    "sys/devices/system/node/node0/cpulist": "0-1",
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:       16777216 kB",
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
    "proc/cpuinfo": XEON,
    "proc/self/cgroup": "1:cpu:/a\n0::/",
}
