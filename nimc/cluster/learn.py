"""Facts of a new machine, from Slurm and the modules system.

`learn` asks them; the functions that parse their output are pure.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nimc.cluster.in_job import JobLook
from nimc.cluster.node_look import NodeReport
from records.errors import MachineError
from records.files import user_name
from records.machine import host
from records.machine.site import Origins
from records.programs import ask
from records.slurm import client
from records.slurm.parse_nodes import NodeShape, SlurmPartition

#: A line of the list of modules: a name with a version, perhaps with marks such as `(default)`.
_MODULE = re.compile(r"([A-Za-z][\w.+-]*(?:/[\w.+-]+)*/[\w.+-]+)(?:\(([\w:,]+)\))?", re.ASCII)
#: Software for an environment of ReFrame (GCC, MPI, LAMMPS), by its name in lower case without its
#: version. Names of other software have these words too: gnuplot, mpi4py, hdf5-mpi, GCCcore.
_ENVIRONMENT_SOFTWARE = re.compile(
    r"(?:prgenv-)?(?:gcc|gnu)(?:-native|-toolset)?[-_.]?[\d.]*"
    r"|(?:(?:cray|hpcx|ibm|intel|nec|oneapi|parastation|platform|spectrum)-)*"
    r"[a-z]*(?:mpi|mpich|mvapich)\d*(?:-(?:x|abi|gdr|ib|ofi|ucx|[\d.]+))*"
    r"|lammps.*"
)


@dataclass(frozen=True, kw_only=True)
class ClusterFacts:
    """The answers of Slurm, this host and a job."""

    #: Name of this host, which submits the jobs.
    host: str
    #: Processor of this host.
    processor: str
    #: Partitions that can run jobs. The first is the default one and has the targets.
    partitions: Sequence[SlurmPartition]
    #: Each shape of node in the partition of the targets, with the number of such nodes.
    shapes: Sequence[tuple[NodeShape, int]]
    #: `scontrol show config`.
    settings: Mapping[str, str]
    #: Types of MPI that `srun` starts.
    mpi_types: Sequence[str]
    #: Accounts of the user.
    accounts: Sequence[str]
    #: ReFrame's name for the modules system.
    modules_system: str
    #: Modules of compilers, MPI and LAMMPS, each as `NAME/VERSION`.
    modules: Sequence[str]
    #: Why no heterogeneous job starts in the target partition; None if none has failed.
    hetjob_refusal: str | None = None
    #: What a job has found on nodes.
    job_look: JobLook = field(default_factory=lambda: JobLook(job=None, why="no job was submitted"))

    @property
    def target(self) -> SlurmPartition:
        """The partition of the targets."""
        return self.partitions[0]

    @property
    def nodes(self) -> Sequence[NodeReport]:
        """The nodes that answered in the job."""
        return self.job_look.nodes

    @property
    def origin_partition(self) -> SlurmPartition:
        """The partition of the origins: one with `origin` in its name, else that of the targets."""
        for partition in self.partitions:
            if "origin" in partition.name.lower():
                return partition
        return self.target

    @property
    def origins(self) -> Origins:
        """Return where the origins come from, as in a site file."""
        single_node = self.target.node_count < 2
        if self.hetjob_refusal or (single_node and self.origin_partition is self.target):
            return Origins(policy="same_host" if single_node else "same_job")
        return Origins(policy="hetjob", partition=self.origin_partition.name)


def modules_in(listing: str) -> list[str]:
    """Return `NAME/VERSION` of the modules of compilers, MPI and LAMMPS.

    `listing` is the output of `module --terse --default avail` of Lmod or environment-modules.
    """
    matches = (_MODULE.fullmatch(line.strip()) for line in listing.splitlines())
    names = dict.fromkeys(match[1] for match in matches if match)
    return [name for name in names if any(map(_ENVIRONMENT_SOFTWARE.fullmatch, _software(name)))]


def _software(module: str) -> Iterator[str]:
    """Yield the possible names of a module's software, in lower case.

    The version is the last part of the module's name, or the second. It is left out, since it may
    name a toolchain, as in `HDF5/1.14.0-gompi-2023a`.
    """
    parts = module.lower().split("/")
    yield parts[-2]
    if parts[1][0].isdigit():
        yield parts[0]


def learn() -> ClusterFacts:
    """Ask Slurm and this host for the facts that need no job. Raises MachineError without Slurm."""
    try:
        partitions = client.partitions()
        shapes = client.shapes(partitions[0]) if partitions else []
        settings = client.settings()
    except MachineError as error:
        advice = "without Slurm, copy configs/localhost.py and site/localhost.yaml"
        raise MachineError(f"{error}; {advice}") from None
    if not partitions:
        raise MachineError("Slurm has no partition that is up and has nodes")
    system, modules = _modules(os.environ)
    return ClusterFacts(
        host=socket.gethostname(),
        processor=host.detect().processor,
        partitions=partitions,
        shapes=shapes,
        settings=settings,
        mpi_types=client.mpi_types(),
        accounts=client.accounts(user_name(os.geteuid())),
        modules_system=system,
        modules=modules,
    )


def _modules(environment: Mapping[str, str]) -> tuple[str, Sequence[str]]:
    """Return ReFrame's name for the modules system, and the modules of `modules_in`."""
    for variable, system in (("LMOD_CMD", "lmod"), ("MODULES_CMD", "tmod4")):
        if program := environment.get(variable):
            interpreter = [] if os.access(program, os.X_OK) else ["tclsh"]
            answer = ask([*interpreter, program, "bash", "--terse", "--default", "avail"])
            return system, modules_in(answer.text)
    return "nomod", []
