"""The matrix of what can run where: workload x partition x environment, with reasons.

Partitions and environments are those of ReFrame's settings file. A partition of it may use a
partition of Slurm.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from analysis.display.lines import wrapped
from nimc.readiness.checks import CheckDescription
from nimc.readiness.reframe_config import (
    PartitionEnvironment,
    ReframeSettings,
    partition_environments,
    target_partitions,
)
from records.block_plan import OriginPolicy
from records.errors import MachineError, NimcError
from records.groups import grouped
from records.machine.program import ModuleLoad, load_modules, search_path
from records.machine.site import Origins
from records.slurm.client import ask_nodes, can_list_nodes
from records.slurm.options import SCHEDULERS, named_partition, option_values
from records.slurm.parse_nodes import SlurmNode
from records.text import first_names
from records.units import plural
from reframe_tests.spack import externals, folders
from reframe_tests.spack.settings import load_settings

#: Whether a workload can run in an environment. `unknown`: only a job can find this out.
CanRun = Literal["yes", "no", "unknown"]
#: Largest number of nodes that a reason names.
_MAX_NODES = 6
#: ReFrame's launchers whose program belongs to an MPI library, so that it may be missing.
_MPI_LAUNCHERS = ("mpiexec", "mpirun")


@dataclass(frozen=True)
class MatrixCell:
    """Whether a workload can run in an environment of a partition."""

    workload: str
    partition: str
    environment: str
    runs: CanRun
    #: What is missing, or why it is unknown whether the workload can run; empty if it can.
    reason: str = ""

    @property
    def combination(self) -> str:
        """Return partition and environment in ReFrame's form, `PARTITION+ENVIRONMENT`."""
        return f"{self.partition}+{self.environment}"

    @property
    def reason_kind(self) -> str:
        """Return the reason without its last word, the name of the missing thing.

        For example, the kind of `no program lmp` is `no program`. A reason that does not have three
        words is returned unchanged.
        """
        words = self.reason.split(" ")
        return " ".join(words[:2]) if len(words) == 3 else self.reason


@dataclass(frozen=True)
class PartitionNodes:
    """The nodes of a Slurm partition, in the states in which jobs see them."""

    #: Name of the partition; None if it is Slurm's default partition.
    name: str | None
    nodes: Sequence[SlurmNode]

    @property
    def words(self) -> str:
        """Return the name of the partition in words."""
        return f"partition {self.name}" if self.name else "default partition"


@dataclass(frozen=True)
class JobNodes:
    """Numbers of nodes that a job takes."""

    #: Nodes from the partition of the targets. With the policy `same_job`, origins are among them.
    targets: int = 1
    #: Origins in a component of their own, from the partition of the origins.
    origins: int = 0

    @property
    def total(self) -> int:
        """Return the number of nodes of all components."""
        return self.targets + self.origins

    @property
    def words(self) -> str:
        """Return both numbers in words."""
        return f"{plural(self.targets, 'target')}, {plural(self.origins, 'origin')}"


def job_nodes(policy: OriginPolicy, targets: int, origins: int) -> JobNodes:
    """Return the numbers of nodes that a job with these targets and origins takes.

    Nodes of a reservation are left out.
    """
    if policy == "same_job":
        return JobNodes(targets + origins)
    return JobNodes(targets, origins if policy == "hetjob" else 0)


