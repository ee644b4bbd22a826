"""Facts of a machine, from its two files, this host, Slurm and ReFrame's environments.

The two files are ReFrame's configuration (`configs/NAME.py`) and the site file (`site/NAME.yaml`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nimc.readiness.checks import CheckDescription, checks_in, require_known_programs
from nimc.readiness.finding import HostFinding
from nimc.readiness.matrix import Matrix, job_nodes, matrix, offers_of
from nimc.readiness.reframe_config import (
    Partitions,
    ReframeSettings,
    settings_of,
    target_partitions,
)
from records.errors import InputError, NimcError
from records.machine import host
from records.machine import site as site_files
from records.machine.host import Host
from records.machine.site import Machine
from records.measured import COMMAND_CHECK
from records.slurm.options import SCHEDULERS


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of a machine. Cached properties are determined when first read."""

    #: Name of the machine.
    name: str
    #: ReFrame's configuration of the machine.
    config_file: Path
    settings: ReframeSettings
    checks_folder: Path
    #: The site file; None if it cannot be used.
    machine: Machine | None
    #: Why the site file cannot be used; empty if it can.
    site_fault: str = ""
    #: Findings of a job that inspected nodes; empty if there was no such job.
    node_findings: Sequence[HostFinding] = ()

    @cached_property
    def host(self) -> Host:
        """Return the facts of this host."""
        return host.detect()

    @property
    def partitions(self) -> Partitions:
        """Return the partitions of the configuration; an empty list if it has a fault."""
        return [] if self.settings.fault else self.settings.partitions

    @property
    def uses_slurm(self) -> bool:
        """Return whether Slurm runs the jobs of the targets or of the origins.

        Targets are nodes that run the application; origins are nodes that run only writers. Without
        a valid site file, the origins are unknown, and the answer is False.
        """
        if self.machine is None:
            return False
        if self.machine.origins.policy != "same_host":
            return True  # origins on other nodes than the targets are allocated by Slurm only
        return not self.schedulers.isdisjoint(SCHEDULERS)

    @property
    def schedulers(self) -> set[str]:
        """Return the names of ReFrame's schedulers in the targets' partitions."""
        partition = self.machine.partition if self.machine else None
        targets = target_partitions(self.partitions, partition)
        return {str(target["scheduler"]) for target in targets}

    @cached_property
    def _checks_and_fault(self) -> tuple[Mapping[str, CheckDescription], str]:
        """Return the checks of workloads, and the fault of the checks or of the site's programs.

        The check of `nimc measure`, which runs any command, is left out. There are no checks if
        there is a fault, if there are no partitions, or if the folder of checks is missing. The
        fault is empty if there is none.
        """
        if not self.partitions or not self.checks_folder.is_dir():
            return {}, ""
        try:
            checks = dict(checks_in(self.checks_folder))
            checks.pop(COMMAND_CHECK, None)
            if self.machine:
                require_known_programs(self.machine, checks)
        except NimcError as error:
            return {}, str(error)
        return checks, ""

    @property
    def checks_fault(self) -> str:
        """Return why checks cannot be read, or which program of the site file no check uses.

        It is empty if there is no such fault.
        """
        _, fault = self._checks_and_fault
        return fault

    @cached_property
    def matrix(self) -> Matrix:
        """Return which workload can run in which environment of every partition.

        The matrix is empty if there are no checks (`_checks_and_fault`). It is that of jobs with
        one target. Whether there are nodes for origins of another component is a finding of its
        own.
        """
        checks, _ = self._checks_and_fault
        if not checks:
            return Matrix()
        machine = self.machine
        programs = machine.programs if machine else {}
        offers = offers_of(self.settings, self.name, partition=None, programs=programs)
        if machine is None:
            return matrix(checks, offers)
        smallest_job = job_nodes(machine.origins.policy, 1, machine.origins.nodes)
        return matrix(checks, offers, dict.fromkeys(checks, smallest_job))

    @property
    def matrix_of_targets(self) -> Matrix:
        """Return which workload can run in which environment of the targets' partitions."""
        partition = self.machine.partition if self.machine else None
        cells = self.matrix.cells
        return Matrix([cell for cell in cells if partition in (None, cell.partition)])


def find_facts(name: str, root: Path, node_findings: Sequence[HostFinding] = ()) -> Facts:
    """Return the facts of a machine. Raises InputError if this checkout has no file for it."""
    site_files.require_known(name, root)
    config_file = root / "configs" / f"{name}.py"
    machine = None
    fault = ""
    try:
        machine = site_files.load(name, root)
    except InputError as error:
        fault = str(error)
    return Facts(
        name=name,
        config_file=config_file,
        settings=settings_of(config_file),
        checks_folder=root / "reframe_tests",
        machine=machine,
        site_fault=fault,
        node_findings=node_findings,
    )
