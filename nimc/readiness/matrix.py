"""The matrix of what can run where: workload x partition x environment, with reasons."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from analysis.display.lines import wrapped
from nimc.readiness.checks import CheckVariables
from nimc.readiness.reframe_config import (
    ReframePlace,
    ReframeSettings,
    places_of,
    target_partitions,
)
from records.errors import MachineError, NimcError
from records.groups import grouped
from records.machine.program import ModuleLoad, load_modules, search_path
from records.slurm.client import ask_nodes, lists_nodes
from records.slurm.options import SCHEDULERS, partition_in
from records.slurm.parse_nodes import SlurmNode
from records.text import some
from records.units import plural
from reframe_tests.spack import externals, folders
from reframe_tests.spack.settings import load

#: `unknown`: only a job will tell.
Runs = Literal["yes", "no", "unknown"]
#: Most nodes that a reason names.
_NODES = 6
#: ReFrame's launchers that are programs of their own name.
_LAUNCHERS = ("mpiexec", "mpirun")


@dataclass(frozen=True)
class MatrixCell:
    """The answer of whether a workload can run in a place."""

    workload: str
    partition: str
    environment: str
    runs: Runs
    #: The part that is missing, or why it is unknown; empty if it runs.
    reason: str = ""

    @property
    def combination(self) -> str:
        """Return the place as ReFrame writes it."""
        return f"{self.partition}+{self.environment}"

    @property
    def kind(self) -> str:
        """The reason, without what is missing if that is one word: `no program` of it."""
        words = self.reason.split(" ")
        return " ".join(words[:2]) if len(words) == 3 else self.reason


@dataclass(frozen=True)
class Offer:
    """The resources that this host and Slurm have for a place."""

    #: Modules that cannot be loaded; the search path with all others and the place's variables.
    #: None if this host has no module system.
    modules: ModuleLoad | None
    #: Nodes of Slurm's partition; None if unknown, or without Slurm.
    nodes: list[SlurmNode] | None = None
    #: Slurm's name of that partition.
    slurm_partition: str | None = None
    #: Why Spack cannot provide programs; empty if it can.
    spack_fault: str = ""
    #: Program that a check asks for -> the one that the machine's file names for it.
    programs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Matrix:
    """All cells, by workload and then by place."""

    cells: list[MatrixCell] = field(default_factory=list)

    @property
    def nowhere(self) -> dict[str, str]:
        """Workload that runs in no place -> the reason in each, in one line."""
        return {
            workload: "; ".join(f"{cell.combination}: {cell.reason}" for cell in cells)
            for workload, cells in grouped((cell.workload, cell) for cell in self.cells).items()
            if all(cell.runs == "no" for cell in cells)
        }

    @property
    def text(self) -> str:
        """Return what each place can run, a line each; then what it cannot, or may, and why."""
        lines, missing = [], []
        for combination, cells in grouped((cell.combination, cell) for cell in self.cells).items():
            able = ", ".join(cell.workload for cell in cells if cell.runs == "yes")
            lines.append(wrapped(f"{combination}: {able or 'nothing'}"))
            for kind, alike in grouped((cell.kind, cell) for cell in cells if cell.reason).items():
                names = ", ".join(cell.workload for cell in alike)
                things = dict.fromkeys(cell.reason.removeprefix(kind) for cell in alike)
                may = "unknown, " if alike[0].runs == "unknown" else ""
                missing.append(((names, f"{may}{kind}{','.join(things)}"), combination))
        reasons = [
            wrapped(f"{names} on {', '.join(places)}: {reason}")
            for (names, reason), places in sorted(grouped(missing).items())
        ]
        return "\n".join([*lines, "", *reasons]).rstrip()


#: The offer of each place of a machine.
Offers = Mapping[ReframePlace, Offer]


def offers_of(
    settings: ReframeSettings,
    system: str,
    partition: str | None,
    programs: Mapping[str, str] | None = None,
) -> Offers:
    """Return what this host and Slurm have in a machine's partitions, or in the one of that name.

    `programs`: of its site file.
    """
    parts = target_partitions(settings.partitions, partition)
    places = places_of(settings, parts, system)
    program_folders = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
    environment = {**settings.environment, "PATH": program_folders}
    spack_fault = ""
    try:
        spack = folders.layout(system)
        externals.c_compiler(spack, load(spack))
    except NimcError as error:
        spack_fault = str(error)
    slurm = {str(part.get("name")): _slurm_nodes(part, settings) for part in parts}
    return {
        combination: Offer(
            _loaded(combination, environment),
            *slurm[combination.partition],
            spack_fault,
            programs or {},
        )
        for combination in places
    }


def _loaded(combination: ReframePlace, environment: Mapping[str, str]) -> ModuleLoad | None:
    """Return what a place's modules provide, then its variables; None if this host loads none."""
    loaded = load_modules(combination.modules, environment)
    if loaded is None:
        return None
    return replace(loaded, path=search_path(loaded.path, environment, combination.variables))


