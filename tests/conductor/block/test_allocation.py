"""Over which address conductor and agents find each other, and who writes to whom."""

import asyncio
import socket
from dataclasses import replace

import pytest

from conductor import wire
from conductor.agent import agent
from conductor.block import allocation
from conductor.block.allocation import Allocation
from conductor.block.hub import Hub
from records.errors import MachineError
from records.treatment import Treatment, Writes
from tests.conductor.block_plans import PLAN
from tests.conductor.conftest import LOGS

APART = replace(PLAN, origin_policy="hetjob")


def other_interface() -> tuple[str, str]:
    """An interface that is not the loopback, and its address."""
    for _, name in socket.if_nameindex():
        try:
            address = wire.interface_address(name)
        except wire.WireError:
            continue
        if not address.startswith("127."):
            return name, address
    pytest.skip("this host has no network interface but the loopback")


def test_the_address_of_the_interface_asked_for():
    assert allocation.own_address(replace(APART, interface="lo")) == "127.0.0.1"
    with pytest.raises(MachineError, match="interface no-such: No such device"):
        allocation.own_address(replace(APART, interface="no-such"))


def test_a_name_that_only_this_host_finds_is_refused(monkeypatch):
    # As Debian's installer writes /etc/hosts.
    monkeypatch.setattr(socket, "gethostbyname", lambda _: "127.0.1.1")
    with pytest.raises(MachineError, match=r"resolves to 127\.0\.1\.1, .*'interface'"):
        allocation.own_address(APART)
    assert allocation.own_address(replace(APART, origin_policy="same_host")) == "127.0.0.1"


def test_agents_call_from_the_interface_asked_for(monkeypatch):
    interface, address = other_interface()
    secret = wire.new_secret()

    async def talk():
        hub = Hub(secret)
        port = await hub.listen("127.0.0.1")
        monkeypatch.setenv(wire.ADDRESS_VARIABLE, f"127.0.0.1:{port}")
        monkeypatch.setenv(wire.SECRET_VARIABLE, secret)
        monkeypatch.setenv(wire.INTERFACE_VARIABLE, interface)
        monkeypatch.setenv(wire.LOGS_VARIABLE, str(LOGS))
        calling = asyncio.create_task(agent.run())
        await hub.gather([agent.node_name()], 10.0)
        addresses = hub.addresses
        hub.close()
        await asyncio.wait_for(calling, 10.0)
        return addresses

    assert asyncio.run(talk()) == {agent.node_name(): address}


def test_writers_are_dealt_to_origins_and_targets_in_turn():
    plan = replace(APART, n_origins=2)
    nodes = Allocation(["n1", "n2", "n3"], ["n8", "n9"])
    addresses = {"n1": "10.0.0.1", "n2": "10.0.0.2", "n3": "10.0.0.3"}
    writers = allocation.assign(plan, Writes("perftest", 65536), nodes, addresses, turn=1)
    assert [(writer.index, writer.origin, writer.target) for writer in writers] == [
        (0, "n8", "n1"),
        (1, "n9", "n2"),
        (2, "n8", "n3"),
    ]
    assert [writer.address for writer in writers] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert len({writer.port for writer in writers}) == 3


def test_each_target_has_the_clients_asked_for_beside_other_writes():
    """Two clients of a target come from two origins; no writer has another one's number."""
    two = Writes("perftest", 65536, clients=2)
    plan = replace(APART, n_origins=2, treatments=[Treatment("on", writes=two)])
    nodes = Allocation(["n1", "n2", "n3"], ["n8", "n9"])
    addresses = dict.fromkeys(nodes.targets, "10.0.0.1")
    ends = [("n8", "n1"), ("n9", "n2"), ("n8", "n3"), ("n9", "n1"), ("n8", "n2"), ("n9", "n3")]
    writers = allocation.assign(plan, two, nodes, addresses, turn=1)
    assert [(writer.origin, writer.target) for writer in writers] == ends
    others = allocation.assign(plan, Writes("perftest", 65536), nodes, addresses, turn=2, kind=1)
    assert [writer.index for writer in writers + others] == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert len({writer.port for writer in writers + others}) == 9


def test_a_job_of_many_ranks_starts_one_agent_a_node():
    # By the source of srun, a number of tasks, also one from the environment, undoes
    # --ntasks-per-node where the two do not agree; that of a component goes before the job's.
    nodes = Allocation(["n1", "n2", "n3"], ["n8", "n9"])
    assert allocation.tasks_of_agents(nodes) == {
        "SLURM_NTASKS_HET_GROUP_0": "3",
        "SLURM_NTASKS_HET_GROUP_1": "2",
    }


def test_writers_are_held_as_long_as_their_buffers_fit_into_a_quarter_of_memory():
    """On one host a writer has both ends there, each with two buffers of a message."""
    here = Allocation(["n1"], ["n1"])
    facts = {"n1": {"memory_b": 16 << 30}}
    one, other = Writes("ucx", 1 << 29), Writes("ucx", 1 << 29, rate_share=0.5)
    assert allocation.fit(PLAN, [one], here, facts)  # 2 GiB
    assert allocation.fit(PLAN, [one, other], here, facts)  # 4 GiB, a quarter
    assert not allocation.fit(PLAN, [one, other, Writes("ucx", 1)], here, facts)
    assert allocation.fit(PLAN, [one, other, Writes("spin", 0)], here, facts)
    # Between two nodes each has one end, and the smaller node decides.
    apart = Allocation(["n1"], ["n2"])
    facts["n2"] = {"memory_b": 8 << 30}
    assert allocation.fit(PLAN, [one, other], apart, facts)  # 2 GiB of 8
    assert not allocation.fit(PLAN, [one, other, one], apart, facts)
