"""Which nodes are targets and which are origins: from the plan's policy and Slurm's job."""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conductor import wire
from conductor.agent.agent import node_name
from conductor.injectors import INJECTORS
from conductor.injectors.base import MOST_QUEUE_PAIRS, Writer
from records.errors import MachineError
from records.plan import BlockPlan
from records.slurm.client import hostnames
from records.treatment import Writes

_LOOPBACK = "127.0.0.1"
_FIRST_PORT = 20000
#: Most passive sides of a target under a timetable; each needs a port.
MOST_SIDES = 4
_PORTS = 12000
#: Unknown to others until writers listen, so that nobody can be there first.
_BASE = secrets.randbelow(_PORTS)


@dataclass(frozen=True)
class Allocation:
    """The nodes of the block, by name."""

    targets: list[str]
    origins: list[str]

    @property
    def nodes(self) -> list[str]:
        """Every node once; each runs an agent."""
        return list(dict.fromkeys(self.targets + self.origins))


def resolve(plan: BlockPlan, environment: Mapping[str, str] = os.environ) -> Allocation:
    """The targets and origins of this job.

    Raises MachineError if there are too few nodes, or one would be both.
    """
    if plan.origin_policy == "same_host":
        here = [node_name()]
        return Allocation(here, here)
    if plan.origin_policy == "same_job":
        nodes = hostnames(environment.get("SLURM_JOB_NODELIST", ""))
        targets, origins = nodes[: -plan.n_origins], nodes[-plan.n_origins :]
    else:
        targets = hostnames(environment.get("SLURM_JOB_NODELIST_HET_GROUP_0", ""))
        origins = hostnames(environment.get("SLURM_JOB_NODELIST_HET_GROUP_1", ""))
    if not targets or len(origins) < plan.n_origins:
        raise MachineError(
            f"the job has {len(targets)} target and {len(origins)} origin nodes;"
            f" at least 1 and {plan.n_origins} are needed (origins: {plan.origin_policy})"
        )
    if shared := sorted(set(targets) & set(origins)):
        raise MachineError(f"{', '.join(shared)} would be both target and origin")
    return Allocation(targets, origins)


def tasks_of_agents(allocation: Allocation) -> dict[str, str]:
    """Environment in which `srun` starts one agent per node of both components.

    By default srun takes over the number of tasks that the job requested for the application. If
    that is more than the nodes, it ignores `--ntasks-per-node` and starts an agent per rank.
    """
    return {
        "SLURM_NTASKS_HET_GROUP_0": str(len(allocation.targets)),
        "SLURM_NTASKS_HET_GROUP_1": str(len(allocation.origins)),
    }


def writers_at_once(
    plan: BlockPlan, writes: Writes, allocation: Allocation, queue_pairs: int = 1
) -> int:
    """Number of writers in one run: clients of each target, or targets or origins, if more.

    Of a program that opens one queue pair, as many times that as queue pairs are wanted.
    """
    one_pair = INJECTORS[writes.injector].most_queue_pairs == 1
    programs = queue_pairs if one_pair else 1
    if writes.clients:
        return programs * writes.clients * len(allocation.targets)
    return programs * max(len(allocation.targets), plan.n_origins)


#: Largest share of a node's memory that buffers of held writers may take, and how many messages an
#: end is assumed to have room for: one was seen with ucx_perftest (`origin_buffers_b`).
_HELD_SHARE = 0.25
_BUFFERS = 2
#: What to say of writers that do not fit.
UNFIT = "with held writers, their buffers exceed a quarter of a node's memory"


def fit(
    plan: BlockPlan, kinds: Iterable[Writes], allocation: Allocation, facts: Mapping[str, Any]
) -> bool:
    """Whether the buffers of writers of all these kinds may stay in their nodes' memory.

    `facts` are those of `Hub.facts`.
    """
    held_b = Counter[str]()
    for writes in kinds:
        pairs = writes.queue_pairs or MOST_QUEUE_PAIRS
        written_b = _BUFFERS * max(pairs * writes.message_b, writes.footprint_b or 0)
        for index in range(writers_at_once(plan, writes, allocation)):
            held_b[allocation.origins[index % plan.n_origins]] += written_b
            held_b[allocation.targets[index % len(allocation.targets)]] += written_b
    return all(size_b <= _HELD_SHARE * facts[node]["memory_b"] for node, size_b in held_b.items())


def assign(
    plan: BlockPlan,
    writes: Writes,
    allocation: Allocation,
    addresses: Mapping[str, str],
    turn: int,
    full_b_s: Sequence[float] | None = None,
    kind: int = 0,
    queue_pairs: int = 1,
) -> list[Writer]:
    """The writers of one kind, assigned round-robin to origins, targets and devices.

    So one origin writes to one target, many origins to one target, or one to many. Each turn uses
    new ports, since the kernel may still hold the last ones. `full_b_s` is the rate that each
    writer reaches alone at full rate; a throttled writer's rate is a share of it. `kind` numbers
    the kinds of writes of a block: writers of several may be held at a time.
    """
    count = writers_at_once(plan, writes, allocation, queue_pairs)
    kinds = [writes, *(treatment.writes for treatment in plan.treatments if treatment.writes)]
    most = max(
        writers_at_once(plan, other, allocation, other.queue_pairs or MOST_QUEUE_PAIRS)
        for other in kinds
    )
    first = _BASE + turn * most
    full = full_b_s if full_b_s and writes.throttled else [None] * count
    devices = writes.devices or (None,)
    return [
        Writer(
            index=kind * most + index,
            origin=allocation.origins[index % plan.n_origins],
            target=(target := allocation.targets[index % len(allocation.targets)]),
            address=addresses[target],
            port=_FIRST_PORT + (first + index) % _PORTS,
            message_b=writes.message_b,
            footprint_b=writes.footprint_b,
            queue_pairs=queue_pairs,
            options=writes.options,
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
    """The first of the ports that targets listen on in one run under a timetable."""
    return _FIRST_PORT + (_BASE + turn * MOST_SIDES) % _PORTS


def own_address(plan: BlockPlan) -> str:
    """Address that agents connect to. Raises MachineError if other nodes cannot reach it."""
    if plan.origin_policy == "same_host":
        return _LOOPBACK
    try:
        if plan.interface:
            return wire.interface_address(plan.interface)
        address = socket.gethostbyname(socket.gethostname())
    except (wire.WireError, OSError) as error:
        raise MachineError(str(error)) from None
    if ipaddress.ip_address(address).is_loopback:
        raise MachineError(
            f"{socket.gethostname()} resolves to {address}, which other nodes cannot reach;"
            " set 'interface' in the site file to a network interface that all nodes have"
        )
    return address
