"""`machine.yaml` in the state folder: the part of the site file that depends on the cluster."""

from __future__ import annotations

from typing import Any

import yaml

from analysis.errors import InputError
from campaigns.minicluster.spec import Fabric, Spec
from injection.machine import host

#: Fabric -> its injector, and the writers' device.
_WRITERS: dict[Fabric, tuple[str, str]] = {"veth": ("ucx", "eth0"), "rxe": ("perftest", "rxe0")}
#: An emulated processor is too slow for arrays of the size that STREAM's rule requires.
_MEMORY_SHARE: dict[Fabric, float] = {"veth": 0.5, "rxe": 0.03}

#: All nodes share this host's processors, so that an application slows the writers as well.
_SHARED_PROOF = {"min_share": 0.1}
#: On emulated processors, rows of one second are printed several seconds late, and resent packets
#: are counted twice; the processor receives every byte, so that the conductor may have to wait for
#: seconds. Setting up a connection takes seconds and varies by a second or two. A write
#: has few enough messages to end in time under any load, so it mostly ends early. Slurm's own
#: messages, 70 kB a run, pass the first rail.
_EMULATED_PROOF = {
    **_SHARED_PROOF,
    "counter_share": 0.5,
    "late_rows": 10,
    "pause": "5s",
    "write_tolerance": "4s",
    "write_share": 0.25,
    "rail_share": 0.1,
}
#: Caveat for every figure with several NUMA nodes.
_EMULATED_NUMA = (
    "NUMA nodes are emulated by QEMU: a topology only, the memory of both is the same host memory"
)


#: Caveat for every figure of nodes that count more cores than the host has.
_SHARED_CORES = "{} nodes count as {} cores each, and share the {} cores of one host"


def veth_cores(spec: Spec, cpus: int) -> int:
    """Cores that a node of veth counts as. Raises InputError for more than the host has."""
    if spec.cores > cpus:
        raise InputError(f"--cores {spec.cores}: this host has {cpus}; allowed: up to that")
    return spec.cores if spec.cores > 1 else max(1, cpus // spec.nodes)


def render(spec: Spec, cpus: int, memory_mib: int) -> str:
    """The file's text.

    A node of veth counts as its share of the host's cores, since all run at once, or as `--cores`;
    a virtual machine has `cpus` of its own.
    """
    cores = cpus if spec.fabric == "rxe" else veth_cores(spec, cpus)
    injector, device = _WRITERS[spec.fabric]
    here = host.detect()
    record: dict[str, Any] = {
        "nodes": spec.nodes,
        "injector": injector,
        "device": device,
        "memory_share": _MEMORY_SHARE[spec.fabric],
        "proof": _EMULATED_PROOF if spec.fabric == "rxe" else _SHARED_PROOF,
        "facts": {
            "cores": cores,
            "sockets": spec.numa,
            "numa_nodes": spec.numa,
            "nic_node": 0,  # soft-RoCE is on no node: the first is used
            "llc": f"{here.llc_total_b}B",
            "memory": f"{memory_mib}MiB",
        },
    }
    if spec.rails > 1:
        # MPI goes over tcp (site/minicluster/task-prolog.sh), so that rails are interfaces to it.
        record["rails"] = [
            {"device": f"rxe{i}", "numa_node": i % spec.numa, "mpi_device": f"eth{i}"}
            for i in range(spec.rails)
        ]
    if spec.fabric == "veth" and cores * spec.nodes > cpus:
        record["caveats"] = [_SHARED_CORES.format(spec.nodes, cores, cpus)]
    if spec.numa > 1:
        record["caveats"] = [_EMULATED_NUMA]
    if spec.origins:
        record["origins"] = {"policy": "hetjob", "partition": "origin", "nodes": spec.origins}
    return yaml.safe_dump(record, sort_keys=False)
