"""What Slurm prints, and how job options are read. Pure."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from records.errors import MachineError
from records.kernel_text import number

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
        about, _, path = line.partition("|/")
        name, state, start, reason = [*about.split("|", 3), "", "", ""][:4]
        job = name.partition("+")[0]
        if not job.isdigit() or not path or "\0" in path:
            continue
        if Path(os.path.realpath(f"/{path}")).is_relative_to(folder):
            jobs.setdefault(job, _waits(start, reason) if state == "PD" else "")
    return jobs


#: Reasons of a pending job that hold for its kind, whatever is free: limits and policy.
_WAITS_FOR = re.compile(
    r"waits in the queue \(((?:QOS|Assoc|Account|Partition(?!Down|Inactive)|Max|JobHeldAdmin)\w*)\)"
)


def limit_in(waits: str) -> str | None:
    """The limit or policy that keeps a job waiting, of what `working_in` says of it."""
    match = _WAITS_FOR.search(waits)
    return match and match[1]


def _waits(start: str, reason: str) -> str:
    """Why a job is pending, and when it is expected to start; Slurm may know neither."""
    why = f" ({reason})" if reason not in ("", "None", "(null)") else ""
    when = f", expected to start {start.replace('T', ' ')}" if start[:1].isdigit() else ""
    return f"waits in the queue{why}{when}"


# A cluster, as `scontrol` and others show it.


#: A word that may stand in a new file: names of partitions, accounts, nodes.
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)
#: Slurm's time limits, `[DAYS-]HOURS:MINUTES:SECONDS`.
_LENGTH = re.compile(r"(?:([0-9]{1,5})-)?([0-9]{1,2}):([0-9]{2}):([0-9]{2})")


@dataclass(frozen=True)
class SlurmPartition:
    """A partition, from `scontrol show partition`."""

    name: str
    default: bool
    #: Longest job, seconds; None: unlimited.
    limit_s: int | None
    #: Whether jobs get whole nodes only.
    whole_nodes: bool
    nodes: int
    #: The most that a job gets: CPUs of a node and of a socket, MiB of a node and for each CPU.
    cpus_a_node: int | None = None
    cpus_a_socket: int | None = None
    memory_mib: int | None = None
    memory_mib_a_cpu: int | None = None


@dataclass(frozen=True)
class NodeShape:
    """What jobs get of a node, by `slurm.conf` and the limits of the partition."""

    sockets: int
    cores: int
    #: Hardware threads that Slurm counts as CPUs of a core.
    threads_per_core: int
    #: None if it is not configured: Slurm shows 1 then.
    memory_mib: int | None


def partitions(text: str) -> list[SlurmPartition]:
    """Those that can run jobs, the default first.

    From lines of `scontrol --oneliner show partition`.
    """
    usable = []
    for fields in map(fields_of, text.splitlines()):
        name, nodes = fields.get("PartitionName", ""), number(fields.get("TotalNodes", ""))
        if _NAME.fullmatch(name) and fields.get("State") == "UP" and nodes:
            whole = _gives_whole_nodes(fields)
            most = (number(fields.get(f"Max{what}", "")) for what in _LIMITS)
            usable.append(
                SlurmPartition(
                    name,
                    fields.get("Default") == "YES",
                    limit_s(fields.get("MaxTime", "")),
                    whole,
                    nodes,
                    *(limit or None for limit in most),
                )
            )
    return sorted(usable, key=lambda partition: not partition.default)


def _gives_whole_nodes(fields: Mapping[str, str]) -> bool:
    """Whether all jobs get whole nodes; Slurm 26.05 has a field of its own for it."""
    shared, exclusive = fields.get("OverSubscribe"), fields.get("Exclusive")
    return shared == "EXCLUSIVE" or exclusive in ("NODE", "TOPO")


def whole_node_partitions(text: str) -> set[str | None]:
    """Names of those that give whole nodes only; None for the default one if it does.

    From the same lines.
    """
    rows = map(fields_of, text.splitlines())
    whole = [fields for fields in rows if _gives_whole_nodes(fields)]
    names: set[str | None] = {fields.get("PartitionName") for fields in whole}
    return names | {None for fields in whole if fields.get("Default") == "YES"}


#: The limits of a partition that are read, in the order of `SlurmPartition`; `UNLIMITED` is none.
_LIMITS = ("CPUsPerNode", "CPUsPerSocket", "MemPerNode", "MemPerCPU")


def limit_s(text: str) -> int | None:
    """A time limit in seconds; None if there is none or it cannot be read."""
    match = _LENGTH.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def shapes(text: str, partition: SlurmPartition) -> list[tuple[NodeShape, int]]:
    """Shapes of a partition's nodes, within its limits, with their numbers; most frequent first.

    From lines of `scontrol --oneliner show node`.
    """
    counts: Counter[NodeShape] = Counter()
    for fields in map(fields_of, text.splitlines()):
        if partition.name in fields.get("Partitions", "").split(",") and (shape := _shape(fields)):
            counts[_limited(shape, partition)] += 1
    return counts.most_common()


def _shape(fields: Mapping[str, str]) -> NodeShape | None:
    """A node without the cores and memory of its system; None without its numbers."""
    names = ("Sockets", "CoresPerSocket", "CPUTot", "RealMemory")
    sockets, per_socket, cpus, memory_mib = (number(fields.get(name, "")) or 0 for name in names)
    if not (sockets and per_socket and cpus and memory_mib):
        return None
    cores = sockets * per_socket
    threads = max(1, cpus // cores)
    # Since Slurm 21.08 CPUEfctv counts what is left, also if CPUs are named.
    reserved_cpus = cpus - (number(fields.get("CPUEfctv", "")) or cpus)
    reserved = max(number(fields.get("CoreSpecCount", "")) or 0, -(-reserved_cpus // threads))
    system_mib = number(fields.get("MemSpecLimit", "")) or 0
    left_mib = max(1, memory_mib - system_mib) if memory_mib > 1 else None
    return NodeShape(sockets, max(1, cores - reserved), threads, left_mib)


def _limited(shape: NodeShape, partition: SlurmPartition) -> NodeShape:
    """What a job gets of a node in a partition."""
    threads = shape.threads_per_core
    cores = [shape.cores]
    if partition.cpus_a_node:
        cores.append(partition.cpus_a_node // threads)
    if partition.cpus_a_socket:
        cores.append(partition.cpus_a_socket // threads * shape.sockets)
    allowed = max(1, min(cores))
    a_cpu = partition.memory_mib_a_cpu
    memory = (shape.memory_mib, partition.memory_mib, a_cpu and a_cpu * allowed * threads)
    return replace(shape, cores=allowed, memory_mib=min(filter(None, memory), default=None))


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
    return list(dict.fromkeys(takewhile(_NAME.fullmatch, words)))


def accounts(text: str) -> list[str]:
    """From `sacctmgr -nP show assoc format=account`."""
    names = (line.strip() for line in text.splitlines())
    return list(dict.fromkeys(name for name in names if _NAME.fullmatch(name)))


# Names of nodes, one a line.


_HOST = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)


def hostnames(text: str) -> list[str]:
    """Names from `scontrol show hostnames`; a site may print something before them."""
    return [line.strip() for line in text.splitlines() if _HOST.fullmatch(line.strip())]


# A reservation.


#: Slurm's format of times in one-line records.
_TIME = "%Y-%m-%dT%H:%M:%S"
#: How such a record begins; other lines say that there is none.
_RECORD = "ReservationName="


@dataclass(frozen=True)
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


def reservation(line: str) -> Reservation:
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
        what = " ".join(str(error).split())
        raise MachineError(f"scontrol: its reservation cannot be read: {what}") from None


def reservation_in(text: str) -> Reservation:
    """The first record of a reservation in what `scontrol` prints. Raises MachineError."""
    lines = (line for line in text.splitlines() if line.startswith(_RECORD))
    return reservation(next(lines, ""))


# Whether its daemons answer, and what its commands say of a failure.


def is_up(text: str) -> bool:
    """Whether slurmctld is up, from `scontrol ping`."""
    return " is UP" in text


#: Begins each error of `sbatch`; ends what ReFrame quotes of it.
_ERROR, _ENDS = "sbatch: error: ", " --- stderr ---"


def refusal(text: str) -> str | None:
    """Why `sbatch` refused a job, from what ReFrame quotes of it; None if it did not."""
    if _ERROR not in text:
        return None
    _, *errors = text.removesuffix(_ENDS).split(_ERROR)
    return "; ".join(error.strip() for error in errors)


#: What `srun --label` puts before a line, with its number.
LABEL = r"\d+: "
#: Lines that follow from the failure of a step, and say no cause; and those that state one.
FOLLOWS = (
    r"^srun: (?:error: )?(?:\S+: tasks? [\d,-]+: (?:Exited with|Terminated|Killed)"
    r"|Job step aborted|(?:Force )?[Tt]erminat|launch/slurm: _step_signal|[Jj]ob \d+ )",
    r"^slurmstepd: error: (?:couldn't chdir|\*\*\* \S+ \S+ ON \S+ CANCELLED AT \S+ \*\*\*)",
)
CAUSE = r"^((?:srun|slurmstepd|slurmd|sbatch): (?:error|fatal): .+)"
