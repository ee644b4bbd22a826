"""What can be asked about a new machine: Slurm and the modules system.

Functions that read what programs print are pure; `learn` asks.
"""

from __future__ import annotations

import os
import re
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from nimc.cluster.in_job import JobLook
from nimc.cluster.node_look import LookedAt
from records.errors import MachineError
from records.files import user_name
from records.kernel_text import number
from records.machine import host
from records.machine.site import Origins
from records.programs import ask
from records.slurm.parse import fields_of

#: A word that may stand in a new file: names of partitions, accounts, nodes.
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)
#: Slurm's time limits, `[DAYS-]HOURS:MINUTES:SECONDS`.
_LIMIT = re.compile(r"(?:([0-9]{1,5})-)?([0-9]{1,2}):([0-9]{2}):([0-9]{2})")
_MODULE = re.compile(r"([A-Za-z][\w.+-]*(?:/[\w.+-]+)*/[\w.+-]+)(?:\(([\w:,]+)\))?", re.ASCII)
#: What an environment of ReFrame is made of, by names in lower case without versions: GCC, MPI,
#: LAMMPS. Other names have these words too: gnuplot, mpi4py, hdf5-mpi, GCCcore.
_OF_ENVIRONMENTS = re.compile(
    r"(?:prgenv-)?(?:gcc|gnu)(?:-native|-toolset)?[-_.]?[\d.]*"
    r"|(?:(?:cray|hpcx|ibm|intel|nec|oneapi|parastation|platform|spectrum)-)*"
    r"[a-z]*(?:mpi|mpich|mvapich)\d*(?:-(?:x|abi|gdr|ib|ofi|ucx|[\d.]+))*"
    r"|lammps.*"
)


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


@dataclass(frozen=True)
class ClusterFacts:
    """What Slurm, this host and a job said."""

    #: Name and processor of this host, from where jobs are submitted.
    host: str
    processor: str
    #: Those that can run jobs, the default first: targets are in that one.
    partitions: Sequence[SlurmPartition]
    #: Shapes of the nodes of the targets' partition and their numbers.
    shapes: Sequence[tuple[NodeShape, int]]
    #: `scontrol show config`.
    settings: Mapping[str, str]
    mpi: Sequence[str]
    #: Accounts of the user.
    accounts: Sequence[str]
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
    def nodes(self) -> Sequence[LookedAt]:
        """The nodes that the job looked at."""
        return self.looked.nodes

    @property
    def origins(self) -> Origins:
        """Where origins come from."""
        if self.target.nodes < 2:
            return Origins(policy="same_host")
        if self.hetjob_refused:
            return Origins(policy="same_job")
        return Origins(policy="hetjob", partition=self.target.name)


def partitions(text: str) -> list[SlurmPartition]:
    """Those that can run jobs, the default first.

    From lines of `scontrol --oneliner show partition`.
    """
    usable = []
    for fields in map(fields_of, text.splitlines()):
        name, nodes = fields.get("PartitionName", ""), number(fields.get("TotalNodes", ""))
        if _NAME.fullmatch(name) and fields.get("State") == "UP" and nodes:
            whole = fields.get("OverSubscribe") == "EXCLUSIVE"
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


#: The limits of a partition that are read, in the order of `SlurmPartition`; `UNLIMITED` is none.
_LIMITS = ("CPUsPerNode", "CPUsPerSocket", "MemPerNode", "MemPerCPU")


def limit_s(text: str) -> int | None:
    """A time limit in seconds; None if there is none or it cannot be read."""
    match = _LIMIT.fullmatch(text)
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


def modules_in(text: str) -> list[str]:
    """`NAME/VERSION` of compilers, MPI and LAMMPS.

    From `module --terse --default avail` of Lmod or environment-modules.
    """
    matches = (_MODULE.fullmatch(line.strip()) for line in text.splitlines())
    names = dict.fromkeys(match[1] for match in matches if match)
    return [name for name in names if any(map(_OF_ENVIRONMENTS.fullmatch, _software(name)))]


def _software(module: str) -> Iterator[str]:
    """What a module may be named after: the part before its version, which may end the name.

    Versions name toolchains as well, as in `HDF5/1.14.0-gompi-2023a`.
    """
    parts = module.lower().split("/")
    yield parts[-2]
    if parts[1][0].isdigit():
        yield parts[0]


def learn() -> ClusterFacts:
    """What needs no job. Raises MachineError without a Slurm that answers."""
    usable = partitions(_slurm_shows("partition"))
    if not usable:
        raise MachineError("scontrol show partition: no partition that is up and has nodes")
    user = user_name(os.geteuid())
    assoc = ["sacctmgr", "--noheader", "--parsable2", "show", "assoc", f"user={user}"]
    of_user = ask([*assoc, "format=account"])
    system, modules = _modules(os.environ)
    return ClusterFacts(
        host=socket.gethostname(),
        processor=host.detect().processor,
        partitions=usable,
        shapes=shapes(_slurm_shows("node"), usable[0]),
        settings=settings(_slurm_shows("config")),
        mpi=mpi_types(ask(["srun", "--mpi=list"]).text),
        accounts=accounts(of_user.text) if of_user.ok else [],
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


def _slurm_shows(what: str) -> str:
    command = ["scontrol", "--oneliner", "show", what]
    answer = ask(command)
    if not answer.ok:
        raise MachineError(
            f"{' '.join(command)}: {answer.last}; without Slurm, copy configs/localhost.py and"
            " site/localhost.yaml"
        )
    return answer.stdout
