"""Parsers of what Slurm prints about its partitions and nodes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from records.kernel_text import number
from records.slurm.parse import NAME, fields_of

# Nodes, as `sinfo` lists them.


#: States in which a node takes jobs now or later; `sinfo` adds signs such as `*` and `~`. Nodes in
#: all other states wait for an operator: `down`, `drained`, `draining`, `fail`, `failing`,
#: `future`, `inval`, `maint`, `perfctrs`, `unknown`.
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
_NODE = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.-]*)\s+(?P<state>[a-z_]+)(?P<signs>[^\sa-z]*)"
    r"(?:\s+(?P<partition>[\w.+-]+)(?P<default_sign>\*?))?",
    re.ASCII,
)


@dataclass(frozen=True)
class SlurmNode:
    """A node and its state."""

    name: str
    state: str

    @property
    def is_usable(self) -> bool:
        """Return whether a job on this node would start now or later without an operator."""
        return self.state in _USABLE


def nodes_in(sinfo_output: str, *, default_only: bool = False) -> list[SlurmNode]:
    """Nodes from sinfo's lines `NODE STATE`, each once, in order.

    With `default_only`, lines are `NODE STATE PARTITION`, and only nodes of the default partition
    are returned. A `*` after its name marks the default partition. If there is none, all nodes are
    returned.

    A state is cut off at the first sign: `idle~` is a node that is switched off to save power. A
    node that does not answer, `idle*`, is `unknown`. A node that restarts, `down^`, is `reboot`.
    """
    matches = [_NODE.fullmatch(line.strip()) for line in sinfo_output.splitlines()]
    rows = [match for match in matches if match and bool(match["partition"]) == default_only]
    default_rows = [row for row in rows if row["default_sign"]]
    nodes: dict[str, SlurmNode] = {}
    for row in default_rows or rows:
        name, state, signs = row["name"], row["state"], row["signs"]
        if _RESTART_SIGN in signs:
            state = "reboot"
        elif "*" in signs:
            state = "unknown"
        nodes[name] = SlurmNode(name, state)
    return list(nodes.values())


# Partitions and what jobs get of their nodes, as `scontrol` shows them.


#: Slurm's time limits, `[DAYS-]HOURS:MINUTES:SECONDS`.
_TIME_LIMIT = re.compile(r"(?:([0-9]{1,5})-)?([0-9]{1,2}):([0-9]{2}):([0-9]{2})")


@dataclass(frozen=True, kw_only=True)
class SlurmPartition:
    """A partition, from `scontrol show partition`."""

    name: str
    is_default: bool
    #: Longest job, seconds; None: unlimited.
    limit_s: int | None
    #: True if jobs get whole nodes only.
    gives_whole_nodes: bool
    node_count: int
    #: Limits of a job: nodes, CPUs per node and per socket.
    min_nodes: int = 1
    max_nodes: int | None = None
    cpus_per_node: int | None = None
    cpus_per_socket: int | None = None
    #: Memory that jobs request, MiB per node (0: all memory) or per CPU; None: no request is
    #: needed.
    memory_mib: int | None = None
    memory_mib_per_cpu: int | None = None
    #: True if only jobs in a reservation may use it.
    needs_reservation: bool = False
    #: Accounts that may use it; empty: all accounts except `denied_accounts`.
    allowed_accounts: tuple[str, ...] = ()
    denied_accounts: tuple[str, ...] = ()
    #: QOS of jobs that it accepts; empty: every QOS except `denied_qos`.
    allowed_qos: tuple[str, ...] = ()
    denied_qos: tuple[str, ...] = ()

    @property
    def memory_request(self) -> str:
        """The option with which a job gets all memory that it may have; empty: none is needed."""
        if self.memory_mib_per_cpu:
            return f"--mem-per-cpu={self.memory_mib_per_cpu}M"
        if self.memory_mib is None:
            return ""
        return f"--mem={self.memory_mib}M" if self.memory_mib else "--mem=0"

    def admits(
        self, accounts: Collection[str], qos: Collection[str] = (), *, subaccounts: bool = False
    ) -> bool:
        """Return whether jobs of one of these accounts, and of one of these QOS, may use it.

        An empty collection means that the account or the QOS is unknown. With `subaccounts`, any
        account may be below an allowed one. Since Slurm 23.02, such accounts are admitted too.
        """
        may_be_charged = _admits_one(accounts, self.allowed_accounts, self.denied_accounts)
        may_be_charged = may_be_charged or (subaccounts and bool(self.allowed_accounts))
        return may_be_charged and _admits_one(qos, self.allowed_qos, self.denied_qos)


def _admits_one(names: Collection[str], allowed: Collection[str], denied: Collection[str]) -> bool:
    """Whether a partition's lists admit one of the names; true if no name is known."""
    if not names:
        return True
    if allowed:
        return not set(names).isdisjoint(allowed)
    return not set(names) <= set(denied)


