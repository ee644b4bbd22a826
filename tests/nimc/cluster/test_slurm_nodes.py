"""Nodes from sinfo. The lines are those of Slurm 22.05 for `sinfo -N -h -o '%N %T'`."""

from __future__ import annotations

import pytest

from nimc.machine.slurm import SlurmNode, nodes_in, partition_in


def test_a_node_of_several_partitions_is_listed_once() -> None:
    assert nodes_in("node1 idle\nnode2 mixed\nnode2 mixed\n") == [
        SlurmNode("node1", "idle"),
        SlurmNode("node2", "mixed"),
    ]


@pytest.mark.parametrize(
    ("state", "usable"),
    [
        ("idle", True),
        ("allocated+", True),
        ("idle~", True),
        ("completing", True),
        ("reserved", True),
        ("idle*", False),
        ("down", False),
        ("down*", False),
        ("drained", False),
        ("draining@", False),
        ("maint", False),
    ],
)
def test_which_nodes_take_jobs(state: str, usable: bool) -> None:
    (node,) = nodes_in(f"n1 {state}\n")
    assert node.usable is usable


def test_lines_that_are_no_node_are_left_out() -> None:
    assert nodes_in("sinfo: error: Unable to contact\n\n--x idle\nn1\nn2 ???\n") == []


def test_the_partition_of_job_options() -> None:
    assert partition_in(["--account=a", "--partition=standard", "--exclusive"]) == "standard"
    assert partition_in(["-p debug"]) == "debug"
    assert partition_in(["-pdebug"]) == "debug"
    assert partition_in(["--exclusive"]) is None
