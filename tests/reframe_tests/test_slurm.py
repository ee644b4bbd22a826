"""Tests of the options that jobs and steps get for Slurm, and of the outcomes of Slurm's jobs."""

import os
from functools import partial

import pytest
from pydantic import ValidationError
from reframe.core.backends import getlauncher

from records.machine import devices
from records.machine.site import Origins
from records.slurm.options import (
    agent_launcher,
    bound_to_cores,
    cpus_per_task,
    job_options,
    limited_to_targets,
    with_network,
    with_overlap,
    with_task_sizes,
)
from records.slurm.parse import job_outcome
from reframe_tests.submission import needs_overlap
from tests.records.machine import made
from tests.reframe_tests.reframe_call import ran, script, succeeded

HETJOB = Origins(policy="hetjob", nodes=2, partition="origin")
RESERVED = Origins(policy="reservation", nodes=1, reservation="nimc")
SPLIT = Origins(policy="same_job", nodes=1)


def test_origins_are_a_second_component_of_the_job():
    assert job_options(RESERVED)[-1].endswith("--reservation=nimc")
    origins = Origins(policy="hetjob", partition="origin", access=["--constraint=hdr", "-Cx"])
    assert job_options(origins)[-1].endswith(" --partition=origin --constraint=hdr -Cx")
    for option in ("constraint=hdr", "--constraint hdr", "-C x\n#SBATCH -N9"):
        with pytest.raises(ValidationError, match=r"access\.0"):
            Origins(policy="hetjob", access=[option])


def test_core_spec_and_nodelist_hold_for_the_targets_only():
    # The options before `hetjob` are those of the first component, which has the targets.
    assert job_options(HETJOB, 2)[:3] == ["--no-requeue", "--core-spec=2", "#SBATCH hetjob"]
    assert "core-spec" not in job_options(HETJOB, 2)[3]
    assert job_options(SPLIT, 1) == ["--no-requeue", "--core-spec=1"]
    pinned = ["--no-requeue", "--nodelist=n1,n2", "#SBATCH hetjob"]
    assert job_options(HETJOB, nodelist="n1,n2")[:3] == pinned


@pytest.mark.parametrize(
    ("launcher", "line"),
    [
        (["srun", "--mpi=pmi2"], ["srun", "--mpi=pmi2", "--cpu-bind=cores"]),
        # The site has set its own binding.
        (["srun", "--cpu-bind=map_cpu:0,2"], ["srun", "--cpu-bind=map_cpu:0,2"]),
        (["mpirun", "-np", "4"], ["mpirun", "-np", "4"]),
        ([], []),
    ],
)
def test_tasks_of_srun_are_bound_to_cores_unless_the_site_binds_them(launcher, line):
    assert bound_to_cores(launcher) == line


@pytest.mark.parametrize(
    ("launcher", "per_node", "cpus", "more"),
    [
        (["srun"], None, None, ["--ntasks=8"]),
        (["srun", "--mpi=pmi2"], 4, None, ["--ntasks=8", "--ntasks-per-node=4"]),
        (["srun", "--cpus-per-task=3"], None, 3, ["--ntasks=8"]),
        # Before 22.05, ReFrame's launcher does not name the CPUs.
        (["srun", "--ntasks=8"], 4, 2, ["--ntasks-per-node=4", "--cpus-per-task=2"]),
        (["mpirun"], 4, 2, []),
        ([], None, None, []),
    ],
)
def test_srun_gets_the_sizes_of_tasks_that_its_line_lacks(launcher, per_node, cpus, more):
    assert with_task_sizes(launcher, 8, per_node, cpus) == [*launcher, *more]


def test_a_split_allocation_is_one_component_and_limits_the_launch_line_to_targets():
    assert job_options(SPLIT) == ["--no-requeue"]
    split = ["--nodes={n_targets}", "--ntasks=8", "--nodelist={targets}"]
    assert limited_to_targets(["srun"], SPLIT, 8)[1:] == split
    assert limited_to_targets(["mpirun", "-np", "8"], SPLIT, 8)[-2:] == ["--host", "{slots}"]
    assert limited_to_targets(["srun"], HETJOB, 8) == ["srun"]
    assert limited_to_targets([], SPLIT, 1) == []
    # The step of the agents spans both components. A number of CPUs counts hardware threads in
    # Slurm.
    assert "--het-group=0,1" in agent_launcher(HETJOB)
    assert "--het-group=0,1" not in agent_launcher(SPLIT)
    for origins in (HETJOB, SPLIT):
        assert "--kill-on-bad-exit=1" in agent_launcher(origins)
    cpus = [cpus_per_task(cores, threads) for cores in (None, 1, 16) for threads in (1, 2)]
    assert cpus == [None, 2, 1, 2, 16, 32]


