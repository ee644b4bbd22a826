"""Where the check `numa` puts communications and workers.

Places have names that mean the same on every machine: `nic`, the NUMA node of the network
interface, and `other`, the first node of another socket (of the same one where there is one only).
"""

from __future__ import annotations

from typing import Any

from analysis.errors import InputError
from analysis.sample import Level
from injection.machine.machine import Machine

PLACES = ("nic", "other")
#: Workers that no policy holds anywhere; their memory stays beside the buffer.
FREE = "free"
#: Kernels of membench that workers load memory with, and what stands for no worker at all.
LOADS = ("read", "write", "nt_write")
IDLE = "idle"


def nodes(machine: Machine) -> dict[str, int]:
    """Place -> NUMA node; without `other` where the machine has one node. Raises InputError."""
    facts = machine.node_facts()
    nic = machine.nic_node()
    if facts.numa_nodes == 1:
        return {"nic": nic}
    apart = facts.numa_nodes // facts.sockets if facts.sockets > 1 else 1
    return {"nic": nic, "other": (nic + apart) % facts.numa_nodes}


def lacking(machine: Machine, place: Level) -> str | None:
    """Why a machine does not have a place; None where it does."""
    if place in PLACES and place not in nodes(machine):
        return f"{machine.name} has 1 NUMA node"
    return None


def node_of(machine: Machine, field: str, place: str) -> int | None:
    """NUMA node of a place; None for workers that are left to the system. Raises InputError."""
    if place == FREE:
        return None
    if place not in PLACES:
        raise InputError(f"{field}: {place!r} found; allowed are {', '.join(PLACES)}")
    if reason := lacking(machine, place):
        raise InputError(f"{field}: {place}: {reason}; allowed: nic")
    return nodes(machine)[place]


def facts(machine: Machine) -> dict[str, Any]:
    """What provenance keeps: numa_nodes, nic_node, and places (place -> NUMA node)."""
    return {
        "numa_nodes": machine.node_facts().numa_nodes,
        "nic_node": machine.nic_node(),
        "places": nodes(machine),
    }


def worker_cores(machine: Machine, app_cores: int) -> int:
    """Number of workers: the cores of one NUMA node, of those that the application has."""
    return max(1, app_cores // machine.node_facts().numa_nodes)
