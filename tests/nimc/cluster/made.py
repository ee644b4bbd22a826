"""A cluster's answers, made by hand."""

from dataclasses import replace
from typing import Any

from nimc.cluster import learn
from nimc.cluster.in_job import JobLook
from nimc.cluster.learn import ClusterFacts
from tests.fuzz.target import CAPTURES

SLURM = CAPTURES / "slurm"


def rdma(name: str, gbit_s: float, numa_node: int | None, state: str = "ACTIVE") -> dict[str, Any]:
    port = {"number": 1, "state": state, "link_layer": "InfiniBand", "rate_b_s": gbit_s * 1e9 / 8}
    return {
        "name": name,
        "transport": "InfiniBand",
        "firmware": None,
        "numa_node": numa_node,
        "ports": [port],
    }


def node(name: str, devices: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """A node of two sockets and four NUMA nodes, with two interfaces."""
    host = {
        "cpu_model": "Example 9000",
        "processor": "Example-1-2-3",
        "sockets": 2,
        "cores": 64,
        "numa_nodes": [{"number": n, "cpus": [n], "memory_b": 2**35} for n in range(4)],
        "llc_total_b": 512 * 2**20,
        "memory_b": 256 * 2**30,
        "rdma": devices,
        "interfaces": [
            {"name": "docker0", "rate_b_s": 1e12, "mtu_b": 1500},
            {"name": "eno1", "rate_b_s": 1.25e8, "mtu_b": 1500},
            {"name": "hsn0", "rate_b_s": 2.5e10, "mtu_b": 9000},
        ],
    }
    return {
        "node": name,
        "host": host,
        "addresses": {"docker0": "172.17.0.1", "eno1": "10.0.0.1", "hsn0": "10.1.0.1"},
        "injectors": {"perftest": None, "ucx": None, "spin": None},
        "unseen": [],
        "lock": "seen",
        **changes,
    }


FAST = [rdma("mlx5_0", 200, 1), rdma("mlx5_1", 200, 3), rdma("mlx5_bond", 25, 0)]


def found(**changes: Any) -> ClusterFacts:
    """The cluster of the captured outputs, whose nodes have two rails."""
    nodes = (SLURM / "nodes.txt").read_text().replace("CoresPerSocket=1", "CoresPerSocket=32")
    nodes = nodes.replace("CPUTot=2", "CPUTot=64").replace("CPUEfctv=2", "CPUEfctv=64")
    partitions = learn.partitions((SLURM / "partitions.txt").read_text())
    facts = ClusterFacts(
        host="login12.example",
        processor="Example-1-2-3",
        partitions=partitions,
        shapes=learn.shapes(nodes, "batch"),
        settings=learn.settings((SLURM / "config.txt").read_text()),
        mpi=learn.mpi_types((SLURM / "mpi_list.txt").read_text()),
        accounts=[],
        modules_system="lmod",
        modules=["gcc/12", "openmpi/5.0.1"],
        looked=JobLook("7", None, [node("n1", FAST), node("n2", FAST)]),
    )
    return replace(facts, **changes)
