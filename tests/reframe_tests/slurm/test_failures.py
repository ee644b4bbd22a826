"""What goes wrong in the middle of a block on a real Slurm, and what is made of it.

Every test breaks something while a block runs, and then demands: the outcome that fits, earlier
samples kept, no process left on any node, and a second block that completes.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import daemons
from testbed.spec import Node
from tests.nimc.minicluster.real import Cluster, cluster_of
from tests.reframe_tests.slurm.block import Block, resumed

pytestmark = [pytest.mark.minicluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    yield from cluster_of(3)


def test_a_writer_killed_in_a_run_costs_that_run(cluster, tmp_path):
    block = Block(cluster, tmp_path, pairs=1, script="sleep 4")
    os.kill(block.wait_for_writer(beside="sleep 4"), signal.SIGKILL)
    assert block.finish() == 0, block.out
    block.check_clean()
    told = [(s["arm"], s["outcome"]) for s in block.samples() if not s["warmup"]]
    assert sorted(told) == [("off", "kept"), ("on", "injector_died"), ("on", "kept")]


def test_a_writer_killed_before_any_run(cluster, tmp_path):
    block = Block(cluster, tmp_path, pairs=1, script="sleep 2")
    os.kill(block.wait_for_writer(), signal.SIGKILL)  # while its rate alone is measured
    assert block.finish() == 1
    assert block.outcome() == "injector_never_ready"
    resumed(cluster, block)


@pytest.mark.parametrize(
    ("script", "outcome"), [("exit 3", "application_failed"), ("sleep 1000", "application_hung")]
)
def test_an_application_that_fails_or_hangs(cluster, tmp_path, script, outcome):
    block = Block(cluster, tmp_path, script=script, run_timeout_s=2)
    assert block.finish() == 1
    assert block.outcome() == outcome
    assert outcome != "application_failed" or "exit status 3" in block.out
    resumed(cluster, block)


def test_a_cancelled_job(cluster, tmp_path):
    block = Block(cluster, tmp_path)
    block.wait_for_samples(2)
    cluster.slurm("scancel", block.job())
    assert block.finish() == 1
    assert block.outcome() == "cancelled"
    assert len(block.samples()) >= 2
    resumed(cluster, block)


@pytest.mark.long
def test_slurmctld_restarts(cluster, tmp_path):
    block = Block(cluster, tmp_path, pairs=2)
    block.wait_for_samples(1)
    (controller,) = cluster.processes("slurmctld")
    os.kill(controller, signal.SIGKILL)
    time.sleep(1)
    daemons.start_controller(cluster.layout)
    assert block.finish() == 0, block.out
    assert block.outcome() == "done"
    resumed(cluster, block)


@pytest.mark.long
def test_an_origin_whose_slurmd_is_killed(cluster, tmp_path):
    block = Block(cluster, tmp_path)
    block.wait_for_samples(2)
    (origin,) = [
        pid
        for pid in cluster.processes("slurmd")
        if "node3" in Path(f"/proc/{pid}/cmdline").read_text()
    ]
    os.kill(origin, signal.SIGKILL)
    assert block.finish() == 1
    assert block.outcome() == "node_failed"
    assert len(block.samples()) >= 2
    block.check_clean()
    daemons.start_slurmds(cluster.layout, [Node("node3", "origin", 3)])
    resumed(cluster, block)


@pytest.mark.long
@pytest.mark.parametrize(
    ("signum", "outcome"), [(signal.SIGKILL, "done"), (signal.SIGTERM, "agent_failed")]
)
def test_the_srun_of_the_agents_is_killed(cluster, tmp_path, signum, outcome):
    """Slurm leaves the tasks of a srun that got SIGKILL running; one that can, ends them."""
    block = Block(cluster, tmp_path, pairs=1, script="sleep 4")
    block.wait_for_samples(1)
    pids = block.step("conductor.agent")
    assert pids
    for pid in pids:
        os.kill(pid, signum)
    assert block.finish() == (outcome != "done"), block.out
    assert block.outcome() == outcome
    resumed(cluster, block)
