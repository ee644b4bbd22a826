"""What Slurm and modules print is read; the captured outputs are of Slurm 22.05 and Lmod 8.6."""

from __future__ import annotations

import pytest

from nimc.cluster.init import learn
from nimc.cluster.init.learn import NodeShape, SlurmAccount, SlurmPartition
from tests.fuzz.target import CAPTURES

SLURM = CAPTURES / "slurm"


def read(name: str) -> str:
    return (SLURM / name).read_text()


def test_partitions_with_their_limits() -> None:
    assert learn.partitions(read("partitions.txt")) == [
        SlurmPartition("batch", True, True, 86400, whole_nodes=True, nodes=3),
        SlurmPartition("debug", False, True, 1800, whole_nodes=False, nodes=2),
    ]


def test_the_default_partition_comes_first_and_those_that_are_down_do_not_come() -> None:
    text = (
        "PartitionName=a Default=NO State=UP TotalNodes=1\n"
        "PartitionName=b Default=NO State=DRAIN TotalNodes=1\n"
        "PartitionName=c Default=YES State=UP TotalNodes=1\n"
        "PartitionName=d Default=NO State=UP TotalNodes=0\n"
        "PartitionName=$(reboot) Default=NO State=UP TotalNodes=1\n"
    )
    names = [each.name for each in learn.chosen(learn.partitions(text))]
    assert names == ["c", "a"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1-00:00:00", 86400), ("00:30:00", 1800), ("2-01:02:03", 176523), ("UNLIMITED", None)],
)
def test_time_limits(text: str, seconds: int | None) -> None:
    assert learn.limit_s(text) == seconds


def test_shapes_of_nodes_the_most_frequent_first() -> None:
    nodes = read("nodes.txt")
    # Three nodes of two sockets with one core each; debug has two of them.
    shape = NodeShape(sockets=2, cores_per_socket=1, cpus=2, memory_mib=6026)
    assert learn.shapes(nodes, "batch") == [(shape, 3)]
    assert learn.shapes(nodes, "debug") == [(shape, 2)]
    other = nodes.replace("RealMemory=6026", "RealMemory=1024", 1)
    assert [count for _, count in learn.shapes(other, "batch")] == [2, 1]
    assert learn.shapes(nodes, "deb") == []


def test_threads_count_as_slurm_counts_them() -> None:
    # Two threads a core, of which slurm.conf counts both or one.
    assert NodeShape(sockets=2, cores_per_socket=8, cpus=32, memory_mib=1).cpus_per_core == 2
    assert NodeShape(sockets=2, cores_per_socket=8, cpus=16, memory_mib=1).cpus_per_core == 1


def test_settings() -> None:
    found = learn.settings(read("config.txt"))
    assert found["AllowSpecResourcesUsage"] == "No"
    assert found["ClusterName"] == "minicluster"


def test_mpi_types_of_new_and_old_versions() -> None:
    assert learn.mpi_types(read("mpi_list.txt")) == ["pmix", "none", "cray_shasta", "pmi2"]
    old = "srun: MPI types are...\nsrun: none\nsrun: pmi2\n"
    assert learn.mpi_types(old) == ["none", "pmi2"]


def test_accounts_and_the_default_one() -> None:
    assert learn.accounts("physics\nbench\nphysics\n", "bench\n") == [
        SlurmAccount("physics", False),
        SlurmAccount("bench", True),
    ]


def test_default_modules_of_lmod() -> None:
    assert learn.modules_in((CAPTURES / "modules/lmod_avail.txt").read_text()) == [
        "gcc/12",
        "openmpi/5.0.1",
        "Core/settarg",
    ]


def test_default_modules_of_environment_modules() -> None:
    found = (CAPTURES / "modules/environment_modules_avail.txt").read_text()
    assert learn.modules_in(found) == ["gcc/12", "openmpi/5.0.1"]
    # Without --default, the default of several versions is marked.
    assert learn.modules_in("dot\ngcc/12(default)\n") == ["gcc/12"]


def test_a_compiler_an_mpi_and_a_workload_are_suggested() -> None:
    listed = ["GCC/11.3", "gcc/9.4", "gcc/13.1", "openmpi/4.1.10", "openmpi/4.1.9", "tools/gcc/99"]
    assert learn.suggested(listed) == {"compiler": "gcc/13.1", "mpi": "openmpi/4.1.10"}
    assert learn.suggested([*listed, "lammps/20240829"])["workload"] == "lammps/20240829"
    assert learn.suggested([]) == {}
