"""A made host: files in the layout of /proc and /sys."""

from pathlib import Path

#: The kernel prints two lines of headings. Each interface then has eight columns for what it
#: received, and eight for what it transmitted.
PROC_NET_DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo:     500       5    0    0    0     0          0         0      500       5    0    0
  eth1:  123456      81    0    0    0     0          0         0       99       1    0    0"""


def write(root: Path, files: dict[str, str]) -> Path:
    """Write files and return `root`.

    `files`: path below `root` -> text, to which a newline is added.
    """
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def set_driver(device: Path, driver: str) -> None:
    """Make the link from the folder of a PCI device to its driver; make the folder if needed."""
    device.mkdir(parents=True, exist_ok=True)
    link = device / "driver"
    link.unlink(missing_ok=True)
    link.symlink_to(f"../../../bus/pci/drivers/{driver}")


def big_host(root: Path) -> Path:
    """Write the files of a host with 8 cores of 2 threads; return `root`.

    It has two sockets, each with two NUMA nodes and two last-level caches. As in Linux, threads 0
    to 7 are the first threads of the cores, and threads 8 to 15 the second ones. NUMA node n, with
    a cache of 16 MiB, has cores 2n and 2n+1.
    """
    cpu, node = "sys/devices/system/cpu", "sys/devices/system/node"
    files = {
        f"{cpu}/online": "0-15",
        "proc/meminfo": "MemTotal:       67108864 kB\nMemFree:        1 kB",
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: Example 8-Core\nflags\t\t: fpu sse2",
        "proc/self/cgroup": "0::/",
    }
    for thread in range(16):
        core = thread % 8
        numa = core // 2
        threads = f"{2 * numa}-{2 * numa + 1},{2 * numa + 8}-{2 * numa + 9}"
        cpu_folder = f"{cpu}/cpu{thread}"
        files |= {
            f"{cpu_folder}/topology/physical_package_id": str(core // 4),
            f"{cpu_folder}/topology/die_id": "0",
            f"{cpu_folder}/topology/core_id": str(
                core % 4
            ),  # core numbers start again in each socket
            f"{cpu_folder}/cpufreq/scaling_governor": "performance",
            f"{cpu_folder}/cache/index0/level": "1",
            f"{cpu_folder}/cache/index0/type": "Data",
            f"{cpu_folder}/cache/index0/size": "32K",
            f"{cpu_folder}/cache/index0/shared_cpu_list": f"{core},{core + 8}",
            f"{cpu_folder}/cache/index3/level": "3",
            f"{cpu_folder}/cache/index3/type": "Unified",
            f"{cpu_folder}/cache/index3/size": "16384K",
            f"{cpu_folder}/cache/index3/shared_cpu_list": threads,
        }
        files[f"{node}/node{numa}/cpulist"] = threads
        files[f"{node}/node{numa}/meminfo"] = f"Node {numa} MemTotal:       16777216 kB"
    ib = "sys/class/infiniband/mlx5_0"
    files |= {
        f"{ib}/fw_ver": "20.31.1014",
        f"{ib}/device/numa_node": "2",
        f"{ib}/ports/1/state": "4: ACTIVE",
        f"{ib}/ports/1/link_layer": "InfiniBand",
        f"{ib}/ports/1/rate": "100 Gb/sec (4X EDR)",
        f"{ib}/ports/1/counters/port_rcv_data": "2500",
        f"{ib}/ports/1/counters/port_xmit_data": "10",
        "sys/class/infiniband/rxe0/fw_ver": "0.0.0",
        "sys/class/infiniband/rxe0/parent": "eth1",
        "sys/class/infiniband/rxe0/ports/1/state": "4: ACTIVE",
        "sys/class/infiniband/rxe0/ports/1/link_layer": "Ethernet",
        "sys/class/infiniband/rxe0/ports/1/rate": "2.5 Gb/sec (1X SDR)",
        "sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts": "77",
        "sys/class/net/lo/operstate": "unknown",
        "sys/class/net/eth1/operstate": "up",
        "sys/class/net/eth1/speed": "10000",
        "sys/class/net/eth1/mtu": "9000",
        "proc/net/dev": PROC_NET_DEV,
        "sys/class/net/eth2/operstate": "down",
        "sys/class/net/eth2/speed": "-1",
        "sys/class/net/eth2/mtu": "1500",
    }
    return write(root, files)
