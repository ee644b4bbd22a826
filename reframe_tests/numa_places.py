"""Where the check `numa` places buffers and workers.

The names of places mean the same on every machine: `nic` is the NUMA node of the network interface,
`other` the first node of another socket (of the same socket if there is only one).
"""

from __future__ import annotations

from typing import Any

from nimc.base.errors import InputError
from nimc.machine.site import Machine
from nimc.records.sample import Level

PLACES = ("nic", "other")
#: Workers that are not bound; their memory is on the node of the buffer.
FREE = "free"
#: Kernels of membench that load memory, and the level without workers.
LOADS = ("read", "write", "nt_write")
IDLE = "idle"


def nodes(machine: Machine) -> dict[str, int]:
    """Place -> NUMA node; without `other` if the machine has one node. Raises InputError."""
    facts = machine.node_facts()
    nic = machine.nic_node()
    if facts.numa_nodes == 1:
        return {"nic": nic}
    apart = facts.numa_nodes // facts.sockets if facts.sockets > 1 else 1
    return {"nic": nic, "other": (nic + apart) % facts.numa_nodes}


def lacking(machine: Machine, place: Level) -> str | None:
    """Why a machine does not have a place; None if it does."""
    if place in PLACES and place not in nodes(machine):
        return f"{machine.name} has 1 NUMA node"
    return None


def node_of(machine: Machine, field: str, place: str) -> int | None:
    """NUMA node of a place; None for workers that are not bound. Raises InputError."""
    if place == FREE:
        return None
    if place not in PLACES:
        raise InputError(f"{field}: {place!r} found; allowed are {', '.join(PLACES)}")
    if reason := lacking(machine, place):
        raise InputError(f"{field}: {place}: {reason}; allowed: nic")
    return nodes(machine)[place]


def facts(machine: Machine) -> dict[str, Any]:
    """Facts for provenance: numa_nodes, nic_node, and places (place -> NUMA node)."""
    return {
        "numa_nodes": machine.node_facts().numa_nodes,
        "nic_node": machine.nic_node(),
        "places": nodes(machine),
    }


def worker_cores(machine: Machine, app_cores: int) -> int:
    """Number of workers: the application's share of the cores of one NUMA node."""
    return max(1, app_cores // machine.node_facts().numa_nodes)
