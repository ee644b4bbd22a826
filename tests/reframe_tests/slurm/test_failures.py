"""Tests of failures in the middle of a block on a real Slurm.

Each test breaks something while a block runs. The block must then end with the right outcome, the
samples of earlier blocks must not change, and no process may be left on any node. All blocks belong
to one run. So each test also shows that a block can start after the failure of the test before.
"""

import os
import signal
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from records.kernel_text import read
from testbed import daemons
from testbed.spec import Node
from tests.nimc.minicluster.driven import Cluster
from tests.reframe_tests.slurm.block import Block

pytestmark = [pytest.mark.minicluster, pytest.mark.slow]


@pytest.fixture
def cluster(three_nodes) -> Cluster:
    return three_nodes


@pytest.fixture(scope="module")
def start(three_nodes, tmp_path_factory) -> Callable[..., Block]:
    """A function that starts the next block of the run."""
    folder, numbers = tmp_path_factory.mktemp("blocks"), count()
    return lambda **variables: Block(three_nodes, folder, next(numbers), **variables)


def test_a_writer_is_killed_before_the_first_run(start):
    """Only the first block of a run must measure the rate of a writer without the application."""
    block = start(script="sleep 2")
    # The writer is killed while its rate without the application is measured.
    os.kill(block.wait_for_writer(), signal.SIGKILL)
    assert block.finish() == 1
    assert block.outcome() == "injector_never_ready"
    block.check_over()


@pytest.mark.parametrize(
    ("script", "most_s", "by_srun", "outcome", "reason"),
    [
        ("exit 3", 300, False, "application_failed", "exit status 3"),
        ("sleep 1000", 2, False, "application_hung", ""),
        ("sleep 1000", 2, True, "application_hung", ""),
    ],
)
def test_an_application_fails_or_hangs(start, script, most_s, by_srun, outcome, reason):
    """With Slurm 26.05, the end of the application's killed `srun` may cancel the whole job."""
    block = start(script=script, run_timeout_s=most_s, mpi=by_srun)
    assert block.finish() == 1
    assert block.outcome() == outcome
    assert reason in block.out
    block.check_over()


def test_a_user_cancels_the_job(cluster, start):
    block = start()
    block.wait_for_samples(2)
    cluster.slurm("scancel", block.job())
    assert block.finish() == 1
    assert block.outcome() == "cancelled"
    block.check_over()
    assert [s["outcome"] for s in block.undisturbed()[:2]] == ["accepted"] * 2


def test_a_writer_is_killed_in_a_run_and_only_this_run_is_lost(start):
    block = start(pairs=1)
    os.kill(block.wait_for_writer(beside="sleep 4"), signal.SIGKILL)
    assert block.finish() == 0, block.out
    block.check_over()
    outcomes = [(s["arm"], s["outcome"]) for s in block.undisturbed() if not s["warmup"]]
    assert sorted(outcomes) == [("off", "accepted"), ("on", "accepted"), ("on", "injector_died")]


@pytest.mark.long
def test_a_job_is_suspended_and_only_the_run_in_progress_is_rejected(cluster, start):
    """Jobs of a partition with PreemptMode=SUSPEND are suspended in this way.

    Slurm sends SIGTSTP, and SIGSTOP two seconds later.
    """
    block = start(pairs=1)
    block.wait_for_samples(1)
    block.wait_for_writer(beside="sleep 4")
    cluster.slurm("scontrol", "suspend", block.job())
    time.sleep(12)
    cluster.slurm("scontrol", "resume", block.job())
    assert block.finish() == 0, block.out
    block.check_over()
    reasons = [s["reason"] for s in block.new() if s["outcome"] == "rejected"]
    assert any(reason.startswith("the conductor did not run for ") for reason in reasons), reasons
    assert all(s["elapsed_s"] < 12 for s in block.undisturbed())
    assert sorted(s["arm"] for s in block.undisturbed() if not s["warmup"]) == ["off", "on"]


@pytest.mark.long
def test_slurmctld_restarts(cluster, start):
    block = start(pairs=2)
    block.wait_for_samples(1)
    (controller,) = cluster.processes("slurmctld")
    os.kill(controller, signal.SIGKILL)
    time.sleep(1)
    daemons.start_controller(cluster.layout)
    assert block.finish() == 0, block.out
    assert block.outcome() == "done"
    block.check_over()
    start(pairs=1).check_complete()


@pytest.mark.long
def test_the_slurmd_of_an_origin_is_killed(cluster, start):
    block = start()
    block.wait_for_samples(2)
    (origin,) = [
        pid for pid in cluster.processes("slurmd") if "node3" in read(Path(f"/proc/{pid}/cmdline"))
    ]
    os.kill(origin, signal.SIGKILL)
    assert block.finish() == 1
    assert block.outcome() == "node_failed"
    assert len(block.new()) >= 2
    block.check_clean()
    daemons.start_slurmds(cluster.layout, [Node("node3", "origin", 3)])
    block.check_over()
    start(pairs=1).check_complete()


@pytest.mark.long
@pytest.mark.parametrize(
    ("signum", "outcome"), [(signal.SIGKILL, "done"), (signal.SIGTERM, "agent_failed")]
)
def test_the_srun_of_the_agents_is_killed(cluster, start, signum, outcome):
    """The tasks continue if srun gets SIGKILL.

    At SIGTERM, srun ends its tasks, and Slurm 26.05 also ends the job.
    """
    block = start(pairs=1, script="sleep 4")
    block.wait_for_samples(1)
    pids = block.step("conductor.agent.agent")
    assert pids
    for pid in pids:
        os.kill(pid, signum)
    if signum == signal.SIGTERM and " 26.05" in cluster.slurm("sbatch", "--version"):
        outcome = "cancelled"
    assert block.finish() == (outcome != "done"), block.out
    assert block.outcome() == outcome
    block.check_over()
    start(pairs=1).check_complete()
