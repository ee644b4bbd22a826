"""Who is target and who is origin: from the plan's policy and what Slurm says of the job."""

from __future__ import annotations

import ipaddress
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from injection import wire
from injection.agent import node_name
from injection.injectors.base import Writer
from injection.plan import BlockPlan
from injection.schedule import short_writes
from injection.treatment import Writes

_LOOPBACK = "127.0.0.1"
_FIRST_PORT = 20000
_PORTS = 12000


class AllocationError(Exception):
    """The job does not have the nodes that the plan asks for. One line for people."""


@dataclass(frozen=True)
class Allocation:
    """The nodes of the block, by name."""

    targets: list[str]
    origins: list[str]

    @property
    def nodes(self) -> list[str]:
        """Every node once; each runs an agent."""
        return list(dict.fromkeys(self.targets + self.origins))


def expand(nodelist: str) -> list[str]:
    """Slurm's compact node list as names; asks `scontrol`, which knows its syntax."""
    if not nodelist:
        return []
    result = subprocess.run(
        ["scontrol", "show", "hostnames", nodelist], capture_output=True, text=True, check=True
    )
    return result.stdout.split()


def resolve(plan: BlockPlan, environment: Mapping[str, str] = os.environ) -> Allocation:
    """The targets and origins of this job.

    Raises AllocationError where there are too few nodes, or one would be both.
    """
    if plan.origin_policy == "same_host":
        here = [node_name()]
        return Allocation(here, here)
    if plan.origin_policy == "same_job":
        nodes = expand(environment.get("SLURM_JOB_NODELIST", ""))
        targets, origins = nodes[: -plan.n_origins], nodes[-plan.n_origins :]
    else:
        targets = expand(environment.get("SLURM_JOB_NODELIST_HET_GROUP_0", ""))
        origins = expand(environment.get("SLURM_JOB_NODELIST_HET_GROUP_1", ""))
    if not targets or len(origins) < plan.n_origins:
        raise AllocationError(
            f"the job has {len(targets)} target and {len(origins)} origin nodes;"
            f" at least 1 and {plan.n_origins} are needed (origins: {plan.origin_policy})"
        )
    both = sorted(set(targets) & set(origins))
    if both:
        raise AllocationError(f"{', '.join(both)} would be both target and origin")
    return Allocation(targets, origins)


def tasks_of_agents(allocation: Allocation) -> dict[str, str]:
    """Environment in which `srun` starts one agent a node of both components.

    It takes the tasks that the job asked for its application from there, and where these are more
    than the nodes, it ignores `--ntasks-per-node`: as many agents as ranks would start.
    """
    return {
        "SLURM_NTASKS_HET_GROUP_0": str(len(allocation.targets)),
        "SLURM_NTASKS_HET_GROUP_1": str(len(allocation.origins)),
    }


def writers_at_once(plan: BlockPlan, allocation: Allocation) -> int:
    """Writers of one run: as many as the longer side has nodes."""
    return max(len(allocation.targets), plan.n_origins)


def assign(
    plan: BlockPlan,
    writes: Writes,
    allocation: Allocation,
    addresses: Mapping[str, str],
    turn: int,
    full_b_s: Sequence[float] | None = None,
) -> list[Writer]:
    """The writers of one run, dealt out in turn to origins, targets and devices.

    So one origin writes to one target, many origins to one target, or one to many. Ports move on
    with every turn, since the kernel may still hold those of the last one. `full_b_s` is what each
    writer reaches alone at full rate, which a throttled one is held against.
    """
    count = writers_at_once(plan, allocation)
    first = os.getpid() * 16 + turn * count
    full = full_b_s if full_b_s and writes.throttled else [None] * count
    devices = writes.devices or (None,)
    return [
        Writer(
            index=index,
            origin=allocation.origins[index % plan.n_origins],
            target=(target := allocation.targets[index % len(allocation.targets)]),
            address=addresses[target],
            port=_FIRST_PORT + (first + index) % _PORTS,
            message_b=writes.message_b,
            rate_b_s=writes.asked_b_s(full[index]),
            full_b_s=full[index],
            device=devices[index % len(devices)],
            buffer_node=writes.buffer_node,
            origin_cpus=plan.origin_cpus,
            target_cpus=plan.origin_cpus,
        )
        for index in range(count)
    ]


def first_port(turn: int) -> int:
    """The first of the ports that targets stand by on in one run under a timetable."""
    return _FIRST_PORT + (os.getpid() * 16 + turn * short_writes.MOST_SIDES) % _PORTS


def own_address(plan: BlockPlan) -> str:
    """Where agents call the conductor. Raises AllocationError where other nodes cannot."""
    if plan.origin_policy == "same_host":
        return _LOOPBACK
    try:
        if plan.interface:
            return wire.interface_address(plan.interface)
        address = socket.gethostbyname(socket.gethostname())
    except (wire.WireError, OSError) as error:
        raise AllocationError(str(error)) from None
    if ipaddress.ip_address(address).is_loopback:
        raise AllocationError(
            f"{socket.gethostname()} is {address} to itself, where no other node can call it;"
            " 'interface' of the machine's file names one that all nodes have"
        )
    return address
