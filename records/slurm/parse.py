"""What Slurm prints, and how job options are read. Pure."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

# How jobs end.


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


@dataclass(frozen=True)
class JobOutcome:
    """How a block ended: `done`, or what failed, with a reason of one line."""

    name: str
    reason: str | None = None


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


# This user's jobs, as `squeue` lists them.


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
