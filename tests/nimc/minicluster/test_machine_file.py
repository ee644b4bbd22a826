"""The machine file of a cluster, as site files are read."""

import pytest
import yaml

from records.errors import InputError
from records.machine import site
from testbed.cluster import render_machine_file
from testbed.spec import Spec


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """The machine of a cluster."""
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
def test_the_machine_is_what_was_started(machine, fabric, cpus, injector, device):
    started = machine(Spec(fabric=fabric, nodes=4, origins=2), cpus)
    assert (started.injector, started.device, started.nodes) == (injector, device, 4)
    assert (started.origins.policy, started.origins.nodes) == ("hetjob", 2)
    assert started.node_facts().cores == 2  # eight cores shared by four nodes, or a guest's own two
    assert started.caveats == []
    assert started.node_facts().memory_b == 512 * 2**20
    assert started.proof.min_share == 0.1
    # Only what is emulated is held less tightly to its plan.
    assert (started.proof.write_tolerance_s > 0.2) == (fabric == "rxe")
    assert (started.proof.silent_s > 1.1) == (fabric == "rxe")  # `mpi_put` there (docs/evidence.md)


def test_a_virtual_machine_has_sockets_of_its_own_and_says_that_they_are_emulated(machine):
    emulated = machine(Spec(fabric="rxe", nodes=2, origins=1, numa=2, cores=4), 8)
    facts = emulated.node_facts()
    assert (facts.cores, facts.sockets, facts.numa_nodes) == (8, 2, [0, 1])
    assert emulated.nic_node() == 0
    (caveat,) = emulated.caveats
    assert "emulated" in caveat


@pytest.mark.parametrize(
    ("fabric", "numa", "rails"),
    [
        ("rxe", 2, [("rxe0", 0, "eth0"), ("rxe1", 1, "eth1")]),
        ("veth", 1, [("eth0", None, "eth0"), ("eth1", None, "eth1")]),
    ],
)
def test_two_rails_are_interfaces_to_mpi_and_devices_to_the_writers(machine, fabric, numa, rails):
    listed = machine(Spec(fabric=fabric, nodes=3, origins=1, numa=numa, rails=2), 2).rails
    assert [(rail.device, rail.numa_node, rail.mpi_device) for rail in listed] == rails


def test_nodes_of_veth_that_count_more_cores_than_there_are_say_so():
    spec = Spec(fabric="veth", nodes=2, origins=1, cores=2)
    record = yaml.safe_load(render_machine_file(spec, cpus=2, memory_mib=512))
    assert record["facts"]["cores"] == 2
    assert record["caveats"] == ["2 nodes count as 2 cores each, and share the 2 cores of one host"]
    with pytest.raises(InputError, match="--cores 2: this host has 1; allowed: at most 1"):
        render_machine_file(spec, cpus=1, memory_mib=512)