@dataclass(frozen=True)
class Offer:
    """What this host and Slurm offer in an environment of a partition."""

    #: The environment's modules that cannot be loaded, and the search path after its other modules
    #: were loaded and its variables set. None if the environment has modules, but no module
    #: system answers on this host.
    modules: ModuleLoad | None
    #: Nodes of the Slurm partition; None if they are unknown or Slurm is not used.
    targets: PartitionNodes | None = None
    #: Nodes of the partition of the origins; None if they are unknown, or if the origins are no
    #: component of a job.
    origins: PartitionNodes | None = None
    #: Why Spack cannot provide programs; empty if it can provide them.
    spack_fault: str = ""
    #: Program of a check -> the program that the site file names to run instead.
    programs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Matrix:
    """The matrix, with its cells in the order of workloads and then of environments."""

    cells: list[MatrixCell] = field(default_factory=list)

    @property
    def why_nowhere(self) -> dict[str, str]:
        """Return workload that can run in no environment -> the reasons, in one line."""
        return {
            workload: "; ".join(f"{cell.combination}: {cell.reason}" for cell in cells)
            for workload, cells in grouped((cell.workload, cell) for cell in self.cells).items()
            if all(cell.runs == "no" for cell in cells)
        }

    @property
    def text(self) -> str:
        """Return the matrix as text.

        Each environment has a line with the workloads that it can run. Then come the reasons why
        other workloads cannot run, or why this is unknown.
        """
        lines = []
        combinations_of_reasons = []
        for combination, cells in grouped((cell.combination, cell) for cell in self.cells).items():
            runnable = ", ".join(cell.workload for cell in cells if cell.runs == "yes")
            lines.append(wrapped(f"{combination}: {runnable or 'nothing'}"))
            with_reason = [(cell.reason_kind, cell) for cell in cells if cell.reason]
            for kind, kind_cells in grouped(with_reason).items():
                workloads = ", ".join(cell.workload for cell in kind_cells)
                names = dict.fromkeys(cell.reason.removeprefix(kind) for cell in kind_cells)
                reason = f"{kind}{','.join(names)}"
                if kind_cells[0].runs == "unknown":
                    reason = f"unknown, {reason}"
                combinations_of_reasons.append(((workloads, reason), combination))
        reasons = [
            wrapped(f"{workloads} on {', '.join(combinations)}: {reason}")
            for (workloads, reason), combinations in sorted(
                grouped(combinations_of_reasons).items()
            )
        ]
        return "\n".join([*lines, "", *reasons]).rstrip()


#: Environment of a partition -> what it offers.
Offers = Mapping[PartitionEnvironment, Offer]


def offers_of(
    settings: ReframeSettings,
    system: str,
    partition: str | None,
    programs: Mapping[str, str] | None = None,
    origins: Origins | None = None,
) -> Offers:
    """Return what this host and Slurm offer in the environments of a machine.

    `system` is the name of the machine. `partition` selects one of its partitions; None selects
    all. `programs` maps the program of a check to the program that the site file names instead.
    `origins` says where origins come from; None if they are not considered.
    """
    partitions = target_partitions(settings.partitions, partition)
    program_folders = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
    process_environment = {**settings.environment, "PATH": program_folders}
    spack_fault = ""
    try:
        spack = folders.layout(system)
        externals.c_compiler(spack, load_settings(spack))
    except NimcError as error:
        spack_fault = str(error)
    nodes_by_partition = {
        str(target_partition.get("name")): nodes_of_targets(target_partition, settings.environment)
        for target_partition in partitions
    }
    origin_nodes = nodes_of_origins(origins, settings.environment) if origins else None
    return {
        environment: Offer(
            modules=_module_load(environment, process_environment),
            targets=nodes_by_partition[environment.partition],
            origins=origin_nodes,
            spack_fault=spack_fault,
            programs=programs or {},
        )
        for environment in partition_environments(settings, partitions, system)
    }


def _module_load(
    environment: PartitionEnvironment, process_environment: Mapping[str, str]
) -> ModuleLoad | None:
    """Return the environment's modules that cannot be loaded, and its search path.

    Returns None if the environment has modules, but no module system answers on this host.
    """
    module_load = load_modules(environment.modules, process_environment)
    if module_load is None:
        return None
    path = search_path(module_load.path, process_environment, environment.variables)
    return replace(module_load, path=path)


def matrix(
    checks: Mapping[str, CheckDescription],
    offers: Offers,
    nodes_by_check: Mapping[str, JobNodes] | None = None,
) -> Matrix:
    """Return in which environments each check (the ReFrame test of a workload) can run.

    `nodes_by_check` gives the numbers of nodes that a job of a check takes. By default it takes one
    target.
    """
    cells = []
    for name, check in checks.items():
        nodes = (nodes_by_check or {}).get(name)
        for environment, offer in offers.items():
            runs, reason = can_run(check, environment, offer, nodes)
            cells.append(
                MatrixCell(name, environment.partition, environment.environment, runs, reason)
            )
    return Matrix(cells)


