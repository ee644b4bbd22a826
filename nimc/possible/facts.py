"""What is known of a machine: of its two files, this host, Slurm, and ReFrame's environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nimc.possible.checks import COMMAND, CheckVariables, checks_in, require_known_programs
from nimc.possible.finding import Finding
from nimc.possible.matrix import Matrix, matrix, offers_of
from nimc.possible.settings import Partitions, ReframeSettings, settings_of, target_partitions
from records.errors import InputError, NimcError
from records.machine import host
from records.machine import site as site_files
from records.machine.host import Host
from records.machine.site import Machine
from records.slurm.options import SCHEDULERS


@dataclass(frozen=True)
class Facts:
    """Each fact is asked for once, when a need reads it first."""

    name: str
    config: Path
    settings: ReframeSettings
    #: Folder of the checks.
    folder: Path
    #: The site file; None if it cannot be used, for this reason.
    site: Machine | None
    site_fault: str = ""
    #: What a job found on nodes; empty without one.
    of_nodes: Sequence[Finding] = ()

    @cached_property
    def host(self) -> Host:
        """This host."""
        return host.detect()

    @property
    def partitions(self) -> Partitions:
        """Partitions of the configuration; none of one with a fault."""
        return [] if self.settings.fault else self.settings.partitions

    @property
    def uses_slurm(self) -> bool:
        """Whether Slurm runs the jobs of the targets, or of the origins."""
        if self.site is None:
            return False
        used = target_partitions(self.partitions, self.site.partition)
        apart = self.site.origins.policy != "same_host"
        return apart or any(part["scheduler"] in SCHEDULERS for part in used)

    @cached_property
    def _checks(self) -> tuple[Mapping[str, CheckVariables], str]:
        """The workloads of this checkout, and why they, or the site file's programs, are wrong."""
        if not self.settings.partitions or not self.folder.is_dir():
            return {}, ""
        try:
            checks = dict(checks_in(self.folder))
            checks.pop(COMMAND, None)
            if self.site:
                require_known_programs(self.site, checks)
        except NimcError as error:
            return {}, str(error)
        return checks, ""

    @property
    def checks_fault(self) -> str:
        """Why the checks cannot be read, or the site file names programs of none of them."""
        return self._checks[1]

    @cached_property
    def matrix(self) -> Matrix:
        """What runs where, in every partition; empty if settings or checks cannot be read."""
        checks, _ = self._checks
        if not checks:
            return Matrix()
        programs = self.site.programs if self.site else {}
        return matrix(checks, offers_of(self.settings, self.name, None, programs))

    @property
    def matrix_of_targets(self) -> Matrix:
        """The same of the partitions that targets come from."""
        partition = self.site.partition if self.site else None
        cells = self.matrix.cells
        return Matrix([cell for cell in cells if partition in (None, cell.partition)])


def facts_of(name: str, root: Path, of_nodes: Sequence[Finding] = ()) -> Facts:
    """Those of a machine of this checkout; InputError if there is no file of that name."""
    site_files.require_known(name, root)
    config, site, fault = root / "configs" / f"{name}.py", None, ""
    try:
        site = site_files.load(name, root)
    except InputError as error:
        fault = str(error)
    return Facts(
        name=name,
        config=config,
        settings=settings_of(config),
        folder=root / "reframe_tests",
        site=site,
        site_fault=fault,
        of_nodes=of_nodes,
    )