@dataclass(frozen=True)
class NodeShape:
    """The part of a node that jobs get according to `slurm.conf` and the partition's limits."""

    sockets: int
    #: Cores of all sockets together.
    cores: int
    #: Hardware threads of a core that Slurm counts as CPUs.
    threads_per_core: int
    #: Memory, MiB; None if it is not configured, in which case Slurm shows 1.
    memory_mib: int | None
    #: Cores that Slurm reserves for the system. `cores` does not include them.
    system_cores: int = 0


def partitions(
    scontrol_output: str, settings: Mapping[str, str] | None = None, nodes_output: str = ""
) -> list[SlurmPartition]:
    """Partitions that can run a user's jobs, the default first.

    `scontrol_output` has the lines of `scontrol --oneliner show partition`, `nodes_output` those of
    `show node`. If a partition has no limit or default of its own, the one in `settings`, from
    `slurm.conf`, applies.
    """
    usable = []
    node_fields = [fields_of(line) for line in nodes_output.splitlines()]
    for fields in map(fields_of, scontrol_output.splitlines()):
        name = fields.get("PartitionName", "")
        node_count = number(fields.get("TotalNodes", ""))
        if NAME.fullmatch(name) and not _closed_by(fields) and node_count:
            partition = SlurmPartition(
                name=name,
                is_default=fields.get("Default") == "YES",
                limit_s=time_limit_s(fields.get("MaxTime", "")),
                gives_whole_nodes=_gives_whole_nodes(fields),
                node_count=node_count,
                min_nodes=_limit(fields, "MinNodes") or 1,
                max_nodes=_limit(fields, "MaxNodes"),
                cpus_per_node=_limit(fields, "MaxCPUsPerNode"),
                cpus_per_socket=_limit(fields, "MaxCPUsPerSocket"),
                needs_reservation=fields.get("ReqResv") == "YES",
                allowed_accounts=_account_names(fields, "AllowAccounts"),
                denied_accounts=_account_names(fields, "DenyAccounts"),
                allowed_qos=_names(fields, "AllowQos"),
                denied_qos=_names(fields, "DenyQos"),
            )
            limits = _memory_limits(fields, settings or {})
            node_shapes = [*_shapes_of(partition, node_fields).values()]
            usable.append(_with_memory(partition, limits, node_shapes))
    return sorted(usable, key=lambda partition: not partition.is_default)


def _closed_by(fields: Mapping[str, str]) -> str:
    """The field of a partition that keeps users' jobs from running; empty if there is none."""
    if fields.get("State") != "UP":
        return f"State={fields.get('State', '')}"
    return "RootOnly=YES" if fields.get("RootOnly") == "YES" else ""


def closed_partitions(scontrol_output: str) -> dict[str, str]:
    """Partition with nodes that runs no jobs of users -> the field that is the reason."""
    records = map(fields_of, scontrol_output.splitlines())
    return {
        fields["PartitionName"]: reason
        for fields in records
        if "PartitionName" in fields
        and (reason := _closed_by(fields))
        and number(fields.get("TotalNodes", ""))
    }