def matrix(
    checks: Mapping[str, CheckVariables], offers: Offers, nodes: Mapping[str, int] | None = None
) -> Matrix:
    """Return which of these checks can run in which place.

    `nodes`: check -> nodes that its job takes; 1 by default.
    """
    return Matrix(
        [
            MatrixCell(
                name,
                combination.partition,
                combination.environment,
                *can_run(check, combination, offer, (nodes or {}).get(name, 1)),
            )
            for name, check in checks.items()
            for combination, offer in offers.items()
        ]
    )


def can_run(
    check: CheckVariables, combination: ReframePlace, offer: Offer, nodes: int = 1
) -> tuple[Runs, str]:
    """Return whether a check can run in a place: the first thing that is missing decides."""
    reason = combination.refuses(check)
    if not reason and offer.nodes is not None:
        reason = missing_in_partition(offer.nodes, offer.slurm_partition, nodes)
    if reason:
        return "no", reason
    named = offer.programs.get(check.program or "")
    if check.from_spack and not named and "spack" in combination.features:
        return ("no" if offer.spack_fault else "yes"), offer.spack_fault
    if offer.modules is None:
        return "unknown", "no module system on this host"
    if offer.modules.missing:
        return "no", f"no module {', '.join(offer.modules.missing)}"
    if check.compiles and not shutil.which(combination.compiler, path=offer.modules.path):
        return "no", f"no compiler {combination.compiler}"
    launcher = combination.launcher if check.mpi and combination.launcher in _LAUNCHERS else None
    for program in filter(None, (named or check.program, launcher)):
        if not shutil.which(program, path=offer.modules.path):
            if "modules" in combination.features:  # nodes may have it all the same
                return "unknown", f"no program {program} on this host"
            return "no", f"no program {program}"
    return "yes", ""


def missing_in_partition(nodes: Sequence[SlurmNode], partition: str | None, needed: int) -> str:
    """Return why a job cannot have so many of a partition's nodes; empty if it can."""
    partition_words = f"partition {partition}" if partition else "default partition"
    if not nodes:
        return f"no node: Slurm has no {partition_words}"
    usable = [node for node in nodes if node.usable]
    if len(usable) >= needed:
        return ""
    wrong = [f"{node.name} ({node.state})" for node in nodes if not node.usable]
    not_usable = f"; not usable: {some(wrong, _NODES)}" if wrong else ""
    return f"{plural(needed, 'node')} needed, {len(usable)} usable in {partition_words}{not_usable}"


def _slurm_nodes(
    part: Mapping[str, Any], settings: ReframeSettings
) -> tuple[list[SlurmNode] | None, str | None]:
    if part.get("scheduler") not in SCHEDULERS or not lists_nodes():
        return None, None
    name = partition_in(part.get("access") or [])
    try:
        return ask_nodes(name, settings.environment), name
    except MachineError:
        return None, name
