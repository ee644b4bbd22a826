"""Which origin writes to which target, and which writers may be held (suspended between runs)."""

from dataclasses import replace

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
