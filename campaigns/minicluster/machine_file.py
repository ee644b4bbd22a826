"""`machine.yaml` in the state folder: what `site/minicluster.yaml` cannot know of this cluster."""

from __future__ import annotations

from typing import Any

import yaml

from analysis.errors import InputError
from campaigns.minicluster.spec import Fabric, Spec
from injection.machine import host

#: Fabric -> the injector that works between its nodes, and the writers' device.
_WRITERS: dict[Fabric, tuple[str, str]] = {"veth": ("ucx", "eth0"), "rxe": ("perftest", "rxe0")}
#: An emulated processor is too slow for arrays of the size that STREAM's rule asks.
_MEMORY_SHARE: dict[Fabric, float] = {"veth": 0.5, "rxe": 0.03}

#: An emulated processor prints rows of one second several seconds late, and what it sends again
#: is counted twice. A connection takes seconds to set up there, sooner or later by a second or two;
#: and a write has few enough messages to end in time at any load, so that it mostly ends early.
_EMULATED_PROOF = {
    "counter_share": 0.5,
    "late_rows": 10,
    "write_tolerance": "4s",
    "write_share": 0.25,
}
#: What must stand beside every figure in which NUMA nodes are told apart.
_EMULATED_NUMA = (
    "NUMA nodes are emulated by QEMU: a topology only, the memory of both is the same host memory"
)


#: What must stand beside every figure of nodes that count more cores than there are.
_SHARED_CORES = "{} nodes count as {} cores each, and share the {} cores of one host"


def veth_cores(spec: Spec, cpus: int) -> int:
    """Cores that a node of veth counts as. Raises InputError for more than the host has."""
    if spec.cores > cpus:
        raise InputError(f"--cores {spec.cores}: this host has {cpus}; allowed: up to that")
    return spec.cores if spec.cores > 1 else max(1, cpus // spec.nodes)


def render(spec: Spec, cpus: int, memory_mib: int) -> str:
    """The file's text.

    A node of veth counts as its share of the host's cores, since all run at once, or as many as
    were asked for; a virtual machine has `cpus` of its own.
    """
    cores = cpus if spec.fabric == "rxe" else veth_cores(spec, cpus)
    injector, device = _WRITERS[spec.fabric]
    here = host.detect()
    record: dict[str, Any] = {
        "nodes": spec.nodes,
        "injector": injector,
        "device": device,
        "memory_share": _MEMORY_SHARE[spec.fabric],
        "facts": {
            "cores": cores,
            "sockets": spec.numa,
            "numa_nodes": spec.numa,
            "nic_node": 0,  # soft-RoCE is on none, the first stands in for one
            "llc": f"{here.llc_total_b}B",
            "memory": f"{memory_mib}MiB",
        },
    }
    if spec.fabric == "rxe":
        record["proof"] = _EMULATED_PROOF
    if spec.fabric == "veth" and cores * spec.nodes > cpus:
        record["caveats"] = [_SHARED_CORES.format(spec.nodes, cores, cpus)]
    if spec.numa > 1:
        record["caveats"] = [_EMULATED_NUMA]
    if spec.origins:
        record["origins"] = {"policy": "hetjob", "partition": "origin", "nodes": spec.origins}
    return yaml.safe_dump(record, sort_keys=False)
