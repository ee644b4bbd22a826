"""Tests init, doctor and plan on real hosts and clusters, described by files.

Files of `../shared/cases` describe real ones; similar cases are in this module. Right results are
worked out by hand.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from conductor import counters
from conductor.counters import CounterReading
from conductor.injectors import INJECTORS
from nimc.campaign.request import load_request
from nimc.cli import init
from nimc.cluster import in_job, learn, node_inspection
from nimc.cluster.in_job import JobInspection
from nimc.cluster.new_machine import config_text, site_text
from nimc.readiness import needs
from nimc.readiness.finding import HostFinding
from nimc.readiness.reframe_config import settings_of
from records.errors import InputError
from records.machine import devices, host
from records.machine import site as site_files
from records.machine.devices import Device, Port
from records.machine.host import Interface
from records.programs import ProgramAnswer
from records.slurm import client, parse, parse_nodes
from records.slurm.parse_nodes import NodeShape
from reframe_tests import rails
from reframe_tests.factors import numa_nodes_of_places
from tests.cases.shared_hosts import CPU, KIB, MIB, NODE, cache, case_text, files_in, machine_of
from tests.commands import CAMPAIGN, ROOT, Command
from tests.conductor.injectors.printed import writer
from tests.conductor.sysfs import write
from tests.nimc.checkouts import SITE, checkout, program
from tests.nimc.cluster import made
from tests.records.machine.made import machine

# Facts of a node that may be unknown.


def test_an_unknown_size_of_caches_gives_one_line_that_says_what_to_set(tmp_path, monkeypatch):
    box = machine_of(files_in(case_text("host_no_cache_size")), tmp_path, monkeypatch)
    line = "facts: {cores: 2, sockets: 1, numa_nodes: 1, llc: SIZE, memory: 16777216000B}"
    with pytest.raises(InputError, match="last-level caches is unknown") as error:
        box.message_b("auto")
    assert str(error.value).endswith(f"; allowed: {line}")
    finding = needs.memory(box)
    assert (finding.state, finding.remedy) == ("missing", f"set {line}")
    # If writes come from other nodes, only some workloads need the size of the caches.
    apart = box.model_copy(update={"origins": machine("hetjob").origins})
    assert apart.message_b("auto") == 64 * KIB
    assert needs.memory(apart).state == "limited"


def test_a_host_whose_files_show_neither_memory_nor_processors_is_read(tmp_path, monkeypatch):
    files = {"proc/meminfo": "MemFree: 1 kB"} | cache(0, 3, 3, "0", "8192K")
    box = machine_of(files, tmp_path, monkeypatch)
    facts = box.node_facts()
    assert (facts.sockets, facts.numa_nodes, facts.memory_b) == (1, [0], None)
    assert facts.cores >= 1
    with pytest.raises(InputError, match="the memory of a node is unknown"):
        box.memory_b()


@pytest.mark.parametrize(
    ("change", "memory_mib", "line"),
    [
        ({"llc_total_b": None}, 1024, "# facts: {} nic_node: 1, llc: SIZE, memory: 1GiB}}"),
        ({"memory_b": 0}, None, "# facts: {} nic_node: 1, llc: 512MiB, memory: SIZE}}"),
        ({"memory_b": 0}, 1024, "facts: {} nic_node: 1, llc: 512MiB, memory: 1GiB}}"),
    ],
)
def test_init_leaves_only_the_size_that_a_node_does_not_report(change, memory_mib, line):
    record = made.node("n1", made.FAST, **change)
    shape = NodeShape(2, 64, 1, memory_mib)
    facts = made.cluster_facts(
        shapes={"n1": shape}, job_inspection=JobInspection(job="7", why=None, nodes=[record])
    )
    numbers = "{cores: 64, threads_per_core: 1, sockets: 2, numa_nodes: 4,"
    assert line.format(numbers) in site_text(facts).splitlines()


# Older kernels and processors that show facts in another way.


def test_masks_of_a_kernel_without_lists_of_cpus_are_read(tmp_path):
    """Linux of RHEL 7 on POWER9, with CPUs 0 to 7 and 32 to 39.

    A core has four threads. Two cores share an L3 cache of 10 MiB. One core is off. A mask consists
    of words of 32 bits, the highest first (lib/bitmap.c).
    """
    files = {f"{NODE}/node0/cpumap": "000000ff,000000ff", f"{NODE}/node0/cpulist": ""}
    for cpu in (*range(8), *range(32, 40)):
        core = cpu // 4 * 4
        here, mask = f"{CPU}/cpu{cpu}", 0xF << core
        files |= {
            f"{here}/online": str(int(core != 36)),
            f"{here}/topology/thread_siblings": f"{mask >> 32:08x},{mask & 0xFFFFFFFF:08x}",
            f"{here}/cache/index3/level": "3",
            f"{here}/cache/index3/type": "Unified",
            f"{here}/cache/index3/size": "10240K",
            f"{here}/cache/index3/shared_cpu_map": (
                "00000000,000000ff" if cpu < 32 else "000000ff,00000000"
            ),
        }
    detected = host.detect(write(tmp_path, files))
    assert (detected.cores, detected.threads, detected.llc_total_b) == (3, 12, 20 * MIB)
    assert [cache.cpus for cache in detected.last_level_caches] == [[*range(8)], [*range(32, 40)]]
    assert detected.numa_nodes[0].cpus == [*range(8), *range(32, 40)]


def test_cores_of_a_compute_unit_are_cores(tmp_path):
    """In AMD's family 15h, two cores share an L2 cache, and each core has an L1 data cache.

    The kernel shows the two as threads of one core (arch/x86/kernel/smpboot.c). AMD's BIOS and
    Kernel Developer's Guide 42301 calls them cores.
    """
    files = {"proc/cpuinfo": cpuinfo("AuthenticAMD", family=21)} | four_threads_in_pairs()
    assert host.detect(write(tmp_path / "units", files)).cores == 4
    for cpu in range(4):  # threads of a core share its L1 cache
        files |= cache(cpu, 0, 1, f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}", "32K")
    assert host.detect(write(tmp_path / "threads", files)).cores == 2


@pytest.mark.parametrize(("vendor", "family"), [("GenuineIntel", 6), ("AuthenticAMD", 25)])
def test_threads_of_a_virtual_core_may_have_an_l1_cache_each(vendor, family, tmp_path):
    """QEMU shows guests an L1 cache for each thread. `lstopo` also counts two cores here."""
    files = {"proc/cpuinfo": cpuinfo(vendor, family)} | four_threads_in_pairs()
    assert host.detect(write(tmp_path, files)).cores == 2


def cpuinfo(vendor: str, family: int) -> str:
    """Return the lines of /proc/cpuinfo that identify a processor."""
    return f"vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: 2\nstepping\t: 0\n"


def four_threads_in_pairs() -> dict[str, str]:
    """Return files of four CPUs, each with an L1 data cache.

    By the kernel, these are two cores with two threads each.
    """
    files = {}
    for cpu in range(4):
        pair = f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}"
        files[f"{CPU}/cpu{cpu}/topology/thread_siblings_list"] = pair
        files[f"{CPU}/cpu{cpu}/topology/core_id"] = str(cpu // 2)
        files |= cache(cpu, 0, 1, str(cpu), "16K") | cache(cpu, 2, 2, pair, "2048K")
    return files


# Places of buffers: the NUMA node of the network card, or another one, by the kernel's numbers.


def test_the_other_numa_node_is_one_that_exists():
    # Two sockets have three NUMA nodes with cores each: 0, 1 and 4; 5, 6 and 7.
    facts = {"cores": 6, "sockets": 2, "numa_nodes": [0, 1, 4, 5, 6, 7], "memory_nodes": [2, 3]}
    facts |= {"llc": "48MiB", "memory": "32GiB"}
    assert numa_nodes_of_places(machine(facts={**facts, "nic_node": 4})) == {"nic": 4, "other": 7}
    assert numa_nodes_of_places(machine(facts={**facts, "nic_node": 6})) == {"nic": 6, "other": 1}
    # A virtual machine may show each processor as a socket.
    virtual = {**facts, "sockets": 16, "numa_nodes": 2, "memory_nodes": [], "nic_node": 0}
    assert numa_nodes_of_places(machine(facts=virtual)) == {"nic": 0, "other": 1}
    with pytest.raises(ValueError, match="allowed: each node once, in one of numa_nodes"):
        machine(facts={**facts, "memory_nodes": [2, 4]})
    with pytest.raises(ValueError, match="0 found; allowed: 1 to 1024, or a list of numbers"):
        machine(facts={**facts, "numa_nodes": 0})


# Devices with several ports, or with other names on other nodes.


def rdma(
    name: str, ports: Mapping[int, str], pci: str | None = None, gbit_s: float = 100
) -> Device:
    """Return a device as an inspection of a node records it."""
    rate_b_s = gbit_s / 8 * 1e9
    listed = [Port(number, state, "InfiniBand", rate_b_s) for number, state in ports.items()]
    return Device(
        name=name, transport="InfiniBand", firmware=None, numa_node=0, ports=listed, pci=pci
    )


def on_nodes(inspection: JobInspection, subject: str, **changes: Any) -> HostFinding:
    """Return what doctor finds about a subject on all nodes."""
    rows = in_job.job_findings(inspection, machine(**changes))
    return next(row for row in rows if row.what.endswith(f"{subject} on nodes"))


def inspection_of(**node_devices: list[Device]) -> JobInspection:
    return JobInspection(
        job="7", why=None, nodes=[made.node(name, listed) for name, listed in node_devices.items()]
    )


def ports_of_case() -> list[Device]:
    rows = [line.split() for line in case_text("init_second_port_active").splitlines()]
    return [rdma(rows[0][0], {int(number): state for _, number, state in rows})]


def names_of_case(addresses: Mapping[str, str | None]) -> dict[str, list[Device]]:
    rows = [line.split() for line in case_text("init_device_names_differ").splitlines()]
    return {node: [rdma(name, {1: "ACTIVE"}, addresses[node])] for node, name in rows}


def functions(root: Path, *rows: str) -> Path:
    """Write files of RDMA devices, and return the folder `sys`.

    A row is `NAME PCI-ADDRESS DRIVER SYS_IMAGE_GUID [PHYS_PORT_NAME]`.
    """
    for row in rows:
        name, pci, driver, guid, *port_names = row.split()
        function = root / "pci" / pci
        function.mkdir(parents=True, exist_ok=True)
        if not (function / "driver").is_symlink():
            (function / "driver").symlink_to(f"drivers/{driver}")
        files = {f"sys/class/infiniband/{name}/sys_image_guid": guid}
        files |= {f"pci/{pci}/net/eth-{name}/phys_port_name": port for port in port_names}
        write(root, files)
        (root / f"sys/class/infiniband/{name}/device").symlink_to(function)
    return root / "sys"


@pytest.mark.parametrize(
    ("rows", "sharers"),
    [
        # DGX Spark: each of the adapter's two ports has two PCI functions.
        (
            [
                "rocep1s0f0 0000:01:00.0 mlx5_core 4cbb:4703:0007:5f10 p0",
                "rocep1s0f1 0000:01:00.1 mlx5_core 4cbb:4703:0007:5f10 p1",
                "roceP2p1s0f0 0002:01:00.0 mlx5_core 4cbb:4703:0007:5f10 p0",
                "roceP2p1s0f1 0002:01:00.1 mlx5_core 4cbb:4703:0007:5f10 p1",
            ],
            {"roceP2p1s0f0": "rocep1s0f0", "roceP2p1s0f1": "rocep1s0f1"},
        ),
        # InfiniBand devices have no names of ports. The first card has two ports, the second one
        # port with two functions (Socket Direct).
        (
            [
                "mlx5_0 0000:17:00.0 mlx5_core ec0d:9a03:0043:1764",
                "mlx5_1 0000:17:00.1 mlx5_core ec0d:9a03:0043:1764",
                "mlx5_2 0000:65:00.0 mlx5_core 0c42:a103:0001:65fc",
                "mlx5_3 0000:ca:00.0 mlx5_core 0c42:a103:0001:65fc",
            ],
            {"mlx5_3": "mlx5_2"},
        ),
        # Two ports of a card that are passed to a virtual machine, and virtual functions on a host.
        (
            [
                "mlx5_0 0000:00:05.0 mlx5_core ec0d:9a03:0043:1764",
                "mlx5_1 0000:00:06.0 mlx5_core ec0d:9a03:0043:1764",
                "mlx5_2 0000:17:00.2 mlx5_core 0c42:a103:0001:65fc",
                "mlx5_3 0000:17:01.2 mlx5_core 0c42:a103:0001:65fc",
            ],
            {},
        ),
        # Two ports of a card, and the two functions of one port, each pair in a virtual machine.
        # Names of ports decide, whatever the addresses are.
        (
            [
                "mlx5_0 0000:05:00.0 mlx5_core ec0d:9a03:0043:1764 p0",
                "mlx5_1 0000:06:00.0 mlx5_core ec0d:9a03:0043:1764 p1",
                "mlx5_2 0000:00:07.0 mlx5_core 0c42:a103:0001:65fc p0",
                "mlx5_3 0000:00:08.0 mlx5_core 0c42:a103:0001:65fc p0",
            ],
            {"mlx5_3": "mlx5_2"},
        ),
        # Omni-Path has one GUID for all cards of a host (ROCm/rocm-systems, issue 11138). Virtual
        # functions may have no GUID.
        (
            [
                "hfi1_0 0000:17:00.0 hfi1 0011:7501:0001:0001",
                "hfi1_1 0000:65:00.0 hfi1 0011:7501:0001:0001",
                "mlx5_0 0001:00:02.0 mlx5_core 0000:0000:0000:0000",
                "mlx5_1 0002:00:02.0 mlx5_core 0000:0000:0000:0000",
            ],
            {},
        ),
    ],
)
def test_devices_of_a_card_may_share_a_port(rows, sharers, tmp_path):
    assert devices.shared_ports(functions(tmp_path, *rows)) == sharers


def test_ports_whose_names_cannot_be_read_are_not_one_port(tmp_path):
    """Without a switch of the card, the driver has the file, but refuses to read it."""
    rows = [f"mlx5_{port} 0000:17:00.{port} mlx5_core ec0d:9a03:0043:1764" for port in (0, 1)]
    root = functions(tmp_path, *rows)
    for port in (0, 1):
        (tmp_path / f"pci/0000:17:00.{port}/net/eth{port}/phys_port_name").mkdir(parents=True)
    assert devices.shared_ports(root) == {}


def test_virtual_functions_have_the_port_of_their_physical_function(tmp_path):
    """A host with SR-IOV shows both. `physfn` is a link of PCI (ABI/testing/sysfs-bus-pci)."""
    rows = [
        "bnxt_re0 0000:17:00.0 bnxt_en 0c42:a103:0001:65fc",
        "bnxt_re1 0000:17:00.1 bnxt_en 0c42:a103:0001:65fd",
        "bnxt_re2 0000:17:02.0 bnxt_en 0c42:a103:0001:65fe",
    ]
    root = functions(tmp_path, *rows)
    (tmp_path / "pci/0000:17:02.0/physfn").symlink_to("../0000:17:00.1")
    assert devices.shared_ports(root) == {"bnxt_re2": "bnxt_re1"}


def test_the_interface_of_a_port_is_not_one_of_a_partition(tmp_path):
    """IPoIB makes an interface for each partition, with the same `dev_port`."""
    root = functions(tmp_path, "mlx5_0 0000:17:00.0 mlx5_core 0c42:a103:0001:65fc")
    names = ("ib0", "ib0.8001", "ib0.8002")
    write(tmp_path, {f"pci/0000:17:00.0/net/{name}/dev_port": "0" for name in names})
    assert devices.interface_of("mlx5_0", root) == "ib0"


def test_the_only_interface_of_a_function_is_the_one_of_its_port(tmp_path):
    """With a function for each port, port 1 of the second function may have a `dev_port` of 1."""
    root = functions(tmp_path, "mlx4_1 0000:17:00.1 mlx4_core 0c42:a103:0001:65fc")
    write(tmp_path, {"pci/0000:17:00.1/net/ens1f1/dev_port": "1"})
    assert devices.interface_of("mlx4_1", root) == "ens1f1"


def test_the_address_of_a_device_and_the_name_of_an_interface_tell_the_fabric(tmp_path):
    """`ibs5` would be a name of an InfiniBand device; here it is an interface of IPoIB."""
    root = functions(tmp_path, "hfi1_0 0000:17:00.0 hfi1 0011:7501:0001:0001")
    functions(tmp_path, "mlx5_0 0000:65:00.0 mlx5_core ec0d:9a03:0043:1764")
    write(tmp_path, {"sys/class/net/ibs5/operstate": "up"})
    assert devices.transport("0000:65:00.0", root) == "InfiniBand"
    assert [devices.fabric(name, root).name for name in ("ibs5", "hfi1_1:2")] == [
        "tcp",
        "Omni-Path",
    ]


def test_a_port_is_found_by_its_number():
    device = rdma("mlx5_0", {1: "DOWN", 2: "ACTIVE"}, None)
    assert [device.port(number) for number in (1, 2, 3)] == [*device.ports, None]


def test_planes_of_an_xdr_device_carry_no_data(tmp_path):
    """Planes of the links are shown as another device at the same PCI address.

    See Mellanox/rdmamap, request 17.
    """
    address = "0000:0b:00.0"
    rows = [
        f"{name} {address} mlx5_core 0c42:a103:0001:65fc" for name in ("smi1", "smi-xdr_0", "xdr_0")
    ]
    root = functions(tmp_path, *rows)
    assert [device.name for device in devices.detect(root)] == ["xdr_0"]
    assert devices.resolve(address, root).name == "xdr_0"


def test_init_takes_one_rail_for_each_port():
    fast = [made.rdma(f"mlx5_{number}", 200, number) for number in range(3)]
    nodes = [made.node(name, fast, shared_ports={"mlx5_2": "mlx5_0"}) for name in ("n1", "n2")]
    text = site_text(
        made.cluster_facts(job_inspection=JobInspection(job="7", why=None, nodes=nodes))
    )
    names = [rail["device"] for rail in yaml.safe_load(text)["rails"]]
    assert names == ["mlx5_0", "mlx5_1"]
    assert "# mlx5_2 is no rail: it has the port of mlx5_0 " in text


def test_init_prefers_other_fabrics_to_ethernet_of_the_same_rate():
    """There are nodes with InfiniBand HDR100, and with Ethernet of 100 Gbit/s for the storage."""

    def ethernet(name: str, gbit_s: int) -> Device:
        ports = [Port(1, "ACTIVE", "Ethernet", gbit_s * 1e9 / 8)]
        return replace(made.rdma(name, gbit_s, 0), transport="RoCE", ports=ports)

    storage = [ethernet("mlx5_0", 100), ethernet("mlx5_1", 100)]
    for present, device, fabric in (
        ([*storage, made.rdma("mlx5_2", 100, 1)], "mlx5_2", "InfiniBand"),
        ([ethernet("mlx5_0", 200), made.rdma("mlx5_2", 100, 1)], "mlx5_0", "RoCE"),
        (storage, "mlx5_0", "RoCE"),
    ):
        nodes = [made.node(name, present) for name in ("n1", "n2")]
        text = site_text(
            made.cluster_facts(job_inspection=JobInspection(job="7", why=None, nodes=nodes))
        )
        assert yaml.safe_load(text)["device"] == device
        assert f"{fabric} on all nodes, where " in text


@pytest.mark.parametrize(
    ("links", "gbit_s"),
    [
        # DGX Spark: Gen5 with 4 lanes, 32 x 4 x 128/130 Gbit/s.
        ({"0002:00:00.0": ("32.0 GT/s PCIe", "4"), "0002:01:00.0": ("32.0 GT/s PCIe", "4")}, 126.0),
        # Gen3 with 16 lanes, in the format of older kernels: 8 x 16 x 128/130 Gbit/s.
        ({"0002:01:00.0": ("8 GT/s", "16")}, 126.0),
        # The link of a switch above the device is slower: 8 x 8 x 128/130 Gbit/s.
        ({"0002:00:00.0": ("8.0 GT/s PCIe", "8"), "0002:01:00.0": ("16.0 GT/s PCIe", "16")}, 63.0),
        # Gen2 sends 10 bits for 8 bits of data: 5 x 8 x 0.8 Gbit/s.
        ({"0002:01:00.0": ("5.0 GT/s PCIe", "8")}, 32.0),
        # Gen6 sends flits of 256 bytes, of which 242 are packets: 64 x 16 x 242/256 Gbit/s.
        ({"0002:01:00.0": ("64.0 GT/s PCIe", "16")}, 968.0),
        # A virtual function, and a link that is down.
        ({"0002:01:00.0": ("Unknown", "0")}, None),
        ({"0002:01:00.0": ("2.5 GT/s PCIe", "255")}, None),
        # The kernel knows only one of the two.
        ({"0002:01:00.0": ("Unknown", "8")}, None),
        ({"0002:01:00.0": ("8.0 GT/s PCIe", "")}, None),
        ({}, None),
    ],
)
def test_the_slowest_pcie_link_limits_a_device(links, gbit_s, tmp_path):
    """Formats are from pci_speed_string and current_link_speed_show in Linux's drivers/pci."""
    paths = {"0002:00:00.0": "pci0002:00/0002:00:00.0"}
    paths["0002:01:00.0"] = f"{paths['0002:00:00.0']}/0002:01:00.0"
    function = tmp_path / "sys/devices" / paths["0002:01:00.0"]
    function.mkdir(parents=True)
    for address, (speed, lanes) in links.items():
        folder = f"sys/devices/{paths[address]}"
        names = {"current_link_speed": speed, "current_link_width": lanes}
        write(tmp_path, {f"{folder}/{name}": text for name, text in names.items()})
    device = tmp_path / "sys/class/infiniband/roceP2p1s0f0"
    device.mkdir(parents=True)
    (device / "device").symlink_to(function)
    rate_b_s = devices.pcie_b_s("roceP2p1s0f0", tmp_path / "sys")
    assert (rate_b_s and rate_b_s * 8 / 1e9) == (gbit_s and pytest.approx(gbit_s, abs=0.1))


