"""The client of Slurm: asks for resources, reservations and jobs, and cancels jobs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from records import programs
from records.errors import MachineError
from records.kernel_text import number
from records.slurm import options, parse, parse_nodes
from records.slurm.parse import jobs_in_folder
from records.slurm.parse_nodes import SlurmNode, nodes_in

#: The command that submits jobs; its `--version` is Slurm's.
SUBMIT_COMMAND = "sbatch"
#: Commands that must be on PATH: to submit jobs, start steps, and tell ReFrame the states of jobs.
REQUIRED_COMMANDS = (SUBMIT_COMMAND, "srun", "scontrol", "sacct")
#: Asks whether slurmctld answers.
PING_COMMAND = ("scontrol", "ping")
#: Remedy if the accounting does not answer.
ACCOUNTING_REMEDY = (
    "ReFrame's scheduler 'slurm' reads job states from sacct: configure slurmdbd, or set 'squeue'"
    " in configs/ and policy same_job in site/"
)


def ask(
    command: Sequence[str], environment: Mapping[str, str] = os.environ, *, errors: str = "replace"
) -> programs.ProgramAnswer:
    """Run a command of Slurm. `environment` and `errors` are as in `programs.ask`.

    A command is not started if it would only wait for Slurm's configuration.
    """
    if fault := _configuration_fault(environment):
        return programs.ProgramAnswer(command[0], None, "", fault)
    return programs.ask(command, environment, errors=errors)


def _configuration_fault(environment: Mapping[str, str]) -> str:
    """Say that SLURM_CONF names a missing file; empty if it does not.

    Every command of Slurm waits a minute for this file, even to print its version.
    """
    name = options.CONFIGURATION_VARIABLE
    file = environment.get(name)
    if file is None or os.path.isfile(programs.FILE_SYSTEM_ROOT / file):
        return ""
    return (
        f"{name} names {file!r}, which does not exist; `unset {name}`, or name your cluster's file"
    )


# Presence of Slurm. `environment` is the environment in which ReFrame runs the commands.


def command_fault(environment: Mapping[str, str]) -> str:
    """Why commands of Slurm cannot run on this host, and what helps; empty if they can."""
    if missing := [name for name in REQUIRED_COMMANDS if not shutil.which(name)]:
        names = ", ".join(missing)
        return f"no {names} on PATH; load Slurm's module, or add Slurm's bin folder to PATH"
    return _configuration_fault(environment)


def can_list_nodes() -> bool:
    """Return whether this host has the command that lists nodes."""
    return bool(shutil.which("sinfo"))


def controller_fault(environment: Mapping[str, str]) -> str:
    """The message if slurmctld does not answer; empty if it answers."""
    answer = ask(PING_COMMAND, environment)
    return "" if answer.ok and parse.is_up(answer.text) else answer.last_line


def accounting_fault(environment: Mapping[str, str]) -> str:
    """The message if the accounting does not answer; empty if it answers."""
    answer = ask(["sacct", "-n", "-X"], environment)
    return "" if answer.ok else answer.last_line


# Resources of Slurm.


def ask_nodes(partition: str | None, environment: Mapping[str, str]) -> list[SlurmNode]:
    """Nodes of a partition; None: of the default partition. Raises MachineError.

    If there is no default partition, all nodes are returned, since a site then chooses nodes by
    other options. A hidden partition has nodes, too: sinfo shows it if it is named, or with
    `--all`, but refuses both options together.

    Also raises MachineError if Slurm hides nodes of the partition from users. By default it hides
    nodes of a cloud that are powered down, which would start for a job (`PrivateData`).
    """
    selection = f"--partition={partition}" if partition else "--all"
    columns = "%N %T" if partition else "%N %T %P"
    command = ["sinfo", selection, "--Node", "--noheader", f"--format={columns}"]
    output = ask(command, command_environment(environment)).required_output()
    nodes = nodes_in(output, default_only=not partition)
    if partition:
        record = ask(
            ["scontrol", "--all", "--oneliner", "show", "partition", partition], environment
        ).stdout
        total = number(parse.fields_of(record).get("TotalNodes", "")) or 0
        if len(nodes) < total:
            raise MachineError(f"sinfo shows {len(nodes)} of {total} nodes of {partition}")
    return nodes


def partitions(
    settings: Mapping[str, str], nodes_output: str, named: str = ""
) -> list[parse_nodes.SlurmPartition]:
    """Partitions that can run jobs, the default first. `nodes_output` comes from `node_records`.

    A hidden partition is among them only if the user names it (`named`): Slurm does not tell hidden
    partitions for this user from those for other groups. Raises MachineError if Slurm does not
    answer, if `named` runs no jobs of users, or if no partition does.
    """
    output = _show("partition")
    listed = [parse.fields_of(line).get("PartitionName") for line in output.splitlines()]
    if named and named not in listed:
        hidden = ask(["scontrol", "--all", "--oneliner", "show", "partition", named])
        output = f"{output}\n{hidden.stdout}"
    usable = parse_nodes.partitions(output, settings, nodes_output)
    closed = parse_nodes.closed_partitions(output)
    if reason := closed.get(named):
        allowed = ", ".join(partition.name for partition in usable) or "none"
        raise MachineError(
            f"{options.PARTITION_VARIABLE}: {named} runs no jobs of yours ({reason}); allowed:"
            f" {allowed}"
        )
    if not usable:
        reasons = "; ".join(f"{name} has {reason}" for name, reason in closed.items())
        raise MachineError(
            f"Slurm shows no partition that runs jobs of yours: {reasons or 'none has nodes'}"
        )
    return usable


def partition_records(environment: Mapping[str, str]) -> str:
    """All partitions as `scontrol` shows them, hidden ones too; empty if Slurm does not answer."""
    answer = ask(["scontrol", "--all", "--oneliner", "show", "partition"], environment)
    return answer.stdout if answer.ok else ""


def node_records(settings: Mapping[str, str]) -> str:
    """All nodes as `scontrol` shows them, for parsers; empty if a user may not see them.

    Nodes of hidden partitions are among them. Raises MachineError.
    """
    try:
        return _show("node", "--all")
    except MachineError:
        if "nodes" in settings.get("PrivateData", "").split(","):
            return ""
        raise


def settings() -> dict[str, str]:
    """The settings of `slurm.conf`. Raises MachineError."""
    return parse.settings(_show("config"))


def _show(entity: str, *flags: str) -> str:
    command = ["scontrol", *flags, "--oneliner", "show", entity]
    answer = ask(command)
    if not answer.ok:
        raise MachineError(f"{' '.join(command)}: {answer.last_line}")
    return answer.stdout


def mpi_types() -> list[str]:
    """The interfaces that `srun` offers to an application's MPI."""
    return parse.mpi_types(ask(["srun", "--mpi=list"]).text)


