"""Finds the facts of a new machine, from Slurm, this host and the system of environment modules.

`facts_of_cluster` queries them. Functions that parse their answers query nothing.
"""

from __future__ import annotations

import os
import re
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nimc.cluster.in_job import JobInspection
from nimc.cluster.node_inspection import NodeReport
from records.errors import InputError, MachineError
from records.files import user_name
from records.machine import host
from records.machine.site import Origins
from records.programs import ask
from records.slurm import client, options, parse, parse_nodes
from records.slurm.parse_nodes import NodeShape, SlurmPartition
from records.units import plural

#: A line of the list of modules: a name with a version. Marks such as `(default)` may follow.
_MODULE = re.compile(r"([A-Za-z][\w.+-]*(?:/[\w.+-]+)*/[\w.+-]+)(?:\(([\w:,]+)\))?", re.ASCII)
#: Name of software that an environment of ReFrame may load (GCC, an MPI, LAMMPS), in lower case and
#: without its version. It does not match other software whose names contain the same words, such as
#: gnuplot, mpi4py, hdf5-mpi and GCCcore.
_ENVIRONMENT_SOFTWARE = re.compile(
    r"(?:prgenv-)?(?:gcc|gnu)(?:-native|-toolset)?[-_.]?[\d.]*"
    r"|(?:(?:cray|hpcx|ibm|intel|nec|oneapi|parastation|platform|spectrum)-)*"
    r"[a-z]*(?:mpi|mpich|mvapich)\d*(?:-(?:x|abi|gdr|ib|ofi|ucx|[\d.]+))*"
    r"|lammps.*"
)


@dataclass(frozen=True, kw_only=True)
class ClusterFacts:
    """Facts of a cluster, from Slurm, this host and a job.

    Targets are the nodes that run the application. Origins run only writers.
    """

    #: Name of this host, which submits the jobs.
    host: str
    #: Processor of this host.
    processor: str
    #: Partitions that can run jobs. The first is the partition of the targets.
    partitions: Sequence[SlurmPartition]
    #: Why the first partition was chosen, in words that follow 'it is'.
    target_reason: str = "the default one"
    #: Options that every job needs, from the environment variables of `sbatch` that the user has
    #: set.
    requirements: Sequence[str] = ()
    #: The cluster that the user has chosen, if one accounting database has several clusters; empty:
    #: the local cluster.
    clusters: Sequence[str] = ()
    #: Node in the partition of the targets -> its shape (processors, memory and so on).
    shapes: Mapping[str, NodeShape]
    #: Slurm's settings, as printed by `scontrol show config`.
    settings: Mapping[str, str]
    #: Types of MPI that `srun` can start.
    mpi_types: Sequence[str]
    #: Accounts of the user on this cluster.
    accounts: Sequence[str]
    #: ReFrame's name for the modules system.
    modules_system: str
    #: Modules of compilers, MPI and LAMMPS, each as `NAME/VERSION`; or why there is no list.
    modules: Sequence[str]
    #: Why heterogeneous jobs cannot start in the target partition; None if no reason is known.
    hetjob_refusal: str | None = None
    #: Results of a job that inspected nodes.
    job_inspection: JobInspection = field(
        default_factory=lambda: JobInspection(job=None, why="no job was submitted")
    )

    @property
    def scheduler(self) -> str:
        """Return the name of ReFrame's scheduler for Slurm.

        If Slurm has accounting, it is the scheduler that reads job states from the accounting.
        """
        has_accounting = parse.has_accounting(self.settings)
        return options.SACCT_SCHEDULER if has_accounting else options.SQUEUE_SCHEDULER

    @property
    def target(self) -> SlurmPartition:
        """Return the partition of the targets."""
        return self.partitions[0]

    @property
    def nodes(self) -> Sequence[NodeReport]:
        """Return the reports of the nodes that answered in the job."""
        return self.job_inspection.nodes

    @property
    def described_node(self) -> str | None:
        """Return the node whose shape the site file states; None if Slurm shows no node.

        It is the target that was inspected or, if Slurm does not show this node, the first node
        with the most frequent shape.
        """
        inspected = [node.name for node in self.nodes[:1] if node.name in self.shapes]
        frequencies = Counter(self.shapes.values())
        by_frequency = sorted(self.shapes, key=lambda node: -frequencies[self.shapes[node]])
        return next(iter([*inspected, *by_frequency]), None)

    @property
    def origin_partition(self) -> SlurmPartition:
        """Return the partition of the origins.

        It is the first partition with `origin` in its name, or else the partition of the targets.
        """
        for partition in self.partitions:
            if "origin" in partition.name.lower():
                return partition
        return self.target

    @property
    def origins(self) -> Origins:
        """Return the section `origins` for the site file, which says where origins come from."""
        target = self.target
        single_node = target.node_count < 2
        if self.hetjob_refusal or (single_node and self.origin_partition is target):
            one_node_jobs = single_node or target.max_nodes == 1
            return Origins(policy="same_host" if one_node_jobs else "same_job")
        origin_partition = self.origin_partition
        return Origins(
            policy="hetjob",
            partition=origin_partition.name,
            access=options.origins_access(access(origin_partition, self.requirements)),
        )

    @property
    def job_nodes(self) -> tuple[int, str]:
        """Return the largest number of nodes of a job, targets and origins together, and why.

        Slurm's limit on nodes applies to each component of a heterogeneous job separately.
        """
        target = self.target
        origin_nodes = self.origins.nodes if self.origins.policy == "hetjob" else 0
        total, reason = target.node_count, f"all of {target.name}"
        if origin_nodes and self.origin_partition is not target:
            total += origin_nodes
            reason += f", and {plural(origin_nodes, 'origin')}"
        if target.max_nodes is None or total <= target.max_nodes + origin_nodes:
            return total, reason
        reason = f"MaxNodes of {target.name} is {target.max_nodes}"
        if origin_nodes:
            reason += ", which does not count origins"
        return target.max_nodes + origin_nodes, reason


