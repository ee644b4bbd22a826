"""A machine, as `site/MACHINE.yaml` describes it.

If the file has no `facts`, the hardware of this host is detected.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_serializer,
    field_validator,
)

from records import units, yaml_file
from records.acceptance import AcceptanceLimits, limit_field
from records.block_plan import OriginPolicy, ShortWrites
from records.checkout import ROOT
from records.commands import command
from records.errors import InputError, shown_value, suggestion
from records.files import require_owned
from records.machine import devices, fabrics, host
from records.machine.fabrics import InjectorName
from records.yaml_file import Duration, Fraction, Rate, Record, Size

#: A message for DRAM is at least this large, bytes, and larger if the caches are
#: (`dram_message_b`).
MIN_DRAM_MESSAGE_B = 64 * 2**20


def _check_word(text: str) -> str:
    if not text.isprintable() or len(text.split()) != 1 or text != text.strip():
        raise ValueError(f"{shown_value(text)} found; allowed: a word without blanks")
    return text


def _check_absolute(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError(f"{shown_value(text)} found; allowed: an absolute path")
    return text


#: Options of perftest that a site file may not give, since writers set them, or since they change
#: the output or the duration. Options that name a file are refused too (`PERFTEST_FILE_OPTION`).
_REFUSED_LETTERS = "dipsqtnDFabelQU"
_REFUSED_NAMES = [
    "ib-dev",
    "ib-port",
    "port",
    "size",
    "qp",
    "tx-depth",
    "iters",
    "duration",
    "CPU-freq",
    "all",
    "bidirectional",
    "events",
    "post_list",
    "cq-mod",
    "output",
    "run_infinitely",
    "report-both",
    "report-counters",
    "report-per-port",
    "report-unsorted",
    "report_gbits",
    "rate_limit",
    "rate_limit_type",
    "rate_units",
    "burst_size",
    "disable_numa",
]


def _is_refused(option: str) -> bool:
    """Return whether nimc sets an option of perftest itself, or cannot read the output with it.

    `getopt_long` takes a value or further options right after a letter (`-D5`, `-RD`), which are
    refused, since a word would hide an option. It also takes the beginning of a name (`--dur`).
    """
    if option.startswith("--"):
        name = option.removeprefix("--").partition("=")[0]
        return any(refused.startswith(name) for refused in _REFUSED_NAMES)
    return option.startswith("-") and (len(option) > 2 or option[1:] in _REFUSED_LETTERS)


def _check_perftest_option(text: str) -> str:
    _check_word(text)
    if _is_refused(text) or fabrics.PERFTEST_FILE_OPTION.fullmatch(text):
        allowed = (
            "options that writers do not set, that name no file, and that leave output and duration"
            " alone; a word has one letter only, and its value is the next word"
        )
        raise ValueError(f"{shown_value(text)} found; allowed: {allowed}")
    return text


_PerftestOption = Annotated[str, AfterValidator(_check_perftest_option)]

#: A name that becomes a word of a job script or of a command line.
_Word = Annotated[str, AfterValidator(_check_word)]
_Program = Annotated[_Word, AfterValidator(_check_absolute)]


class Origins(Record):
    """The nodes or cores on which origins run."""

    policy: OriginPolicy
    #: Origin nodes per block. It has no meaning if origin and target share a host.
    nodes: Annotated[int, Field(ge=1)] = 1
    #: Cores of the target that the origin uses, if both share a host.
    cores: Annotated[int, Field(ge=1)] = 1
    #: Slurm partition and reservation of the origin nodes.
    partition: _Word | None = None
    reservation: _Word | None = None
    #: More sbatch options for the job component of the origins, such as `--constraint=hdr`.
    access: list[Annotated[str, Field(pattern=r"^-\S+$")]] = []

    @property
    def separate_nodes(self) -> int:
        """Number of nodes that run only writers; 0 if origin and target share a host."""
        return 0 if self.policy == "same_host" else self.nodes


class Nic(Record):
    """The network interface of a node, from its data sheet; nothing here is detected."""

    model: str
    #: Whether the node's CPU or the interface itself runs the protocol.
    processing: Literal["onload", "offload"]
    link_rate_b_s: Rate = Field(alias="link_rate")


class Memory(Record):
    """The memory of a node, from its data sheet or `dmidecode`; nothing here is detected."""

    #: Number of memory channels with modules, over all sockets.
    channels: Annotated[int, Field(ge=1)]
    #: Bytes per second of one channel: 8 times its transfers per second.
    channel_rate_b_s: Rate = Field(alias="channel_rate")
    #: True if two channels are ganged into one of twice the width; None: unknown.
    ganged: bool | None = None
    #: Whether the memory controller leaves a DRAM row open after an access, closes it, or adapts to
    #: the accesses; None: unknown.
    page_policy: Literal["open", "closed", "adaptive"] | None = None


class Rail(Record):
    """One RDMA device or network interface of a node; all nodes have the same rails."""

    device: _Word
    #: NUMA node that it is attached to; None if unknown.
    numa_node: Annotated[int, Field(ge=0)] | None = None
    #: Its name in UCX, for the application's MPI. None: the device itself if it is a network
    #: interface of the host that runs nimc, else `DEVICE:PORT`.
    mpi_device: _Word | None = None


class ProofLimits(Record):
    """Limits within which writes count as proven (`records.acceptance`).

    Loosen them only if the fabric is emulated. A campaign or a check may set another `min_share`,
    such as a small one where the application takes the writers' processors.
    """

    min_share: Fraction = limit_field("min_share")
    max_share: Fraction = limit_field("max_share")
    counter_share: Fraction = limit_field("counter_share")
    late_rows: float = limit_field("late_rows")
    silent_s: Duration = limit_field("silent_s", alias="silent")
    pause_s: Duration = limit_field("pause_s", alias="pause")
    rail_share: Fraction = limit_field("rail_share")
    #: How late or early a short write may start or end, seconds (docs/scale.md).
    write_tolerance_s: Duration = Field(default=ShortWrites.tolerance_s, alias="write_tolerance")
    #: Largest share of the planned writing that may be missing, or that may be written beyond the
    #: plan.
    write_share: Annotated[Fraction, Field(gt=0, le=1)] = ShortWrites.allowed_share

    def limits(self) -> dict[str, float]:
        """Return the limits that `AcceptanceLimits` also has: name -> value."""
        names = type(self).model_fields.keys() & {field.name for field in fields(AcceptanceLimits)}
        return {name: getattr(self, name) for name in names}


#: The most NUMA nodes that Linux supports.
_MAX_NUMA_NODES = 1024
_NumaNode = Annotated[int, Field(ge=0, lt=_MAX_NUMA_NODES)]


def _node_numbers(value: object) -> object:
    """Return the numbers 0 to N - 1 of NUMA nodes for a count N; any other value unchanged."""
    if type(value) is not int:
        return value
    if not 1 <= value <= _MAX_NUMA_NODES:
        raise ValueError(f"{value} found; allowed: 1 to {_MAX_NUMA_NODES}, or a list of numbers")
    return list(range(value))


class NodeFacts(Record):
    """Hardware of a compute node. A site file must give it if the login node has other hardware."""

    cores: Annotated[int, Field(ge=1)]
    #: Hardware threads of a core, which Slurm counts as CPUs.
    threads_per_core: Annotated[int, Field(ge=1)] = 1
    sockets: Annotated[int, Field(ge=1)]
    #: The kernel's numbers of the NUMA nodes that have cores and memory. A file may give their
    #: count if they are numbered 0, 1, and so on.
    numa_nodes: Annotated[list[_NumaNode], Field(min_length=1), BeforeValidator(_node_numbers)]
    #: Numbers of the NUMA nodes that have memory and no cores (CXL).
    memory_nodes: list[_NumaNode] = []
    #: NUMA node that the writers' network interface is attached to; None if unknown.
    nic_node: Annotated[int, Field(ge=0)] | None = None
    #: Size of all last-level caches of a node together, and its memory, bytes; None if unknown.
    llc_b: Size | None = Field(alias="llc")
    memory_b: Size | None = Field(alias="memory")

    @field_serializer("numa_nodes")
    def _count_or_numbers(self, nodes: list[int]) -> int | list[int]:
        """Return a count for nodes numbered from 0, so that digests of recorded runs stay valid."""
        return len(nodes) if nodes == list(range(len(nodes))) else nodes

    @field_validator("numa_nodes", "memory_nodes")
    @classmethod
    def _require_each_once(cls, nodes: list[int], info: ValidationInfo) -> list[int]:
        all_nodes = [*info.data.get("numa_nodes", []), *nodes]
        if len(set(all_nodes)) < len(all_nodes):
            allowed = "each node once, in one of numa_nodes and memory_nodes"
            raise ValueError(f"{shown_value(nodes)} found; allowed: {allowed}")
        return nodes

    def bindable_nodes(self) -> list[int]:
        """Return the numbers of the NUMA nodes that memory can be bound to."""
        return sorted([*self.numa_nodes, *self.memory_nodes])

    @property
    def numa_nodes_per_socket(self) -> int:
        """Number of NUMA nodes of each socket, which is assumed to be the same for all sockets."""
        return max(1, len(self.numa_nodes) // self.sockets)

    def socket_of(self, node: int) -> int | None:
        """Return the number of a NUMA node's socket, from 0; None for a node without cores."""
        if node not in self.numa_nodes:
            return None
        return self.numa_nodes.index(node) // self.numa_nodes_per_socket


