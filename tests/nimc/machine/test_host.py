import json
import os
import shutil
import subprocess

import pytest

from nimc.base import kernel_text
from nimc.machine import host
from nimc.machine.host import Cache, Interface, NumaNode
from tests.nimc.node.sysfs import big_host, write

MIB, GIB = 2**20, 2**30


@pytest.fixture
def big(tmp_path):
    return host.detect(big_host(tmp_path))


def test_sockets_cores_and_threads_are_distinguished(big):
    assert (big.sockets, big.cores, big.threads) == (2, 8, 16)


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
    # As POWER and many virtual machines do: 0 and 1 are the first core's, 2 and 3 the second's.
    cpu = "sys/devices/system/cpu"
    cores = {f"{cpu}/cpu{n}/topology/core_id": str(n // 2) for n in range(4)}
    monkeypatch.setattr(host.os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    here = host.detect(write(tmp_path, {f"{cpu}/online": "0-3", **cores}))
    assert (here.cores, here.threads, here.usable_cores) == (2, 4, [0, 2])


def test_cores_of_unknown_id_count_as_one_each(tmp_path, monkeypatch):
    monkeypatch.setattr(host.os, "sched_getaffinity", lambda _: {0, 2})
    here = host.detect(write(tmp_path, {"sys/devices/system/cpu/online": "0-3"}))
    assert (here.cores, here.usable_cores) == (4, [0, 2])


def test_numa_nodes_have_their_cpus_and_memory(big):
    assert big.numa_nodes[1] == NumaNode(1, [2, 3, 10, 11], 16 * GIB)
    assert [node.number for node in big.numa_nodes] == [0, 1, 2, 3]
    assert big.memory_b == 64 * GIB


def test_each_last_level_cache_counts_once(big):
    assert len(big.last_level_caches) == 4
    assert big.last_level_caches[3] == Cache(3, 16 * MIB, [6, 7, 14, 15])
    assert big.llc_total_b == 64 * MIB


def test_devices_and_interfaces_at_work(big):
    assert [device.name for device in big.rdma] == ["mlx5_0", "rxe0"]
    assert big.interfaces == [Interface("eth1", 1.25e9, 9000)]


def test_bare_metal_has_no_hypervisor(big):
    assert big.hypervisor is None
    assert (big.cpu_model, big.governor) == ("Example 8-Core", "performance")
    assert big.processor == ""


def test_a_virtual_machine_is_named_where_it_tells(tmp_path):
    flags = {"proc/cpuinfo": "flags\t: fpu hypervisor"}
    assert host.detect(write(tmp_path, flags)).hypervisor == "unknown"
    named = {"sys/class/dmi/id/product_name": "KVM Virtual Machine"}
    assert host.detect(write(tmp_path, named)).hypervisor == "KVM Virtual Machine"


def test_a_host_that_tells_nothing_is_still_a_host(tmp_path):
    bare = host.detect(tmp_path)
    assert (bare.memory_b, bare.llc_total_b, bare.rdma, bare.governor) == (0, 0, [], None)
    assert len(bare.numa_nodes) == 1
    json.dumps(bare.as_dict())


def test_facts_go_through_json(big):
    record = json.loads(json.dumps(big.as_dict()))
    assert record["numa_nodes"][0]["cpus"] == [0, 1, 8, 9]
    assert record["rdma"][0]["ports"][0]["rate_b_s"] == 12.5e9


@pytest.mark.parametrize(
    ("text", "cpus"), [("0-3,8\n", [0, 1, 2, 3, 8]), ("5", [5]), ("", []), ("0,2-2", [0, 2])]
)
def test_lists_of_cpus(text, cpus):
    assert kernel_text.cpu_list(text) == cpus


@pytest.mark.skipif(shutil.which("lscpu") is None, reason="lscpu (util-linux) is missing")
def test_this_host_is_what_lscpu_says():
    answer = subprocess.run(
        ["lscpu", "-p=CPU,CORE,SOCKET,NODE"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "LC_ALL": "C"},
    )
    rows = [line.split(",") for line in answer.stdout.splitlines() if not line.startswith("#")]
    here = host.detect()
    assert here.threads == len(rows)
    assert here.cores == len({row[1] for row in rows})
    assert here.sockets == len({row[2] for row in rows})
    assert len([node for node in here.numa_nodes if node.cpus]) == len({row[3] for row in rows})


@pytest.mark.skipif(shutil.which("lscpu") is None, reason="lscpu (util-linux) is missing")
def test_the_last_level_cache_is_what_lscpu_says():
    answer = subprocess.run(["lscpu", "-B", "-C", "-J"], capture_output=True, text=True)
    caches = json.loads(answer.stdout)["caches"] if answer.returncode == 0 else []
    if not caches:
        pytest.skip("lscpu shows no caches here")
    last = max(caches, key=lambda cache: int(cache["level"]))
    assert host.detect().llc_total_b == int(last["all-size"])


def test_limits_of_control_groups_version_2(tmp_path):
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/jobs/one",
            "sys/fs/cgroup/jobs/one/cpu.max": "max 100000",
            "sys/fs/cgroup/jobs/cpu.max": "150000 100000",  # the group above binds
            "sys/fs/cgroup/jobs/one/memory.max": "1073741824",
            "sys/fs/cgroup/jobs/memory.max": "max",
        },
    )
    assert host.cpu_quota(tmp_path) == 1.5
    assert host.memory_limit_b(tmp_path) == GIB


def test_limits_of_control_groups_version_1(tmp_path):
    write(
        tmp_path,
        {
            "proc/self/cgroup": "3:cpu,cpuacct:/box\n2:memory:/box",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "200000",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "9223372036854771712",
        },
    )
    assert host.cpu_quota(tmp_path) == 2.0
    write(tmp_path, {"proc/meminfo": "MemTotal: 1024 kB"})
    assert host.detect(tmp_path).memory_b == MIB


def test_no_control_group_is_no_limit(tmp_path):
    assert host.cpu_quota(tmp_path) is None
    assert host.memory_limit_b(tmp_path) is None
    unlimited = {"proc/self/cgroup": "3:cpu:/", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1"}
    assert host.cpu_quota(write(tmp_path, unlimited)) is None
