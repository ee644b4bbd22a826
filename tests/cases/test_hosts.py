"""Real hosts, Slurm and configurations, a row a case; right answers are worked out by hand.

Files of `../shared/cases` say how each looks; siblings of the same kind stand here.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from nimc.base.errors import InputError
from nimc.cluster import doctor
from nimc.machine import host
from nimc.machine.host import Host
from nimc.machine.site import Facts, Machine
from reframe_tests.factors import node_of_places
from tests.nimc.conftest import ROOT
from tests.nimc.machine.made import machine
from tests.nimc.node.sysfs import write

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
    line = "facts: {cores: 2, sockets: 1, numa_nodes: [0], llc: SIZE, memory: 16777216000B}"
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