def test_init_says_that_a_pcie_link_is_slower_than_the_port():
    fast = [made.rdma("mlx5_0", 200, 1)]
    for pcie_b_s, says in (({"mlx5_0": 15.75e9}, True), ({"mlx5_0": 31.5e9}, False), ({}, False)):
        nodes = [made.node(name, fast, pcie_b_s=pcie_b_s) for name in ("n1", "n2")]
        text = site_text(
            made.cluster_facts(job_inspection=JobInspection(job="7", why=None, nodes=nodes))
        )
        words = " ".join(text.replace("\n# ", " ").split())
        assert "The port of mlx5_0 reports 200Gbit/s." in words
        limit = "Its PCIe link reports 126 Gbit/s, headers included: unless a virtual machine shows"
        assert (limit in words) == says


UP, DOWN = {1: "ACTIVE"}, {1: "DOWN"}
ADDRESS, OTHER_ADDRESS = "0000:0c:00.0", "0000:8c:00.0"


def test_every_program_takes_the_port_of_the_site_file(tmp_path, monkeypatch):
    ports = "sys/class/infiniband/mlx4_0/ports"
    files = {f"{ports}/{port}/counters/port_rcv_data": str(port * 250) for port in (1, 2)}
    root = write(tmp_path, files)
    (root / "pci0/0000:0c:00.0").mkdir(parents=True)
    (root / "sys/class/infiniband/mlx4_0/device").symlink_to(root / "pci0/0000:0c:00.0")
    functions = (devices.resolve, devices.is_rdma, devices.transport, devices.mpi_variables)
    for function in functions:
        monkeypatch.setattr(function, "__defaults__", (root / "sys",))
    for device, port, words in (
        ("mlx4_0", 1, ["-d", "mlx4_0"]),
        ("mlx4_0:2", 2, ["-d", "mlx4_0", "-i", "2"]),
        (ADDRESS, 1, ["-d", "mlx4_0"]),
        (f"{ADDRESS}:2", 2, ["-d", "mlx4_0", "-i", "2"]),
    ):
        reading = counters.read(device, "received", root)
        assert reading is not None
        assert (reading.name, reading.bytes_b) == (f"rdma:mlx4_0/{port}", port * 1000)
        over_device = writer(device=device)
        command = INJECTORS["perftest"].target_command(over_device)
        assert command[command.index("-d") :][: len(words)] == words
        assert ("-i" in command) == (port != 1)
        assert INJECTORS["ucx"].environment(over_device)["UCX_NET_DEVICES"] == f"mlx4_0:{port}"
        over = devices.mpi_variables(device)
        assert over["OMPI_MCA_btl_openib_if_include"] == f"mlx4_0:{port}"
        assert (over["MV2_IBA_HCA"], over["MV2_DEFAULT_PORT"]) == ("mlx4_0", str(port))
    # The number in an alias of a network interface, such as eth0:1, is no port.
    assert devices.resolve("eth0:1", root / "sys").name == "eth0:1"


