"""The machine file that a minicluster writes for itself. It is read like a site file."""

from dataclasses import replace

import pytest
import yaml

from records.errors import InputError
from records.machine import host, site
from testbed.cluster import render_machine_file
from testbed.spec import Spec


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Returns a function that reads the machine of a minicluster with this specification."""
    monkeypatch.setenv("NIMC_MINICLUSTER", str(tmp_path))

    def machine_of(spec, cpus):
        (tmp_path / "machine.yaml").write_text(render_machine_file(spec, cpus, memory_mib=512))
        return site.load("minicluster")

    assert site.load("minicluster").injector == "ucx"  # the checkout's file, without a cluster
    return machine_of


@pytest.mark.parametrize(
    ("fabric", "cpus", "injector", "device"),
    [("veth", 8, "ucx", "eth0"), ("rxe", 2, "perftest", "rxe0")],
)
def test_the_machine_file_agrees_with_the_started_cluster(machine, fabric, cpus, injector, device):
    started = machine(Spec(fabric=fabric, nodes=4, origins=2), cpus)
    assert (started.injector, started.device, started.nodes) == (injector, device, 4)
    assert (started.origins.policy, started.origins.nodes) == ("hetjob", 2)
    assert started.node_facts().cores == 2  # eight cores shared by four nodes, or a guest's own two
    assert started.caveats == []
    assert started.node_facts().memory_b == 512 * 2**20
    assert started.proof.min_share == 0.1
    # Only emulated nodes have larger tolerances.
    assert (started.proof.write_tolerance_s > 0.2) == (fabric == "rxe")
    # On emulated nodes, `mpi_put` may be silent for longer (docs/evidence.md).
    assert (started.proof.silent_s > 1.1) == (fabric == "rxe")


def test_a_virtual_machine_has_sockets_of_its_own_and_says_that_they_are_emulated(machine):
    emulated = machine(Spec(fabric="rxe", nodes=2, origins=1, numa=2, cores=4), 8)
    facts = emulated.node_facts()
    assert (facts.cores, facts.sockets, facts.numa_nodes) == (8, 2, [0, 1])
    assert emulated.nic_node() == 0
    (caveat,) = emulated.caveats
    assert "emulated" in caveat


def test_caches_of_unknown_size_stay_unknown(machine, monkeypatch):
    """Many kernels on ARM and in virtual machines know levels of caches, but no sizes."""
    this_host = replace(host.detect(), llc_total_b=None)
    monkeypatch.setattr(host, "detect", lambda: this_host)
    assert machine(Spec(fabric="veth", nodes=2, origins=1), 8).node_facts().llc_b is None


@pytest.mark.parametrize(
    ("fabric", "numa", "rails"),
    [
        ("rxe", 2, [("rxe0", 0, "eth0"), ("rxe1", 1, "eth1")]),
        ("veth", 1, [("eth0", None, "eth0"), ("eth1", None, "eth1")]),
    ],
)
def test_mpi_uses_interfaces_of_two_rails_and_writers_use_their_devices(
    machine, fabric, numa, rails
):
    listed = machine(Spec(fabric=fabric, nodes=3, origins=1, numa=numa, rails=2), 2).rails
    assert [(rail.device, rail.numa_node, rail.mpi_device) for rail in listed] == rails


def test_a_caveat_says_that_nodes_over_veth_share_the_cores_of_the_host():
    spec = Spec(fabric="veth", nodes=2, origins=1, cores=2)
    record = yaml.safe_load(render_machine_file(spec, cpus=2, memory_mib=512))
    assert record["facts"]["cores"] == 2
    assert record["caveats"] == ["2 nodes count as 2 cores each, and share the 2 cores of one host"]
    with pytest.raises(InputError, match="--cores 2: this host has 1; allowed: at most 1"):
        render_machine_file(spec, cpus=1, memory_mib=512)
