"""Which origin writes to which target, and which writers may be held (suspended between runs)."""

from dataclasses import replace

import pytest

from conductor.block.allocation import Allocation
from conductor.block.assignment import Assignment
from records.treatment import Treatment, Writes
from tests.conductor.block_plans import PLAN

APART = replace(PLAN, origin_policy="hetjob")


def test_writers_are_dealt_to_origins_and_targets_in_turn():
    plan = replace(APART, n_origins=2)
    nodes = Allocation(["n1", "n2", "n3"], ["n8", "n9"])
    addresses = {"n1": "10.0.0.1", "n2": "10.0.0.2", "n3": "10.0.0.3"}
    writes = Writes(injector="perftest", message_b=65536)
    writers = Assignment(plan, nodes).writers(writes, addresses)
    assert [(writer.index, writer.origin, writer.target) for writer in writers] == [
        (0, "n8", "n1"),
        (1, "n9", "n2"),
        (2, "n8", "n3"),
    ]
    assert [writer.address for writer in writers] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]


def test_each_target_has_the_clients_asked_for_beside_other_writes():
    """The two clients of a target come from two origins. No two writers have the same index.

    Clients are the writers of one target.
    """
    two = Writes(injector="perftest", message_b=65536, clients=2)
    plan = replace(APART, n_origins=2, treatments=[Treatment(name="on", writes=two)])
    nodes = Allocation(["n1", "n2", "n3"], ["n8", "n9"])
    addresses = dict.fromkeys(nodes.targets, "10.0.0.1")
    ends = [("n8", "n1"), ("n9", "n2"), ("n8", "n3"), ("n9", "n1"), ("n8", "n2"), ("n9", "n3")]
    assignment = Assignment(plan, nodes)
    writers = assignment.writers(two, addresses)
    assert [(writer.origin, writer.target) for writer in writers] == ends
    one = Writes(injector="perftest", message_b=65536)
    others = assignment.writers(one, addresses, kind_index=1)
    assert [writer.index for writer in writers + others] == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    # No target has two writers at one port.
    assert len({(writer.target, writer.port) for writer in writers + others}) == 9


def ends_of(nodes, writes, **options):
    """Return origin, target and device of each writer, and its writers' rate."""
    addresses = dict.fromkeys(nodes.targets, "10.0.0.1")
    plan = replace(APART, n_origins=len(nodes.origins))
    writers = Assignment(plan, nodes).writers(writes, addresses, **options)
    assert len({(writer.target, writer.port) for writer in writers}) == len(writers)
    return [(writer.origin, writer.target, writer.device) for writer in writers], writers


@pytest.mark.parametrize("injector", ["ucx", "mpi_put"])
def test_a_writer_with_several_queue_pairs_has_one_route_and_one_rate(injector):
    """A program that opens one queue pair is started for each, with its share of the rate."""
    nodes = Allocation(["t0", "t1", "t2"], ["o0", "o1", "o2", "o3"])
    writes = Writes(
        injector=injector, message_b=65536, devices=("cxi0", "cxi1"), rate_b_s=1e9, queue_pairs=None
    )
    routes = [
        ("o0", "t0", "cxi0"),
        ("o1", "t1", "cxi1"),
        ("o2", "t2", "cxi0"),
        ("o3", "t0", "cxi1"),
    ]
    ends, writers = ends_of(nodes, writes, queue_pairs=4)
    assert ends == routes * 4
    assert {writer.rate_b_s for writer in writers} == {0.25e9}
    one = replace(writes, injector="perftest")
    ends, writers = ends_of(nodes, one, queue_pairs=4)
    assert (ends, {writer.rate_b_s for writer in writers}) == (routes, {1e9})


def test_each_target_is_written_to_over_all_devices_that_its_writers_can_use():
    nodes = Allocation(["t0", "t1"], ["o0", "o1"])
    writes = Writes(injector="perftest", message_b=65536, devices=("m0", "m1"), clients=2)
    ends, _ = ends_of(nodes, writes)
    assert {end[1:] for end in ends} == {("t0", "m0"), ("t0", "m1"), ("t1", "m0"), ("t1", "m1")}


def test_starts_use_other_ports_until_all_were_used():
    """The ports are 20000 to 31999 (docs/add-a-machine.md), whatever the writers are."""
    nodes = Allocation(["n1", "n2", "n3"], ["n8"])
    addresses = dict.fromkeys(nodes.targets, "10.0.0.1")
    assignment = Assignment(APART, nodes)
    writes = Writes(injector="perftest", message_b=65536)
    used_ports = []
    for _ in range(2399):
        used_ports += {writer.port for writer in assignment.writers(writes, addresses)}
        used_ports += assignment.new_ports(4)
    assert len(set(used_ports)) == len(used_ports) == 11995
    assert min(used_ports) >= 20000
    assert max(used_ports) <= 31999


def test_writers_are_held_as_long_as_their_buffers_fit_into_a_quarter_of_memory():
    """Each end of a writer has two buffers of one message. On one host, both ends count."""
    here = Allocation(["n1"], ["n1"])
    facts = {"n1": {"memory_b": 16 << 30}}
    one, other = (
        Writes(injector="ucx", message_b=1 << 29),
        Writes(injector="ucx", message_b=1 << 29, rate_share=0.5),
    )
    on_one_host = Assignment(PLAN, here)
    assert on_one_host.buffers_fit([one], facts)  # 2 GiB
    assert on_one_host.buffers_fit([one, other], facts)  # 4 GiB, a quarter
    third, control = Writes(injector="ucx", message_b=1), Writes(injector="spin", message_b=0)
    assert not on_one_host.buffers_fit([one, other, third], facts)
    assert on_one_host.buffers_fit([one, other, control], facts)
    # Between two nodes, each node has one end. The node with less memory sets the limit.
    apart = Assignment(PLAN, Allocation(["n1"], ["n2"]))
    facts["n2"] = {"memory_b": 8 << 30}
    assert apart.buffers_fit([one, other], facts)  # 2 GiB of 8
    assert not apart.buffers_fit([one, other, one], facts)
