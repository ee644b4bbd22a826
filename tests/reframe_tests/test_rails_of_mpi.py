"""MPI between two network namespaces with two links: each policy's bytes pass the links it names.

Emulated: MPICH over UCX and tcp. Rails are the links themselves.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nimc.node.evidence import counters, rails
from nimc.records.treatment import Start, Treatment
from reframe_tests import rails as policies
from tests.reframe_tests.test_rails import machine

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


def read(name: str) -> list[rails.Both]:
    text = subprocess.check_output(within(name, sys.executable, "-c", _READ), text=True)
    return [
        (counters.Reading(f"{link} in", int(received)), counters.Reading(f"{link} out", int(sent)))
        for link, (received, sent) in zip(LINKS, map(str.split, text.splitlines()), strict=True)
    ]


def exchange(program: Path, ends: tuple[str, str], policy: str) -> None:
    rank = [*policies.wrapper(TWO, policy), str(program), "24", "/dev/null"]
    line = ["mpiexec", "-n", "1", *within(ends[0], *rank), ":", "-n", "1", *within(ends[1], *rank)]
    # Ranks on one host would use its memory.
    env = {**os.environ, "UCX_TLS": "tcp,self", "MPIR_CVAR_NOLOCAL": "1"}
    env |= {"PATH": f"{BIN}:{os.environ['PATH']}"} | policies.environment(TWO, policy)
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
        passed = rails.passed(LINKS, before, read(ends[0]))
        print(policy, passed)
        assert sum(each.received_b + each.sent_b for each in passed) > 2 * 24 * 2**20
        assert judged(passed, policy) is None
        if other:
            assert "the policy names" in str(judged(passed, other))
            assert "the policy names" in str(judged(passed, "local"))


def judged(passed: list, policy: str) -> str | None:
    """The evidence for an application of two ranks on two nodes, of which one was counted."""
    one = Treatment("off", Start([], ranks=2, devices=policies.named(TWO, policy)))
    nodes = [rails.NodeConditions("n1", 1.0, devices=passed)]
    return rails.misrouted(nodes, rails.named(one, LINKS, 2, 1), LINKS, 0.02)
