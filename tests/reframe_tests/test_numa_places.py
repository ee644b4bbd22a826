"""Cells of the study of RDMA and NUMA: node numbers worked out from drawings of four machines."""

import pytest

from analysis.errors import InputError
from injection.machine import machine
from reframe_tests import numa_places
from reframe_tests.fom.base import FomError
from reframe_tests.fom.numa_idle import parse


def of(**facts):
    known = {"cores": 16, "sockets": 2, "numa_nodes": 2, "llc": "40MiB", "memory": "64GiB"}
    return machine.Machine.model_validate(
        {
            "name": "box",
            "description": "",
            "origins": {"policy": "hetjob"},
            "injector": "perftest",
            "facts": {**known, **facts},
        }
    )


@pytest.mark.parametrize(
    ("facts", "nic", "other"),
    [
        ({"nic_node": 0}, 0, 1),
        ({"nic_node": 1}, 1, 0),
        # Two sockets of two nodes each, 0 1 | 2 3: the other socket's node in the same place.
        ({"numa_nodes": 4, "nic_node": 1}, 1, 3),
        ({"numa_nodes": 4, "nic_node": 2}, 2, 0),
        # One socket of two nodes.
        ({"sockets": 1, "nic_node": 0}, 0, 1),
    ],
)
def test_another_node_is_one_of_another_socket_where_there_is_one(facts, nic, other):
    assert numa_places.nodes(of(**facts)) == {"nic": nic, "other": other}


def test_a_cell_says_where_everything_lies():
    cell = numa_places.cell(of(nic_node=1), "other", "nic", "read")
    assert cell == {
        "numa_nodes": 2,
        "nic_node": 1,
        "buffer": "other",
        "buffer_node": 0,
        "workers": "nic",
        "worker_node": 1,
        "cores": 8,  # 16 cores on two nodes
        "load": "read",
    }
    assert numa_places.cell(of(nic_node=0), "nic", "free", "write")["worker_node"] is None
    assert numa_places.cell(of(nic_node=0), "nic", None, "idle")["cores"] == 0


@pytest.mark.parametrize(
    ("words", "facts", "told"),
    [
        (("here", "nic", "read"), {"nic_node": 0}, "buffer: 'here' found; allowed are nic, other"),
        (("nic", "away", "read"), {"nic_node": 0}, "allowed are nic, other, free"),
        (("nic", "nic", "add"), {"nic_node": 0}, "allowed are read, write, nt_write"),
        (("other", "nic", "read"), {"numa_nodes": 1}, "buffer: other: box has one NUMA node"),
        (("nic", "other", "read"), {"numa_nodes": 1}, "workers: other: box has one NUMA node"),
        (("nic", "nic", "read"), {}, "site/box.yaml: facts.nic_node: .* allowed: one of 0, 1$"),
    ],
)
def test_what_cannot_be_is_refused_with_what_is_allowed(words, facts, told):
    with pytest.raises(InputError, match=told):
        numa_places.cell(of(**facts), *words)


def test_the_time_slept_is_the_figure():
    assert parse("slept 1.000153 s\n").value == 1.000153
    with pytest.raises(FomError, match="line of the time slept"):
        parse("Terminated\n")
