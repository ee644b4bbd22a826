"""What was found of a new machine, and what follows from it. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nimc.cluster.in_job import in_common
from nimc.cluster.init.slurm_text import NodeShape, SlurmAccount, SlurmPartition
from nimc.cluster.node_job import JobLook
from nimc.machine.site import Origins

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
    accounts: Sequence[SlurmAccount]
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


def access(partition: SlurmPartition, accounts: Sequence[SlurmAccount]) -> list[str]:
    """Options of every job in a partition; an account only if none is taken without one."""
    options = [f"--partition={partition.name}"]
    if not partition.whole_nodes:
        options.append("--exclusive")
    if accounts and not any(account.default for account in accounts):
        options.append(f"--account={accounts[0].name}")
    return options


def interfaces(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Network interfaces with an address on every node, the fastest first."""
    names = in_common([node["addresses"] for node in nodes])
    rates = {
        each["name"]: each["rate_b_s"] or 0.0
        for node in nodes[:1]
        for each in node["host"]["interfaces"]
    }
    usable = [name for name in names if not name.startswith(_INNER)]
    return sorted(usable, key=lambda name: -rates.get(name, 0.0))


@dataclass(frozen=True)
class ActiveDevice:
    """An RDMA device that every node has, with an active port."""

    name: str
    numa_node: int | None
    rate_b_s: float


def devices(nodes: Sequence[Mapping[str, Any]]) -> list[ActiveDevice]:
    """RDMA devices with an active port on every node, the fastest first."""
    active = [
        {each["name"]: each for each in node["host"]["rdma"] if _rate_b_s(each) is not None}
        for node in nodes
    ]
    first = active[0] if active else {}
    found = [
        ActiveDevice(name, each["numa_node"], _rate_b_s(each) or 0.0)
        for name, each in first.items()
        if all(name in other for other in active)
    ]
    return sorted(found, key=lambda each: -each.rate_b_s)


def _rate_b_s(device: Mapping[str, Any]) -> float | None:
    """Rate of the first active port; 0 if unknown, None without such a port."""
    rates = [port["rate_b_s"] or 0.0 for port in device["ports"] if port["state"] == "ACTIVE"]
    return rates[0] if rates else None