def _with_memory(
    partition: SlurmPartition, limits: Mapping[str, int | None], shapes: Sequence[NodeShape]
) -> SlurmPartition:
    """Return the partition with the memory that its jobs request. Every node has this memory.

    A job of whole nodes does not always get all their memory:

    - If no default is set, a job without a request gets it, as does a job with `--mem=0`.
    - If all memory exceeds a limit per node, such a job waits (MaxMemPerLimit). So a job requests
      the limit.
    - If there is a limit per CPU, a job requests memory per CPU. For memory per node, Slurm would
      give each task more CPUs.
    """
    mib_per_node = [shape.memory_mib for shape in shapes if shape.memory_mib]
    mib_per_cpu = [
        shape.memory_mib // (shape.cores * shape.threads_per_core)
        for shape in shapes
        if shape.memory_mib
    ]
    # For Slurm, a node of unknown memory has 1 MiB. If all nodes are such, limits are ignored.
    limits_apply = mib_per_node or not shapes
    node_limit_mib, cpu_limit_mib = limits["MaxMemPerNode"], limits["MaxMemPerCPU"]
    if cpu_limit_mib and limits_apply:
        return replace(partition, memory_mib_per_cpu=max(1, min([cpu_limit_mib, *mib_per_cpu])))
    if node_limit_mib and limits_apply and max(mib_per_node, default=math.inf) > node_limit_mib:
        return replace(partition, memory_mib=min([node_limit_mib, *mib_per_node]))
    has_default = limits["DefMemPerNode"] or limits["DefMemPerCPU"]
    return replace(partition, memory_mib=0) if has_default else partition


def _shapes_of(
    partition: SlurmPartition, node_fields: Sequence[Mapping[str, str]]
) -> dict[str, NodeShape]:
    """Node of a partition -> its shape without the partition's limits.

    Nodes without a shape are left out.
    """
    own_nodes = (
        fields
        for fields in node_fields
        if partition.name in fields.get("Partitions", "").split(",")
    )
    return {fields.get("NodeName", ""): shape for fields in own_nodes if (shape := _shape(fields))}


def _memory_limits(fields: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, int | None]:
    """Limits and defaults of a job's memory, from the partition or else from `slurm.conf`.

    Slurm has one limit, either per node or per CPU, and shows that limit. If memory is not
    allocated to jobs, the defaults have no effect.
    """
    limits: dict[str, int | None] = {}
    for prefix in ("Max", "Def"):
        names = [f"{prefix}MemPerNode", f"{prefix}MemPerCPU"]
        own_limits = {name: _limit(fields, name) for name in names}
        if any(own_limits.values()):
            limits |= own_limits
        else:
            limits |= {name: _limit(settings, name) for name in names}
    if "MEMORY" not in settings.get("SelectTypeParameters", "MEMORY").upper():
        limits |= {"DefMemPerNode": None, "DefMemPerCPU": None}
    return limits


def _names(fields: Mapping[str, str], name: str) -> tuple[str, ...]:
    """The names in a partition's list; empty for `ALL`."""
    listed = fields.get(name, "")
    return () if listed in ("ALL", "(null)") else tuple(filter(None, listed.split(",")))


def _account_names(fields: Mapping[str, str], name: str) -> tuple[str, ...]:
    """The accounts in a partition's list in lower case, in which Slurm stores accounts."""
    return tuple(account.lower() for account in _names(fields, name))


def _gives_whole_nodes(fields: Mapping[str, str]) -> bool:
    """Return whether all jobs get whole nodes; Slurm 26.05 has the field `Exclusive` for this."""
    shared, exclusive = fields.get("OverSubscribe"), fields.get("Exclusive")
    return shared == "EXCLUSIVE" or exclusive in ("NODE", "TOPO")


