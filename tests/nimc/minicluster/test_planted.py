"""Planted faults of a minicluster. `nimc doctor --in-job` names each, with what to do about it."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from records.checkout import ROOT
from tests.nimc.minicluster.driven import ENV, Cluster

pytestmark = [pytest.mark.minicluster, pytest.mark.long]

#: Rules of a firewall that drops connections to the ports of writers (docs/add-a-machine.md).
FIREWALL = """\
table inet planted {
    chain input {
        type filter hook input priority 0; policy accept;
        tcp dport 20000-31999 drop
    }
}
"""
#: Commands that make an interface with an address. Packets to this address pass eth0 instead, so
#: the new interface counts nothing.
IDLE = """\
ip link add idle0 type veth peer name idle1
ip address add 10.99.0.{n} dev idle0
ip link set idle1 up
ip link set idle0 up
ip route add 10.99.0.{other} dev idle0
ip rule add pref 100 to 10.99.0.{other} lookup 100
ip route add 10.99.0.{other} via {subnet}.{other} table 100
"""
REMOVE_IDLE = "ip link delete idle0; ip rule delete pref 100; ip route flush table 100"


def in_node(cluster: Cluster, node: str, script: str, rc: int | None = 0) -> None:
    command = ["ip", "netns", "exec", cluster.layout.netns(node), "sh", "-ec", script]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True)
    assert rc is None or done.returncode == rc, done.stderr


@contextmanager
def site_with(cluster: Cluster, **changes: Any) -> Iterator[None]:
    """Changes keys in the machine's file, and restores the file afterwards."""
    file = cluster.layout.machine_file
    text = file.read_text()
    file.write_text(yaml.safe_dump({**yaml.safe_load(text), **changes}))
    try:
        yield
    finally:
        file.write_text(text)


@pytest.fixture
def idle(two_nodes: Cluster) -> Iterator[Cluster]:
    """Yields a cluster whose nodes have an interface that does not count packets to its address."""
    subnet = json.loads(two_nodes.layout.state_json.read_text())["subnet"]
    nodes = ("node1", "node2")
    try:
        for n, name in enumerate(nodes, start=1):
            in_node(two_nodes, name, IDLE.format(n=n, other=3 - n, subnet=subnet))
        yield two_nodes
    finally:
        for name in nodes:
            in_node(two_nodes, name, REMOVE_IDLE, rc=None)


def doctor(cluster: Cluster, folder: Path) -> dict[str, Any]:
    """Return the findings of `nimc doctor --in-job`: name -> finding."""
    words = ["doctor", "--machine", "minicluster", "--in-job", "--json", "--results", folder]
    out, err = cluster.start(*words).communicate(timeout=300)
    assert "Traceback" not in err
    return {row["what"]: row for row in json.loads(out)["findings"]}


def test_a_firewall_is_named(two_nodes: Cluster, tmp_path: Path) -> None:
    if not shutil.which("nft", path=ENV["PATH"]):
        pytest.skip("nft is missing (package nftables)")
    rules = tmp_path / "rules"
    rules.write_text(FIREWALL)
    in_node(two_nodes, "node1", f"nft -f {rules}")
    try:
        row = doctor(two_nodes, tmp_path / "results")["writes by ucx"]
    finally:
        in_node(two_nodes, "node1", "nft delete table inet planted")
    assert row["state"] == "missing"
    assert row["detail"].startswith("a firewall, or no route: writer 0 (ucx, node2): origin side")
    assert row["detail"].endswith(" does not answer (TCP)")
    assert "20000 to 31999" in row["remedy"]


def test_a_counter_that_stands_still_and_an_mpi_without_pmi_are_named(
    idle: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = ["make", "-s", "-B", "-C", str(ROOT / "conductor/mpi_put"), f"OUT={tmp_path}"]
    built = subprocess.run([*make, "LAUNCHER=srun --mpi=none"], capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"mpi_put cannot be built: {built.stderr.strip()}")
    monkeypatch.setitem(ENV, "PATH", f"{tmp_path}:{os.environ['PATH']}:/usr/sbin:/sbin")
    with site_with(idle, device="idle0"):
        rows = doctor(idle, tmp_path / "results")
    row = rows["writes by ucx"]
    assert row["state"] == "missing"
    assert row["detail"].startswith("a counter that stands still: net:idle0 at node1; ")
    # The interface counts only a few bytes of its own, such as router solicitations.
    assert re.search(r"counted: [\d.]+ B/s at the target by net:idle0", row["detail"])
    assert "`device` that carries the writes" in row["remedy"]
    row = rows["writes by mpi_put"]
    assert row["state"] == "limited"  # it is not the machine's injector
    assert row["detail"].startswith("an MPI that Slurm's PMI does not start: writer 0 (mpi_put, ")
    assert "LAUNCHER='srun --mpi=TYPE'" in row["remedy"]


def test_a_link_that_is_down_is_named(idle: Cluster, tmp_path: Path) -> None:
    in_node(idle, "node2", "ip link set idle0 down")
    with site_with(idle, device="idle0"):
        rows = doctor(idle, tmp_path / "results")
    row = rows["device idle0 on nodes"]
    assert row["state"] == "missing"
    assert row["detail"].startswith("node2: no RDMA device and no interface that is up; there are:")
    assert row["remedy"].startswith("bring its link up")
    row = rows["writes by ucx"]
    assert row["state"] == "missing"
    assert row["detail"].startswith("a device that is down: writer 0 (ucx, node2): ")
