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
from records.errors import MachineError, NimcError
from records.groups import grouped
from records.machine.program import ModuleLoad, load_modules, search_path
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
class Offer:
    """What this host and Slurm offer in an environment of a partition."""

    #: The environment's modules that cannot be loaded, and the search path after its other modules
    #: were loaded and its variables set. None if the environment has modules, but no module
    #: system answers on this host.
    modules: ModuleLoad | None
    #: Nodes of the Slurm partition; None if they are unknown or Slurm is not used.
    nodes: list[SlurmNode] | None = None
    #: Name of the Slurm partition; None if it is the default partition or Slurm is not used.
    slurm_partition: str | None = None
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
) -> Offers:
    """Return what this host and Slurm offer in the environments of a machine.

    `system` is the name of the machine. `partition` selects one of its partitions; None selects
    all. `programs` maps the program of a check to the program that the site file names instead.
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
        str(target_partition.get("name")): _slurm_nodes(target_partition, settings)
        for target_partition in partitions
    }
    offers = {}
    for environment in partition_environments(settings, partitions, system):
        nodes, slurm_partition = nodes_by_partition[environment.partition]
        offers[environment] = Offer(
            modules=_module_load(environment, process_environment),
            nodes=nodes,
            slurm_partition=slurm_partition,
            spack_fault=spack_fault,
            programs=programs or {},
        )
    return offers


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
    nodes_by_check: Mapping[str, int] | None = None,
) -> Matrix:
    """Return in which environments each check (the ReFrame test of a workload) can run.

    `nodes_by_check` gives the number of nodes that a job of a check takes. The default is 1.
    """
    cells = []
    for name, check in checks.items():
        job_nodes = nodes_by_check.get(name, 1) if nodes_by_check else 1
        for environment, offer in offers.items():
            runs, reason = can_run(check, environment, offer, job_nodes)
            cells.append(
                MatrixCell(name, environment.partition, environment.environment, runs, reason)
            )
    return Matrix(cells)


def can_run(
    check: CheckDescription, environment: PartitionEnvironment, offer: Offer, nodes: int = 1
) -> tuple[CanRun, str]:
    """Return whether a check can run in an environment, and the first reason if it may not.

    `nodes` is the number of nodes that a job of the check takes.
    """
    reason = environment.refusal(check)
    if not reason and offer.nodes is not None:
        reason = node_shortage(offer.nodes, offer.slurm_partition, nodes)
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


def node_shortage(nodes: Sequence[SlurmNode], partition: str | None, needed: int) -> str:
    """Return why a job cannot get `needed` nodes of a Slurm partition; empty if it can.

    `partition` is None for Slurm's default partition.
    """
    partition_words = f"partition {partition}" if partition else "default partition"
    if not nodes:
        return f"no node: Slurm lists none in {partition_words}"
    usable = [node for node in nodes if node.is_usable]
    if len(usable) >= needed:
        return ""
    fault = f"{plural(needed, 'node')} needed, {len(usable)} usable in {partition_words}"
    unusable = [f"{node.name} ({node.state})" for node in nodes if not node.is_usable]
    if unusable:
        fault += f"; not usable: {first_names(unusable, _MAX_NODES)}"
    return fault


def _slurm_nodes(
    partition: Mapping[str, Any], settings: ReframeSettings
) -> tuple[list[SlurmNode] | None, str | None]:
    """Return the Slurm nodes of a partition of ReFrame, and the name of its Slurm partition.

    The nodes are None if they are unknown. The name is None for Slurm's default partition, or if
    the partition does not use Slurm or this host has no `sinfo`.
    """
    if partition.get("scheduler") not in SCHEDULERS or not can_list_nodes():
        return None, None
    access = partition.get("access") or []
    name = named_partition(access)
    try:
        return nodes_for_jobs(name, access, settings.environment), name
    except MachineError:
        return None, name


def nodes_for_jobs(
    partition: str | None, access: Sequence[str], environment: Mapping[str, str]
) -> list[SlurmNode]:
    """Return the nodes of a Slurm partition, in the states in which jobs see them.

    `access` are the options of the jobs. Nodes in maintenance have the state `reserved` if the
    options name a reservation, since they are open to jobs in their reservation. Raises
    MachineError.
    """
    nodes = ask_nodes(partition, environment)
    if not option_values(access, "reservation"):
        return nodes
    return [replace(node, state="reserved") if node.state == "maint" else node for node in nodes]
