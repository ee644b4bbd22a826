"""Parsers of what Slurm prints of its partitions and nodes. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from records.kernel_text import number
from records.slurm.parse import NAME, fields_of

# Nodes, as `sinfo` lists them.


#: States in which a node takes jobs now or later; `sinfo` adds signs such as `*` and `~`. Others
#: wait for an operator: `down`, `drained`, `draining`, `fail`, `failing`, `future`, `inval`,
#: `maint`, `perfctrs`, `unknown`.
_USABLE = (
    "allocated",
    "idle",
    "mixed",
    "completing",
    "reserved",
    "planned",
    "blocked",
    "power_down",
    "powering_down",
    "powered_down",
    "power_up",
    "powering_up",
    "reboot",
    "reboot_requested",
    "reboot_issued",
)
#: Sign of a node that is about to restart; its state may be `down` until then.
_RESTART_SIGN = "^"
_NODE = re.compile(r"([A-Za-z0-9][\w.-]*)\s+([a-z_]+)([^\sa-z]*)", re.ASCII)


@dataclass(frozen=True)
class SlurmNode:
    """A node and its state."""

    name: str
    state: str

    @property
    def usable(self) -> bool:
        """Return whether a job for it would start some day."""
        return self.state in _USABLE


def nodes_in(sinfo_output: str) -> list[SlurmNode]:
    """Nodes from sinfo's lines `NODE STATE`, each once, in order.

    A state is cut off at the first sign: `idle~` is a node that is switched off to save power. A
    node that does not answer, `idle*`, is `unknown`; one that restarts, `down^`, is `reboot`.
    """
    nodes: dict[str, SlurmNode] = {}
    for line in sinfo_output.splitlines():
        if match := _NODE.fullmatch(line.strip()):
            name, state, signs = match.groups()
            if _RESTART_SIGN in signs:
                state = "reboot"
            elif "*" in signs:
                state = "unknown"
            nodes[name] = SlurmNode(name, state)
    return list(nodes.values())


# Partitions and what jobs get of their nodes, as `scontrol` shows them.


#: Slurm's time limits, `[DAYS-]HOURS:MINUTES:SECONDS`.
_LENGTH = re.compile(r"(?:([0-9]{1,5})-)?([0-9]{1,2}):([0-9]{2}):([0-9]{2})")


@dataclass(frozen=True, kw_only=True)
class SlurmPartition:
    """A partition, from `scontrol show partition`."""

    name: str
    default: bool
    #: Longest job, seconds; None: unlimited.
    limit_s: int | None
    #: True if jobs get whole nodes only.
    whole_nodes: bool
    nodes: int
    #: Limits of a job: CPUs per node and per socket, MiB per node and per CPU.
    cpus_per_node: int | None = None
    cpus_per_socket: int | None = None
    memory_mib: int | None = None
    memory_mib_per_cpu: int | None = None


@dataclass(frozen=True)
class NodeShape:
    """The part of a node that jobs get, by `slurm.conf` and the limits of the partition."""

    sockets: int
    #: Cores of all sockets together.
    cores: int
    #: Hardware threads that Slurm counts as CPUs of a core.
    threads_per_core: int
    #: None if it is not configured: Slurm shows 1 then.
    memory_mib: int | None


def partitions(text: str) -> list[SlurmPartition]:
    """Partitions that can run jobs, the default first.

    From lines of `scontrol --oneliner show partition`.
    """
    usable = []
    for fields in map(fields_of, text.splitlines()):
        name = fields.get("PartitionName", "")
        nodes = number(fields.get("TotalNodes", ""))
        if NAME.fullmatch(name) and fields.get("State") == "UP" and nodes:
            whole = _gives_whole_nodes(fields)
            limits = {
                limit: number(fields.get(printed, "")) or None for limit, printed in _LIMITS.items()
            }
            usable.append(
                SlurmPartition(
                    name=name,
                    default=fields.get("Default") == "YES",
                    limit_s=limit_s(fields.get("MaxTime", "")),
                    whole_nodes=whole,
                    nodes=nodes,
                    **limits,
                )
            )
    return sorted(usable, key=lambda partition: not partition.default)


def _gives_whole_nodes(fields: Mapping[str, str]) -> bool:
    """Return whether all jobs get whole nodes; Slurm 26.05 has a field of its own for it."""
    shared, exclusive = fields.get("OverSubscribe"), fields.get("Exclusive")
    return shared == "EXCLUSIVE" or exclusive in ("NODE", "TOPO")


def whole_node_partitions(text: str) -> set[str | None]:
    """Names of partitions that give whole nodes only; with None if the default partition does.

    From lines of `scontrol --oneliner show partition`.
    """
    rows = map(fields_of, text.splitlines())
    whole = [fields for fields in rows if _gives_whole_nodes(fields)]
    names: set[str | None] = {fields.get("PartitionName") for fields in whole}
    return names | {None for fields in whole if fields.get("Default") == "YES"}


#: Field of `SlurmPartition` -> its limit in Slurm; `UNLIMITED` means that there is none.
_LIMITS = {
    "cpus_per_node": "MaxCPUsPerNode",
    "cpus_per_socket": "MaxCPUsPerSocket",
    "memory_mib": "MaxMemPerNode",
    "memory_mib_per_cpu": "MaxMemPerCPU",
}


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
    # Since Slurm 21.08 CPUEfctv counts the CPUs for jobs, also if CPUs are reserved by number.
    reserved_cpus = cpus - (number(fields.get("CPUEfctv", "")) or cpus)
    reserved = max(number(fields.get("CoreSpecCount", "")) or 0, -(-reserved_cpus // threads))
    system_mib = number(fields.get("MemSpecLimit", "")) or 0
    left_mib = max(1, memory_mib - system_mib) if memory_mib > 1 else None
    return NodeShape(sockets, max(1, cores - reserved), threads, left_mib)


def _limited(shape: NodeShape, partition: SlurmPartition) -> NodeShape:
    """The part of a node that a job gets within the limits of a partition."""
    threads = shape.threads_per_core
    cores = [shape.cores]
    if partition.cpus_per_node:
        cores.append(partition.cpus_per_node // threads)
    if partition.cpus_per_socket:
        cores.append(partition.cpus_per_socket // threads * shape.sockets)
    allowed = max(1, min(cores))
    a_cpu = partition.memory_mib_per_cpu
    memory = (shape.memory_mib, partition.memory_mib, a_cpu and a_cpu * allowed * threads)
    return replace(shape, cores=allowed, memory_mib=min(filter(None, memory), default=None))