def on_both(devices: list[Device]) -> dict[str, list[Device]]:
    return {"a": devices, "b": devices}


@pytest.mark.parametrize(
    ("node_devices", "device", "words"),
    [
        # init names the port that is active.
        (lambda: on_both(ports_of_case()), "mlx4_0:2", ""),
        (lambda: on_both([rdma("qib0", {1: "DOWN", 2: "INIT", 3: "ACTIVE"})]), "qib0:3", ""),
        # Names of the device differ. Without PCI addresses, no device is named. If the address is
        # the same on both nodes, it is used instead of a name.
        (lambda: names_of_case({"a": None, "b": None}), None, "a: mlx5_0:1; b: ibp12s0:1"),
        (
            lambda: names_of_case({"a": ADDRESS, "b": ADDRESS}),
            ADDRESS,
            "PCI address of a: mlx5_0; b: ibp12s0",
        ),
        # The names of two devices are exchanged on node b. The device that b calls mlx5_0 is down.
        (
            lambda: {
                "a": [rdma("mlx5_0", UP, ADDRESS), rdma("mlx5_1", DOWN, OTHER_ADDRESS)],
                "b": [rdma("mlx5_0", DOWN, OTHER_ADDRESS), rdma("mlx5_1", UP, ADDRESS)],
            },
            ADDRESS,
            "PCI address of a: mlx5_0; b: mlx5_1",
        ),
        (
            lambda: {
                "a": [rdma("ib0", {2: "ACTIVE"}, ADDRESS)],
                "b": [rdma("ib9", {2: "ACTIVE"}, ADDRESS)],
            },
            f"{ADDRESS}:2",
            "ib0",
        ),
        # Only node a has the fastest device; only node a has an active device.
        (
            lambda: {"a": [rdma("ib0", UP), rdma("ib1", UP, gbit_s=800)], "b": [rdma("ib0", UP)]},
            "ib0",
            "InfiniBand on all nodes, where perftest or ucx or mpi_put can write; ready",
        ),
        (
            lambda: {"a": [rdma("mlx5_0", UP)], "b": [rdma("mlx5_0", DOWN)]},
            "hsn0",
            "no active RDMA device on b",
        ),
    ],
)
def test_init_names_the_device_of_all_nodes_or_says_what_differs(
    node_devices, device, words, tmp_path
):
    text, box = made.init_says(inspection_of(**node_devices()), tmp_path)
    assert (box.device, box.injector) == (device, "ucx" if device == "hsn0" else "perftest")
    assert words in text
    assert ("no active RDMA device" in text) == (device == "hsn0")


