"""What can be asked about a new machine: Slurm, the modules system, and a job that looks at nodes.

The first half reads what Slurm's programs print; it is pure.
"""

from __future__ import annotations

import os
import re
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from nimc.cluster.in_job import JobLook, in_common
from records.errors import MachineError
from records.files import user_name
from records.kernel_text import number
from records.machine import host
from records.machine.devices import Device, Port, of_record
from records.machine.site import Origins
from records.programs import ask

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


@dataclass(frozen=True)
class NodeShape:
    """What jobs get of a node, by `slurm.conf`."""

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
    read = [
        SlurmPartition(
            fields["PartitionName"],
            default=fields.get("Default") == "YES",
            up=fields.get("State") == "UP",
            limit_s=limit_s(fields.get("MaxTime", "")),
            whole_nodes=fields.get("OverSubscribe") == "EXCLUSIVE",
            nodes=number(fields.get("TotalNodes", "")) or 0,
        )
        for fields in map(_fields, text.splitlines())
        if _NAME.fullmatch(fields.get("PartitionName", ""))
    ]
    usable = (partition for partition in read if partition.up and partition.nodes)
    return sorted(usable, key=lambda partition: not partition.default)


def limit_s(text: str) -> int | None:
    """A time limit in seconds; None if there is none or it cannot be read."""
    match = _LIMIT.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def shapes(text: str, partition: str) -> list[tuple[NodeShape, int]]:
    """Shapes of a partition's nodes with their numbers, the most frequent first.

    From lines of `scontrol --oneliner show node`.
    """
    counts: Counter[NodeShape] = Counter()
    for fields in map(_fields, text.splitlines()):
        if partition in fields.get("Partitions", "").split(",") and (shape := _shape(fields)):
            counts[shape] += 1
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


_MODULE = re.compile(r"([A-Za-z][\w.+-]*(?:/[\w.+-]+)*/[\w.+-]+)(?:\(([\w:,]+)\))?", re.ASCII)
#: What an environment of ReFrame is made of, by names in lower case.
_OF_ENVIRONMENTS = re.compile(r"gcc|gnu|mpi|mvapich|lammps")


def modules_in(text: str) -> list[str]:
    """`NAME/VERSION` of compilers, MPI and LAMMPS.

    From `module --terse --default avail` of Lmod or environment-modules.
    """
    matches = (_MODULE.fullmatch(line.strip()) for line in text.splitlines())
    names = dict.fromkeys(match[1] for match in matches if match)
    return [name for name in names if _OF_ENVIRONMENTS.search(name.lower())]


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
    #: ReFrame's name of the modules system, and the modules of `modules_in`.
    modules_system: str
    modules: Sequence[str]
    #: Why Slurm takes no heterogeneous job in the target partition, although it takes others.
    hetjob_refused: str | None = None
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
    rates = {interface["name"]: interface["rate_b_s"] or 0.0 for interface in there}
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
    common: dict[str, ActiveDevice] = {}
    for device, port in next(iter(there.values()), []):
        if active := _on_all(device, port, there):
            common.setdefault(device.name, active)
    return sorted(common.values(), key=lambda device: -device.rate_b_s)


def active_devices(host: Mapping[str, Any]) -> list[tuple[Device, Port]]:
    """The RDMA devices of a node with their active ports."""
    listed = map(of_record, host["rdma"])
    return [(device, port) for device in listed for port in device.ports if port.state == "ACTIVE"]


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


_SCONTROL = ("scontrol", "--oneliner", "show")


def learn() -> ClusterFacts:
    """What needs no job. Raises MachineError without a Slurm that answers."""
    usable = partitions(_required([*_SCONTROL, "partition"]))
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
        shapes={partition.name: shapes(nodes, partition.name) for partition in usable},
        settings=settings(_required(["scontrol", "show", "config"])),
        mpi=mpi_types(ask(["srun", "--mpi=list"]).text),
        accounts=accounts(of_user.text, default.text) if of_user.ok else {},
        modules_system=system,
        modules=modules,
    )


def _modules(environment: Mapping[str, str]) -> tuple[str, Sequence[str]]:
    """ReFrame's name of the modules system, and its modules."""
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
