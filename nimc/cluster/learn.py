"""Facts of a new machine: what Slurm and the modules system say of it.

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

_MODULE = re.compile(r"([A-Za-z][\w.+-]*(?:/[\w.+-]+)*/[\w.+-]+)(?:\(([\w:,]+)\))?", re.ASCII)
#: Parts of an environment of ReFrame, by names in lower case without versions: GCC, MPI,
#: LAMMPS. Other names have these words too: gnuplot, mpi4py, hdf5-mpi, GCCcore.
_ENVIRONMENT_PARTS = re.compile(
    r"(?:prgenv-)?(?:gcc|gnu)(?:-native|-toolset)?[-_.]?[\d.]*"
    r"|(?:(?:cray|hpcx|ibm|intel|nec|oneapi|parastation|platform|spectrum)-)*"
    r"[a-z]*(?:mpi|mpich|mvapich)\d*(?:-(?:x|abi|gdr|ib|ofi|ucx|[\d.]+))*"
    r"|lammps.*"
)


@dataclass(frozen=True, kw_only=True)
class ClusterFacts:
    """The answers of Slurm, this host and a job."""

    #: Name and processor of this host, which submits the jobs.
    host: str
    processor: str
    #: Partitions that can run jobs. The first is the default one, and has the targets.
    partitions: Sequence[SlurmPartition]
    #: Each shape of node in the partition of the targets, with the number of such nodes.
    shapes: Sequence[tuple[NodeShape, int]]
    #: `scontrol show config`.
    settings: Mapping[str, str]
    #: Types of MPI that `srun` starts.
    mpi: Sequence[str]
    #: Accounts of the user.
    accounts: Sequence[str]
    #: ReFrame's name of the modules system, and the modules of `modules_in`.
    modules_system: str
    modules: Sequence[str]
    #: Why Slurm refuses heterogeneous jobs in the target partition; None if it was not refused.
    hetjob_refused: str | None = None
    #: The findings of the job; empty without one.
    job_look: JobLook = field(default_factory=lambda: JobLook(job=None, why="no job was submitted"))

    @property
    def target(self) -> SlurmPartition:
        """The partition of the targets."""
        return self.partitions[0]

    @property
    def nodes(self) -> Sequence[NodeReport]:
        """The nodes that the job looked at."""
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
        """Return where origins come from."""
        single_node = self.target.nodes < 2
        if self.hetjob_refused or (single_node and self.origin_partition is self.target):
            return Origins(policy="same_host" if single_node else "same_job")
        return Origins(policy="hetjob", partition=self.origin_partition.name)


def modules_in(text: str) -> list[str]:
    """Return `NAME/VERSION` of compilers, MPI and LAMMPS.

    `text` is the output of `module --terse --default avail` of Lmod or environment-modules.
    """
    matches = (_MODULE.fullmatch(line.strip()) for line in text.splitlines())
    names = dict.fromkeys(match[1] for match in matches if match)
    return [name for name in names if any(map(_ENVIRONMENT_PARTS.fullmatch, _software(name)))]


def _software(module: str) -> Iterator[str]:
    """Yield the possible names of a module's software, in lower case.

    The version may be the last part of a name or the second. It may also have the name of a
    toolchain, such as in `HDF5/1.14.0-gompi-2023a`, and so is left out.
    """
    parts = module.lower().split("/")
    yield parts[-2]
    if parts[1][0].isdigit():
        yield parts[0]


def learn() -> ClusterFacts:
    """Ask Slurm and this host for the facts that need no job. Raises MachineError without Slurm."""
    try:
        usable = client.partitions()
        shapes = client.shapes(usable[0]) if usable else []
        settings = client.settings()
    except MachineError as error:
        advice = "without Slurm, copy configs/localhost.py and site/localhost.yaml"
        raise MachineError(f"{error}; {advice}") from None
    if not usable:
        raise MachineError("Slurm has no partition that is up and has nodes")
    system, modules = _modules(os.environ)
    return ClusterFacts(
        host=socket.gethostname(),
        processor=host.detect().processor,
        partitions=usable,
        shapes=shapes,
        settings=settings,
        mpi=client.mpi_types(),
        accounts=client.accounts(user_name(os.geteuid())),
        modules_system=system,
        modules=modules,
    )


def _modules(environment: Mapping[str, str]) -> tuple[str, Sequence[str]]:
    """Return ReFrame's name of the modules system, and its modules."""
    for variable, name in (("LMOD_CMD", "lmod"), ("MODULES_CMD", "tmod4")):
        if program := environment.get(variable):
            interpreter = [] if os.access(program, os.X_OK) else ["tclsh"]
            answer = ask([*interpreter, program, "bash", "--terse", "--default", "avail"])
            return name, modules_in(answer.text)
    return "nomod", []
