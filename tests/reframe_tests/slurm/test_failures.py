"""What goes wrong in the middle of a block on a real Slurm, and what is made of it.

Every test breaks something while a block runs, and then demands: the outcome that fits, samples of
earlier blocks as they were, and no process left on any node. All are blocks of one run: each shows
that a block starts after the failure before it, and the last one of CI completes.
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
    """Starts the next block of the one run."""
    folder, numbers = tmp_path_factory.mktemp("blocks"), count()
    return lambda **variables: Block(three_nodes, folder, next(numbers), **variables)


def test_a_writer_killed_before_any_run(start):
    """In the run's first block: later ones need not measure its rate alone."""
    block = start(script="sleep 2")
    os.kill(block.wait_for_writer(), signal.SIGKILL)  # while its rate alone is measured
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
def test_an_application_that_fails_or_hangs(start, script, most_s, by_srun, outcome, reason):
    """A `srun` that is killed may cancel the whole job (Slurm 26.05)."""
    block = start(script=script, run_timeout_s=most_s, mpi=by_srun)
    assert block.finish() == 1
    assert block.outcome() == outcome
    assert reason in block.out
    block.check_over()


def test_a_cancelled_job(cluster, start):
    block = start()
    block.wait_for_samples(2)
    cluster.slurm("scancel", block.job())
    assert block.finish() == 1
    assert block.outcome() == "cancelled"
    block.check_over()
    assert [s["outcome"] for s in block.undisturbed()[:2]] == ["accepted"] * 2


def test_a_writer_killed_in_a_run_costs_that_run(start):
    block = start(pairs=1)
    os.kill(block.wait_for_writer(beside="sleep 4"), signal.SIGKILL)
    assert block.finish() == 0, block.out
    block.check_over()
    outcomes = [(s["arm"], s["outcome"]) for s in block.undisturbed() if not s["warmup"]]
    assert sorted(outcomes) == [("off", "accepted"), ("on", "accepted"), ("on", "injector_died")]


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
def test_an_origin_whose_slurmd_is_killed(cluster, start):
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
    """Tasks run on if srun gets SIGKILL. At SIGTERM it ends them; Slurm 26.05 ends the job."""
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
