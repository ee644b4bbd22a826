"""Tests of the origins and targets of writers on a real Slurm.

In the pattern incast, several origins write to one target. In the pattern "one to many", one origin
writes to several targets. In a split allocation, origins and targets are nodes of one allocation.
"""

from collections.abc import Iterator

import pytest
import yaml

from tests.nimc.minicluster.driven import Cluster, cluster_of
from tests.reframe_tests.slurm.block import Block, wait_idle

pytestmark = [pytest.mark.minicluster, pytest.mark.slow]
HETJOB = {"policy": "hetjob", "partition": "origin"}
#: Limits of the ratio of the bytes that the device counted to the bytes that the writers claim. The
#: device also counts headers. The two windows of time differ at their edges, on a busy host by half
#: a second of four. With one writer too many or too few, the ratio would be wrong by a factor of 2.
COUNTED = (0.7, 1.4)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    yield from cluster_of(4, origins=2)


@pytest.mark.parametrize(
    ("origins", "targets", "pairs_of_nodes"),
    [
        ({**HETJOB, "nodes": 2}, 1, [("node3", "node1"), ("node4", "node1")]),
        ({**HETJOB, "nodes": 1}, 2, [("node3", "node1"), ("node3", "node2")]),
        ({"policy": "same_job", "nodes": 1}, 1, [("node2", "node1")]),
    ],
    ids=["incast", "one to many", "a split allocation"],
)
def test_each_writer_writes_from_its_origin_to_its_target(
    cluster, tmp_path, origins, targets, pairs_of_nodes
):
    machine = yaml.safe_load(cluster.layout.machine_file.read_text())
    cluster.layout.machine_file.write_text(yaml.safe_dump({**machine, "origins": origins}))
    wait_idle(cluster)
    hosts = tmp_path / "hosts"
    block = Block(
        cluster,
        tmp_path,
        pairs=1,
        warmups=0,
        script=f'hostname >> "{hosts}"; test "$SLURM_PROCID" != 0 && exit 0; sleep 4',
        num_tasks=targets,
        num_tasks_per_node=1,
        mpi=True,
    )
    assert block.finish() == 0, block.out
    block.check_clean()

    # The application ran on each target in each run, and on no other node. If a busy host has
    # disturbed a run, the run was repeated.
    names = sorted({target for _, target in pairs_of_nodes})
    runs = block.samples()
    assert sorted(hosts.read_text().split()) == sorted(len(runs) * names)
    (sample,) = (s for s in runs if (s["arm"], s["outcome"]) == ("on", "accepted"))
    assert (sample["nodes"], sample["origin_nodes"]) == (
        names,
        sorted({origin for origin, _ in pairs_of_nodes}),
    )
    writers = sample["writers"]
    assert [(w["origin"], w["target"]) for w in writers] == pairs_of_nodes
    for target in names:
        to_target = [w for w in writers if w["target"] == target]
        claimed_b = sum(w["bytes_b"] for w in to_target)
        assert COUNTED[0] < to_target[0]["counted_b"] / claimed_b < COUNTED[1]
