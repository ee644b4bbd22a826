"""What works on this host for a machine, and how to get what is missing."""

from __future__ import annotations

import re
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nimc.base import checkout
from nimc.base.errors import InputError, NimcError
from nimc.base.programs import ask
from nimc.campaign.checks import checks_in, require_known_programs
from nimc.campaign.matrix import Matrix, matrix
from nimc.campaign.settings import settings_of
from nimc.cluster import probes
from nimc.cluster.probes import Finding, lacking
from nimc.machine import host
from nimc.machine import site as site_files
from nimc.machine.site import Machine
from reframe_tests.tools import TOOLS

# The checks of `nimc doctor` on counting: PAPI, and every tool.


#: PAPI's event that every processor with counters has.
_CYCLES = "PAPI_TOT_CYC"


def papi() -> Finding:
    """PAPI's counters, found by counting."""
    what = "counters (PAPI)"
    if shutil.which("papi_avail") is None or shutil.which("papi_command_line") is None:
        remedy = "apt install papi-tools; dnf install papi"
        return lacking(what, "no papi_avail and papi_command_line on PATH", remedy)
    listed = re.search(r"Of \d+ possible events, (\d+) are available", ask(["papi_avail"]).text)
    events = int(listed[1]) if listed else 0
    # The list names what the processor's model has; a virtual machine may count none of it.
    answer = ask(["papi_command_line", _CYCLES])
    if reason := refusal(answer.text):
        detail = f"{events} preset events listed, and {_CYCLES} counts nothing: {reason}"
        return lacking(what, detail, "measure on a machine with counters")
    return Finding(what, "ok", f"{events} preset events; {_CYCLES} counts")


def refusal(text: str) -> str | None:
    """Why `papi_command_line PAPI_TOT_CYC` counted nothing, from its output; None if it counted.

    Its exit status is 0 in any case.
    """
    if found := re.search(rf"^{_CYCLES} : *\t*(\d+)", text, re.MULTILINE):
        return None if int(found[1]) else "its count is 0"
    because = re.search(r"because: (.+)", text)
    return because[1].strip() if because else "no answer"


def tools() -> list[Finding]:
    """Every tool that can wrap the ranks; levels that lack the same in one line."""
    reasons: dict[str | None, list[str]] = {}
    for name, tool in TOOLS.items():
        reasons.setdefault(tool.missing(), []).append(name)
    found = []
    for reason, names in reasons.items():
        if reason is None:
            found.append(Finding(f"tool {', '.join(names)}", "ok", "ready"))
            continue
        lack, _, remedy = reason.partition(" (")
        found.append(lacking(f"tool {', '.join(names)}", lack, remedy.removesuffix(")")))
    return found


@dataclass(frozen=True)
class Diagnosis:
    """All findings, in the order in which to fix them."""

    machine: str
    #: What keeps campaigns from running, in one line; empty if nothing does.
    why: str
    findings: list[Finding]
    #: Facts of the host (`nimc.machine.host`).
    host: dict[str, Any]
    #: What runs where, in every partition; empty if the settings or the checks cannot be read.
    matrix: Matrix

    @property
    def ready(self) -> bool:
        """Whether campaigns can run."""
        return not self.why

    def as_dict(self) -> dict[str, Any]:
        """The diagnosis as in JSON."""
        verdict = "ready" if self.ready else "not ready"
        return asdict(self) | {"verdict": verdict, "matrix": self.matrix.as_dicts()}

    def extended(self, more: list[Finding]) -> Diagnosis:
        """The diagnosis with further findings."""
        findings = [*self.findings, *more]
        return replace(self, findings=findings, why=obstacle(findings))


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
    findings = [probes.python(), probes.c_compiler()]
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
    findings += [probes.program("mpiexec", "mpiexec", "mpich", "mpich")]
    findings += [probes.program("mpicc", "mpicc", "libmpich-dev", "mpich-devel")]
    findings += [probes.program("Fortran compiler", "gfortran", "gfortran", "gcc-gfortran")]
    findings += probes.rdma(here)
    findings += probes.injectors(site)
    findings += [papi(), *tools()]
    findings += [probes.spack(), *probes.minicluster()]
    return Diagnosis(name, obstacle(findings), findings, here.as_dict(), cells)


def _matrix(
    name: str, config: Path, folder: Path, site: Machine | None
) -> tuple[Matrix, list[Finding]]:
    """What runs where in all partitions; a fault of the settings or the checks is a finding."""
    settings = settings_of(config)
    if not settings.partitions or not folder.is_dir():
        return Matrix(), []
    faults = []
    if settings.fault:
        where = f"line {settings.fault_line}: " if settings.fault_line else ""
        text = f"{where}{settings.fault}"
        faults.append(lacking(f"configs/{name}.py", text, "fix the file", needed=True))
    try:
        checks = checks_in(folder)
        if site:
            require_known_programs(site, checks)
        programs = site.programs if site else {}
        return matrix(checks, settings, name, None, programs=programs), faults
    except NimcError as error:
        return Matrix(), [*faults, lacking("checks", str(error), "fix what it names", needed=True)]


def known_machines(root: Path) -> list[str]:
    """Every machine with a file in `site/` or `configs/`; one of the two is enough."""
    configs = {path.stem for path in (root / "configs").glob("[a-z]*.py")}
    return sorted(configs | set(site_files.known_machines(root)))


def obstacle(findings: list[Finding]) -> str:
    """What keeps a campaign from running: requirements that are missing."""
    return ", ".join(each.what for each in findings if each.needed and each.state == "missing")
