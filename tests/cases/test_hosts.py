"""Real hosts, Slurm and configurations, a row a case; right answers are worked out by hand.

Files of `../shared/cases` say how each looks; siblings of the same kind stand here.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conductor import allocation, counters
from conductor.injectors import INJECTORS
from conductor.injectors.base import Writer
from nimc.campaign.prepare import prepare
from nimc.campaign.settings import settings_of
from nimc.cli import hosts
from nimc.cluster import doctor, in_job, learn, reservation
from nimc.cluster.in_job import JobLook
from nimc.cluster.learn import NodeShape
from nimc.cluster.new_machine import config_text, site_text
from records.errors import InputError
from records.machine import devices, host, slurm
from records.machine import site as site_files
from records.machine.devices import of_record
from records.machine.host import Host
from records.machine.site import Facts, Machine
from records.programs import ProgramAnswer
from reframe_tests import rails
from reframe_tests.factors import node_of_places
from tests.commands import CAMPAIGN, ROOT, Command
from tests.conductor.sysfs import write
from tests.nimc.cluster import made
from tests.records.machine.made import machine

CASES = ROOT.parent / "shared" / "cases"
CPU, NODE = "sys/devices/system/cpu", "sys/devices/system/node"
KIB, MIB, GIB = 2**10, 2**20, 2**30


def case(name: str) -> str:
    path = CASES / f"{name}.txt"
    if not path.is_file():
        pytest.skip(f"{path} is missing")
    return path.read_text()


def host_of(files: str | Mapping[str, str], root: Path) -> Host:
    """The host of a case, or of files that are given here, below a folder."""
    if isinstance(files, str):
        pairs = (line.partition(" = ") for line in case(files).splitlines())
        files = {path: text for path, _, text in pairs}
    return host.detect(write(root, dict(files)))


def facts_of(files: str | Mapping[str, str], root: Path, patch: pytest.MonkeyPatch) -> Facts:
    return machine_of(files, root, patch).node_facts()


def machine_of(
    files: str | Mapping[str, str], root: Path, patch: pytest.MonkeyPatch, policy: str = "same_host"
) -> Machine:
    """A machine without facts, on a host whose CPUs may all be used."""
    cpus = host_of(files, root).threads
    patch.setattr(host.os, "sched_getaffinity", lambda _: set(range(cpus)))
    here = host.detect(root)
    patch.setattr(host, "detect", lambda: here)
    return machine(policy)


def core(cpu: int, **topology: object) -> dict[str, str]:
    return {f"{CPU}/cpu{cpu}/topology/{name}": str(value) for name, value in topology.items()}


def cache(cpu: int, index: int, level: int, shared: str, size: str | None) -> dict[str, str]:
    at = f"{CPU}/cpu{cpu}/cache/index{index}"
    files = {f"{at}/level": str(level), f"{at}/type": "Unified", f"{at}/shared_cpu_list": shared}
    return files | ({f"{at}/size": size} if size else {})


def node(number: int, cpus: str, kib: int) -> dict[str, str]:
    text = f"Node {number} MemTotal:       {kib} kB"
    return {f"{NODE}/node{number}/cpulist": cpus, f"{NODE}/node{number}/meminfo": text}


TWO_CPUS = {f"{CPU}/online": "0-1", "proc/meminfo": "MemTotal:       16384000 kB"}


# A fact that may be unknown.


@pytest.mark.parametrize(
    ("files", "llc_b"),
    [
        ("host_no_cache_size", None),
        # The first level has a size, the last one none: 32 KiB is not the last-level cache.
        (TWO_CPUS | cache(0, 0, 1, "0", "32K") | cache(0, 2, 2, "0-1", None), None),
        # One of two caches of the last level: its 8 MiB are not all.
        (TWO_CPUS | cache(0, 3, 3, "0", "8192K") | cache(1, 3, 3, "1", None), None),
        (TWO_CPUS, None),
        # Caches of which each CPU shares its own with nobody, by the kernel's silence: two.
        (TWO_CPUS | cache(0, 3, 3, "", "8192K") | cache(1, 3, 3, "", "8192K"), 16 * MIB),
    ],
    ids=["case", "of the first level only", "of one of two", "no cache", "shared by nobody"],
)
def test_a_size_of_caches_is_known_or_one_line_says_what_to_set(
    files: str | Mapping[str, str], llc_b: int | None, tmp_path: Path, monkeypatch
) -> None:
    box = machine_of(files, tmp_path, monkeypatch)
    facts = box.node_facts()
    assert (facts.cores, facts.llc_b, facts.memory_b) == (2, llc_b, 16384000 * KIB)
    if llc_b:
        assert box.message_b("auto") == 64 * MIB
        return
    line = "facts: {cores: 2, sockets: 1, numa_nodes: 1, llc: SIZE, memory: 16777216000B}"
    with pytest.raises(InputError, match="last-level caches is unknown") as error:
        box.message_b("auto")
    assert str(error.value).endswith(f"; allowed: {line}")
    found = doctor.memory(box)
    assert (found.state, found.remedy) == ("missing", f"set {line}")
    # Where writes come from other nodes, only some workloads need it.
    apart = box.model_copy(update={"origins": machine("hetjob").origins})
    assert apart.message_b("auto") == 64 * KIB
    assert doctor.memory(apart).state == "limited"


def test_a_host_without_memory_or_processors_in_its_files_is_still_one(
    tmp_path: Path, monkeypatch
) -> None:
    box = machine_of({"proc/meminfo": "MemFree: 1 kB"} | cache(0, 3, 3, "0", "8192K"), tmp_path,
                     monkeypatch)  # fmt: skip
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
def test_init_leaves_only_the_size_that_a_node_does_not_report(
    change: dict[str, Any], memory_mib: int | None, line: str
) -> None:
    record = made.node("n1", made.FAST)
    record["host"] |= change
    shape = NodeShape(2, 64, 1, memory_mib)
    facts = made.found(shapes=[(shape, 1)], looked=JobLook("7", None, [record]))
    numbers = "{cores: 64, threads_per_core: 1, sockets: 2, numa_nodes: 4,"
    assert line.format(numbers) in site_text(facts).splitlines()


# NUMA nodes by the kernel's numbers.


GRACE = (
    # One CPU node, and a GPU whose memory is on node 1, and seven empty ones of its partitions.
    {f"{CPU}/online": "0-1", "proc/meminfo": "MemTotal: 97 kB"}
    | node(0, "0-1", 500_000) | node(1, "", 97_000)
    | {key: text for number in range(2, 9) for key, text in node(number, "", 0).items()}
)  # fmt: skip
OFFLINE = (
    # Node 1 lost its memory, node 2 was taken offline: CPUs 0 to 2 are on nodes 0, 1 and 3.
    {f"{CPU}/online": "0-2", "proc/meminfo": "MemTotal: 97 kB"}
    | node(0, "0", 500) | node(1, "1", 0) | node(3, "2", 700)
)  # fmt: skip


@pytest.mark.parametrize(
    ("files", "with_cores", "with_memory"),
    [
        ("numa_memory_only_in_the_middle", [0, 1, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7]),
        (GRACE, [0], [0, 1]),
        (OFFLINE, [0, 3], [0, 3]),
        ("arm_clusters_repeat_core_id", [0], [0]),
    ],
    ids=["case", "GPU memory after", "offline and without memory", "one node"],
)
def test_numa_nodes_have_the_kernel_s_numbers(
    files: str | Mapping[str, str],
    with_cores: list[int],
    with_memory: list[int],
    tmp_path: Path,
    monkeypatch,
) -> None:
    box = machine_of(files, tmp_path, monkeypatch)
    facts = box.node_facts()
    assert (facts.numa_nodes, facts.nodes_of_memory()) == (with_cores, with_memory)
    for number in range(10):
        if number in with_memory:
            assert box.numa_node(number, "comm_node") == number
        else:
            with pytest.raises(InputError, match=f"comm_node: {number} found"):
                box.numa_node(number, "comm_node")


def test_another_node_is_one_that_there_is() -> None:
    # Two sockets of three nodes with cores: 0 1 4 | 5 6 7.
    facts = {"cores": 6, "sockets": 2, "numa_nodes": [0, 1, 4, 5, 6, 7], "memory_nodes": [2, 3]}
    facts |= {"llc": "48MiB", "memory": "32GiB"}
    assert node_of_places(machine(facts={**facts, "nic_node": 4})) == {"nic": 4, "other": 7}
    assert node_of_places(machine(facts={**facts, "nic_node": 6})) == {"nic": 6, "other": 1}
    with pytest.raises(ValueError, match="allowed: nodes that numa_nodes does not name"):
        machine(facts={**facts, "memory_nodes": [2, 4]})
    with pytest.raises(ValueError, match="0 found; allowed: 1 to 1024, or a list of numbers"):
        machine(facts={**facts, "numa_nodes": 0})


# Cores.


#: Two clusters of two cores, whose numbers start again; a kernel without lists of threads.
CLUSTERS = {f"{CPU}/online": "0-3"}
#: Four cores of two threads, all of the same number: only the lists tell.
LISTS = {f"{CPU}/online": "0-7"}
for _cpu in range(4):
    CLUSTERS |= core(_cpu, physical_package_id=0, cluster_id=_cpu // 2, core_id=_cpu % 2)
for _cpu in range(8):
    LISTS |= core(_cpu, core_id=0, thread_siblings_list=f"{_cpu % 4},{_cpu % 4 + 4}")


@pytest.mark.parametrize(
    ("files", "cores", "threads_per_core"),
    [
        ("arm_clusters_repeat_core_id", 12, 1),
        (CLUSTERS, 4, 1),
        (LISTS, 4, 2),
    ],
    ids=["case", "clusters without lists", "threads by lists"],
)
def test_cores_are_counted_each_once(
    files: str | Mapping[str, str],
    cores: int,
    threads_per_core: int,
    tmp_path: Path,
    monkeypatch,
) -> None:
    facts = facts_of(files, tmp_path, monkeypatch)
    assert (facts.cores, facts.threads_per_core) == (cores, threads_per_core)


# Control groups of version 1.


V1 = "sys/fs/cgroup"


@pytest.mark.parametrize(
    "files",
    [
        "cgroup_el7_controller_order",
        # The folder of the set only, in the other order, with the group in it.
        {
            "proc/self/cgroup": "4:cpuacct,cpu:/docker/8e10\n3:cpuset:/",
            f"{V1}/cpu,cpuacct/docker/8e10/cpu.cfs_quota_us": "150000",
            f"{V1}/cpu,cpuacct/docker/8e10/cpu.cfs_period_us": "100000",
            f"{V1}/cpuset/cpu.cfs_quota_us": "1",
            f"{V1}/cpuset/cpu.cfs_period_us": "100000",
        },
        # One controller each, as in some containers, though they are mounted together.
        {
            "proc/self/cgroup": "4:cpu,cpuacct:/",
            f"{V1}/cpu/cpu.cfs_quota_us": "150000",
            f"{V1}/cpu/cpu.cfs_period_us": "100000",
        },
    ],
    ids=["case", "the set only", "one controller"],
)
def test_a_limit_of_processor_time_is_read_in_any_order_of_controllers(
    files: str | Mapping[str, str], tmp_path: Path
) -> None:
    assert host_of(files, tmp_path).cpu_quota == 1.5


# Devices: other ports, other names.


def rdma(name: str, ports: Mapping[int, str], pci: str | None = None, gbit_s: float = 100) -> Any:
    """A device as a node has recorded it."""
    listed = [
        {"number": n, "state": state, "link_layer": "InfiniBand", "rate_b_s": gbit_s / 8 * 1e9}
        for n, state in ports.items()
    ]
    made = {"name": name, "transport": "InfiniBand", "firmware": None, "numa_node": 0}
    return made | {"ports": listed, "pci": pci}


def looked_at(**of_nodes: list[Any]) -> JobLook:
    return JobLook("7", None, [made.node(name, of) for name, of in of_nodes.items()])


def ports_of_case() -> list[Any]:
    rows = [line.split() for line in case("init_second_port_active").splitlines()]
    return [rdma(rows[0][0], {int(number): state for _, number, state in rows})]


def names_of_case(addresses: Mapping[str, str | None]) -> dict[str, list[Any]]:
    rows = [line.split() for line in case("init_device_names_differ").splitlines()]
    return {node: [rdma(name, {1: "ACTIVE"}, addresses[node])] for node, name in rows}


UP, DOWN = {1: "ACTIVE"}, {1: "DOWN"}
AT, OTHER = "0000:0c:00.0", "0000:8c:00.0"


def init_says(looked: JobLook, folder: Path) -> tuple[str, Machine]:
    """The site file that init writes, without line breaks, and how it is read."""
    text = site_text(made.found(looked=looked))
    (folder / "site").mkdir()
    (folder / "site/box.yaml").write_text(text)
    return " ".join(text.replace("\n# ", " ").split()), site_files.load("box", folder)


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        (ports_of_case, "mlx4_0:2"),
        # Both are active: the first. None of the first two: the third.
        (lambda: [rdma("mlx4_0", {1: "ACTIVE", 2: "ACTIVE"})], "mlx4_0"),
        (lambda: [rdma("qib0", {1: "DOWN", 2: "INIT", 3: "ACTIVE"})], "qib0:3"),
    ],
    ids=["case", "both", "third"],
)
def test_init_names_the_port_that_is_active(devices: Any, expected: str, tmp_path: Path) -> None:
    _, box = init_says(looked_at(a=devices(), b=devices()), tmp_path)
    assert (box.device, box.injector) == (expected, "perftest")


@pytest.mark.parametrize(
    ("device", "state", "said"),
    [
        ("mlx4_0", "missing", "port 1 is DOWN; active: mlx4_0:2"),
        ("mlx4_0:2", "ok", "port 2 ACTIVE"),
        ("mlx4_0:3", "missing", "no port 3; active: mlx4_0:2"),
    ],
)
def test_doctor_looks_at_the_port_that_writers_use(device: str, state: str, said: str) -> None:
    devices = ports_of_case()
    found = in_job.device(device, looked_at(a=devices, b=devices), machine(device=device))
    assert (found.state, said in found.detail) == (state, True), found
    here = SimpleNamespace(rdma=[of_record(each) for each in devices], interfaces=[])
    (own,) = doctor.rdma(here, machine("same_host", device=device))
    assert (own.state, said in own.detail) == (state, True), own


def test_every_program_takes_the_port_of_the_site_file(tmp_path: Path, monkeypatch) -> None:
    ports = "sys/class/infiniband/mlx4_0/ports"
    files = {f"{ports}/{port}/counters/port_rcv_data": str(port * 250) for port in (1, 2)}
    root = write(tmp_path, files)
    (root / "pci0/0000:0c:00.0").mkdir(parents=True)
    (root / "sys/class/infiniband/mlx4_0/device").symlink_to(root / "pci0/0000:0c:00.0")
    for asks in (devices.chosen, devices.is_rdma, devices.transport):
        monkeypatch.setattr(asks, "__defaults__", (root / "sys",))
    monkeypatch.setattr(devices.mpi_over, "__defaults__", (None, root / "sys"))
    for device, port, words in (
        ("mlx4_0", 1, ["-d", "mlx4_0"]),
        ("mlx4_0:2", 2, ["-d", "mlx4_0", "-i", "2"]),
        (AT, 1, ["-d", "mlx4_0"]),
        (f"{AT}:2", 2, ["-d", "mlx4_0", "-i", "2"]),
    ):
        reading = counters.read(device, "received", root)
        assert reading is not None
        assert (reading.name, reading.bytes_b) == (f"rdma:mlx4_0/{port}", port * 1000)
        writer = Writer(0, "o", "t", "10.1.0.2", 20001, 65536, device=device)
        command = INJECTORS["perftest"].target_command(writer)
        assert command[command.index("-d") :][: len(words)] == words
        assert ("-i" in command) == (port != 1)
        assert INJECTORS["ucx"].environment(writer)["UCX_NET_DEVICES"] == f"mlx4_0:{port}"
        assert "mlx4_0" in INJECTORS["fabtests"].target_command(writer)
        over = devices.mpi_over(device)
        assert over["OMPI_MCA_btl_openib_if_include"] == f"mlx4_0:{port}"
        assert (over["MV2_IBA_HCA"], over["MV2_DEFAULT_PORT"]) == ("mlx4_0", str(port))
    # An alias of a network interface is no port.
    assert devices.chosen("eth0:1", root / "sys").name == "eth0:1"


@pytest.mark.parametrize(
    ("of_nodes", "device", "said"),
    [
        # No address is known, or they differ: said.
        (lambda: names_of_case({"a": None, "b": None}), None, "a: mlx5_0:1; b: ibp12s0:1"),
        (
            lambda: names_of_case({"a": AT, "b": OTHER}),
            None,
            f"a: mlx5_0:1 at {AT}; b: ibp12s0:1 at {OTHER}",
        ),
        # One address: it stays.
        (lambda: names_of_case({"a": AT, "b": AT}), AT, "PCI address of a: mlx5_0; b: ibp12s0"),
        # Two devices whose names are exchanged on the other node; the first is down there.
        (
            lambda: {
                "a": [rdma("mlx5_0", UP, AT), rdma("mlx5_1", DOWN, OTHER)],
                "b": [rdma("mlx5_0", DOWN, OTHER), rdma("mlx5_1", UP, AT)],
            },
            AT,
            "PCI address of a: mlx5_0; b: mlx5_1",
        ),
        # One name, two devices, both active: the name would choose another one on each node.
        (
            lambda: {
                "a": [rdma("mlx5_0", UP, AT)],
                "b": [rdma("mlx5_0", UP, OTHER), rdma("mlx5_1", {2: "ACTIVE"}, AT)],
            },
            None,
            "No active port has the same device",
        ),
        (
            lambda: {"a": [rdma("ib0", {2: "ACTIVE"}, AT)], "b": [rdma("ib9", {2: "ACTIVE"}, AT)]},
            f"{AT}:2",
            "ib0",
        ),
    ],
    ids=["case", "case, other slots", "case, one slot", "exchanged", "one name", "second port"],
)
def test_init_says_that_names_differ_and_chooses_what_does_not(
    of_nodes: Any, device: str | None, said: str, tmp_path: Path
) -> None:
    text, box = init_says(looked_at(**of_nodes()), tmp_path)
    assert (box.device, box.injector) == (device, "perftest")
    assert said in text
    assert "no active RDMA device" not in text


def test_a_node_without_any_device_is_the_one_that_is_named(tmp_path: Path) -> None:
    text, box = init_says(looked_at(a=[rdma("mlx5_0", UP)], b=[rdma("mlx5_0", DOWN)]), tmp_path)
    assert (box.device, box.injector) == ("hsn0", "ucx")
    assert "no active RDMA device on b" in text


def test_interfaces_of_different_names_are_said(tmp_path: Path) -> None:
    looked = looked_at(a=made.FAST, b=made.FAST)
    looked.nodes[0]["addresses"] = {"ens1": "10.0.0.1"}
    looked.nodes[1]["addresses"] = {"eth0": "10.0.0.2", "eth1": None}
    text, box = init_says(looked, tmp_path)
    assert box.interface is None
    assert "which have none in common: a: ens1; b: eth0." in text
    found = in_job.interface(looked, machine(interface="ens1"))
    assert (found.state, found.detail) == (
        "missing",
        "b: no ens1 with an IPv4 address; interfaces of all nodes: none (a: ens1; b: eth0)",
    )


@pytest.mark.parametrize(
    ("addresses", "device", "state", "said", "remedy"),
    [
        ((AT, AT), "mlx5_0", "missing", f"b: no mlx5_0, but ibp12s0 at {AT}", f".yaml: {AT}"),
        ((AT, AT), AT, "ok", "a (port 1 ACTIVE 100 Gbit/s), b (port 1 ACTIVE", ""),
        ((None, None), "mlx5_0", "missing", "b: no mlx5_0, but ibp12s0, docker0", "box.yaml"),
        ((AT, OTHER), AT, "missing", f"b: no {AT}, but ibp12s0 at {OTHER}", "box.yaml"),
    ],
)
def test_doctor_says_how_a_node_calls_its_device(
    addresses: tuple[str | None, str | None], device: str, state: str, said: str, remedy: str
) -> None:
    looked = looked_at(**names_of_case(dict(zip("ab", addresses, strict=True))))
    found = in_job.device(device, looked, machine(device=device))
    assert (found.state, found.remedy.endswith(remedy)) == (state, True), found
    assert said in found.detail


def test_one_name_for_two_devices_is_no_choice() -> None:
    looked = looked_at(a=[rdma("mlx5_0", UP, AT)], b=[rdma("mlx5_0", UP, OTHER)])
    found = in_job.device("mlx5_0", looked, machine(device="mlx5_0"))
    assert found.state == "limited"
    assert found.detail.endswith(f"not the same device: at {AT}, {OTHER}")


def test_mpi_over_one_rail_needs_a_name() -> None:
    listed = [{"device": AT, "numa_node": 0}, {"device": "mlx5_1:2", "numa_node": 0}]
    box = machine(device=AT, rails=listed)
    assert rails.of_writers(box, "nic0", None) == (AT,)
    with pytest.raises(InputError, match=f"mpi_rail: nic0: rail {AT} of box has a PCI address"):
        rails.environment(box, "nic0")
    assert rails.environment(box, "nic1")["UCX_NET_DEVICES"] == "mlx5_1:2"


# What Slurm's programs print.


BANNER = "\n-------\n   Welcome to the Example Supercomputer\n-------\n\nQuota: 12 of 20 TB\n"


OLD = "NodeName=n Sockets=2 CoresPerSocket=16 ThreadsPerCore=2 CPUTot=64 Partitions=batch"


@pytest.mark.parametrize(
    ("line", "cores", "threads_per_core", "memory_mib"),
    [
        ("case", 56, 2, 512000),
        # Before 21.08 there is no CPUEfctv; memory of the system is no job's.
        (f"{OLD} RealMemory=256000 CoreSpecCount=4 MemSpecLimit=16000", 28, 2, 240000),
        (f"{OLD} RealMemory=256000 CPUEfctv=62", 31, 2, 256000),
        # Slurm counts cores, not threads.
        (f"{OLD} RealMemory=1 CPUEfctv=30 CoreSpecCount=2".replace("=64", "=32"), 30, 1, None),
    ],
)
def test_cores_and_memory_are_those_that_jobs_get(
    line: str, cores: int, threads_per_core: int, memory_mib: int | None, tmp_path: Path
) -> None:
    ((shape, _),) = learn.shapes(case("slurm_core_spec") if line == "case" else line, "batch")
    assert (shape.cores, shape.threads_per_core) == (cores, threads_per_core)
    assert shape.memory_mib == memory_mib
    # A node shows all of its cores to those who look at it.
    host_of_node = made.node("n1", made.FAST)
    host_of_node["host"]["cores"] = 64
    host_of_node["host"]["memory_b"] = 2**40
    seen = made.found(shapes=[(shape, 1)], looked=JobLook("7", None, [host_of_node]))
    (tmp_path / "site").mkdir()
    (tmp_path / "site/box.yaml").write_text(site_text(seen))
    facts = site_files.load("box", tmp_path).facts
    assert facts is not None
    assert (facts.cores, facts.threads_per_core) == (cores, threads_per_core)
    assert facts.memory_b == (memory_mib * MIB if memory_mib else 2**40)


def test_other_answers_may_begin_with_a_banner(monkeypatch) -> None:
    printed = "MPI plugin types are...\n\tnone\n\tpmi2\nspecific pmix plugin versions: pmix_v4\n"
    old = "srun: MPI types are...\nsrun: none\nsrun: pmi2\n"
    assert [learn.mpi_types(BANNER + text) for text in (printed, old)] == [["none", "pmi2"]] * 2
    assert learn.mpi_types(printed + BANNER) == ["none", "pmi2"]
    assert learn.mpi_types(BANNER) == []
    assert learn.accounts(f"{BANNER}physics\nbench\n") == ["physics", "bench"]
    nodes = slurm.nodes_in(f"{BANNER}nid001 idle\n")
    assert [(each.name, each.state) for each in nodes] == [("nid001", "idle")]
    shown = ProgramAnswer("scontrol", 0, f"{BANNER}nid001\nnid-2.x\n", "")
    monkeypatch.setattr(allocation, "ask", lambda _: shown)
    assert allocation.expand("nid[001-002]") == ["nid001", "nid-2.x"]
    record = "ReservationName=r StartTime=2026-01-01T00:00:00 EndTime=2026-01-02T00:00:00"
    record += " Nodes=n NodeCnt=1 Users=me State=ACTIVE"
    there = ProgramAnswer("scontrol", 0, f"StartTime=never\n{BANNER}{record}\n", "")
    monkeypatch.setattr(reservation, "ask", lambda *_: there)
    found = reservation.find("r")
    assert found is not None
    assert (found.name, found.node_count) == ("r", 1)
    assert [
        each.name for each in learn.partitions(f"{BANNER}PartitionName=a State=UP TotalNodes=1")
    ] == ["a"]


# States of nodes and of jobs.


@pytest.mark.parametrize(
    ("states", "usable"),
    [
        ("case", ["nid001", "nid003", "nid004", "nid005", "nid006"]),
        ("a idle~\nb idle#\nc mixed-\nd idle@\ne mixed@\nf completing\ng allocated+", "abcdefg"),
        ("a powering_up#\nb powering_down%\nc powered_down~\nd power_down!\ne down^", "abcde"),
        ("a down\nb drained@\nc draining\nd idle*\ne fail\nf inval\ng maint\nh future", ""),
        ("a allocated+\nb completing\nc reserved\nd down*\ne drained", "abc"),
        ("a reboot_issued\nb reboot@\nc reboot*\nd planned\ne unknown\nf down~", "abd"),
    ],
)
def test_nodes_that_take_jobs_now_or_later_are_usable(states: str, usable: Sequence[str]) -> None:
    found = slurm.nodes_in(case("sinfo_planned") if states == "case" else states)
    assert [each.name for each in found if each.usable] == list(usable)
    assert len(found) == len((case("sinfo_planned") if states == "case" else states).splitlines())


def test_a_job_that_slurm_could_not_launch_failed_by_its_node() -> None:
    assert slurm.outcome("LAUNCH_FAILED", 1, None).name == "node_failed"


@pytest.mark.parametrize(
    ("state", "carrier", "up"),
    [("up", "1", True), ("unknown", "1", True), ("unknown", "0", False), ("down", "1", False)],
)
def test_an_interface_whose_driver_does_not_tell_is_up_with_a_carrier(
    state: str, carrier: str, up: bool, tmp_path: Path
) -> None:
    at = "sys/class/net/hsn0"
    here = host_of({f"{at}/operstate": state, f"{at}/carrier": carrier}, tmp_path)
    assert [each.name for each in here.interfaces] == (["hsn0"] if up else [])


@pytest.mark.parametrize("scheduler", ["slurm", "squeue"])
def test_both_of_reframe_s_schedulers_that_are_slurm_look_at_nodes(
    scheduler: str, cluster: Path
) -> None:
    Command()("init", "box", "--no-job")
    config = cluster / "configs/box.py"
    config.write_text(config.read_text().replace('"slurm"', f'"{scheduler}"'))
    found = in_job.examine("box", cluster / "results", 60.0, print, cluster)
    assert [each.state for each in found if each.what == "job on nodes"] == ["ok"]


# Options of jobs, as sbatch reads them.


@pytest.mark.parametrize(
    ("access", "partition"),
    [
        ("case", "cpu"),
        (["-p cpu"], "cpu"),
        (["-pcpu"], "cpu"),
        (["--partition=cpu"], "cpu"),
        (["-A P1 -p cpu"], "cpu"),
        (["-A P1", "-C 8xT4", "--partition   cpu"], "cpu"),
        (['--partition="cpu"'], "cpu"),
        (["--part=cpu"], "cpu"),
        (["--partition=a", "-p cpu,gpu"], "cpu,gpu"),
        (["--account=p", "-Cp", "--exclusive"], None),
        (["--comment='partition of ours"], None),
    ],
)
def test_the_partition_of_a_job(access: Any, partition: str | None) -> None:
    options = [case("partition_option_with_blank").strip()] if access == "case" else access
    assert slurm.partition_in(options) == partition


@pytest.mark.parametrize(
    ("access", "whole"),
    [
        (["--exclusive"], True),
        (["-p cpu --exclusive"], True),
        (["--exclusive=user"], False),
        (["-p", "--oversubscribe"], False),
    ],
)
def test_whole_nodes_are_requested_in_any_form(access: list[str], whole: bool) -> None:
    part = {"name": "cpu", "scheduler": "slurm", "access": access}
    assert (doctor.sharing([part]) == []) == whole


@pytest.mark.parametrize("option", ["--reservation=r", "--reservation r", "-A P1 --reservation=r"])
def test_a_reservation_of_the_origins_is_not_for_targets(option: str) -> None:
    box = machine("reservation")
    box = box.model_copy(update={"origins": box.origins.model_copy(update={"reservation": "r"})})
    (found,) = doctor.targets(box, [{"name": "cpu", "access": [option]}])
    assert (found.state, found.needed) == ("missing", True)


# Modules.


@pytest.mark.parametrize(
    ("printed", "listed"),
    [
        ("case", "gnu12/12.2.0, gnu13/13.2.0, openmpi4/4.1.6, mpich/4.1-ofi, mvapich2/2.3.7"),
        # EasyBuild, and a Cray.
        ("GCC/12.3.0\nOpenMPI/4.1.5-GCC-12.3.0(L,D)\ncmake/3\n",
         "GCC/12.3.0, OpenMPI/4.1.5-GCC-12.3.0"),
        ("PrgEnv-gnu/8.5.0\ncray-mpich/8.1.29\n", "PrgEnv-gnu/8.5.0, cray-mpich/8.1.29"),
    ],
    ids=["case", "EasyBuild", "Cray"],
)  # fmt: skip
def test_modules_to_choose_from_are_listed_whatever_their_site_calls_them(
    printed: str, listed: str
) -> None:
    modules = learn.modules_in(case("modules_openhpc") if printed == "case" else printed)
    text = " ".join(config_text("box", made.found(modules=modules)).replace("#", "").split())
    assert f"Modules (module --terse --default avail): {listed.replace(', ', ' ')} ]" in text


# Configurations of ReFrame with several systems.


def configured(root: Path, name: str, text: str, partition: str | None = None) -> Path:
    """A checkout with a machine of that configuration."""
    for folder in ("configs", "site"):
        (root / folder).mkdir()
    named = f"partition: {partition}\n" if partition else ""
    site = f"description: x\norigins: {{policy: same_host}}\ninjector: ucx\n{named}"
    (root / "site" / f"{name}.yaml").write_text(site)
    (root / "reframe_tests").symlink_to(ROOT / "reframe_tests")
    config = root / "configs" / f"{name}.py"
    config.write_text(text)
    return config


SYSTEM = "{{'name': {0!r}, 'hostnames': ['{0}'], 'partitions': [{{'name': '{0}-part', "
SYSTEM += "'scheduler': 'local', 'launcher': 'local', 'environs': ['gnu']}}]}}"


def systems(*names: str) -> str:
    listed = ", ".join(SYSTEM.format(name) for name in names)
    environs = "[{'name': 'gnu', 'cc': 'cc'}]"
    return f"site_configuration = {{'systems': [{listed}], 'environments': {environs}}}\n"


@pytest.mark.parametrize(
    ("name", "text", "hostnames", "partitions"),
    [
        ("skalman", "case", ["skalman"], {"default": []}),
        ("alvis", "case", ["alvis"], {"cpu": ["-A P1", "-C 8xT4", "--partition cpu"]}),
        ("c", systems("a", "b", "c"), ["c"], {"c-part": []}),
        ("a", systems("a"), ["a"], {"a-part": []}),
    ],
)
def test_a_machine_has_its_own_system_of_a_configuration(
    name: str, text: str, hostnames: list[str], partitions: dict[str, list[str]], tmp_path: Path
) -> None:
    text = case("reframe_several_systems") if text == "case" else text
    config = configured(tmp_path, name, text)
    found = settings_of(config)
    assert (found.fault, found.system, found.hostnames) == (None, name, hostnames)
    assert {part["name"]: part.get("access", []) for part in found.partitions} == partitions
    made_of = doctor.config_file(name, config, found)
    assert made_of.state == "ok", made_of
    assert all(part in made_of.detail for part in partitions)
    campaign = tmp_path / "small.yaml"
    campaign.write_text(CAMPAIGN)
    assert [part["name"] for part in prepare(campaign, name, tmp_path).settings.partitions] == [
        *partitions
    ]


@pytest.mark.parametrize(
    ("text", "found", "line"),
    [("case", "'skalman', 'alvis'", 3), (systems("bix"), "'bix'", 1), (systems(), "none", 1)],
)
def test_doctor_and_plan_name_the_systems_of_which_none_is_the_machine(
    text: str, found: str, line: int, tmp_path: Path
) -> None:
    text = case("reframe_several_systems") if text == "case" else text
    config = configured(tmp_path, "box", text)
    said = f"systems: name: {found} found; allowed: one with the name of the file, 'box'"
    finding = doctor.config_file("box", config, settings_of(config))
    assert (finding.state, finding.detail) == ("missing", f"line {line}: {said}")
    with pytest.raises(InputError) as error:
        prepare(ROOT / "campaigns/quick.yaml", "box", tmp_path)
    assert str(error.value) == f"{config}:{line}: {said}"


# All of it, as a user meets it: init, doctor and plan on a cluster of stand-ins for Slurm.


#: Prints a banner and the program's answer.
_PROGRAM = """#!{python}
import pathlib, sys
here, name = pathlib.Path(__file__).parent, pathlib.Path(__file__).name
print({banner!r})
words = "_".join([name, *(word.strip("-") for word in sys.argv[1:])])
files = [each for each in here.glob(name + "*.txt") if words.startswith(each.stem)]
print(max(files, key=lambda each: len(each.stem)).read_text() if files else "")
"""


def reframe_of(bin_: Path) -> Any:
    """Stands for ReFrame, whose job leaves the nodes' records."""

    def run_session(_argv: Sequence[str], folder: Path, *_: object) -> int:
        for at, record in enumerate(sorted(bin_.glob("*.json"))):
            (folder / f"{at}.json").write_text(record.read_text())
        report = {"runs": [{"testcases": [{"jobid": "519605", "result": "pass"}]}]}
        (folder / "reframe.json").write_text(json.dumps(report))
        return 0

    return run_session


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkout of a user of the cluster of the given cases, whose programs are on PATH."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name in ("scontrol", "sinfo", "srun", "sbatch", "squeue", "sacct", "sacctmgr", "scancel"):
        program = bin_ / name
        program.write_text(_PROGRAM.format(python=sys.executable, banner=BANNER))
        program.chmod(0o755)
    answers = {
        "scontrol_oneliner_show_partition": "PartitionName=batch State=UP Default=YES"
        " TotalNodes=6 MaxTime=1-00:00:00 OverSubscribe=EXCLUSIVE",
        "scontrol_oneliner_show_node": case("slurm_core_spec"),
        "scontrol_show_config": "ClusterName = example",
        "scontrol_ping": "Slurmctld(primary) at n is UP",
        "sinfo": case("sinfo_planned"),
        "srun_mpi=list": "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix",
        "sbatch": case("sbatch_banner"),
    }
    for name, text in answers.items():
        (bin_ / f"{name}.txt").write_text(text)
    for name, of in names_of_case({"a": AT, "b": AT}).items():
        record = made.node(name, of, lock="held" if name == "a" else "seen")
        record["host"]["cores"] = 64
        (bin_ / f"{name}.json").write_text(json.dumps(record))
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    for folder in ("site", "configs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "reframe_tests").symlink_to(ROOT / "reframe_tests")
    monkeypatch.setattr(hosts, "ROOT", tmp_path)
    monkeypatch.setattr(in_job, "run_session", reframe_of(bin_))
    return tmp_path


def test_a_user_s_first_day_on_such_a_cluster(cluster: Path) -> None:
    said = Command()("init", "box")
    assert "job 519605: target a, origins b" in said
    box = site_files.load("box", cluster)
    assert (box.device, box.injector, box.interface) == (AT, "perftest", "hsn0")
    facts = box.node_facts()
    assert (facts.cores, facts.threads_per_core) == (56, 2)
    of_nodes = in_job.examine("box", cluster / "results", 60.0, print, cluster)
    assert {each.what: each.state for each in of_nodes} == {
        "heterogeneous job": "ok",
        "job on nodes": "ok",
        "shared folders": "ok",
        "locks": "ok",
        "interface on nodes": "ok",
        f"{AT} on nodes": "ok",
        "perftest on nodes": "ok",
    }
    diagnosis = doctor.examine("box", of_nodes, cluster)
    slurm_, targets = (
        [each.state for each in diagnosis.findings if each.what == what]
        for what in ("slurm", "configs/box.py")
    )
    assert (slurm_, targets) == (["ok"], ["ok"])
    # Five of six nodes are usable, so STREAM with an origin can run.
    assert "nodes needed" not in str(diagnosis.matrix)
    campaign = cluster / "small.yaml"
    campaign.write_text(CAMPAIGN)
    request = prepare(campaign, "box", cluster)
    assert (request.slurm, request.machine.device) == (True, AT)