def test_init_and_doctor_report_that_names_of_interfaces_differ(tmp_path):
    addresses = {"a": {"ens1": "10.0.0.1"}, "b": {"eth0": "10.0.0.2", "eth1": None}}
    nodes = [made.node(name, made.FAST, addresses=listed) for name, listed in addresses.items()]
    inspection = JobInspection(job="7", why=None, nodes=nodes)
    text, box = made.init_says(inspection, tmp_path)
    assert box.interface is None
    assert "which have none in common: a: ens1; b: eth0." in text
    finding = on_nodes(inspection, "interface", interface="ens1")
    assert (finding.state, finding.detail) == (
        "missing",
        "b: no ens1 with an IPv4 address; interfaces with one: eth0",
    )


def test_init_prefers_the_interface_of_the_device_among_those_of_one_rate(tmp_path):
    """A card may have two ports with iWARP.

    The connection manager finds the RDMA device by the address of the interface.
    """
    addresses = {"ens1f0": "10.1.0.1", "ens1f1": "10.2.0.1"}
    listed = [Interface(name, 1.25e10, 9000) for name in addresses]
    own = {"mlx5_0": "ens1f1", "mlx5_1": "ens1f0"}
    changes = {"addresses": addresses, "interfaces": listed, "device_interfaces": own}
    nodes = [made.node(name, made.FAST, **changes) for name in "ab"]
    _, box = made.init_says(JobInspection(job="7", why=None, nodes=nodes), tmp_path)
    assert (box.device, box.interface) == ("mlx5_0", "ens1f1")