def can_run(
    check: CheckDescription,
    environment: PartitionEnvironment,
    offer: Offer,
    nodes: JobNodes | None = None,
) -> tuple[CanRun, str]:
    """Return whether a check can run in an environment, and the first reason if it may not.

    `nodes` are the numbers of nodes that a job of the check takes; None: one target.
    """
    nodes = nodes or JobNodes()
    reason = environment.refusal(check)
    if not reason and offer.targets:
        reason = node_shortage([offer.targets], nodes.targets)
    if not reason and offer.origins:
        reason = origin_shortage(offer.targets, offer.origins, nodes)
    if reason:
        return "no", reason
    site_program = offer.programs.get(check.program or "")
    if check.from_spack and not site_program and "spack" in environment.features:
        return ("no" if offer.spack_fault else "yes"), offer.spack_fault
    if offer.modules is None:
        return "unknown", "no module system that answers on this host"
    if offer.modules.missing:
        return "no", f"no module {', '.join(offer.modules.missing)}"
    if check.compiles and not shutil.which(environment.compiler, path=offer.modules.path):
        return "no", f"no compiler {environment.compiler}"
    programs = [site_program or check.program]
    if check.mpi and environment.launcher in _MPI_LAUNCHERS:
        programs.append(environment.launcher)
    for program in programs:
        if program and not shutil.which(program, path=offer.modules.path):
            if "modules" in environment.features:  # a module on the nodes may provide the program
                return "unknown", f"no program {program} on this host"
            return "no", f"no program {program}"
    return "yes", ""


def node_shortage(partitions: Sequence[PartitionNodes], needed: int, parts: str = "") -> str:
    """Return why a job cannot get `needed` nodes of Slurm partitions; empty if it can.

    A node of several of these partitions counts once. `parts` are words about the needed nodes.
    """
    names = " or ".join(dict.fromkeys(partition.words for partition in partitions))
    # A node in maintenance is usable in one partition only if its jobs name a reservation.
    nodes = sorted(
        (node for partition in partitions for node in partition.nodes),
        key=lambda node: node.is_usable,
    )
    node_by_name = {node.name: node for node in nodes}
    if not node_by_name:
        return f"no node: Slurm lists none in {names}"
    unusable = [
        f"{node.name} ({node.state})" for node in node_by_name.values() if not node.is_usable
    ]
    usable_count = len(node_by_name) - len(unusable)
    if usable_count >= needed:
        return ""
    fault = f"{plural(needed, 'node')} needed{parts}, {usable_count} usable in {names}"
    if unusable:
        fault += f"; not usable: {first_names(unusable, _MAX_NODES)}"
    return fault


def origin_shortage(
    targets: PartitionNodes | None, origins: PartitionNodes, needed: JobNodes
) -> str:
    """Return why a job cannot get its origins, or not besides its targets; empty if it can.

    Components of a job have no node in common, but their partitions may have. `targets` is None if
    the nodes of the targets' partition are unknown.
    """
    if shortage := node_shortage([origins], needed.origins):
        return shortage
    if targets is None:
        return ""
    return node_shortage([targets, origins], needed.total, f" ({needed.words})")


def nodes_of_targets(
    partition: Mapping[str, Any], environment: Mapping[str, str]
) -> PartitionNodes | None:
    """Return the Slurm nodes of a partition of ReFrame.

    Returns None if they are unknown, or if the partition does not use Slurm.
    """
    if partition.get("scheduler") not in SCHEDULERS:
        return None
    access = partition.get("access") or []
    return _nodes_for_jobs(named_partition(access), access, environment)


def nodes_of_origins(origins: Origins, environment: Mapping[str, str]) -> PartitionNodes | None:
    """Return the nodes of the partition of the origins.

    Returns None if they are unknown, or if the origins are no component of a job that takes its
    nodes from a partition.
    """
    if origins.policy != "hetjob":
        return None
    return _nodes_for_jobs(origins.partition, origins.access, environment)


def _nodes_for_jobs(
    partition: str | None, access: Sequence[str], environment: Mapping[str, str]
) -> PartitionNodes | None:
    """Return the nodes of a Slurm partition, in the states in which jobs see them.

    `access` are the options of the jobs. Nodes in maintenance have the state `reserved` if the
    options name a reservation, since they are open to jobs in their reservation. Returns None if
    Slurm does not answer, or if this host has no `sinfo`.
    """
    if not can_list_nodes():
        return None
    try:
        nodes = ask_nodes(partition, environment)
    except MachineError:  # the function `slurm` of the needs reports it
        return None
    if option_values(access, "reservation"):
        nodes = [
            replace(node, state="reserved") if node.state == "maint" else node for node in nodes
        ]
    return PartitionNodes(partition, nodes)
