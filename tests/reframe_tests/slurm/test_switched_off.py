"""A test that switches off the virtual machine of an origin while a block runs real writers."""

import json
import os
import signal
from collections.abc import Iterator

import pytest

from tests.nimc.minicluster.driven import Cluster, cluster_or_skip
from tests.reframe_tests.slurm.block import PROGRAMS, Block

pytestmark = [pytest.mark.minicluster, pytest.mark.guests, pytest.mark.long]
#: A writer needs up to 5 s for two rows if its processor is emulated.
SCRIPT = "sleep 10"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    yield from cluster_or_skip("rxe")


def running(cluster: Cluster, node: str) -> list[str]:
    """Return the command lines of a block's processes on a virtual machine.

    Slurm runs `ps` on the virtual machine, since this host cannot see these processes.
    """
    lines = cluster.slurm("srun", "-N1", "-w", node, "ps", "axo", "args").splitlines()
    assert any("slurmd" in line for line in lines)
    return [line for line in lines if any(word in line for word in PROGRAMS)]


def test_an_origin_is_switched_off(cluster, tmp_path):
    # Virtual machines can write only to the folders of this host that they are given.
    up = ("up", "--fabric", "rxe", "--nodes", "2", "--origins", "1", "--share", str(tmp_path))
    cluster.nimc(*up)
    block = Block(cluster, tmp_path, script=SCRIPT)
    block.wait_for_samples(3)
    os.kill(cluster.nimc_json("status")["pids"]["node2"], signal.SIGKILL)
    assert block.finish() == 1
    # Either Slurm or the conductor misses the node first. The outcome is the same.
    assert block.outcome() == "node_failed", (block.logs / "job.json").read_text()
    before = block.undisturbed()
    assert [sample["outcome"] for sample in before[:3]] == ["accepted"] * 3
    assert len(before) < 60
    assert running(cluster, "node1") == []

    cluster.nimc("down")
    cluster.nimc(*up)
    block.check_over()
    Block(cluster, tmp_path, 1, pairs=1, script=SCRIPT).check_complete()
    report = json.loads((tmp_path / "run" / "logs" / "probe" / "1" / "job.json").read_text())
    assert report["outcome"] == "done"