def test_an_interface_to_a_management_controller_leads_to_no_other_node(tmp_path):
    """Servers connect their management controller by USB.

    All nodes have the same link-local address on this interface.
    """
    addresses = {"usb0": "169.254.95.118", "ib0": "10.1.0.1"}
    nodes = [made.node(name, made.FAST, addresses=addresses) for name in "ab"]
    text, box = made.init_says(JobInspection(job="7", why=None, nodes=nodes), tmp_path)
    assert (box.interface, "there are: ib0 interface" in text) == ("ib0", True)


@pytest.mark.parametrize(
    ("node_devices", "device", "state", "words"),
    [
        # The port that the site file names is not active, or does not exist.
        (lambda: on_both(ports_of_case()), "mlx4_0", "missing", "port 1 is DOWN; active: mlx4_0:2"),
        (lambda: on_both(ports_of_case()), "mlx4_0:3", "missing", "no port 3; active: mlx4_0:2"),
        # Nodes have different names for the device.
        (
            lambda: names_of_case({"a": ADDRESS, "b": ADDRESS}),
            "mlx5_0",
            "missing",
            f"b: no RDMA device and no interface that is up; there are: ibp12s0 at {ADDRESS}, ",
        ),
        (
            lambda: names_of_case({"a": ADDRESS, "b": ADDRESS}),
            ADDRESS,
            "ok",
            f"a, b: InfiniBand at {ADDRESS}, port 1 ACTIVE 100 Gbit/s",
        ),
        (
            lambda: names_of_case({"a": ADDRESS, "b": OTHER_ADDRESS}),
            ADDRESS,
            "missing",
            f"no interface that is up; there are: ibp12s0 at {OTHER_ADDRESS}, ",
        ),
        # Two different devices have the same name.
        (
            lambda: {"a": [rdma("mlx5_0", UP, ADDRESS)], "b": [rdma("mlx5_0", UP, OTHER_ADDRESS)]},
            "mlx5_0",
            "ok",
            f"Gbit/s; b: InfiniBand at {OTHER_ADDRESS}",
        ),
    ],
)
def test_doctor_says_what_is_wrong_with_the_device_of_the_site_file(
    node_devices, device, state, words
):
    finding = on_nodes(inspection_of(**node_devices()), device, device=device)
    assert (finding.state, words in f"{finding.detail} -> {finding.remedy}") == (state, True), (
        finding
    )