def accounts(user: str, cluster: str) -> list[str]:
    """Accounts of a user on a cluster; empty if the accounting does not answer.

    If the name of the cluster is empty, accounts on all clusters of the database are returned.
    """
    command = ["sacctmgr", "--noheader", "--parsable2", "show", "assoc", f"user={user}"]
    if cluster:
        command.append(f"cluster={cluster}")
    answer = ask([*command, "format=account"])
    return parse.accounts(answer.text) if answer.ok else []


def hostnames(nodelist: str) -> list[str]:
    """Node names from Slurm's compact list. Raises MachineError."""
    if not nodelist:
        return []
    return parse.hostnames(ask(["scontrol", "show", "hostnames", nodelist]).required_output())


# Reservations.


def create_reservation_command(name: str, minutes: int, user: str) -> list[str]:
    """The command that creates a reservation that starts now; the caller adds its nodes."""
    command = ["scontrol", "create", "reservation", f"ReservationName={name}"]
    return [*command, "StartTime=now", f"Duration={minutes}", f"Users={user}"]


def delete_reservation_command(name: str) -> list[str]:
    """The command that removes a reservation."""
    return ["scontrol", "delete", f"ReservationName={name}"]


def run_or_advise(command: list[str]) -> None:
    """Run a command on a reservation.

    Raises MachineError if Slurm refuses it. The error shows the command, so that an operator can
    run it.
    """
    answer = _scontrol(command)
    if not answer.ok:
        raise MachineError(f"{answer.last_line}; an operator can run: {shlex.join(command)}")


def find_reservation(name: str) -> parse.Reservation | None:
    """The reservation of a name as Slurm shows it, None without one. Raises MachineError."""
    answer = _scontrol(["scontrol", "-o", "show", "reservation", name])
    if "not found" in answer.text:
        return None
    return parse.first_reservation(answer.required_output())


