"""Slurm options of a job with origins, and how the job ended. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from injection.machine.machine import Origins

#: Slurm's job states that say more than the conductor could, worst first.
_STATES = {
    "NODE_FAIL": "node_failed",
    "BOOT_FAIL": "node_failed",
    "OUT_OF_MEMORY": "out_of_memory",
    "TIMEOUT": "time_limit",
    "DEADLINE": "time_limit",
    "PREEMPTED": "preempted",
    "CANCELLED": "cancelled",
}

#: Variables that give a step the CPUs per task of the application: `srun` before 22.05 reads the
#: first, later ones the second, and from 23.11 on the third. They would confine the agents.
_TASK_CPUS = ("SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_TRES_PER_TASK")
_WITHOUT = [f"--unset={name}{of}" for name in _TASK_CPUS for of in ("", "_HET_GROUP_0")]
#: Gives steps the job script's environment even if jobs are submitted with `--export=NONE`.
STEP_ENVIRONMENT = {"SLURM_EXPORT_ENV": "ALL"}


@dataclass(frozen=True)
class JobOutcome:
    """How a block ended: `done`, or what failed, with a reason of one line."""

    name: str
    reason: str | None = None


def job_options(origins: Origins, core_spec: int = 0, nodelist: str = "") -> list[str]:
    """Options in the job script: no requeue, and the component of the origins if there is one.

    `core_spec` leaves cores of the targets to the system, and `nodelist` pins the targets: both are
    options of the first component.

    Slurm copies account, QOS and time limit of the first component to the second, but not
    `--exclusive`.
    """
    options = ["--no-requeue", *([f"--core-spec={core_spec}"] if core_spec else [])]
    options += [f"--nodelist={nodelist}"] if nodelist else []
    if origins.policy in ("hetjob", "reservation"):
        count = origins.nodes
        component = [f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1"]
        component += ["--no-requeue", "--exclusive"]
        if origins.partition:
            component.append(f"--partition={origins.partition}")
        if origins.reservation:
            component.append(f"--reservation={origins.reservation}")
        component += origins.access
        options += ["#SBATCH hetjob", f"#SBATCH {' '.join(component)}"]
    return options


def cpus_per_task(cores: int | None, threads_per_core: int) -> int | None:
    """CPUs of a task of `cores`, in Slurm's count: hardware threads.

    None means one core, and stays None if a core has one CPU.
    """
    return cores if threads_per_core == 1 else (cores or 1) * threads_per_core


def agent_launcher(origins: Origins) -> list[str]:
    """A step with one task per node of the job, which shares cores with the application.

    It ends with the first agent that fails, which the conductor may not have heard of yet.
    """
    step = ["env", *_WITHOUT, "srun", "--overlap", "--ntasks-per-node=1"]
    step += ["--cpu-bind=none", "--mpi=none", "--mem=0", "--kill-on-bad-exit=1"]
    if origins.policy == "same_job":
        return [*step, "--ntasks={n_nodes}", "--nodes={n_nodes}"]
    return [*step, "--het-group=0,1"]


def on_targets(launcher: list[str], origins: Origins, tasks: int) -> list[str]:
    """The launch line of an application that leaves the last nodes of its job to the origins.

    The first component of a heterogeneous job has only targets, so there the line is unchanged.
    """
    if origins.policy != "same_job" or not launcher:
        return launcher
    if launcher[0] == "srun":
        return [*launcher, "--nodes={n_targets}", f"--ntasks={tasks}", "--nodelist={targets}"]
    return [*launcher, "--host", "{slots}"]


def bound(launcher: list[str]) -> list[str]:
    """The launch line of an application of which each task keeps to its own cores.

    By default Slurm binds tasks if there are as many as cores, and else it does not, so that levels
    of `reserved_cores` would differ in that too.
    """
    if launcher[:1] != ["srun"] or any(word.startswith("--cpu-bind") for word in launcher):
        return launcher
    return [*launcher, "--cpu-bind=cores"]


def sized(launcher: list[str], tasks: int, per_node: int | None) -> list[str]:
    """The launch line of an application that may have fewer tasks than its job requested."""
    if launcher[:1] != ["srun"] or any(word.startswith("--ntasks=") for word in launcher):
        return launcher
    a_node = [f"--ntasks-per-node={per_node}"] if per_node else []
    return [*launcher, f"--ntasks={tasks}", *a_node]


def outcome(
    state: str | None, exit_code: int | None, block: Mapping[str, Any] | None
) -> JobOutcome:
    """Classify a failure: by Slurm's job state, then by the conductor, then by the exit status.

    `state` is Slurm's (of all components, separated by commas; None without Slurm), `block` the
    content of the conductor's `block.json` (None if it is missing).
    """
    states = (state or "").split(",")
    for name, outcome_name in _STATES.items():
        if name in states:
            return JobOutcome(outcome_name, f"Slurm: job state {name}")
    if block is None:
        return JobOutcome(
            "job_failed", f"the conductor left no block.json (exit status {exit_code})"
        )
    if block["state"] != "done":
        return JobOutcome(block["state"], block["reason"])
    if exit_code:
        return JobOutcome("job_failed", f"exit status {exit_code} though the block was done")
    return JobOutcome("done")