def test_doctor_looks_at_the_port_that_writers_use_on_this_host():
    here = SimpleNamespace(rdma=ports_of_case(), interfaces=[])
    own, _ = needs.rdma(here, machine("same_host", device="mlx4_0:3"))
    assert (own.state, "no port 3; active: mlx4_0:2" in own.detail) == ("missing", True), own


def test_mpi_over_one_rail_needs_the_name_of_the_device():
    listed = [{"device": ADDRESS, "numa_node": 0}, {"device": "mlx5_1:2", "numa_node": 0}]
    box = machine(device=ADDRESS, rails=listed)
    assert rails.writer_devices(box, "nic0", None) == (ADDRESS,)
    with pytest.raises(
        InputError, match=f"mpi_rail: nic0: rail {ADDRESS} of box has a PCI address"
    ):
        rails.environment_for_mpi(box, "nic0")
    assert rails.environment_for_mpi(box, "nic1")["UCX_NET_DEVICES"] == "mlx5_1:2"


# Outputs of Slurm's programs.


BANNER = "\n-------\n   Welcome to the Example Supercomputer\n-------\n\nQuota: 12 of 20 TB\n"


def test_outputs_of_slurm_may_begin_with_a_banner(monkeypatch):
    printed = "MPI plugin types are...\n\tnone\n\tpmi2\nspecific pmix plugin versions: pmix_v4\n"
    old = "srun: MPI types are...\nsrun: none\nsrun: pmi2\n"
    assert [parse.mpi_types(BANNER + text) for text in (printed, old)] == [["none", "pmi2"]] * 2
    assert parse.mpi_types(printed + BANNER) == ["none", "pmi2"]
    assert parse.mpi_types(BANNER) == []
    assert parse.accounts(f"{BANNER}physics\nbench\n") == ["physics", "bench"]
    nodes = parse_nodes.nodes_in(f"{BANNER}nid001 idle\n")
    assert [(node.name, node.state) for node in nodes] == [("nid001", "idle")]
    shown = ProgramAnswer("scontrol", 0, f"{BANNER}nid001\nnid-2.x\n", "")
    monkeypatch.setattr(client, "ask", lambda _: shown)
    assert client.hostnames("nid[001-002]") == ["nid001", "nid-2.x"]
    record = "ReservationName=r StartTime=2026-01-01T00:00:00 EndTime=2026-01-02T00:00:00"
    record += " Nodes=n NodeCnt=1 Users=me State=ACTIVE"
    answer = ProgramAnswer("scontrol", 0, f"StartTime=never\n{BANNER}{record}\n", "")
    monkeypatch.setattr(client, "ask", lambda *_: answer)
    reservation = client.find_reservation("r")
    assert reservation is not None
    assert (reservation.name, reservation.node_count) == ("r", 1)
    assert [
        partition.name
        for partition in parse_nodes.partitions(f"{BANNER}PartitionName=a State=UP TotalNodes=1")
    ] == ["a"]