class Machine(Record):
    """A machine, as one file in `site/` describes it."""

    name: str
    description: str
    origins: Origins
    #: Injector (the program that writes) of the arms with writes, unless a campaign names one.
    injector: InjectorName
    #: RDMA device (`records.machine.devices`) or network interface of the writers.
    device: _Word | None = None
    #: More options of both ends of `perftest`, such as `--tclass=106`.
    perftest_options: list[_PerftestOption] = []
    #: RDMA devices or network interfaces of a node. The levels `nic0`, `nic1`, ... of `writer_rail`
    #: and `mpi_rail` are these, in this order. If there are any, `device` is one of them.
    rails: list[Rail] = []
    #: Network interface over which nimc's processes on the nodes talk to each other.
    interface: _Word | None = None
    nic: Nic | None = None
    memory: Memory | None = None
    proof: ProofLimits = ProofLimits()
    #: Caveats of every figure from this machine. They are copied to each sample.
    caveats: list[str] = []
    #: Case -> its usual figure of merit without writers, SI units.
    references: dict[str, Annotated[float, Field(gt=0)]] = {}
    #: Share by which a figure may be worse than its reference.
    reference_tolerance: Annotated[Fraction, Field(gt=0)] = 0.1
    #: ReFrame partition of a campaign's targets; None: the first that can run a check.
    partition: _Word | None = None
    #: Number of nodes that jobs may use, origins included; None if unknown.
    nodes: Annotated[int, Field(ge=1)] | None = None
    #: True if jobs may leave cores to the system (`sbatch --core-spec`).
    core_spec: bool = False
    #: Value of Slurm's option `--network` for the steps of agents, writers and application, such as
    #: `job_vni`.
    network: Annotated[str, Field(pattern=r"^\w[\w=,.-]*$")] | None = None
    #: Name of a program that a check needs -> its path, which is used in every environment, even
    #: if a module or Spack has the program too.
    programs: dict[str, _Program] = {}
    #: Mean time to interrupt of one node or rank (`counted_per_node` of `lammps_scaling`), seconds;
    #: five years in Groves, Grant and Arnold (2016).
    node_mtti_s: Duration = Field(default=5 * units.SECONDS["y"], alias="node_mtti")
    #: Largest share of a node's memory that a workload may take.
    memory_share: Annotated[Fraction, Field(gt=0, le=1)] = 0.5
    #: Hardware of a compute node; None: it is detected on this host.
    facts: NodeFacts | None = None
    #: Path, relative to `site/`, of a file whose keys replace the keys of this file, each as a
    #: whole: its `proof` replaces all of `proof`. The path may contain `$NAME`. The file need not
    #: exist. The user or root must own the file and its folder. Neither may be a link or writable
    #: by others.
    include: str | None = None

    @field_validator("rails")
    @classmethod
    def _require_device_among_rails(cls, rails: list[Rail], info: ValidationInfo) -> list[Rail]:
        names, device = [rail.device for rail in rails], info.data.get("device")
        if len(set(names)) < len(names) or (names and device not in names):
            allowed = "allowed: each rail once, and a device that is one of them"
            raise ValueError(
                f"{', '.join(names)} found, and device {shown_value(device)}; {allowed}"
            )
        return rails

    @property
    def devices(self) -> list[str]:
        """The rails and the device, each once."""
        names = [*(rail.device for rail in self.rails), self.device]
        return [name for name in dict.fromkeys(names) if name]

    @property
    def system(self) -> str:
        """The partition of the targets, in the form of ReFrame's option `--system`."""
        return f"{self.name}:{self.partition}" if self.partition else self.name

    @property
    def agent_network(self) -> str:
        """Value of Slurm's option `--network` for the steps of agents and writers.

        If it is empty, these steps are started without the option.
        """
        # A site with the key `network` is assumed to have Slingshot. In Slurm 26.05 the only other
        # plug-in that reads the option is NVIDIA's for IMEX, which uses it for jobs of several
        # segments.
        slingshot = fabrics.FABRICS["Slingshot"] if self.network else None
        fabric = slingshot or (devices.fabric(self.device) if self.device else None)
        return ",".join(filter(None, [self.network, fabric.step_network if fabric else ""]))

    def with_origins(self, nodes: int) -> Machine:
        """Return this machine with `nodes` origin nodes per block."""
        return self.model_copy(update={"origins": self.origins.model_copy(update={"nodes": nodes})})

    def node_facts(self) -> NodeFacts:
        """Return the hardware of a compute node from the file, or else that of this host."""
        return self.facts or self._facts_of_this_host

    @cached_property
    def _this_host(self) -> host.Host:
        """This host; read once, since a campaign has thousands of cases."""
        return host.detect()

    @cached_property
    def _facts_of_this_host(self) -> NodeFacts:
        """Hardware of this host."""
        this_host = self._this_host
        return NodeFacts.model_validate(
            {
                "cores": len(this_host.usable_cores),
                "threads_per_core": max(1, this_host.threads // this_host.cores),
                "sockets": this_host.sockets,
                "numa_nodes": host.nodes_with_cores(this_host.numa_nodes) or 1,
                "memory_nodes": host.memory_only_nodes(this_host.numa_nodes),
                "nic_node": devices.numa_node(self.device, this_host.rdma),
                "llc": this_host.llc_total_b and f"{this_host.llc_total_b}B",
                "memory": f"{this_host.memory_b}B" if this_host.memory_b else None,
            }
        )

    def known_numa_node(self, node: int, field: str) -> int | None:
        """Return the number of a NUMA node of this machine; None for -1, which means 'not bound'.

        Raises InputError for the number of any other node. The error names `field`.
        """
        nodes = self.node_facts().bindable_nodes()
        if node not in (-1, *nodes):
            listed = ", ".join(map(str, nodes))
            allowed = f"-1 (not bound) and the NUMA nodes of {self.name}: {listed}"
            raise InputError(f"{field}: {node} found; allowed: {allowed}")
        return None if node < 0 else node

    def nic_node(self) -> int:
        """Return the NUMA node of the writers' network interface.

        An unknown node is taken to be that of the origin's cores, if origin and target share this
        host and its facts were detected. Raises InputError for any other unknown node.
        """
        facts = self.node_facts()
        if len(facts.numa_nodes) == 1:
            return facts.numa_nodes[0]
        if facts.nic_node is not None:
            return facts.nic_node
        if self.origins.policy == "same_host" and self.facts is None:
            _, origin_cpus = self.split_cores()
            for node in self._this_host.numa_nodes:
                if set(origin_cpus) & set(node.cpus):
                    return node.number
        listed = ", ".join(map(str, facts.numa_nodes))
        unknown = "the NUMA node of the network interface is unknown"
        field = f"site/{self.name}.yaml: facts.nic_node"
        raise InputError(f"{field}: {unknown}; allowed: one of {listed}")

    def message_b(self, requested: str) -> int:
        """Return the size of one message of the writers, bytes, from a text such as `64KiB`.

        `dram` is larger than the last-level caches. `auto` is `dram` on a shared host, where writes
        would otherwise stay in the caches, and 64 KiB elsewhere. Raises InputError for a
        text that is no size, and for `dram` if the size of the caches is unknown.
        """
        if requested == "auto":
            requested = "dram" if self.origins.policy == "same_host" else "64KiB"
        if requested == "dram":
            return dram_message_b(self.llc_b())
        return units.size_b(requested, "message")

    def llc_b(self) -> int:
        """Return the size of a node's last-level caches, bytes. Raises InputError if unknown."""
        return self._require_size(self.node_facts().llc_b, "the size of the last-level caches")

    def memory_b(self) -> int:
        """Return the memory of a node, bytes. Raises InputError if it is unknown."""
        return self._require_size(self.node_facts().memory_b, "the memory of a node")

    def _require_size(self, size_b: int | None, quantity: str) -> int:
        """Return the size. Raises InputError, which names the `quantity`, if the size is None."""
        if size_b is None:
            reason = ", since this host's kernel does not report it" if self.facts is None else ""
            unknown = f"{quantity} is unknown{reason}"
            allowed = f"facts: {_facts_line(self.node_facts())}"
            raise InputError(f"site/{self.name}.yaml: facts: {unknown}; allowed: {allowed}")
        return size_b

    def usable_cores(self) -> list[int]:
        """Return the cores of application and origin if they share a host; otherwise empty.

        A core has the number of its first hardware thread. Its other threads stay idle.
        """
        return self._this_host.usable_cores if self.origins.policy == "same_host" else []

    def split_cores(self, reserved: int | None = None) -> tuple[list[int], list[int]]:
        """Return the cores of the application and those of the origin if they share a host.

        The application leaves the last `reserved` cores free. With None, it leaves as many cores
        free as the origin uses, so that the two share no core. If origins are other nodes, both
        lists are empty, and the launcher places the application. Raises InputError if no core is
        left for the application, or too few for the origin.
        """
        if self.origins.policy != "same_host":
            return [], []
        cpus = self.usable_cores()
        origin_cores = self.origins.cores
        free_cores = origin_cores if reserved is None else reserved
        if len(cpus) <= free_cores or len(cpus) < origin_cores:
            raise InputError(
                f"machine {self.name!r}: too few usable cores ({len(cpus)}); allowed: more than the"
                f" {free_cores} reserved, and at least the {origin_cores} of the origin"
                " (origins.cores)"
            )
        return cpus[: len(cpus) - free_cores], cpus[-origin_cores:]


def _facts_line(facts: NodeFacts) -> str:
    """Return the facts as a line of the file; `SIZE` stands for a size that the user must add."""
    values = facts.model_dump(exclude_defaults=True, exclude={"llc_b", "memory_b"})
    sizes_b = {"llc": facts.llc_b, "memory": facts.memory_b}
    values |= {key: f"{size_b}B" if size_b else "SIZE" for key, size_b in sizes_b.items()}
    entries = ", ".join(f"{key}: {value}" for key, value in values.items())
    return f"{{{entries}}}"


def dram_message_b(llc_b: int) -> int:
    """Return the size, in bytes, of a write that does not fit into caches of `llc_b` bytes."""
    return max(MIN_DRAM_MESSAGE_B, 2 * llc_b)


def known_machines(root: Path = ROOT) -> list[str]:
    """Return the names of all machines with a file in `site/`."""
    return sorted(path.stem for path in (root / "site").glob("*.yaml"))


def _known_text(machines: Sequence[str]) -> str:
    """Return the names of known machines, and how a cluster gets its files."""
    names = ", ".join(machines) or "none"
    return f"known machines: {names}; for a new cluster: `{command('init', 'NAME')}`"


def require_known(name: str, root: Path = ROOT) -> None:
    """Raise InputError if a machine has no file in `site/` and none in `configs/`."""
    machines = known_machines(root)
    if name not in machines and not (root / "configs" / f"{name}.py").is_file():
        raise InputError(
            f"machine {name!r}: neither site/{name}.yaml nor configs/{name}.py exists;"
            f" {_known_text(machines)}"
        )


def load(name: str, root: Path = ROOT) -> Machine:
    """Return the machine of that name; raises InputError if its file is missing or invalid."""
    machines = known_machines(root)
    if name not in machines:
        raise InputError(
            f"machine {name!r}: site/{name}.yaml not found{suggestion(name, machines)}"
            f"; {_known_text(machines)}"
        )
    path = root / "site" / f"{name}.yaml"
    site_file = yaml_file.load_mapping(path)
    files = [site_file]
    data = {"name": name, **site_file.data}
    if include := site_file.data.get("include"):
        included_path = path.parent / os.path.expandvars(str(include))
        for owned_path in (included_path.parent, included_path):
            require_owned(owned_path, f"{path}: include", or_root=True)
        if included_path.exists():
            included_file = yaml_file.load_mapping(included_path)
            files.append(included_file)
            data |= included_file.data
    try:
        machine = Machine.model_validate(data)
    except ValidationError as error:
        raise InputError(yaml_file.first_fault_line(files, error, Machine)) from None
    if machine.name != name:
        location = yaml_file.line_of(files, ("name",))
        shown_name = shown_value(machine.name)
        raise InputError(
            f"{location}: name: {shown_name} found; allowed: the file's name, {name!r}"
        )
    return machine
