"""What works on this host for a machine, and how to get what is missing."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from analysis import checkout
from analysis.errors import InputError, NimcError
from campaigns.host import counting, probes
from campaigns.host.matrix import Matrix, matrix
from campaigns.host.probes import Finding
from campaigns.host.settings import settings_of
from campaigns.request.checks import checks_in, require_known_programs
from injection.machine import host, machine


@dataclass(frozen=True)
class Diagnosis:
    """All findings, in the order in which to fix them."""

    machine: str
    ready: bool
    #: What keeps campaigns from running, in one line; empty if nothing does.
    why: str
    findings: list[Finding]
    #: Facts of the host (`injection.machine.host`).
    host: dict[str, Any]
    #: What runs where, in every partition; empty if the settings or the checks cannot be read.
    matrix: Matrix

    def as_dict(self) -> dict[str, Any]:
        """The diagnosis as in JSON."""
        record = asdict(self)
        ready = record.pop("ready")
        return record | {
            "verdict": "ready" if ready else "not ready",
            "matrix": self.matrix.as_dicts(),
        }

    def extended(self, more: list[Finding]) -> Diagnosis:
        """The diagnosis with further findings."""
        findings = [*self.findings, *more]
        why = obstacle(findings)
        return replace(self, findings=findings, why=why, ready=not why)


def examine(name: str, root: Path = checkout.ROOT) -> Diagnosis:
    """Check this host for the machine `name`.

    Raises InputError if there is no file of that name; an invalid file is a finding.
    """
    if name not in known_machines(root):
        known = ", ".join(known_machines(root)) or "none"
        raise InputError(
            f"machine {name!r}: neither site/{name}.yaml nor configs/{name}.py exists;"
            f" known machines: {known}"
        )
    here = host.detect()
    compiler, launcher = probes.c_compiler(), probes.mpi_launcher()
    findings = [probes.python(), compiler]
    config, partitions = probes.reframe_config(name, root)
    site_finding, site = probes.site_file(name, root)
    findings += [config, site_finding]
    if site is not None:
        findings += [probes.cores(site), probes.memory(site), *probes.writes(site)]
        findings += [*probes.origins(site), *probes.targets(site, partitions)]
    config_file = root / "configs" / f"{name}.py"
    cells, faults = _matrix(name, config_file, root / "reframe_tests", site)
    findings += faults
    targets = [c for c in cells.cells if not site or site.partition in (None, c.partition)]
    findings += probes.environments(Matrix(targets), config_file)
    findings += probes.sharing(partitions)
    with_slurm = any(part["scheduler"] in ("slurm", "squeue") for part in partitions)
    findings += probes.slurm(config_file, needed=with_slurm)
    findings += [launcher, probes.mpi_compiler(), probes.fortran_compiler()]
    findings += probes.workloads(compiler, launcher)
    findings += probes.rdma(here)
    findings += probes.injectors(site)
    findings += [*counting.counters(), *counting.tools()]
    findings += [probes.spack(), *probes.minicluster()]
    why = obstacle(findings)
    return Diagnosis(name, not why, why, findings, here.as_dict(), cells)


def _matrix(
    name: str, config: Path, folder: Path, site: machine.Machine | None
) -> tuple[Matrix, list[Finding]]:
    """What runs where in all partitions; a fault of the settings or the checks is a finding."""
    settings = settings_of(config)
    if not settings.partitions or not folder.is_dir():
        return Matrix(), []
    faults = []
    if settings.fault:
        where = f"line {settings.fault_line}: " if settings.fault_line else ""
        text = f"{where}{settings.fault}"
        faults.append(Finding(f"configs/{name}.py", "missing", text, "fix the file", needed=True))
    try:
        checks = checks_in(folder)
        if site:
            require_known_programs(site, checks)
        programs = site.programs if site else {}
        return matrix(checks, settings, name, None, programs=programs), faults
    except NimcError as error:
        return Matrix(), [
            *faults,
            Finding("checks", "missing", str(error), "fix what it names", needed=True),
        ]


def known_machines(root: Path) -> list[str]:
    """Every machine with a file in `site/` or `configs/`; one of the two is enough."""
    configs = {path.stem for path in (root / "configs").glob("[a-z]*.py")}
    return sorted(configs | set(machine.known_machines(root)))


def obstacle(findings: list[Finding]) -> str:
    """What keeps a campaign from running: a missing requirement, or no workload at all."""
    lacking = [found.what for found in findings if found.needed and found.state == "missing"]
    workloads = [found for found in findings if found.kind == "workload"]
    if not any(found.state != "missing" for found in workloads):
        lacking.append("a workload")
    return ", ".join(lacking)