# Jobs and nodes.


@pytest.mark.slow
def test_nodes_are_looked_at_with_reframe_s_scheduler_squeue_too(cluster):
    Command()("init", "box", "--no-job")
    config = cluster / "configs/box.py"
    config.write_text(config.read_text().replace('"slurm"', '"squeue"'))
    assert in_job.inspect_nodes("box", cluster / "results", 60.0, print, cluster).why is None


def test_the_counter_of_a_named_port_is_read(tmp_path, monkeypatch):
    """On CN5000, the second port may be the one in use (ROCm/rocm-systems, issue 11138)."""
    here = replace(made.HERE, rdma=[rdma("hfi1_0", {1: "DOWN", 2: "ACTIVE"})], interfaces=[])
    monkeypatch.setattr(host, "detect", lambda: here)

    def read(name, _):
        port = devices.parse_name(name)
        return CounterReading(f"opa:{port.name}/{port.port}", 0) if port.port == 2 else None

    monkeypatch.setattr(counters, "read", read)
    seen = replace(node_inspection.inspect_node(tmp_path, None, None, []), name="n1")
    inspection = JobInspection(job="7", why=None, nodes=[seen])
    finding = on_nodes(inspection, "counter of hfi1_0:2", device="hfi1_0:2")
    assert (finding.state, finding.detail) == ("ok", "n1: opa:hfi1_0/2 was read")
    assert on_nodes(inspection, "counter of hfi1_0", device="hfi1_0").state == "limited"


def test_a_reservation_of_the_origins_is_not_for_targets():
    box = machine("reservation")
    box = box.model_copy(update={"origins": box.origins.model_copy(update={"reservation": "r"})})
    (finding,) = needs.targets(box, [{"name": "cpu", "access": ["-A P1 --reservation r"]}])
    assert (finding.state, finding.needed) == ("missing", True)


# Modules.


def test_modules_with_names_of_openhpc_are_listed():
    modules = learn.modules_in(case_text("modules_openhpc"))
    listed = "gnu12/12.2.0, gnu13/13.2.0, openmpi4/4.1.6, mpich/4.1-ofi, mvapich2/2.3.7"
    text = " ".join(
        config_text("box", made.cluster_facts(modules=modules)).replace("#", "").split()
    )
    assert f"Modules (module --terse --default avail): {listed.replace(', ', ' ')} ]" in text


# Configurations of ReFrame with several systems.


def configured(root: Path, name: str, text: str) -> Path:
    """Make a checkout with a machine that has this ReFrame configuration; return its file."""
    site = SITE.replace("name: box\n", "")
    return checkout(root, text, site, name) / "configs" / f"{name}.py"


