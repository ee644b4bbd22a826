"""Rail policies on a machine with two rails, and on one without.

MPI between two network namespaces with two links (MPICH over UCX and tcp, emulated: rails are the
links themselves): each policy's bytes pass the links it names.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nimc.base.errors import InputError
from nimc.machine.site import Machine
from nimc.node.evidence import counters
from nimc.node.evidence import rails as evidence
from nimc.records.treatment import Start, Treatment
from reframe_tests import factors, rails
from tests.nimc.node.sysfs import write

SCRIPT = Path(rails.__file__).parent / "src/local_rail/local_rail.sh"


def machine(numa_nodes=8, sockets=2, at=(3, 7), **changed) -> Machine:
    listed = [{"device": f"mlx5_{i}", "numa_node": node} for i, node in enumerate(at)]
    return Machine.model_validate(
        {
            "name": "m",
            "description": "made",
            "origins": {"policy": "same_job"},
            "injector": "perftest",
            "device": "mlx5_0",
            "rails": listed,
            "facts": {
                **{"cores": 64, "sockets": sockets, "numa_nodes": numa_nodes, "nic_node": 3},
                **{"llc": "1MiB", "memory": "1GiB"},
            },
            **changed,
        }
    )


ONE = machine(rails=[])


@pytest.mark.parametrize(
    ("policy", "node", "devices"),
    [
        ("default", None, ("mlx5_0", "mlx5_1")),
        ("nic0", 7, ("mlx5_0",)),
        ("nic1", None, ("mlx5_1",)),
        ("local", 3, ("mlx5_0",)),
        ("local", 7, ("mlx5_1",)),
        ("local", 5, ("mlx5_1",)),  # no rail on NUMA node 5, but one on its socket
    ],
)
def test_devices_of_the_writers(policy, node, devices):
    assert rails.of_writers(machine(), policy, node) == devices


def test_a_machine_without_rails_writes_over_its_device():
    assert rails.of_writers(ONE, "default", None) == ("mlx5_0",)
    assert rails.of_writers(machine(rails=[], device=None), "default", None) == ()
    assert rails.environment(ONE, "default") == {}
    assert rails.named(ONE, "default") == []


def test_mpi_over_one_rail_for_each_library():
    found = rails.environment(machine(), "nic1")
    assert found == {
        "UCX_NET_DEVICES": "mlx5_1:1",
        "HFI_UNIT": "1",
        "PSM2_MULTIRAIL": "0",
        "IPATH_UNIT": "1",
        "OMPI_MCA_btl_openib_if_include": "mlx5_1:1",
        "FI_VERBS_DEVICE_NAME": "mlx5_1",
        "MV2_IBA_HCA": "mlx5_1",
    }
    assert rails.named(machine(), "nic1") == ["mlx5_1"]
    assert rails.wrapper(machine(), "nic1") == []


def test_what_ucx_calls_a_rail_may_be_another_device():
    over_tcp = [{"device": "rxe0"}, {"device": "rxe1", "mpi_device": "eth1"}]
    here = machine(device="rxe0", rails=over_tcp)
    assert rails.environment(here, "nic1") == {
        "UCX_NET_DEVICES": "eth1",
        "FI_TCP_IFACE": "eth1",
        "OMPI_MCA_btl_tcp_if_include": "eth1",
    }
    assert rails.environment(here, "nic0")["UCX_NET_DEVICES"] == "rxe0:1"


def test_local_ranks_choose_by_their_numa_node():
    words = rails.wrapper(machine(numa_nodes=2, at=(0, 1)), "local")
    assert words[:2] == ["sh", str(SCRIPT)]
    assert [word.split()[:2] for word in words[2:4]] == [
        ["0", "UCX_NET_DEVICES=mlx5_0:1"],
        ["1", "UCX_NET_DEVICES=mlx5_1:1"],
    ]
    assert words[4:] == ["--"]
    assert rails.environment(machine(), "local") == {}
    both = rails.wrapper(machine(numa_nodes=1, sockets=1, at=(0, 0)), "local")
    assert both[2:] == ["0 UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1", "--"]


@pytest.mark.parametrize(
    ("cpus", "said"),
    [("0-1", "rail of 0"), ("2,3", "rail of 1"), ("3-900", "rail of 1")],
)
def test_the_script_finds_the_node_of_a_rank(tmp_path, cpus, said):
    done = run_rank(tmp_path, cpus)
    assert (done.returncode, done.stdout) == (0, f"{said}: a b\n")


def test_a_rank_that_may_run_on_two_nodes_has_no_local_rail(tmp_path):
    done = run_rank(tmp_path, "1-2")
    assert done.returncode == 1
    assert "may run on the NUMA nodes 0 1 ; allowed: ranks bound to one" in done.stderr


def run_rank(folder, cpus):
    files = {f"sys/devices/system/cpu/cpu{cpu}/node{cpu // 2}/x": "" for cpu in range(4)}
    write(folder, {**files, "proc/self/status": f"Name:\tsh\nCpus_allowed_list:\t{cpus}"})
    command = ["sh", "-c", 'echo "rail of $RAIL: $*"', "app", "a", "b"]
    return subprocess.run(
        ["sh", str(SCRIPT), "0 RAIL=0 X=1", "1 RAIL=1 X=2", "--", *command],
        env={"NIMC_SYSROOT": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_levels():
    for level in ("default", "local", "nic0", "nic9"):
        factors.check_level("writer_rail", level)
    for level in ("nic", "nic-1", "nic10", "both", 0, True):
        with pytest.raises(InputError, match=r"mpi_rail: .* found; allowed: default, local, nic0"):
            factors.check_level("mpi_rail", level)


@pytest.mark.parametrize(
    ("here", "level", "reason"),
    [
        (machine(), "nic1", None),
        (machine(), "nic2", "m has 2 rails"),
        (ONE, "nic0", "m has 0 rails"),
        (ONE, "local", "m has 0 rails"),
        (ONE, "default", None),
        (machine(at=(None, 1)), "local", "a rail of m has no numa_node"),
    ],
)
def test_policies_that_a_machine_lacks(here, level, reason):
    found = factors.lacking(here, "mpi_rail", level)
    assert found is None if reason is None else reason in found
    if reason:
        with pytest.raises(InputError, match=r"writer_rail: .*; allowed: default"):
            rails.of_writers(here, level, None)


@pytest.mark.parametrize(
    "changed",
    [{"device": None}, {"device": "mlx5_9"}, {"rails": [{"device": "mlx5_0"}] * 2}],
)
def test_the_device_is_one_of_the_rails(changed):
    with pytest.raises(ValueError, match="allowed: each rail once, and a device that is one of"):
        machine(**changed)


BIN = Path(sys.executable).parent
SOURCE = Path(__file__).parent / "slurm/exchange.c"
LINKS = ("eth0", "eth1")
TWO = machine(
    device="eth0",
    rails=[{"device": link, "numa_node": 0, "mpi_device": link} for link in LINKS],
    facts={"cores": 2, "sockets": 1, "numa_nodes": 1, "llc": "1MiB", "memory": "1GiB"},
)
#: Reads, in a namespace, what each of its links has received and sent.
_READ = """
from nimc.node.evidence import counters
for link in ("eth0", "eth1"):
    print(*(counters.read(link, way).bytes_b for way in counters.DIRECTIONS))