def test_the_step_of_the_agents_does_not_inherit_cpus_per_task(tmp_path):
    script(tmp_path / "srun", "exec /usr/bin/env")
    # Slurm 24.05 sets such variables in a job with `--cpus-per-task=2`, and sites add others.
    variables = {
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_TRES_PER_TASK": "cpu=2",
        "SRUN_CPUS_PER_TASK": "2",
    }
    variables |= {f"{name}_HET_GROUP_0": value for name, value in variables.items()}
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "7", **variables}
    seen = succeeded(ran(*agent_launcher(HETJOB), env=environment))
    assert "PER_TASK" not in seen
    assert "NETWORK" not in seen
    assert "SLURM_JOB_ID=7" in seen
    # The variable also reaches the steps of the writers, which the agents start.
    seen = succeeded(ran(*agent_launcher(HETJOB, "job_vni"), env=environment))
    assert "SLURM_NETWORK=job_vni" in seen.splitlines()


@pytest.mark.parametrize(
    ("keys", "agents"),
    [
        # By the manual of srun, `depth` multiplies resources. Its default is the number of CPUs.
        ({"device": "cxi0"}, "depth=1"),
        ({"device": "cxi0", "network": "job_vni"}, "job_vni,depth=1"),
        ({"device": "0000:c5:00.0", "network": "job_vni"}, "job_vni,depth=1"),
        ({"device": "0000:21:00.0"}, "depth=1"),  # this host has it
        ({"device": "0000:c5:00.0"}, ""),
        ({"device": "mlx5_0", "interface": "hsn0"}, ""),
        ({}, ""),
    ],
)
def test_agents_on_slingshot_leave_the_device_to_the_application(
    keys, agents, tmp_path, monkeypatch
):
    cxi = tmp_path / "class/cxi/cxi0"
    cxi.mkdir(parents=True)
    (cxi / "device").symlink_to("../../../devices/0000:21:00.0")
    monkeypatch.setattr(devices, "fabric", partial(devices.fabric, root=tmp_path))
    assert made.machine("hetjob", **keys).agent_network == agents


@pytest.mark.parametrize(
    ("launcher", "network", "line"),
    [
        (["srun", "--mpi=pmi2"], "job_vni", ["srun", "--mpi=pmi2", "--network=job_vni"]),
        (["srun"], None, ["srun"]),
        (["srun", "--network=no_vni"], "job_vni", ["srun", "--network=no_vni"]),
        (["mpirun"], "job_vni", ["mpirun"]),
        ([], "job_vni", []),
    ],
)
def test_the_step_of_an_application_gets_the_network_unless_the_site_sets_one(
    launcher, network, line
):
    assert with_network(launcher, network) == line


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("slurm 20.11.9", ["srun", "--cpus-per-task=2", "--overlap"]),
        ("slurm-wlm 21.08.5", ["srun", "--cpus-per-task=2", "--overlap"]),  # Ubuntu 22.04
        ("slurm 22.05.8", ["srun", "--cpus-per-task=2"]),
        ("slurm 26.05.1", ["srun", "--cpus-per-task=2"]),
    ],
)
def test_the_step_of_an_application_overlaps_with_the_agents_if_slurm_is_old(
    version, line, tmp_path, monkeypatch
):
    """Before Slurm 22.05, a step without `--overlap` gets no CPUs of another step (step_mgr.c)."""
    script(tmp_path / "srun", f"echo '{version}'")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    launcher = getlauncher("srun")()
    words = ["srun", "--cpus-per-task=2"]
    assert (with_overlap(words) if needs_overlap(launcher) else words) == line
    assert with_overlap(["mpirun"]) == ["mpirun"]
    assert with_overlap(["srun", "--overlap"]) == ["srun", "--overlap"]
    assert not needs_overlap(getlauncher("mpirun")())


@pytest.mark.parametrize("network", ["job vni", "", "a\n#SBATCH -N9", "--help"])
def test_a_network_is_one_word(network):
    with pytest.raises(ValidationError, match="network"):
        made.machine(network=network)


DONE = {"state": "done", "reason": None}
CANCELLED = {"state": "cancelled", "reason": "stopped by a signal, or the owner process ended"}
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
def test_the_outcome_of_a_job_names_its_failure(state, code, block, name):
    assert job_outcome(state, code, block).name == name


def test_a_job_whose_folder_its_nodes_do_not_see_names_its_state_and_the_folder():
    """Slurm 22.05.8 ends such a job before its script, as FAILED 0:53: it cannot open its output.
    ReFrame gives the first number as the exit status.
    """
    reason = job_outcome("FAILED,FAILED", 0, None).reason
    assert "FAILED" in reason
    assert "results folder" in reason
    assert "(exit status 1)" in job_outcome(None, 1, None).reason
