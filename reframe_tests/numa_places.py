"""Where communications and workers are put in a cell of the study of RDMA and NUMA (seed 002).

Places are told in words that mean the same on every machine: `nic`, the NUMA node of the network
interface, and `other`, the first node of another socket (of the same one where there is one only).
"""

from __future__ import annotations

from analysis.errors import InputError
from injection.machine.machine import Machine

PLACES = ("nic", "other")
#: Workers that no policy holds anywhere; their memory stays beside the buffer.
FREE = "free"
#: Kernels of membench that workers load memory with.
LOADS = ("read", "write", "nt_write")


def nodes(machine: Machine) -> dict[str, int]:
    """Place -> NUMA node; without `other` where the machine has one node. Raises InputError."""
    facts = machine.node_facts()
    nic = machine.nic_node()
    if facts.numa_nodes == 1:
        return {"nic": nic}
    apart = facts.numa_nodes // facts.sockets if facts.sockets > 1 else 1
    return {"nic": nic, "other": (nic + apart) % facts.numa_nodes}


def cell(machine: Machine, buffer: str, workers: str | None, load: str) -> dict[str, object]:
    """A cell with its places as node numbers, as provenance keeps it.

    Keys: numa_nodes, nic_node, buffer, buffer_node, workers (null: none), worker_node (null: left
    alone, or none), cores, load. Raises InputError for a word that is not known, and for a place
    that the machine does not have.
    """
    known = nodes(machine)
    facts = machine.node_facts()
    _one_of("buffer", buffer, PLACES)
    if workers is not None:
        _one_of("workers", workers, (*PLACES, FREE))
        _one_of("load", load, LOADS)
    for field, place in (("buffer", buffer), ("workers", workers)):
        if place in PLACES and place not in known:
            raise InputError(f"{field}: {place}: {machine.name} has one NUMA node; allowed: nic")
    app_cpus, _ = machine.split_cpus()
    return {
        "numa_nodes": facts.numa_nodes,
        "nic_node": known["nic"],
        "buffer": buffer,
        "buffer_node": known[buffer],
        "workers": workers,
        "worker_node": known.get(workers or ""),
        "cores": max(1, (len(app_cpus) or facts.cores) // facts.numa_nodes) if workers else 0,
        "load": load,
    }


def _one_of(field: str, word: str, allowed: tuple[str, ...]) -> None:
    if word not in allowed:
        raise InputError(f"{field}: {word!r} found; allowed are {', '.join(allowed)}")
