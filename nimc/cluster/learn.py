"""What is known of a new machine: from Slurm, the modules system and a short job."""

from __future__ import annotations

import os
import re
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from nimc.cluster import in_job
from nimc.cluster.in_job import JobLook, NodeRequest, in_common
from records.checkout import ROOT
from records.errors import MachineError
from records.files import user_name
from records.kernel_text import cpu_list, number
from records.machine import host
from records.machine.devices import Device, Port, of_record
from records.machine.site import Origins
from records.programs import ask

# What Slurm's programs print about partitions, nodes, settings and accounts. Pure functions.


_FIELD = re.compile(r"(?:^|\s)([A-Za-z]\w*)=(\S*)")
#: A word that may stand in a file that is made: names of partitions, accounts, nodes.
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)
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
    #: Most CPUs and memory that jobs get of a node; None: all.
    cpus_a_node: int | None = None
    cpus_a_socket: int | None = None
    memory_a_node_mib: int | None = None


@dataclass(frozen=True)
class NodeShape:
    """What `slurm.conf` says of a node."""

    sockets: int
    cores_per_socket: int
    #: What Slurm counts: hardware threads or cores.
    cpus: int
    #: Without what is kept from jobs; None if it is not configured: Slurm shows 1 then.
    memory_mib: int | None
    #: Cores that are kept from jobs.
    reserved_cores: int = 0

    @property
    def cores(self) -> int:
        """Cores that jobs get."""
        return self.sockets * self.cores_per_socket - self.reserved_cores

    @property
    def cpus_per_core(self) -> int:
        """Hardware threads that Slurm counts as CPUs of a core."""
        return max(1, self.cpus // (self.sockets * self.cores_per_socket))

    def within(self, partition: SlurmPartition) -> NodeShape:
        """The same node as jobs of a partition get it."""
        limits = [partition.cpus_a_node]
        limits.append(partition.cpus_a_socket and self.sockets * partition.cpus_a_socket)
        cores = min([self.cores, *(max(1, cpus // self.cpus_per_core) for cpus in limits if cpus)])
        memory = [mib for mib in (self.memory_mib, partition.memory_a_node_mib) if mib]
        reserved = self.reserved_cores + self.cores - cores
        return replace(self, memory_mib=min(memory, default=None), reserved_cores=reserved)


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
                    nodes=number(fields.get("TotalNodes", "")) or 0,
                    cpus_a_node=number(fields.get("MaxCPUsPerNode", "")),
                    cpus_a_socket=number(fields.get("MaxCPUsPerSocket", "")),
                    memory_a_node_mib=number(fields.get("MaxMemPerNode", "")),
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
            numbers = [number(fields.get(name, "")) for name in names]
            known = [each for each in numbers if each and each > 0]
            if len(known) == len(names):
                sockets, cores, cpus, memory_mib = known
                shape = NodeShape(sockets, cores, cpus, memory_mib if memory_mib > 1 else None)
                counts[_without_reserved(shape, fields)] += 1
    return counts.most_common()


def _without_reserved(shape: NodeShape, fields: Mapping[str, str]) -> NodeShape:
    """A node without the cores and memory of its system (core specialization).

    `CPUEfctv` counts what is left since Slurm 21.08, also where only CPUs are named.
    """
    threads, cpus = shape.cpus_per_core, [0]
    if left := number(fields.get("CPUEfctv", "")):
        cpus.append(shape.cpus - left)
    with suppress(ValueError):
        cpus.append(len(cpu_list(fields.get("CPUSpecList", ""))))
    cores = max(number(fields.get("CoreSpecCount", "")) or 0, -(-max(cpus) // threads))
    system_mib = number(fields.get("MemSpecLimit", "")) or 0
    memory_mib = shape.memory_mib and max(1, shape.memory_mib - system_mib)
    return replace(shape, reserved_cores=min(cores, shape.cores - 1), memory_mib=memory_mib)


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


def accounts(text: str, default: str) -> dict[str, bool]:
    """Account -> whether it is taken without `--account`.

    From `sacctmgr -nP show assoc format=account`, and `default`, which is a line of its own.
    """
    of_user = [line.strip() for line in default.splitlines() if _NAME.fullmatch(line.strip())]
    names = (line.strip() for line in text.splitlines())
    return {name: name in of_user[-1:] for name in names if _NAME.fullmatch(name)}


def chosen(found: Sequence[SlurmPartition]) -> list[SlurmPartition]:
    """Partitions that can run jobs: the default first."""
    return sorted((each for each in found if each.up and each.nodes), key=lambda p: not p.default)


def _fields(line: str) -> dict[str, str]:
    return dict(_FIELD.findall(line))


# What follows from it. Pure functions.


#: Interfaces that containers and virtual machines make: other nodes cannot be reached over them.
_INNER = ("docker", "podman", "cni", "virbr", "lxc", "br-", "veth", "tun", "tap")


@dataclass(frozen=True)
class ClusterFacts:
    """What Slurm, this host and a job said."""

    #: Name and processor of this host, from where jobs are submitted.
    host: str
    processor: str
    #: Those that can run jobs, the default first.
    partitions: Sequence[SlurmPartition]
    #: Partition -> shapes of its nodes and their numbers.
    shapes: Mapping[str, Sequence[tuple[NodeShape, int]]]
    #: `scontrol show config`.
    settings: Mapping[str, str]
    mpi: Sequence[str]
    #: Account of the user -> whether it is taken without `--account`.
    accounts: Mapping[str, bool]
    #: ReFrame's name of the modules system, and the default modules.
    modules_system: str
    modules: Sequence[str]
    #: Why Slurm refuses a heterogeneous job in the target partition; None if it takes it, or if it
    #: was not asked.
    hetjob_refused: str | None = None
    #: Whether that is known: it was asked, and takes other jobs.
    hetjob_asked: bool = False
    #: What the job found; empty without one.
    looked: JobLook = field(default_factory=lambda: JobLook(None, "no job was submitted"))

    @property
    def target(self) -> SlurmPartition:
        """The partition of the targets."""
        return self.partitions[0]

    @property
    def nodes(self) -> Sequence[Mapping[str, Any]]:
        """Records of the nodes that the job looked at."""
        return self.looked.nodes

    @property
    def origins(self) -> Origins:
        """Where origins come from."""
        if self.target.nodes < 2:
            return Origins(policy="same_host")
        if self.hetjob_refused:
            return Origins(policy="same_job")
        return Origins(policy="hetjob", partition=self.target.name)


def access(partition: SlurmPartition, accounts: Mapping[str, bool]) -> list[str]:
    """Options of every job in a partition; an account only if none is taken without one."""
    options = [f"--partition={partition.name}"]
    if not partition.whole_nodes:
        options.append("--exclusive")
    if accounts and not any(accounts.values()):
        options.append(f"--account={next(iter(accounts))}")
    return options


def interfaces(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Network interfaces with an address on every node, the fastest first."""
    there = nodes[0]["host"]["interfaces"] if nodes else []
    rates = {each["name"]: each["rate_b_s"] or 0.0 for each in there}
    names = in_common([node["addresses"] for node in nodes])
    usable = [name for name in names if not name.startswith(_INNER)]
    return sorted(usable, key=lambda name: -rates.get(name, 0.0))


@dataclass(frozen=True)
class ActiveDevice:
    """An RDMA device that every node has, with an active port."""

    #: As a site file names it: by name, or by PCI address if nodes name it differently.
    name: str
    numa_node: int | None
    rate_b_s: float
    #: Node -> the kernel's name there.
    names: Mapping[str, str]


def devices(nodes: Sequence[Mapping[str, Any]]) -> list[ActiveDevice]:
    """RDMA devices with the same active port on every node, the fastest first."""
    there = {node["node"]: active_devices(node["host"]) for node in nodes}
    found: dict[str, ActiveDevice] = {}
    for device, port in next(iter(there.values()), []):
        if active := _on_all(device, port, there):
            found.setdefault(device.name, active)
    return sorted(found.values(), key=lambda each: -each.rate_b_s)


def active_devices(host: Mapping[str, Any]) -> list[tuple[Device, Port]]:
    """The RDMA devices of a node with their active ports."""
    listed = map(of_record, host["rdma"])
    return [(each, port) for each in listed for port in each.ports if port.state == "ACTIVE"]


def _on_all(
    device: Device, port: Port, there: Mapping[str, Sequence[tuple[Device, Port]]]
) -> ActiveDevice | None:
    """A device of the first node as all others have it too; None if they do not."""
    for name in filter(None, (device.name, device.pci)):
        same = {
            node: other
            for node, others in there.items()
            for other, its_port in others
            if name in (other.name, other.pci) and its_port.number == port.number
        }
        # One name may be another device on another node.
        alike = len({other.pci for other in same.values()}) == 1
        if len(same) == len(there) and alike:
            names = {node: other.name for node, other in same.items()}
            wanted = name if port.number == 1 else f"{name}:{port.number}"
            return ActiveDevice(wanted, device.numa_node, port.rate_b_s or 0.0, names)
    return None


# What `module avail` prints, and the modules that an environment of ReFrame may load.


_MODULE = re.compile(r"([A-Za-z][\w.+-]*(?:/[\w.+-]+)*/[\w.+-]+)(?:\(([\w:,]+)\))?", re.ASCII)
#: Kind of module -> names in lower case, the usual choice first. OpenHPC adds the major version to
#: some (`gnu13/13.2.0`).
_KINDS = {
    "compiler": ("gcc", "gnu", "gcc-native", "gcc-toolset"),
    "mpi": ("openmpi", "mpich", "mvapich2", "mvapich", "cray-mpich"),
    "workload": ("lammps",),
}


def modules_in(text: str) -> list[str]:
    """`NAME/VERSION` from `module --terse --default avail` of Lmod or environment-modules."""
    found = (_MODULE.fullmatch(line.strip()) for line in text.splitlines())
    return list(dict.fromkeys(match[1] for match in found if match))


def suggested(modules: Sequence[str]) -> dict[str, str]:
    """Kind -> the module of that kind that is to be loaded; only kinds that there are."""
    found: dict[str, str] = {}
    for kind, names in _KINDS.items():
        for name in names:
            named = re.compile(rf"{name}[0-9]*", re.IGNORECASE)
            if matching := [each for each in modules if named.fullmatch(each, 0, each.rfind("/"))]:
                found[kind] = max(matching, key=version)
                break
    return found


def version(module: str) -> list[tuple[int, str]]:
    """Sort key of `NAME/VERSION`: numbers by value."""
    words = re.findall(r"[0-9]{1,18}|[A-Za-z]+", module.rpartition("/")[2])
    return [(int(word), "") if word.isdigit() else (-1, word) for word in words]


_SCONTROL = ("scontrol", "--oneliner", "show")


def learn(wait_s: float | None, tell: Callable[[str], None]) -> ClusterFacts:
    """All that can be known. The job waits and runs `wait_s` at most; None submits nothing.

    Raises MachineError without a Slurm that answers, Stopped after a signal.
    """
    facts = _slurm()
    if wait_s is None:
        return facts
    target = access(facts.target, facts.accounts)
    if facts.target.nodes > 1:
        tell(f"asks Slurm for a heterogeneous job in {facts.target.name}")
        reason = in_job.refusal(NodeRequest(target, facts.origins))
        # What is refused to any job, such as the account, says nothing of heterogeneous ones.
        if reason is None or in_job.refusal(NodeRequest(target)) is None:
            facts = replace(facts, hetjob_refused=reason, hetjob_asked=True)
    request = NodeRequest(target, facts.origins)
    tell(f"submits a job of {request.tasks} nodes to {facts.target.name}")
    looked = in_job.look(request, ROOT, wait_s)
    tell(in_job.outcome(looked, request))
    return replace(facts, looked=looked)


def _slurm() -> ClusterFacts:
    """What needs no job."""
    usable = chosen(partitions(_required([*_SCONTROL, "partition"])))
    if not usable:
        raise MachineError("scontrol show partition: no partition that is up and has nodes")
    nodes = _required([*_SCONTROL, "node"])
    user = user_name(os.geteuid())
    assoc = ["sacctmgr", "--noheader", "--parsable2", "show"]
    default = ask([*assoc, "user", user, "format=defaultaccount"])
    of_user = ask([*assoc, "assoc", f"user={user}", "format=account"])
    system, modules = _modules(os.environ)
    return ClusterFacts(
        host=socket.gethostname(),
        processor=host.detect().processor,
        partitions=usable,
        shapes={each.name: shapes_of(nodes, each) for each in usable},
        settings=settings(_required(["scontrol", "show", "config"])),
        mpi=mpi_types(ask(["srun", "--mpi=list"]).text),
        accounts=accounts(of_user.text, default.text) if of_user.ok else {},
        modules_system=system,
        modules=modules,
    )


def shapes_of(nodes: str, partition: SlurmPartition) -> list[tuple[NodeShape, int]]:
    """Shapes of a partition's nodes, as its jobs get them."""
    return [(shape.within(partition), count) for shape, count in shapes(nodes, partition.name)]


def _modules(environment: Mapping[str, str]) -> tuple[str, Sequence[str]]:
    """ReFrame's name of the modules system, and the default module of each name."""
    for variable, name in (("LMOD_CMD", "lmod"), ("MODULES_CMD", "tmod4")):
        if program := environment.get(variable):
            interpreter = [] if os.access(program, os.X_OK) else ["tclsh"]
            answer = ask([*interpreter, program, "bash", "--terse", "--default", "avail"])
            return name, modules_in(answer.text)
    return "nomod", []


def _required(command: Sequence[str]) -> str:
    answer = ask(command)
    if not answer.ok:
        raise MachineError(
            f"{' '.join(command)}: {answer.last}; without Slurm, copy configs/localhost.py and"
            " site/localhost.yaml"
        )
    return answer.text
