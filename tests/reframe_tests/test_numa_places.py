"""Tests of the places of the check `numa`, against node numbers derived from drawings of machines.

The place `nic` is the NUMA node of the network interface. The place `other` is another NUMA node.
"""

import pytest

from records.errors import InputError
from reframe_tests.factors import numa_node_of_place, numa_nodes_of_places
from tests.reframe_tests.numa_facts import host_facts


@pytest.mark.parametrize(
    ("facts", "nic", "other"),
    [
        ({"nic_node": 0}, 0, 1),
        ({"nic_node": 1}, 1, 0),
        # Two sockets have two NUMA nodes each: 0 1 | 2 3. The place `other` is at the same position
        # in the other socket.
        ({"numa_nodes": 4, "nic_node": 1}, 1, 3),
        ({"numa_nodes": 4, "nic_node": 2}, 2, 0),
        ({"numa_nodes": 8, "nic_node": 3}, 3, 7),
        # The machine has one socket, so the place `other` is the next NUMA node.
        ({"sockets": 1, "nic_node": 0}, 0, 1),
        ({"sockets": 1, "numa_nodes": 4, "nic_node": 3}, 3, 0),
    ],
)
def test_the_other_node_is_on_the_other_socket_if_there_are_two_sockets(facts, nic, other):
    box = host_facts(**facts)
    assert numa_nodes_of_places(box) == {"nic": nic, "other": other}
    assert (
        numa_node_of_place(box, "workers", "nic"),
        numa_node_of_place(box, "buffer", "other"),
    ) == (nic, other)


@pytest.mark.parametrize(
    ("field", "level", "facts", "fault"),
    [
        ("buffer", "other", {"numa_nodes": 1}, "buffer: other: box has 1 NUMA node; allowed: nic"),
        ("workers", "other", {"numa_nodes": 1}, "workers: other: box has 1 NUMA node"),
        ("workers", "nic", {}, "site/box.yaml: facts.nic_node: .* allowed: one of 0, 1$"),
    ],
)
def test_a_place_that_the_machine_does_not_have_is_refused(field, level, facts, fault):
    with pytest.raises(InputError, match=fault):
        numa_node_of_place(host_facts(**facts), field, level)
