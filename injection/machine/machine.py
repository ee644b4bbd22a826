"""A machine: what `site/MACHINE.yaml` says of it, and what is detected where the file is silent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from analysis import units
from analysis.checkout import ROOT
from analysis.errors import InputError
from injection.machine import devices, host
from injection.plan import Demand, OriginPolicy, ShortWrites

#: The smallest message that counts as reaching DRAM, bytes.
_LEAST_DRAM_B = 64 * 2**20
#: Quantities that the file spells with their units.
_Size = Annotated[int, BeforeValidator(lambda text: units.size_b(str(text), "size"))]
_Rate = Annotated[float, BeforeValidator(lambda text: units.rate_b_s(str(text), "rate"))]
_Duration = Annotated[float, BeforeValidator(lambda text: units.duration_s(str(text), "time"))]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Origins(_Record):
    """Where origins come from."""

    policy: OriginPolicy
    #: Origin nodes a block; more than one only where they are other hosts than the target.
    nodes: Annotated[int, Field(ge=1)] = 1
    #: Cores of the target that the origin takes, where both share a host.
    cores: Annotated[int, Field(ge=1)] = 1
    #: Slurm partition and reservation that origin nodes are asked from.
    partition: str | None = None
    reservation: str | None = None
    #: More options of sbatch for the component of the origins, such as `--constraint=hdr`.
    access: list[Annotated[str, Field(pattern=r"^-\S+$")]] = []


class Nic(_Record):
    """The network interface of a node, as its data sheet says; nothing here is detected."""

    model: str
    processing: Literal["onload", "offload"]
    link_rate_b_s: _Rate = Field(alias="link_rate", gt=0)


class Proof(_Record):
    """How well writes must be proven, by default as a block demands it of itself.

    Looser only where the fabric is emulated.
    """

    #: Largest share by which the bytes that a target's device counted may differ from the claim.
    counter_share: Annotated[float, Field(gt=0)] = Demand.counter_share
    #: A report later than this many of its intervals means that the writer stood still.
    late_rows: Annotated[float, Field(ge=1)] = Demand.late_rows
    #: How late or early a short write may start or end, seconds, and the share of the planned
    #: writing that may be missing or be beyond the plan (docs/scale.md says where both come from).
    write_tolerance_s: _Duration = Field(
        default=ShortWrites.tolerance_s, alias="write_tolerance", gt=0
    )
    write_share: Annotated[float, Field(gt=0, le=1)] = ShortWrites.allowed_share


class Facts(_Record):
    """What a compute node is made of. Given for machines whose nodes differ from the login node."""

    cores: Annotated[int, Field(ge=1)]
    #: Hardware threads of a core, which Slurm counts as CPUs.
    threads_per_core: Annotated[int, Field(ge=1)] = 1
    sockets: Annotated[int, Field(ge=1)]
    numa_nodes: Annotated[int, Field(ge=1)]
    #: NUMA node that the writers' network interface is attached to; None where that is not known.
    nic_node: Annotated[int, Field(ge=0)] | None = None
    #: All last-level caches of a node together, and its memory, bytes.
    llc_b: _Size = Field(alias="llc", ge=1)
    memory_b: _Size = Field(alias="memory", ge=1)


class Machine(_Record):
    """One file of `site/`."""

    name: str
    description: str
    origins: Origins
    #: Injector that the `on` arm uses where a campaign does not name one.
    injector: Literal["perftest", "ucx"]
    #: RDMA device or network interface of the writers.
    device: str | None = None
    #: Network interface that the agents speak over, on every node.
    interface: str | None = None
    nic: Nic | None = None
    proof: Proof = Proof()
    #: What must be said beside every figure of this machine; stands on each of its samples.
    caveats: list[str] = []
    #: Case -> figure of merit that it is known to reach without writers, SI units; and the share by
    #: which it may fall short.
    references: dict[str, Annotated[float, Field(gt=0)]] = {}
    reference_tolerance: Annotated[float, Field(gt=0)] = 0.1
    #: ReFrame's partition that a campaign's targets are of; None: the first that can run a check.
    partition: str | None = None
    #: Nodes that jobs may use, origins included; None where the file does not tell.
    nodes: Annotated[int, Field(ge=1)] | None = None
    #: Mean time to interrupt of one node, seconds; the paper takes five years.
    node_mtti_s: _Duration = Field(default=5 * units.SECONDS["y"], alias="node_mtti", gt=0)
    #: Largest share of a node's memory that a workload may take.
    memory_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    #: None: detected on the host that asks.
    facts: Facts | None = None
    #: Path of a file whose keys take the place of this one's, where it exists; may hold `$NAME`.
    include: str | None = None

    def with_origins(self, nodes: int) -> Machine:
        """The same machine with so many origin nodes a block."""
        return self.model_copy(update={"origins": self.origins.model_copy(update={"nodes": nodes})})

    def node_facts(self) -> Facts:
        """What a compute node is made of: as the file says, else as detected here."""
        if self.facts:
            return self.facts
        here = host.detect()
        return Facts.model_validate(
            {
                "cores": len(here.usable_cores),
                "threads_per_core": max(1, here.threads // here.cores),
                "sockets": here.sockets,
                # Nodes that hold memory only come after those with cores, and are left out.
                "numa_nodes": max(1, sum(bool(node.cpus) for node in here.numa_nodes)),
                "nic_node": devices.numa_node(self.device, here.rdma),
                "llc": f"{here.llc_total_b}B",
                "memory": f"{here.memory_b}B",
            }
        )

    def numa_node(self, number: int, field: str) -> int | None:
        """A NUMA node that this machine has; -1 is None, no node in particular.

        Raises InputError, which names `field` and what is allowed there.
        """
        nodes = range(self.node_facts().numa_nodes)
        if number not in range(-1, len(nodes)):
            there = ", ".join(map(str, nodes))
            raise InputError(
                f"{field}: {number} found; allowed are -1 (left alone) and the NUMA nodes of"
                f" {self.name}: {there}"
            )
        return None if number < 0 else number

    def nic_node(self) -> int:
        """NUMA node of the writers' network interface.

        On a shared host without one it is that of the origin's cores, which stand in for it. Raises
        InputError where it is not known.
        """
        facts = self.node_facts()
        if facts.numa_nodes == 1:
            return 0
        if facts.nic_node is not None:
            return facts.nic_node
        if self.origins.policy == "same_host" and self.facts is None:
            _, origin_cpus = self.split_cpus()
            for node in host.detect().numa_nodes:
                if set(origin_cpus) & set(node.cpus):
                    return node.number
        there = ", ".join(map(str, range(facts.numa_nodes)))
        raise InputError(
            f"site/{self.name}.yaml: facts.nic_node: the NUMA node of the network interface is not"
            f" known; allowed: one of {there}"
        )

    def message_b(self, asked: str) -> int:
        """Size of one message of the writers, bytes: `64KiB`, `dram`, or `auto`.

        `dram` is what the last-level caches cannot hold, `auto` that where the writes of a shared
        host would stay in them, and 64 KiB elsewhere. Raises InputError.
        """
        if asked == "auto":
            asked = "dram" if self.origins.policy == "same_host" else "64KiB"
        if asked == "dram":
            return dram_message_b(self.node_facts().llc_b)
        return units.size_b(asked, "message")

    def usable_cpus(self) -> list[int]:
        """Cores that application and origin share where both are on one host; else none.

        A core is told as its first hardware thread, and its others are left idle.
        """
        return host.detect().usable_cores if self.origins.policy == "same_host" else []

    def split_cpus(self, reserved: int | None = None) -> tuple[list[int], list[int]]:
        """Cores of the application and of the origin where they share a host, else none of both.

        The application leaves the last `reserved` cores free; None leaves those of the origin, so
        that they share none. Where origins are other nodes, the launcher places the application.
        Raises InputError where none is left to the application.
        """
        cpus = self.usable_cpus()
        if self.origins.policy != "same_host":
            return [], []
        left = self.origins.cores if reserved is None else reserved
        if len(cpus) <= max(left, self.origins.cores - 1):
            field = "origins.cores" if reserved is None else "reserved_cores"
            raise InputError(
                f"site/{self.name}.yaml: {field}: {left} of {len(cpus)} usable cores leave none to"
                " the application"
            )
        return cpus[: len(cpus) - left], cpus[-self.origins.cores :]


def dram_message_b(llc_b: int) -> int:
    """Size of a write that the last-level caches (`llc_b` together) cannot hold, bytes."""
    return max(_LEAST_DRAM_B, 2 * llc_b)


def known_machines(root: Path = ROOT) -> list[str]:
    """Every machine that has a file in `site/`."""
    return sorted(path.stem for path in (root / "site").glob("*.yaml"))


def load(name: str, root: Path = ROOT) -> Machine:
    """The machine of that name; raises InputError where its file is missing or wrong."""
    path = root / "site" / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(known_machines(root)) or "none"
        raise InputError(f"machine {name!r}: there is no site/{name}.yaml; known machines: {known}")
    record = _read(path)
    extra = Path(os.path.expandvars(str(record.get("include") or "")))
    if extra.is_file():
        record |= _read(extra)
    try:
        return Machine.model_validate(record)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the file"
        raise InputError(f"{path}: {field}: {first['msg']}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        record = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from None
    if not isinstance(record, dict):
        raise InputError(f"{path}: a mapping of keys to values is expected")
    return record