def test_a_machine_uses_the_system_of_its_name_in_a_configuration(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # ReFrame leaves a log with this configuration
    config = configured(tmp_path, "alvis", case_text("reframe_several_systems"))
    settings = settings_of(config)
    assert (settings.fault, settings.system, settings.hostnames) == (None, "alvis", ["alvis"])
    partitions = {"cpu": ["-A P1", "-C 8xT4", "--partition cpu"]}
    assert {part["name"]: part.get("access", []) for part in settings.partitions} == partitions
    finding = needs.config_file("alvis", config, settings)
    assert (finding.state, "cpu" in finding.detail) == ("ok", True)
    campaign = tmp_path / "small.yaml"
    campaign.write_text(CAMPAIGN)
    planned = load_request(campaign, "alvis", tmp_path).settings.partitions
    assert [part["name"] for part in planned] == ["cpu"]


def test_doctor_and_plan_report_a_configuration_without_the_machine(tmp_path):
    config = configured(tmp_path, "box", case_text("reframe_several_systems"))
    fault = "systems: name: 'skalman', 'alvis' found; allowed: one with the name of the file, 'box'"
    finding = needs.config_file("box", config, settings_of(config))
    assert (finding.state, finding.detail) == ("missing", f"line 3: {fault}")
    with pytest.raises(InputError) as error:
        load_request(ROOT / "campaigns/quick.yaml", "box", tmp_path)
    assert str(error.value) == f"{config}:3: {fault}"


@pytest.mark.parametrize("environs", ["", ", 'environs': []", ", 'environs': ['h']"])
def test_a_partition_without_an_environment_is_named_by_doctor_as_by_plan(tmp_path, environs):
    text = case_text("partition_without_environs").replace("['-p a']", f"['-p a']{environs}")
    config = configured(tmp_path, "box", text)
    assert settings_of(config).fault is None
    location = f"{config}:1: environs: "
    with pytest.raises(
        InputError,
        match=f"^{location}none of partition p can run 'lammps'; allowed: an environment with",
    ):
        load_request(ROOT / "campaigns/quick.yaml", "box", tmp_path)
    with pytest.raises(InputError) as error:
        in_job.inspect_nodes("box", tmp_path / "results", 60.0, print, tmp_path)
    fault = f"{location}no environment of partition p is defined for this partition"
    assert str(error.value) == f"{fault}; allowed: g, with target_systems that include it"


# A whole first day of a user: init, doctor and plan on a cluster of stand-ins for Slurm's programs.


#: Shell script of a stand-in. It prints a banner, then the file whose name has the longest match
#: with the beginning of the command line.
_PROGRAM = """\
here=${0%/*} name=${0##*/} best=
cat "$here/banner"
words=$name
for word; do word=${word#-}; words=${words}_${word#-}; done
for file in "$here/$name"*.txt; do
    stem=${file##*/} stem=${stem%.txt}
    case $words in "$stem"*) [ ${#stem} -lt ${#best} ] || best=$stem ;; esac
done
[ -z "$best" ] || cat "$here/$best.txt"
echo
"""


def reframe_of(bin_: Path) -> Any:
    """Return a stand-in for a ReFrame session.

    It writes the records of the nodes as the job would.
    """

    def run_session(_argv: Sequence[str], folder: Path, *_: object) -> int:
        for number, record in enumerate(sorted(bin_.glob("*.json"))):
            (folder / f"{number}.json").write_text(record.read_text())
        report = {"runs": [{"testcases": [{"jobid": "519605", "result": "pass"}]}]}
        (folder / "reframe.json").write_text(json.dumps(report))
        return 0

    return run_session


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the checkout of a user of a cluster that several files of `../shared/cases` describe.

    Stand-ins for Slurm's programs are on PATH.
    """
    bin_ = tmp_path / "bin"
    for name in ("scontrol", "sinfo", "srun", "sbatch", "squeue", "sacct", "sacctmgr", "scancel"):
        program(bin_, name, _PROGRAM)
    (bin_ / "banner").write_text(f"{BANNER}\n")
    answers = {
        "scontrol_oneliner_show_partition": "PartitionName=batch State=UP Default=YES"
        " TotalNodes=6 MaxTime=1-00:00:00 OverSubscribe=EXCLUSIVE",
        "scontrol_all_oneliner_show_node": case_text("slurm_core_spec"),
        "scontrol_show_config": "ClusterName = example",
        "scontrol_ping": "Slurmctld(primary) at n is UP",
        "sinfo": case_text("sinfo_planned"),
        "srun_mpi=list": "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix",
        "sbatch": case_text("sbatch_banner"),
    }
    for name, text in answers.items():
        (bin_ / f"{name}.txt").write_text(text)
    for name, listed in names_of_case({"a": ADDRESS, "b": ADDRESS}).items():
        # an inspection of a node sees all cores and memory, also those that jobs do not get.
        node = made.node(name, listed, cores=64, memory_b=2**40)
        (bin_ / f"{name}.json").write_text(json.dumps(asdict(node)))
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    for folder in ("site", "configs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "reframe_tests").symlink_to(ROOT / "reframe_tests")
    monkeypatch.setattr(init, "ROOT", tmp_path)
    monkeypatch.setattr(in_job, "run_session", reframe_of(bin_))
    return tmp_path


@pytest.mark.slow
def test_a_user_whose_site_requires_an_account_learns_how_to_name_it(cluster, monkeypatch):
    error = "command 'sbatch x' failed with exit code 1:\n--- stdout ---\n--- stdout ---\n"
    error += "--- stderr ---\nsbatch: error: Invalid account\n--- stderr ---"
    failed = {"jobid": None, "result": "fail", "fail_reason": error}

    def refused(_argv: Sequence[str], folder: Path, *_: object) -> int:
        (folder / "reframe.json").write_text(json.dumps({"runs": [{"testcases": [failed]}]}))
        return 1

    with monkeypatch.context() as patch:
        patch.setattr(in_job, "run_session", refused)
        output = " ".join(Command()("init", "box", code=3).split())
    assert "Slurm refuses the job: Invalid account" in output
    assert "if jobs need an account, a QOS or the like, export what applies" in output
    assert output.endswith("nimc init box")
    for path in (cluster / "site/box.yaml", cluster / "configs/box.py"):
        path.unlink()
    monkeypatch.setenv("SBATCH_ACCOUNT", "proj9")
    assert "job 519605: target a, origins b" in Command()("init", "box")
    access = settings_of(cluster / "configs/box.py").partitions[0]["access"]
    assert access == ["--partition=batch", "--account=proj9"]


@pytest.mark.slow
def test_init_doctor_and_plan_on_a_cluster_with_banners_and_reserved_cores(cluster):
    output = Command()("init", "box")
    assert "job 519605: target a, origins b" in output
    box = site_files.load("box", cluster)
    assert (box.device, box.injector, box.interface) == (ADDRESS, "perftest", "hsn0")
    facts = box.node_facts()
    assert (facts.cores, facts.threads_per_core, facts.memory_b) == (56, 2, 512000 * MIB)
    inspection = in_job.inspect_nodes("box", cluster / "results", 60.0, print, cluster)
    assert {finding.what: finding.state for finding in in_job.job_findings(inspection, box)} == {
        "job on nodes": "ok",
        "shared folders": "ok",
        "locks": "ok",
        "interface on nodes": "ok",
        f"device {ADDRESS} on nodes": "ok",
        "perftest on nodes": "ok",
    }
    campaign = cluster / "small.yaml"
    campaign.write_text(CAMPAIGN)
    request = load_request(campaign, "box", cluster)
    assert (request.uses_slurm, request.machine.device) == (True, ADDRESS)
