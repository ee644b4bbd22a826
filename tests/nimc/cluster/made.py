"""A cluster's answers, made by hand."""

from dataclasses import replace
from typing import Any

from nimc.cluster.in_job import JobLook
from nimc.cluster.learn import ClusterFacts
from nimc.cluster.node_look import LookedAt
from records.machine.devices import Device, Port
from records.machine.host import Interface, NumaNode, detect
from records.slurm import parse
from tests.fuzz.target import CAPTURES

SLURM = CAPTURES / "slurm"
HERE = detect()


def rdma(name: str, gbit_s: float, numa_node: int | None, state: str = "ACTIVE") -> Device:
    port = Port(1, state, "InfiniBand", gbit_s * 1e9 / 8)
    return Device(name, "InfiniBand", None, numa_node, [port])


def node(name: str, devices: list[Device], **changes: Any) -> LookedAt:
    """A node of two sockets and four NUMA nodes, with two interfaces; `changes`: also of its host.

    What is not of interest is that of this host.
    """
    of_host = {
        "cpu_model": "Example 9000",
        "processor": "GenuineIntel-6-85-7",
        "sockets": 2,
        "cores": 64,
        "numa_nodes": [NumaNode(number, [number], 2**35) for number in range(4)],
        "llc_total_b": 512 * 2**20,
        "memory_b": 256 * 2**30,
        "rdma": devices,
        "interfaces": [
            Interface("docker0", 1e12, 1500),
            Interface("eno1", 1.25e8, 1500),
            Interface("hsn0", 2.5e10, 9000),
        ],
    }
    of_host |= {key: changes.pop(key) for key in [*changes] if hasattr(HERE, key)}
    whole = LookedAt(
        name=name,
        host=replace(HERE, **of_host),
        unseen=[],
        sees_lock=True,
        addresses={"docker0": "172.17.0.1", "eno1": "10.0.0.1", "hsn0": "10.1.0.1"},
        injectors={"perftest": None, "ucx": None, "spin": None},
    )
    return replace(whole, **changes)


FAST = [rdma("mlx5_0", 200, 1), rdma("mlx5_1", 200, 3), rdma("mlx5_bond", 25, 0)]


def found(**changes: Any) -> ClusterFacts:
    """The cluster of the captured outputs, whose nodes have two rails."""
    nodes = (SLURM / "nodes.txt").read_text().replace("CoresPerSocket=1", "CoresPerSocket=32")
    nodes = nodes.replace("CPUTot=2", "CPUTot=64").replace("CPUEfctv=2", "CPUEfctv=64")
    partitions = parse.partitions((SLURM / "partitions.txt").read_text())
    facts = ClusterFacts(
        host="login12.example",
        processor="GenuineIntel-6-85-7",
        partitions=partitions,
        shapes=parse.shapes(nodes, partitions[0]),
        settings=parse.settings((SLURM / "config.txt").read_text()),
        mpi=parse.mpi_types((SLURM / "mpi_list.txt").read_text()),
        accounts=[],
        modules_system="lmod",
        modules=["gcc/12", "openmpi/5.0.1"],
        looked=JobLook("7", None, [node("n1", FAST), node("n2", FAST)]),
    )
    return replace(facts, **changes)