def access(partition: SlurmPartition, requirements: Sequence[str] = ()) -> list[str]:
    """Return the options that every job in a partition needs; `requirements` are among them."""
    return [
        f"--partition={partition.name}",
        *requirements,
        *([] if partition.gives_whole_nodes else ["--exclusive"]),
        *filter(None, [partition.memory_request]),
    ]


def modules_in(listing: str) -> list[str]:
    """Return the modules of compilers, MPI and LAMMPS in a list of modules, as `NAME/VERSION`.

    `listing` is the output of `module --terse --default avail`, of Lmod or of environment-modules.
    """
    matches = (_MODULE.fullmatch(line.strip()) for line in listing.splitlines())
    names = dict.fromkeys(match[1] for match in matches if match)
    return [name for name in names if any(map(_ENVIRONMENT_SOFTWARE.fullmatch, _software(name)))]


def _software(module: str) -> Iterator[str]:
    """Yield the possible names of a module's software, in lower case and without the version.

    Parts of a module's name are separated by `/`. The version is the last part or the second part.
    It is left out, since it may contain the name of other software: `HDF5/1.14.0-gompi-2023a`.
    """
    parts = module.lower().split("/")
    yield parts[-2]
    if parts[1][0].isdigit():
        yield parts[0]


def target_of(
    partitions: Sequence[SlurmPartition],
    requested_names: str | None,
    accounts: Sequence[str],
    requirements: Sequence[str] = (),
) -> tuple[SlurmPartition, str]:
    """Return the partition of the targets, and why it was chosen.

    `requested_names` are names of partitions, joined with commas as in `sbatch --partition`. If
    they are given, the first is chosen: only one partition is used, since the nodes of partitions
    may differ.

    If no names are given, Slurm's default partition is chosen if the user's accounts, and the QOS
    that `requirements` (options of every job) name, may use it. A partition that needs a
    reservation may be used only if `requirements` name one. If they name an account, only this one
    counts. Many large sites have no default partition, or one that is not for these accounts. Then
    the partition with most nodes is chosen. Partitions that accept only jobs of several nodes come
    after the others.

    If no partition lists the accounts, those that list others are considered, since an account may
    be below one that is listed. If the user may use no partition, all are considered.

    Raises InputError if there is no partition with the first requested name.
    """
    if requested_names:
        first_name, _, others = requested_names.partition(",")
        for partition in partitions:
            if partition.name == first_name:
                position = "the first one" if others else "the one"
                return partition, f"{position} of {options.PARTITION_VARIABLE}"
        names = ", ".join(partition.name for partition in partitions)
        raise InputError(f"{options.PARTITION_VARIABLE}: {first_name!r} found; allowed: {names}")
    # Slurm stores names of accounts in lower case, and reads them in any.
    account = [name.lower() for name in options.option_values(requirements, "account")]
    accounts = account or accounts
    qos = options.option_values(requirements, "qos")
    in_reservation = bool(options.option_values(requirements, "reservation"))
    usable_lists = (
        [
            partition
            for partition in partitions
            if partition.admits(accounts, qos, subaccounts=subaccounts)
            and (in_reservation or not partition.needs_reservation)
        ]
        for subaccounts in (False, True)
    )
    usable = next(filter(None, usable_lists), partitions)
    first = max(
        usable, key=lambda other: (other.is_default, other.min_nodes == 1, other.node_count)
    )
    if first.is_default:
        return first, "the default one"
    return first, (
        "the one with most nodes, of those without MinNodes if there are any, since none that"
        " surely admits you is the default;"
        f" {options.PARTITION_VARIABLE} names another"
    )


