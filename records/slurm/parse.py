"""Parsers of what Slurm prints of jobs, reservations, settings and failures. Pure.

`records.slurm.parse_nodes` reads what it prints of partitions and nodes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from records.errors import MachineError

# How jobs end.


#: Slurm's job states that say more than the conductor can, the worst first.
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


@dataclass(frozen=True)
class JobOutcome:
    """The end of a block: `done`, or what failed, with a reason of one line."""

    name: str
    reason: str | None = None


def job_outcome(
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


# Records of `scontrol --oneliner show`.


_FIELD = re.compile(r"(?:^|\s)([A-Za-z]\w*)=(\S*)")
#: Fields at the end of a record that hold an operator's text, whose words may look like fields.
_TEXT_FIELDS = ("Reason", "Comment", "AdminComment", "Extra")


def fields_of(line: str) -> dict[str, str]:
    """Name -> value of the fields of a record, up to the first that holds any text."""
    pairs = takewhile(lambda pair: pair[0] not in _TEXT_FIELDS, _FIELD.findall(line))
    return dict(reversed(list(pairs)))  # if a name is repeated, its first value counts


# This user's jobs, as `squeue` lists them.


#: Reasons why a job is pending even if nodes are free: limits and policy.
_LIMIT_REASON = re.compile(r"(QOS|Assoc|Account|Partition(?!Down|Inactive)|Max|JobHeldAdmin)\w*")


@dataclass(frozen=True)
class PendingJob:
    """Why a job is pending, and when it is expected to start; empty if Slurm does not know."""

    reason: str = ""
    start: str = ""

    @property
    def line(self) -> str:
        """The reason and the expected start in words."""
        why = f" ({self.reason})" if self.reason else ""
        start = f", expected to start {self.start}" if self.start else ""
        return f"waits in the queue{why}{start}"

    @property
    def limit(self) -> str | None:
        """The reason if it is a limit or a policy, else None."""
        return self.reason if _LIMIT_REASON.fullmatch(self.reason) else None


def jobs_in_folder(folder: Path, squeue_output: str) -> dict[str, PendingJob | None]:
    """Job -> why it is pending, or None, of squeue's jobs whose working folder lies in `folder`.

    Slurm prints folders with links resolved, and paths to shared file systems often contain links.
    Slurm does not cancel components of a heterogeneous job, so the whole job is named.
    """
    folder = folder.resolve()
    jobs: dict[str, PendingJob | None] = {}
    for line in squeue_output.splitlines():
        about, _, path = line.partition("|/")
        name, state, start, reason = [*about.split("|", 3), "", "", ""][:4]
        job = name.partition("+")[0]
        if not job.isdigit() or not path or "\0" in path:
            continue
        if Path(os.path.realpath(f"/{path}")).is_relative_to(folder):
            jobs.setdefault(job, _pending(start, reason) if state == "PD" else None)
    return jobs


def _pending(start: str, reason: str) -> PendingJob:
    return PendingJob(
        reason="" if reason in ("None", "(null)") else reason,
        start=start.replace("T", " ") if start[:1].isdigit() else "",
    )


# Settings and lists of names.


#: Name of a partition, an account or a node that can be written into a new file.
NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)


def settings(text: str) -> dict[str, str]:
    """Setting -> value, from lines `NAME = VALUE` of `scontrol show config`."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip()}


def mpi_types(text: str) -> list[str]:
    """From `srun --mpi=list`: one type a line; older versions put `srun:` before it."""
    lines = iter(text.splitlines())
    for line in lines:
        if "types are" in line:  # a site may print something before
            break
    words = (line.removeprefix("srun:").strip() for line in lines)
    return list(dict.fromkeys(takewhile(NAME.fullmatch, words)))


def accounts(text: str) -> list[str]:
    """From `sacctmgr -nP show assoc format=account`."""
    names = (line.strip() for line in text.splitlines())
    return list(dict.fromkeys(name for name in names if NAME.fullmatch(name)))


# Names of nodes, one a line.


_HOST = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)


def hostnames(text: str) -> list[str]:
    """Names from `scontrol show hostnames`; a site may print something before them."""
    return [line.strip() for line in text.splitlines() if _HOST.fullmatch(line.strip())]


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
    #: Whom it admits, everyone if all are empty; a name with `-` is excluded.
    users: list[str]
    groups: list[str]
    accounts: list[str]
    state: str
    #: Such as `MAINT`.
    flags: list[str]


def parse_reservation(line: str) -> Reservation:
    """One line of `scontrol -o show reservation`. Raises MachineError if it is not one."""
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


def first_reservation(text: str) -> Reservation:
    """The first record of a reservation in what `scontrol` prints. Raises MachineError."""
    lines = (line for line in text.splitlines() if line.startswith(_RECORD_START))
    return parse_reservation(next(lines, ""))


# Answers of its daemons, and what its commands say of a failure.


def is_up(text: str) -> bool:
    """Return whether slurmctld is up, from `scontrol ping`."""
    return " is UP" in text


#: Beginning of each error of `sbatch`, and end of ReFrame's quotation of them.
_ERROR_START, _ERROR_END = "sbatch: error: ", " --- stderr ---"


def refusal(text: str) -> str | None:
    """Why `sbatch` refused a job, from ReFrame's quotation; None if `sbatch` did not refuse it."""
    if _ERROR_START not in text:
        return None
    _, *errors = text.removesuffix(_ERROR_END).split(_ERROR_START)
    return "; ".join(error.strip() for error in errors)


#: The label that `srun --label` puts before a line, with its number.
LABEL = r"\d+: "
#: Lines that are consequences of a step's failure; and lines that state a cause.
CONSEQUENCES = (
    r"^srun: (?:error: )?(?:\S+: tasks? [\d,-]+: (?:Exited with|Terminated|Killed)"
    r"|Job step aborted|(?:Force )?[Tt]erminat|launch/slurm: _step_signal|[Jj]ob \d+ )",
    r"^slurmstepd: error: (?:couldn't chdir|\*\*\* \S+ \S+ ON \S+ CANCELLED AT \S+ \*\*\*)",
)
CAUSE = r"^((?:srun|slurmstepd|slurmd|sbatch): (?:error|fatal): .+)"