def _is_always_shared(fields: Mapping[str, str]) -> bool:
    """Return whether jobs share nodes even if they request whole nodes (`FORCE:2` or more)."""
    mode, _, jobs = fields.get("OverSubscribe", "").partition(":")
    return mode == "FORCE" and (number(jobs) or 1) > 1


def whole_node_partitions(scontrol_output: str) -> set[str | None]:
    """Names of the partitions that give whole nodes only.

    None is among the names if the default partition gives whole nodes only. `scontrol_output` has
    the lines of `scontrol --oneliner show partition`.
    """
    return _partitions_where(_gives_whole_nodes, scontrol_output)


def always_shared_partitions(scontrol_output: str) -> set[str | None]:
    """Names of the partitions whose nodes are shared whatever a job requests.

    None is among the names if this holds for the default partition.
    """
    return _partitions_where(_is_always_shared, scontrol_output)


def _partitions_where(
    has_property: Callable[[Mapping[str, str]], bool], scontrol_output: str
) -> set[str | None]:
    records = [*filter(has_property, map(fields_of, scontrol_output.splitlines()))]
    names: set[str | None] = {fields.get("PartitionName") for fields in records}
    if any(fields.get("Default") == "YES" for fields in records):
        names.add(None)
    return names


def _limit(fields: Mapping[str, str], name: str) -> int | None:
    """A limit of a partition; None for `UNLIMITED` or 0, which mean that there is no limit."""
    return number(fields.get(name, "")) or None


def time_limit_s(limit: str) -> int | None:
    """A time limit in seconds; None if there is no limit, or if it cannot be read."""
    match = _TIME_LIMIT.fullmatch(limit)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(digits or 0) for digits in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def shapes(scontrol_output: str, partition: SlurmPartition) -> dict[str, NodeShape]:
    """Node of a partition -> its shape within the partition's limits.

    `scontrol_output` has the lines of `scontrol --oneliner show node`.
    """
    node_shapes = _shapes_of(partition, [fields_of(line) for line in scontrol_output.splitlines()])
    return {name: _limited(shape, partition) for name, shape in node_shapes.items()}


def _shape(fields: Mapping[str, str]) -> NodeShape | None:
    """The shape of a node without what is reserved for its system; None if a number is missing."""
    names = ("Sockets", "CoresPerSocket", "CPUTot", "RealMemory")
    numbers = [number(fields.get(name, "")) or 0 for name in names]
    if not all(numbers):
        return None
    sockets, cores_per_socket, cpus, memory_mib = numbers
    cores = sockets * cores_per_socket
    threads = max(1, cpus // cores)
    # Since Slurm 21.08, CPUEfctv is the number of CPUs for jobs. It does not include CPUs that are
    # reserved for the system as cores or by their numbers.
    reserved_cpus = cpus - (number(fields.get("CPUEfctv", "")) or cpus)
    specialized_cores = number(fields.get("CoreSpecCount", "")) or 0
    reserved_cores = max(specialized_cores, math.ceil(reserved_cpus / threads))
    system_mib = number(fields.get("MemSpecLimit", "")) or 0
    job_mib = max(1, memory_mib - system_mib) if memory_mib > 1 else None
    return NodeShape(sockets, max(1, cores - reserved_cores), threads, job_mib, reserved_cores)


def _limited(shape: NodeShape, partition: SlurmPartition) -> NodeShape:
    """The part of a node that a job gets in a partition, with the memory that the job requests."""
    threads = shape.threads_per_core
    core_limits = [shape.cores]
    if partition.cpus_per_node:
        core_limits.append(partition.cpus_per_node // threads)
    if partition.cpus_per_socket:
        core_limits.append(partition.cpus_per_socket // threads * shape.sockets)
    cores = max(1, min(core_limits))
    memory_mib = partition.memory_mib or shape.memory_mib
    if partition.memory_mib_per_cpu:
        memory_mib = partition.memory_mib_per_cpu * cores * threads
    return replace(shape, cores=cores, memory_mib=memory_mib)
