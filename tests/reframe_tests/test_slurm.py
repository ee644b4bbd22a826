import pytest

from reframe_tests.machine import Origins
from reframe_tests.slurm import agent_launcher, cpus_per_task, job_options, on_targets, outcome

HETJOB = Origins(policy="hetjob", nodes=2, partition="origin")
RESERVED = Origins(policy="reservation", nodes=1, reservation="nimc")
SPLIT = Origins(policy="same_job", nodes=1)


def test_origins_are_a_second_component():
    assert job_options(HETJOB) == [
        "--no-requeue",
        "#SBATCH hetjob",
        "#SBATCH --nodes=2 --ntasks=2 --ntasks-per-node=1 --no-requeue --exclusive"
        " --partition=origin",
    ]
    assert job_options(RESERVED)[-1].endswith("--reservation=nimc")


def test_a_split_allocation_is_one_component():
    assert job_options(SPLIT) == ["--no-requeue"]
    assert on_targets(["srun"], SPLIT, 8)[1:] == [
        "--nodes={n_targets}",
        "--ntasks=8",
        "--nodelist={targets}",
    ]
    assert on_targets(["mpirun", "-np", "8"], SPLIT, 8)[-2:] == ["--host", "{slots}"]


def test_only_a_split_allocation_changes_the_launch_line():
    assert on_targets(["srun"], HETJOB, 8) == ["srun"]
    assert on_targets([], SPLIT, 1) == []


def test_agents_reach_both_components():
    assert "--het-group=0,1" in agent_launcher(HETJOB)
    assert "--het-group=0,1" not in agent_launcher(SPLIT)


DONE = {"state": "done", "reason": None}
CANCELLED = {"state": "cancelled", "reason": "told to stop, or left alone"}
DIED = {"state": "injector_died", "reason": "writer 0: gone"}


@pytest.mark.parametrize(
    ("state", "code", "block", "name"),
    [
        ("COMPLETED", 0, DONE, "done"),
        (None, 0, DONE, "done"),
        ("COMPLETED,COMPLETED", 0, DONE, "done"),
        ("TIMEOUT", 0, CANCELLED, "time_limit"),
        ("NODE_FAIL,CANCELLED", 0, None, "node_failed"),
        ("CANCELLED", 0, CANCELLED, "cancelled"),
        ("PREEMPTED", 0, CANCELLED, "preempted"),
        ("OUT_OF_MEMORY", 1, None, "out_of_memory"),
        ("FAILED", 1, DIED, "injector_died"),
        ("FAILED", 127, None, "job_failed"),
        ("FAILED", 3, DONE, "job_failed"),
    ],
)
def test_failures_are_told_apart(state, code, block, name):
    assert outcome(state, code, block).name == name


@pytest.mark.parametrize(
    ("cores", "threads_per_core", "cpus"),
    [(None, 1, None), (16, 1, 16), (None, 2, 2), (16, 2, 32), (1, 4, 4)],
)
def test_slurm_counts_hardware_threads(cores, threads_per_core, cpus):
    assert cpus_per_task(cores, threads_per_core) == cpus