def facts_of_cluster() -> ClusterFacts:
    """Return the facts that can be found without a job. Queries Slurm and this host.

    Raises MachineError if there is no Slurm, InputError if the user names a partition that Slurm
    does not have.
    """
    advice = "without Slurm, copy configs/localhost.py and site/localhost.yaml"
    if fault := client.command_fault(os.environ):
        raise MachineError(f"{fault}; {advice}")
    try:
        settings = client.settings()
    except MachineError as error:
        raise MachineError(f"{error}; {advice}") from None
    nodes = client.node_records(settings)
    requested_names = os.environ.get(options.PARTITION_VARIABLE, "")
    partitions = client.partitions(settings, nodes, requested_names.partition(",")[0])
    accounts = client.accounts(user_name(os.geteuid()), settings.get("ClusterName", ""))
    requirements = options.requirements(os.environ)
    target, target_reason = target_of(partitions, requested_names, accounts, requirements)
    system, modules = _modules(os.environ)
    return ClusterFacts(
        host=socket.gethostname(),
        processor=host.detect().processor,
        partitions=[target, *(other for other in partitions if other is not target)],
        target_reason=target_reason,
        requirements=requirements,
        clusters=options.clusters(os.environ),
        shapes=parse_nodes.shapes(nodes, target),
        settings=settings,
        mpi_types=client.mpi_types(),
        accounts=accounts,
        modules_system=system,
        modules=modules,
        hetjob_refusal=hetjob_refusal(settings),
    )


def hetjob_refusal(settings: Mapping[str, str]) -> str | None:
    """Return why heterogeneous jobs cannot run with these settings of Slurm.

    Returns None if they may run.
    """
    if not parse.has_accounting(settings):
        return options.NO_HETJOBS
    scheduler = settings.get("SchedulerType", options.HETJOB_SCHEDULER)
    if scheduler != options.HETJOB_SCHEDULER:
        return f"only {options.HETJOB_SCHEDULER} starts one, and SchedulerType is {scheduler}"
    return None


def _modules(environment: Mapping[str, str]) -> tuple[str, Sequence[str]]:
    """Return ReFrame's name for the modules system, and the modules that `modules_in` selects.

    If the modules system fails, its reason takes the place of the modules.
    """
    for variable, system in (("LMOD_CMD", "lmod"), ("MODULES_CMD", "tmod4")):
        if program := environment.get(variable):
            interpreter = [] if os.access(program, os.X_OK) else ["tclsh"]
            answer = ask([*interpreter, program, "bash", "--terse", "--default", "avail"])
            return system, modules_in(answer.text) or ([] if answer.ok else [answer.reason])
    return "nomod", []