def _scontrol(command: list[str]) -> programs.ProgramAnswer:
    return ask(command, command_environment(os.environ)).require_end()


# Orphaned Slurm jobs of a run, which are found by their working folder, and cancelled.


#: Maximum time until cancelled jobs have ended, seconds.
END_TIMEOUT_S = 60.0
#: Interval at which the queue is read until cancelled jobs have ended, seconds.
_POLL_S = 1.0
#: Longest time that `cancel_jobs` takes, seconds. Two commands before the wait for the end of jobs,
#: and two after it, may each take until their own time limit.
CANCEL_TIMEOUT_S = END_TIMEOUT_S + _POLL_S + 4 * programs.TIMEOUT_S
#: Lists this user's jobs, also in hidden partitions, with one line `JOB|STATE|START|REASON|FOLDER`
#: per job. Components of a heterogeneous job are `JOB+N`. While the state is `PD` (pending), START
#: is the expected start.
JOBS_COMMAND = ("squeue", "--me", "--all", "--noheader", "--format=%i|%t|%S|%r|%Z")


def cancel_jobs(run: Path) -> list[str]:
    """Cancel the jobs that a run has left, and wait until they have ended. Returns their ids.

    ReFrame cancels its jobs on SIGTERM, but not if it was killed. A job that is completing
    counts as ended after a while, since its epilog may take minutes. Raises MachineError if Slurm
    does not answer or jobs do not end.
    """
    jobs = remaining_jobs(run)
    if jobs:
        # `scancel` also fails for jobs that are just ending, so only the queue decides.
        answer = ask(["scancel", *jobs], command_environment(os.environ))
        deadline_s = time.monotonic() + END_TIMEOUT_S
        while remaining_jobs(run):
            if time.monotonic() > deadline_s:
                remaining = remaining_jobs(run, completing=False)
                if not remaining:
                    break
                scancel_fault = "" if answer.ok else f": scancel: {answer.reason}"
                raise MachineError(
                    f"{run}: jobs of an earlier session do not end: {remaining}{scancel_fault}"
                )
            time.sleep(_POLL_S)
    return jobs


def has_ended(job: str) -> bool:
    """Return whether slurmctld answers, and the job is no longer in the queue."""
    command = ["squeue", "--noheader", f"--jobs={job}", "--format=%i"]
    answer = ask(command, command_environment(os.environ))
    is_listed = re.search(rf"^{job}(?!\d)", answer.stdout, re.MULTILINE)
    return (answer.ok and not is_listed) or "Invalid job id specified" in answer.stderr


def job_record(job: str) -> str:
    """The record of a job as Slurm prints it; empty if slurmctld no longer knows the job."""
    command = ["scontrol", "--oneliner", "show", "job", job]
    return ask(command, command_environment(os.environ)).stdout


def remaining_jobs(run: Path, *, completing: bool = True) -> list[str]:
    """Ids of the jobs that work in the folder of a run.

    Without `completing`, jobs of which only the epilog still runs are left out. Raises MachineError
    if Slurm does not answer.
    """
    # Names of folders may have any encoding.
    answer = ask(JOBS_COMMAND, command_environment(os.environ), errors="surrogateescape")
    return list(jobs_in_folder(run, answer.required_output(), completing=completing))


def command_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which Slurm's commands list all jobs and nodes.

    A variable such as SQUEUE_PARTITION would hide a job of a run, so that the job would seem lost.
    With SCANCEL_STATE, the job might not be cancelled. Times are printed in the standard format.
    """
    filters = options.filtering_variables(environment)
    unfiltered = {name: value for name, value in environment.items() if name not in filters}
    return {**unfiltered, "SLURM_TIME_FORMAT": "standard"}


def cancel_command(jobs: Collection[str]) -> str:
    """The command with which a user cancels jobs; without ids, it says how to find them."""
    return f"scancel {' '.join(jobs) or 'JOB (squeue --me lists them)'}"


# For the operator of a cluster (`testbed`).


#: Lists the clusters of the accounting.
CLUSTERS_COMMAND = ("sacctmgr", "-nP", "show", "cluster")
#: Lists `NODE STATE` of each node, in short words and signs.
NODE_STATES_COMMAND = ("sinfo", "-h", "-N", "-o", "%n %t")


def add_cluster_command(name: str) -> list[str]:
    """The command that adds a cluster to the accounting."""
    return ["sacctmgr", "-i", "add", "cluster", name]
