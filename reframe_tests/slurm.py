"""What a job with origins asks of Slurm, and what became of it. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from injection.machine.machine import Origins

#: Slurm's job states that tell more than what the conductor could say, worst first.
_STATES = {
    "NODE_FAIL": "node_failed",
    "BOOT_FAIL": "node_failed",
    "OUT_OF_MEMORY": "out_of_memory",
    "TIMEOUT": "time_limit",
    "DEADLINE": "time_limit",
    "PREEMPTED": "preempted",
    "CANCELLED": "cancelled",
}

#: By these a step takes over the CPUs of one of the application's tasks: `srun` before 22.05 reads
#: the first, later ones the second, and from 23.11 on the third. Agents then had those CPUs alone.
_TASK_CPUS = ("SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_TRES_PER_TASK")
_WITHOUT = [f"--unset={name}{of}" for name in _TASK_CPUS for of in ("", "_HET_GROUP_0")]
#: Steps get the job script's environment also where jobs are submitted with `--export=NONE`.
STEP_ENVIRONMENT = {"SLURM_EXPORT_ENV": "ALL"}


@dataclass(frozen=True)
class JobOutcome:
    """What became of a block: `done`, or who failed, in one line for people."""

    name: str
    reason: str | None = None


def job_options(origins: Origins) -> list[str]:
    """Lines of the job script: no second start, and the origins' component where there is one.

    Slurm carries account, QOS and time limit of the first component over to the second, but not
    that it wants nodes of its own.
    """
    options = ["--no-requeue"]
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
    """CPUs of a task that has so many cores, as Slurm counts them: hardware threads.

    None asks for one core, and stays None where that is one CPU.
    """
    return cores if threads_per_core == 1 else (cores or 1) * threads_per_core


def agent_launcher(origins: Origins) -> list[str]:
    """One step with one task on every node of the job; it shares its cores with the application."""
    step = ["env", *_WITHOUT, "srun", "--overlap", "--ntasks-per-node=1"]
    step += ["--cpu-bind=none", "--mpi=none", "--mem=0"]
    if origins.policy == "same_job":
        return [*step, "--ntasks={n_nodes}", "--nodes={n_nodes}"]
    return [*step, "--het-group=0,1"]


def on_targets(launcher: list[str], origins: Origins, tasks: int) -> list[str]:
    """The launch line of an application that must leave the last nodes of its job to the origins.

    A heterogeneous job's first component holds the targets alone, so there the line stays.
    """
    if origins.policy != "same_job" or not launcher:
        return launcher
    if launcher[0] == "srun":
        return [*launcher, "--nodes={n_targets}", f"--ntasks={tasks}", "--nodelist={targets}"]
    return [*launcher, "--host", "{slots}"]


def sized(launcher: list[str], tasks: int, per_node: int | None) -> list[str]:
    """The launch line of an application that may have fewer tasks than its job asks for."""
    if launcher[:1] != ["srun"] or any(word.startswith("--ntasks=") for word in launcher):
        return launcher
    a_node = [f"--ntasks-per-node={per_node}"] if per_node else []
    return [*launcher, f"--ntasks={tasks}", *a_node]


def outcome(
    state: str | None, exit_code: int | None, block: Mapping[str, Any] | None
) -> JobOutcome:
    """Tell failures apart: what Slurm says first, then the conductor, then the exit status.

    `state` is Slurm's (of all components, with commas; None where there is no Slurm), `block` what
    the conductor left in `block.json` (None where it left nothing).
    """
    states = (state or "").split(",")
    for name, told in _STATES.items():
        if name in states:
            return JobOutcome(told, f"Slurm: job state {name}")
    if block is None:
        return JobOutcome(
            "job_failed", f"the conductor left no block.json (exit status {exit_code})"
        )
    if block["state"] != "done":
        return JobOutcome(block["state"], block["reason"])
    if exit_code:
        return JobOutcome("job_failed", f"exit status {exit_code} though the block was done")
    return JobOutcome("done")
