"""Places of the check `numa`: node numbers worked out from drawings of four machines."""

import pytest

from records.errors import InputError
from reframe_tests.factors import numa_node_of_place, numa_nodes_of_places
from tests.reframe_tests.numa_facts import host_facts


@pytest.mark.parametrize(
    ("facts", "nic", "other"),
    [
        ({"nic_node": 0}, 0, 1),
        ({"nic_node": 1}, 1, 0),
        # Two sockets of two nodes each, 0 1 | 2 3: the other socket's node in the same place.
        ({"numa_nodes": 4, "nic_node": 1}, 1, 3),
        ({"numa_nodes": 4, "nic_node": 2}, 2, 0),
        ({"numa_nodes": 8, "nic_node": 3}, 3, 7),
        # One socket: the next node.
        ({"sockets": 1, "nic_node": 0}, 0, 1),
        ({"sockets": 1, "numa_nodes": 4, "nic_node": 3}, 3, 0),
    ],
)
def test_another_node_is_one_of_another_socket_where_there_is_one(facts, nic, other):
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
def test_a_place_that_the_machine_lacks_is_refused(field, level, facts, fault):
    with pytest.raises(InputError, match=fault):
        numa_node_of_place(host_facts(**facts), field, level)
