"""What works on this host for a machine, and how to get what is missing."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from analysis import checkout
from analysis.errors import InputError
from campaigns.host import counting, probes
from campaigns.host.probes import Finding
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

    def as_dict(self) -> dict[str, Any]:
        """The diagnosis as in JSON."""
        record = asdict(self)
        ready = record.pop("ready")
        return record | {"verdict": "ready" if ready else "not ready"}

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
    if site is not None and (checks := root / "reframe_tests").is_dir():
        findings += probes.environments(site, root / "configs" / f"{name}.py", checks)
    findings += probes.sharing(partitions)
    with_slurm = any(part["scheduler"] in ("slurm", "squeue") for part in partitions)
    findings += probes.slurm(root / "configs" / f"{name}.py", needed=with_slurm)
    findings += [launcher, probes.mpi_compiler(), probes.fortran_compiler()]
    findings += probes.workloads(compiler, launcher)
    findings += probes.rdma(here)
    findings += probes.injectors(site)
    findings += [*counting.counters(), *counting.tools()]
    findings += [probes.spack(), *probes.minicluster()]
    why = obstacle(findings)
    return Diagnosis(name, not why, why, findings, here.as_dict())


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