"""


@pytest.fixture
def ends() -> Iterator[tuple[str, str]]:
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("network namespaces need root and iproute2")
    names = (f"nimc-a{os.getpid()}", f"nimc-b{os.getpid()}")
    try:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
            ip(name, "link set lo up")
        for index, link in enumerate(LINKS):
            ip(names[0], f"link add {link} type veth peer name {link} netns {names[1]}")
            for end, name in enumerate(names, 1):
                ip(name, f"address add 10.9{index}.0.{end}/24 dev {link}")
                ip(name, f"link set {link} up")
        asyncio.run(all_up(names))
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False)


def ip(name: str, words: str) -> str:
    return subprocess.check_output(["ip", "-n", name, *words.split()], text=True)


async def all_up(names: tuple[str, str]) -> None:
    """Links have carrier a moment after they are set up."""
    for _ in range(100):
        if all("state UP" in ip(name, f"link show {link}") for name in names for link in LINKS):
            return
        await asyncio.sleep(0.05)
    pytest.fail("the links do not come up")


def within(name: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", name, *command]


def read(name: str) -> list[evidence.Both]:
    text = subprocess.check_output(within(name, sys.executable, "-c", _READ), text=True)
    return [
        (counters.Reading(f"{link} in", int(received)), counters.Reading(f"{link} out", int(sent)))
        for link, (received, sent) in zip(LINKS, map(str.split, text.splitlines()), strict=True)
    ]


def exchange(program: Path, ends: tuple[str, str], policy: str) -> None:
    rank = [*rails.wrapper(TWO, policy), str(program), "24", "/dev/null"]
    line = ["mpiexec", "-n", "1", *within(ends[0], *rank), ":", "-n", "1", *within(ends[1], *rank)]
    # Ranks on one host would use its memory.
    env = {**os.environ, "UCX_TLS": "tcp,self", "MPIR_CVAR_NOLOCAL": "1"}
    env |= {"PATH": f"{BIN}:{os.environ['PATH']}"} | rails.environment(TWO, policy)
    subprocess.run(line, env=env, check=True, stdin=subprocess.DEVNULL, timeout=60)


@pytest.mark.minicluster
@pytest.mark.slow
def test_each_policy_s_messages_pass_the_links_it_names(
    ends: tuple[str, str], tmp_path: Path
) -> None:
    program = tmp_path / "exchange"
    subprocess.run([str(BIN / "mpicc"), "-o", str(program), str(SOURCE)], check=True)
    for policy, other in (("nic0", "nic1"), ("nic1", "nic0"), ("local", None)):
        before = read(ends[0])
        exchange(program, ends, policy)
        passed = evidence.passed(LINKS, before, read(ends[0]))
        print(policy, passed)
        assert sum(each.received_b + each.sent_b for each in passed) > 2 * 24 * 2**20
        assert judged(passed, policy) is None
        if other:
            assert "the policy names" in str(judged(passed, other))
            assert "the policy names" in str(judged(passed, "local"))


def judged(passed: list, policy: str) -> str | None:
    """The evidence for an application of two ranks on two nodes, of which one was counted."""
    one = Treatment("off", Start([], ranks=2, devices=rails.named(TWO, policy)))
    nodes = [evidence.NodeConditions("n1", 1.0, devices=passed)]
    return evidence.misrouted(nodes, evidence.named(one, LINKS, 2, 1), LINKS, 0.02)
