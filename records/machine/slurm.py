"""Slurm: options of a job with origins, how jobs end, nodes of a partition, orphaned jobs."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from records.errors import MachineError
from records.machine.site import Origins
from records.programs import ask

#: Slurm's job states that say more than the conductor could, worst first.
_STATES = {
    "NODE_FAIL": "node_failed",
    "BOOT_FAIL": "node_failed",
    "LAUNCH_FAILED": "node_failed",
    "RECONFIG_FAIL": "node_failed",
    "OUT_OF_MEMORY": "out_of_memory",
    "TIMEOUT": "time_limit",
    "DEADLINE": "time_limit",
    "PREEMPTED": "preempted",
    "CANCELLED": "cancelled",
}

#: ReFrame's schedulers that are Slurm.
SCHEDULERS = ("slurm", "squeue")
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


def agent_launcher(origins: Origins, network: str | None = None) -> list[str]:
    """A step with one task per node of the job, which shares cores with the application.

    It ends with the first agent that fails, which the conductor may not have heard of yet.
    `network`: for this step, and for those of writers that an agent starts. Slingshot's plugin
    would reserve resources for each CPU of the node, and leave none to the application: `depth=1`.
    """
    over = [f"SLURM_NETWORK={network},depth=1"] if network else []
    step = ["env", *_WITHOUT, *over, "srun", "--overlap", "--ntasks-per-node=1"]
    step += ["--cpu-bind=none", "--mpi=none", "--mem=0", "--kill-on-bad-exit=1"]
    if origins.policy == "same_job":
        return [*step, "--ntasks={n_nodes}", "--nodes={n_nodes}"]
    return [*step, "--het-group=0,1"]


def networked(launcher: list[str], network: str | None) -> list[str]:
    """The launch line of an application whose step names its network, unless it does already."""
    named = any(word.startswith("--network") for word in launcher)
    if launcher[:1] != ["srun"] or network is None or named:
        return launcher
    return [*launcher, f"--network={network}"]


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


# What `scontrol --oneliner show` prints of a record.


_FIELD = re.compile(r"(?:^|\s)([A-Za-z]\w*)=(\S*)")
#: Fields at its end that hold any text of an operator, whose words may look like fields.
_TEXTS = ("Reason", "Comment", "AdminComment", "Extra")


def fields_of(line: str) -> dict[str, str]:
    """Name -> value of the fields of a record, up to the first that holds any text."""
    pairs = takewhile(lambda pair: pair[0] not in _TEXTS, _FIELD.findall(line))
    return dict(reversed(list(pairs)))  # the first of a name counts


# Nodes of a Slurm partition, as `sinfo` lists them.


#: States in which a node takes jobs now or later; `sinfo` adds signs such as `*` and `~`. Others
#: wait for an operator: `down`, `drained`, `draining`, `fail`, `failing`, `future`, `inval`,
#: `maint`, `perfctrs`, `unknown`.
_USABLE = (
    *("allocated", "idle", "mixed", "completing", "reserved", "planned", "blocked"),
    *("power_down", "powering_down", "powered_down", "power_up", "powering_up"),
    *("reboot", "reboot_requested", "reboot_issued"),
)
#: The sign of a node that is about to restart, even if it is `down` until then.
_RESTARTS = "^"
#: The length from which options that are asked for here differ from all others: `--part`.
_SHORTEST = 6
_NODE = re.compile(r"([A-Za-z0-9][\w.-]*)\s+([a-z_]+)([^\sa-z]*)", re.ASCII)


@dataclass(frozen=True)
class SlurmNode:
    """A node and its state."""

    name: str
    state: str

    @property
    def usable(self) -> bool:
        """Whether a job for it would start some day."""
        return self.state in _USABLE


def partition_in(access: Sequence[str]) -> str | None:
    """The partition that job options name (`access` of ReFrame's configuration)."""
    values = option_values(access, "partition", "p")
    return values[-1] if values else None


def option_values(access: Sequence[str], name: str, letter: str = "") -> list[str]:
    """The values of an option of `sbatch`, in order; empty ones for an option without.

    As `sbatch` reads a line: `--name=VALUE`, `--name VALUE`, `-l VALUE`, `-lVALUE`, a name that is
    cut short, and several options in one line.
    """
    values = []
    for line in access:
        words = words_of(line)
        for word, following in zip(words, [*words[1:], ""], strict=True):
            option, equals, value = word.partition("=")
            if f"--{name}".startswith(option) and len(option) >= _SHORTEST:
                alone = not equals and not following.startswith("-")
                values.append(following if alone else value)
            elif letter and word.startswith(f"-{letter}"):
                values.append(word[2:] or following)
    return values


def words_of(line: str) -> list[str]:
    """The words of a line of options, as a shell reads them; one with an open quote at blanks."""
    try:
        return shlex.split(line)
    except ValueError:  # a quote without its end
        return line.split()


def nodes_in(sinfo_output: str) -> list[SlurmNode]:
    """Nodes from sinfo's lines `NODE STATE`, each once, in order.

    A state is cut off at the first sign: `idle~` is a node that is switched off to save power. A
    node that does not answer, `idle*`, is `unknown`; one that restarts, `down^`, is `reboot`.
    """
    nodes: dict[str, SlurmNode] = {}
    for line in sinfo_output.splitlines():
        if match := _NODE.fullmatch(line.strip()):
            name, state, signs = match.groups()
            if _RESTARTS in signs:
                state = "reboot"
            elif "*" in signs:
                state = "unknown"
            nodes[name] = SlurmNode(name, state)
    return list(nodes.values())


def ask_nodes(partition: str | None, environment: Mapping[str, str]) -> list[SlurmNode]:
    """Nodes of a partition, of the default partitions without one. Raises MachineError."""
    command = ["sinfo", "--Node", "--noheader", "--format=%N %T"]
    command += [f"--partition={partition}"] if partition else []
    return nodes_in(ask(command, environment).required())


# Orphaned Slurm jobs of a run: found by their working folder, and cancelled.


#: How long jobs may take to end, seconds.
_END_S = 60.0
#: Lists this user's jobs, a line `JOB|STATE|START|REASON|FOLDER` each; components of a
#: heterogeneous job are `JOB+N`. A start lies ahead while the state is `PD`.
SQUEUE = ("squeue", "--me", "--noheader", "--format=%i|%t|%S|%r|%Z")


def working_in(folder: Path, squeue_output: str) -> dict[str, str]:
    """Jobs whose working folder lies in `folder`, of squeue's lines -> why each waits, if it does.

    Slurm prints folders with links resolved; paths to shared file systems often contain links. It
    does not cancel components of a heterogeneous job, so the whole job is named.
    """
    folder = folder.resolve()
    jobs: dict[str, str] = {}
    for line in squeue_output.splitlines():
        about, _, at = line.partition("|/")
        name, state, start, reason = [*about.split("|", 3), "", "", ""][:4]
        job = name.partition("+")[0]
        if not job.isdigit() or not at or "\0" in at:
            continue
        if Path(os.path.realpath(f"/{at}")).is_relative_to(folder):
            jobs.setdefault(job, _waits(start, reason) if state == "PD" else "")
    return jobs


#: Reasons of a pending job that hold for its kind, whatever is free: limits and policy.
_LIMITS = re.compile(
    r"waits in the queue \(((?:QOS|Assoc|Account|Partition(?!Down|Inactive)|Max|JobHeldAdmin)\w*)\)"
)


def limit_in(waits: str) -> str | None:
    """The limit or policy that keeps a job waiting, of what `working_in` says of it."""
    match = _LIMITS.search(waits)
    return match and match[1]


def _waits(start: str, reason: str) -> str:
    """Why a job is pending, and when it is expected to start; Slurm may know neither."""
    why = f" ({reason})" if reason not in ("", "None", "(null)") else ""
    when = f", expected to start {start.replace('T', ' ')}" if start[:1].isdigit() else ""
    return f"waits in the queue{why}{when}"


def cancel(run: Path) -> list[str]:
    """Cancel the jobs left by a run and wait until they have ended. Returns their ids.

    ReFrame cancels its jobs on SIGTERM, but not if it was killed. Raises MachineError if Slurm
    does not answer or jobs do not end.
    """
    jobs = _left(run)
    if jobs:
        refused = ask(["scancel", *jobs])  # fails also for jobs that are just ending
        until_s = time.monotonic() + _END_S
        while left := _left(run):
            if time.monotonic() > until_s:
                why = "" if refused.ok else f": scancel: {refused.reason}"
                raise MachineError(f"{run}: jobs of an earlier session do not end: {left}{why}")
            time.sleep(1.0)
    return jobs


def _left(run: Path) -> list[str]:
    # Folders are compared, whatever their encoding.
    return list(working_in(run, ask(SQUEUE, errors="surrogateescape").required()))
