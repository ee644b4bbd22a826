"""A made cluster: reports of its nodes, and what Slurm answers.

An inspection of nodes is a job in which each node reports what it has and sees.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from nimc.cluster.in_job import JobInspection
from nimc.cluster.learn import ClusterFacts
from nimc.cluster.new_machine import site_text
from nimc.cluster.node_inspection import NodeReport
from records.machine import site as site_files
from records.machine.devices import Device, Port
from records.machine.host import Interface, NumaNode, detect
from records.machine.site import Machine
from records.slurm import parse, parse_nodes
from tests.captures import CAPTURES

SLURM = CAPTURES / "slurm"
HERE = detect()


def rdma(name: str, gbit_s: float, numa_node: int | None, state: str = "ACTIVE") -> Device:
    port = Port(1, state, "InfiniBand", gbit_s * 1e9 / 8)
    return Device(
        name=name, transport="InfiniBand", firmware=None, numa_node=numa_node, ports=[port]
    )


def node(name: str, devices: list[Device], **changes: Any) -> NodeReport:
    """Return the report of a node with two sockets, four NUMA nodes and three interfaces.

    `changes` replace fields of the report or of its host. All other fields are those of this host.
    """
    host_fields = {
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
    host_fields |= {key: changes.pop(key) for key in [*changes] if hasattr(HERE, key)}
    whole = NodeReport(
        name=name,
        host=replace(HERE, **host_fields),
        unseen=[],
        sees_lock=True,
        addresses={"docker0": "172.17.0.1", "eno1": "10.0.0.1", "hsn0": "10.1.0.1"},
        injector_faults={"perftest": None, "ucx": None, "spin": None},
    )
    return replace(whole, **changes)


FAST = [rdma("mlx5_0", 200, 1), rdma("mlx5_1", 200, 3), rdma("mlx5_bond", 25, 0)]


def cluster_facts(**changes: Any) -> ClusterFacts:
    """Return facts of the cluster of the captured outputs; its nodes have two rails."""
    nodes = (SLURM / "nodes.txt").read_text().replace("CoresPerSocket=1", "CoresPerSocket=32")
    nodes = nodes.replace("CPUTot=2", "CPUTot=64").replace("CPUEfctv=2", "CPUEfctv=64")
    partitions = parse_nodes.partitions((SLURM / "partitions.txt").read_text())
    facts = ClusterFacts(
        host="login12.example",
        processor="GenuineIntel-6-85-7",
        partitions=partitions,
        shapes=parse_nodes.shapes(nodes, partitions[0]),
        settings=parse.settings((SLURM / "config.txt").read_text()),
        mpi_types=parse.mpi_types((SLURM / "mpi_list.txt").read_text()),
        accounts=[],
        modules_system="lmod",
        modules=["gcc/12", "openmpi/5.0.1"],
        job_inspection=JobInspection(job="7", why=None, nodes=[node("n1", FAST), node("n2", FAST)]),
    )
    return replace(facts, **changes)


def init_says(inspection: JobInspection, folder: Path) -> tuple[str, Machine]:
    """Return the site file that `nimc init` writes, without line breaks, and the machine in it."""
    text = site_text(cluster_facts(job_inspection=inspection))
    (folder / "site").mkdir()
    (folder / "site/box.yaml").write_text(text)
    return " ".join(text.replace("\n# ", " ").split()), site_files.load("box", folder)
