"""Parsers of what Slurm prints about jobs, reservations, settings and failures.

`records.slurm.parse_nodes` has the parsers of what Slurm prints about partitions and nodes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from records.errors import MachineError

# How jobs end.


#: Job state of Slurm -> name of the outcome, the worst first. These states give causes that the
#: conductor cannot know.
_OUTCOMES = {
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


@dataclass(frozen=True)
class JobOutcome:
    """How a block ended: `done`, or what failed, with the reason in one line."""

    name: str
    reason: str | None = None


def job_outcome(
    state: str | None, exit_code: int | None, block_record: Mapping[str, Any] | None
) -> JobOutcome:
    """Classify the end of a job: by Slurm's state, then by the conductor, then by the exit status.

    `state` is the job state of Slurm, or the states of all components, separated by commas; None
    without Slurm. `block_record` is the content of the conductor's `block.json`; None if the file
    is missing.
    """
    states = (state or "").split(",")
    for name, outcome_name in _OUTCOMES.items():
        if name in states:
            return JobOutcome(outcome_name, f"Slurm: job state {name}")
    if block_record is None:
        ending = f"exit status {exit_code}" if state is None else f"{state}, status {exit_code}"
        reason = (
            f"the conductor left no block.json ({ending}): read the job's rfm_job.err; if there is"
            " none, nodes may not see the results folder"
        )
        return JobOutcome("job_failed", reason)
    if block_record["state"] != "done":
        return JobOutcome(block_record["state"], block_record["reason"])
    if exit_code:
        return JobOutcome("job_failed", f"exit status {exit_code} though the block was done")
    return JobOutcome("done")


# Records of `scontrol --oneliner show`.


_FIELD = re.compile(r"(?:^|\s)([A-Za-z]\w*)=(\S*)")
#: Fields at the end of a record with an operator's text. Words of the text may look like fields.
_TEXT_FIELDS = ("Reason", "Comment", "AdminComment", "Extra")


def fields_of(line: str) -> dict[str, str]:
    """Name -> value of the fields of a record, up to the first field of free text."""
    pairs = takewhile(lambda pair: pair[0] not in _TEXT_FIELDS, _FIELD.findall(line))
    return dict(reversed(list(pairs)))  # if a name is repeated, its first value counts


# Steps of a job, as `scontrol --oneliner show step JOB` shows them.


#: A step whose tasks run: its id, and the host and the process of its `srun`. Fields about GPUs, a
#: container or files may follow.
_STEP = re.compile(
    r"^StepId=(\d+\.\d+) .*\bSrunHost:Pid=([^\s:]+):(\d{1,10})(?=\s|$)", re.MULTILINE
)


def steps_started_by(scontrol_output: str, host: str, pids: Collection[int]) -> list[str]:
    """Ids of the steps whose `srun` is one of these processes of a host."""
    return [
        step
        for step, srun_host, pid in _STEP.findall(scontrol_output)
        if int(pid) in pids and srun_host.partition(".")[0] == host.partition(".")[0]
    ]


# What a job asked for, as `scontrol --oneliner show job JOB` shows it.


#: The last of the numbers is the number of threads per core; `*` if the job does not choose it.
_THREADS_PER_CORE = re.compile(r"\sReqB:S:C:T=\S*:(\d{1,4})(?:\s|$)")
#: The cores that a job leaves to the system; `*` if it leaves as many as the node's default.
_CORE_SPEC = re.compile(r"\sCoreSpec=(\d{1,4})(?:\s|$)")


def threads_per_core(scontrol_output: str) -> int | None:
    """The threads of each core that a job may use; None if it may use all of them."""
    match = _THREADS_PER_CORE.search(scontrol_output)
    return int(match[1]) if match else None


def core_spec(scontrol_output: str) -> int:
    """The cores of each node that a job leaves to the system; 0 if the job gives no number."""
    match = _CORE_SPEC.search(scontrol_output)
    return int(match[1]) if match else 0


# This user's jobs, as `squeue` lists them.


#: Reasons why a job is pending even if nodes are free: limits and policy.
_LIMIT_REASON = re.compile(
    r"(QOS|Assoc|Account|Partition(?!Down|Inactive)|Max(?!PoweredUp)|JobHeldAdmin|BadConstraints"
    r"|InvalidAccount|InvalidQOS)\w*"
)
#: Pattern in the reason for such a limit -> what to do; the first that matches counts.
_LIMIT_REMEDIES = {
    r"MinutesPerJob|RunMin|MaxWall|TimeLimit": "lower time_limit in configs/",
    r"Minutes|GrpWall|Billing|UsageThreshold": "the account or the QOS has no time left; name"
    " another under access in configs/",
    r"Jobs|Submit|^QOSJobLimit": "set policy: same_job in site/, so that a block is one job, not"
    " two",
    r"Grp|PerUser|PerAccount": "it counts all running jobs of the account, QOS or user: wait until"
    " others end; a job that by itself exceeds it never starts",
    r"Partition(Node|Config)|(Min|Max)(Node|Cpu)": "a job has too few or too many nodes or CPUs for"
    " the partition or the QOS: name another under access in configs/, or take another case",
    r"BadConstraints": "no node has what the job asks for: see access in configs/, and facts in"
    " site/",
    r"ReqNode": "correct the names of nodes: --nodelist, or access in configs/",
    r"(?<!Min)Mem": "ask for less memory: --mem or --mem-per-cpu under access in configs/",
    r"": "see access in configs/ for account, QOS and partition, and what they require (--gres)",
}


@dataclass(frozen=True)
class PendingJob:
    """Why a job waits, and when it is expected to start; empty if Slurm does not tell."""

    reason: str = ""
    start: str = ""
    #: Whether its nodes are allocated but not ready yet. In a cloud they boot for minutes.
    has_nodes: bool = False

    @property
    def line(self) -> str:
        """The reason and the expected start in words."""
        if self.has_nodes:
            return "waits for its nodes, which boot or are prepared"
        reason = f" ({self.reason})" if self.reason else ""
        start = f", expected to start {self.start}" if self.start else ""
        remedy = f": {limit_remedy(self.limit_reason)}" if self.limit_reason and not start else ""
        return f"waits in the queue{reason}{start}{remedy}"

    @property
    def limit_reason(self) -> str | None:
        """The reason if it is a limit or a policy; None for any other reason."""
        return self.reason if _LIMIT_REASON.fullmatch(self.reason) else None


def limit_remedy(reason: str) -> str:
    """What to do about the limit for which a job waits."""
    return next(remedy for pattern, remedy in _LIMIT_REMEDIES.items() if re.search(pattern, reason))


def jobs_in_folder(
    folder: Path, squeue_output: str, *, completing: bool = True
) -> dict[str, PendingJob | None]:
    """Job whose working folder lies in `folder` -> why it waits; None if it does not wait.

    Slurm prints folders with links resolved, and paths to shared file systems often contain links.
    `squeue_output` is the output of `records.slurm.client.JOBS_COMMAND`. Slurm does not cancel
    single components of a heterogeneous job, so the whole job is named. Without `completing`, jobs
    of which only the epilog still runs are left out.
    """
    folder = folder.resolve()
    jobs: dict[str, PendingJob | None] = {}
    for line in squeue_output.splitlines():
        columns, _, path = line.partition("|/")
        padded_columns = [*columns.split("|", 3), "", "", ""]  # a column may be missing
        job_or_component, state, start, reason = padded_columns[:4]
        job = job_or_component.partition("+")[0]
        if not job.isdigit() or "\0" in path or (state == "CG" and not completing):
            continue
        if Path(os.path.realpath(f"/{path}")).is_relative_to(folder):
            jobs.setdefault(job, _pending(state, start, reason))
    return jobs


def _pending(state: str, start: str, reason: str) -> PendingJob | None:
    if state != "PD":
        return PendingJob(has_nodes=True) if state == "CF" else None
    return PendingJob(
        reason="" if reason in ("None", "(null)") else reason,
        start=start.replace("T", " ") if start[:1].isdigit() else "",
    )


# Settings and lists of names.


#: Name of a partition, an account or a node, as it may stand in a file without quotes.
NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)


def settings(scontrol_output: str) -> dict[str, str]:
    """Setting -> value, from the lines `NAME = VALUE` of `scontrol show config`."""
    pairs = (line.partition("=") for line in scontrol_output.splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def has_accounting(settings: Mapping[str, str]) -> bool:
    """Return whether Slurm stores the jobs that have ended, which `sacct` shows."""
    storage = settings.get("AccountingStorageType", "")
    return storage != "(null)" and not storage.endswith("/none")


def mpi_types(srun_output: str) -> list[str]:
    """The types that `srun --mpi=list` prints, one per line, in older versions after `srun:`."""
    lines = iter(srun_output.splitlines())
    for line in lines:
        if "types are" in line:  # a site may print something before
            break
    words = (line.removeprefix("srun:").strip() for line in lines)
    return list(dict.fromkeys(takewhile(NAME.fullmatch, words)))


def accounts(sacctmgr_output: str) -> list[str]:
    """The accounts that `sacctmgr -nP show assoc format=account` prints, each once."""
    names = (line.strip() for line in sacctmgr_output.splitlines())
    return list(dict.fromkeys(name for name in names if NAME.fullmatch(name)))


# Names of nodes, one per line.


_HOST = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)


def hostnames(scontrol_output: str) -> list[str]:
    """Names from `scontrol show hostnames`; a site may print something before them."""
    return [line.strip() for line in scontrol_output.splitlines() if _HOST.fullmatch(line.strip())]


# A reservation.


#: Slurm's format of times in one-line records.
_TIME = "%Y-%m-%dT%H:%M:%S"
#: Beginning of a record. Other lines say that there is no reservation.
_RECORD_START = "ReservationName="


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """A reservation as Slurm shows it."""

    name: str
    start: datetime
    end: datetime
    nodes: str
    node_count: int
    #: Users, groups and accounts that it admits. If all three are empty, it admits everyone. A name
    #: that begins with `-` is excluded.
    users: list[str]
    groups: list[str]
    accounts: list[str]
    state: str
    #: Flags, such as `MAINT`.
    flags: list[str]


def parse_reservation(line: str) -> Reservation:
    """The reservation in a line of `scontrol -o show reservation`. Raises MachineError if none."""
    fields = fields_of(line)

    def listed(key: str) -> list[str]:
        return [name for name in fields.get(key, "").split(",") if name not in ("", "(null)")]

    try:
        return Reservation(
            name=fields["ReservationName"],
            start=datetime.strptime(fields["StartTime"], _TIME),
            end=datetime.strptime(fields["EndTime"], _TIME),
            nodes=fields["Nodes"],
            node_count=int(fields["NodeCnt"]),
            users=listed("Users"),
            groups=listed("Groups"),
            accounts=listed("Accounts"),
            state=fields["State"],
            flags=listed("Flags"),
        )
    except (KeyError, ValueError) as error:
        cause = " ".join(str(error).split())
        raise MachineError(f"scontrol: its reservation cannot be read: {cause}") from None


def first_reservation(scontrol_output: str) -> Reservation:
    """The first reservation that `scontrol` shows. Raises MachineError if it shows none."""
    lines = (line for line in scontrol_output.splitlines() if line.startswith(_RECORD_START))
    return parse_reservation(next(lines, ""))


# Answers of Slurm's daemons, and what its commands say about a failure.


def is_up(scontrol_output: str) -> bool:
    """Return whether slurmctld is up, from `scontrol ping`."""
    return " is UP" in scontrol_output


#: Beginning of ReFrame's message if `sbatch` failed, and marks around each of its outputs there.
_SBATCH_FAILED = re.compile(r"command 'sbatch\b[^\n]*' failed with exit code")
_OUTPUTS = re.compile(r"--- (stdout|stderr) ---\n(.*?)\n?--- \1 ---", re.DOTALL)
#: Line of an error that `sbatch` prints. A plugin of the site may have written its text.
_SBATCH_ERROR = re.compile(r"^sbatch: (?:error|fatal): (.*\w.*)$", re.MULTILINE)
_LINE_OF_WORDS = re.compile(r"^.*\w.*$", re.MULTILINE)


def refusal(message: str) -> str | None:
    """Why `sbatch` refused a job, from ReFrame's message; None if `sbatch` did not refuse it.

    The text consists of the errors that `sbatch` printed. If there are none, since a site's script
    runs in place of `sbatch`, the text is the last line of the output.
    """
    if not _SBATCH_FAILED.search(message):
        return None
    outputs = dict(_OUTPUTS.findall(message))
    text = f"{outputs.get('stdout', '')}\n{outputs.get('stderr', '')}"
    reasons = _SBATCH_ERROR.findall(text) or _LINE_OF_WORDS.findall(text)[-1:]
    return "; ".join(reason.strip() for reason in reasons) or None


#: Pattern in a refusal by slurmctld (slurm_errno.c) -> the reason that a job waiting for the same
#: resource would have.
_REFUSALS = {
    r"time limit is invalid": "PartitionTimeLimit",
    r"Node count specification invalid|More processors requested": "PartitionNodeLimit",
    r"node configuration is not available|Memory required by task is not|Invalid feature": (
        "BadConstraints"
    ),
    r"Invalid (account|qos|partition)": "InvalidAccount",
    r"Invalid node name": "ReqNodeNotAvail",
}


def refusal_remedy(refusal: str) -> str:
    """What to do about a refusal that `sbatch` has explained; empty if the refusal is unknown.

    If a limit is the reason, `sbatch` prints the reason that a waiting job would have.
    """
    limits = filter(_LIMIT_REASON.fullmatch, re.split(r"[;:] ", refusal))
    known = (reason for pattern, reason in _REFUSALS.items() if re.search(pattern, refusal))
    reason = next(limits, None) or next(known, None)
    return limit_remedy(reason) if reason else ""


#: Pattern of the label, a task's number, that `srun --label` puts before a line.
LABEL = r"\d+: "
#: Patterns of lines that are consequences of a step's failure; and of lines that state a cause.
CONSEQUENCES = (
    r"^srun: (?:error: )?(?:\S+: tasks? [\d,-]+: (?:Exited with|Terminated|Killed)"
    r"|Job step aborted|(?:Force )?[Tt]erminat|launch/slurm: _step_signal|[Jj]ob \d+ )",
    r"^slurmstepd: error: (?:couldn't chdir|\*\*\* \S+ \S+ ON \S+ CANCELLED AT \S+ \*\*\*)",
)
CAUSE = r"^((?:srun|slurmstepd|slurmd|sbatch): (?:error|fatal): .+)"
#: Pattern of errors after which slurmstepd starts the tasks all the same: with /tmp, if nodes lack
#: the folder TMPDIR of the login node, or with limits of its own.
HARMLESS_ERRORS = r"^slurmstepd\S*: error: (?:.*\bTMPDIR |Can't propagate RLIMIT_)"
