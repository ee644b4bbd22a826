"""What Slurm's programs print about partitions, nodes, settings and accounts. Pure functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_FIELD = re.compile(r"(?:^|\s)([A-Za-z]\w*)=(\S*)")
#: A word that may stand in a file that is made: names of partitions, accounts, nodes.
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}")
#: Slurm's time limits, `[DAYS-]HOURS:MINUTES:SECONDS`.
_LIMIT = re.compile(r"(?:([0-9]{1,5})-)?([0-9]{1,2}):([0-9]{2}):([0-9]{2})")


@dataclass(frozen=True)
class SlurmPartition:
    """A partition, from `scontrol show partition`."""

    name: str
    default: bool
    #: Whether it takes and starts jobs.
    up: bool
    #: Longest job, seconds; None: unlimited.
    limit_s: int | None
    #: Whether jobs get whole nodes only.
    whole_nodes: bool
    nodes: int


@dataclass(frozen=True)
class NodeShape:
    """What `slurm.conf` says of a node."""

    sockets: int
    cores_per_socket: int
    #: What Slurm counts: hardware threads or cores.
    cpus: int
    #: None if it is not configured: Slurm shows 1 then.
    memory_mib: int | None

    @property
    def cores(self) -> int:
        """Cores of the node."""
        return self.sockets * self.cores_per_socket

    @property
    def cpus_per_core(self) -> int:
        """Hardware threads that Slurm counts as CPUs of a core."""
        return max(1, self.cpus // self.cores)


@dataclass(frozen=True)
class SlurmAccount:
    """A user's account for jobs, and the one that is taken without `--account`."""

    name: str
    default: bool


def partitions(text: str) -> list[SlurmPartition]:
    """From lines of `scontrol --oneliner show partition`, in order."""
    found = []
    for fields in map(_fields, text.splitlines()):
        name = fields.get("PartitionName", "")
        if _NAME.fullmatch(name):
            found.append(
                SlurmPartition(
                    name,
                    default=fields.get("Default") == "YES",
                    up=fields.get("State") == "UP",
                    limit_s=limit_s(fields.get("MaxTime", "")),
                    whole_nodes=fields.get("OverSubscribe") == "EXCLUSIVE",
                    nodes=_number(fields.get("TotalNodes", "")),
                )
            )
    return found


def limit_s(text: str) -> int | None:
    """A time limit in seconds; None if there is none or it cannot be read."""
    found = _LIMIT.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def shapes(text: str, partition: str) -> list[tuple[NodeShape, int]]:
    """Shapes of a partition's nodes with their numbers, the most frequent first.

    From lines of `scontrol --oneliner show node`.
    """
    counts: Counter[NodeShape] = Counter()
    for fields in map(_fields, text.splitlines()):
        if partition in fields.get("Partitions", "").split(","):
            names = ("Sockets", "CoresPerSocket", "CPUTot", "RealMemory")
            numbers = [_number(fields.get(name, "")) for name in names]
            if all(numbers):
                sockets, cores, cpus, memory_mib = numbers
                known_mib = memory_mib if memory_mib > 1 else None
                counts[NodeShape(sockets, cores, cpus, known_mib)] += 1
    return counts.most_common()


def settings(text: str) -> dict[str, str]:
    """Setting -> value, from lines `NAME = VALUE` of `scontrol show config`."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip()}


def mpi_types(text: str) -> list[str]:
    """From `srun --mpi=list`: one type a line; older versions put `srun:` before it."""
    words = []
    for line in text.splitlines():
        if line.startswith(("\t", " ", "srun: ")) and "types are" not in line:
            words += line.removeprefix("srun:").split()
    return [word for word in dict.fromkeys(words) if _NAME.fullmatch(word)]


def accounts(text: str, default: str) -> list[SlurmAccount]:
    """From `sacctmgr -nP show assoc format=account`, each once; `default` is a line of its own."""
    names = dict.fromkeys(line.strip() for line in text.splitlines())
    return [SlurmAccount(name, name == default.strip()) for name in names if _NAME.fullmatch(name)]


def chosen(found: Sequence[SlurmPartition]) -> list[SlurmPartition]:
    """Partitions that can run jobs: the default first."""
    return sorted((each for each in found if each.up and each.nodes), key=lambda p: not p.default)


def _fields(line: str) -> dict[str, str]:
    return dict(_FIELD.findall(line))


def _number(text: str) -> int:
    """0 for anything that is no number."""
    return int(text) if _NUMBER.fullmatch(text) else 0
