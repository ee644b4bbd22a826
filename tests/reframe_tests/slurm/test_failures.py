"""What goes wrong in the middle of a block on a real Slurm, and what is made of it.

Every test breaks something while a block runs, and then demands: the outcome that fits, earlier
samples kept, no process left on any node, and a second block that completes. Daemons and nodes that
go away, and a killed `srun`, are rows of `tests/faults/table.py`.
"""

import os
import signal
from collections.abc import Iterator

import pytest

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
