"""Finds out whether a machine, or a campaign on it, is ready to run.

A *need* is something that campaigns on a machine may require, with the function that looks for it.
The commands `init` and `doctor` check all needs of a machine. The commands `plan` and `run` check
only the needs of campaigns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from conductor.injectors import INJECTORS
from nimc.readiness.checks import CheckDescription
from nimc.readiness.facts import Facts, find_facts
from nimc.readiness.finding import HostFinding
from nimc.readiness.matrix import JobNodes, Matrix, Offers, matrix
from nimc.readiness.needs import NEEDS, Scope
from nimc.readiness.node_findings import missing_on_nodes
from records import checkout
from records.groups import grouped
from records.sample import Level
from reframe_tests.factors import why_too_many_nodes, why_unsupported


def findings(facts: Facts, *scopes: Scope) -> list[HostFinding]:
    """Return the findings of all needs, in the order of the table of needs.

    If `scopes` are given, only needs of these scopes are checked.
    """
    needs = [need for need in NEEDS if not scopes or need.scope in scopes]
    return [finding for need in needs for finding in need.find(facts)]


def needed_and_missing(all_findings: Sequence[HostFinding]) -> list[HostFinding]:
    """Return the findings about things that campaigns require and that are missing."""
    return [finding for finding in all_findings if finding.needed and finding.state == "missing"]


@dataclass(frozen=True)
class Diagnosis:
    """All findings about a machine."""

    machine: str
    #: What campaigns require and is missing, in one line; empty if nothing is missing.
    why: str
    #: The findings, in the order in which to fix them.
    findings: list[HostFinding]
    #: Facts of the host (`records.machine.host`).
    host: dict[str, Any]
    #: Which workload can run in which environment of every partition. It is empty if ReFrame's
    #: settings or the checks cannot be read.
    matrix: Matrix

    @property
    def sentence(self) -> str:
        """Return the verdict, ready or not ready and why, as a sentence."""
        return f"{self.machine} is " + (f"not ready: {self.why}" if self.why else "ready")

    def as_dict(self) -> dict[str, Any]:
        """Return the diagnosis in the form in which it is printed as JSON."""
        verdict = "not ready" if self.why else "ready"
        return asdict(self) | {"verdict": verdict, "matrix": asdict(self.matrix)["cells"]}


def examine(
    name: str, node_findings: Sequence[HostFinding] = (), root: Path = checkout.ROOT
) -> Diagnosis:
    """Find out from this host whether the machine `name` is ready.

    `node_findings` are the findings of a job that inspected nodes. Raises InputError if the machine
    has no file. An invalid file raises no error, but is a finding.
    """
    facts = find_facts(name, root, node_findings)
    all_findings = findings(facts)
    why = ", ".join(finding.what for finding in needed_and_missing(all_findings))
    return Diagnosis(name, why, all_findings, facts.host.as_dict(), facts.matrix)


@dataclass(frozen=True)
class CaseNeeds:
    """What a case of a campaign needs."""

    #: Name of the case.
    case: str
    #: Name of its check: the ReFrame test of its workload.
    check: str
    target_nodes: int
    #: Numbers of nodes that it takes from the partitions of its targets and of its origins.
    nodes: JobNodes
    #: Injectors of its writers.
    injectors: frozenset[str]


@dataclass(frozen=True)
class OmittedCase:
    """A case, or a level of a case, that is not measured on this machine."""

    #: Name of the case.
    case: str
    #: Why it is not measured, in one line.
    reason: str
    #: Factor with the omitted level; None if the whole case is omitted.
    factor: str | None = None
    #: The omitted level, which the machine does not support; None if the whole case is omitted.
    level: Level | None = None


@dataclass(frozen=True)
class Feasibility:
    """Which parts of a campaign can run."""

    #: Which workload can run in which environment.
    matrix: Matrix
    #: Cases that cannot run, with the reason.
    omissions: list[OmittedCase]
    #: Why the campaign cannot start, in one line; empty if at least one case can run.
    why: str
    #: Other reasons that may prevent writers from writing, one per line.
    doubts: list[str] = field(default_factory=list)

    @cached_property  # since it is read once for each case
    def omission_reasons(self) -> dict[str, str]:
        """Return case -> why it cannot run."""
        return {omission.case: omission.reason for omission in self.omissions}


def feasibility_of(
    facts: Facts,
    cases: Sequence[CaseNeeds],
    checks: Mapping[str, CheckDescription],
    offers: Offers,
    *,
    in_jobs: bool,
) -> Feasibility:
    """Return which of these cases can run. Queries this host and Slurm.

    The site file of `facts` must be valid. `offers` says what the environments of the targets'
    partitions offer. `in_jobs` is true if writers are started on nodes of a job, not on this host.
    """
    machine = facts.machine
    assert machine is not None

    @cache  # thousands of cases may have the same needs
    def why_not(
        check: str, target_nodes: int, nodes: JobNodes, injectors: frozenset[str]
    ) -> str | None:
        """Return why cases with these needs cannot run; None if they can."""
        if reason := why_too_many_nodes(machine, target_nodes):
            return reason
        # Whether nodes have an injector cannot be found from this host.
        local_injectors = [] if in_jobs else sorted(injectors)
        for injector in local_injectors:
            if reason := why_unsupported(machine, "injector", injector):
                return f"injector {injector}: {reason}"
        return matrix({check: checks[check]}, offers, {check: nodes}).why_nowhere.get(check)

    omissions = []
    for case in cases:
        if reason := why_not(case.check, case.target_nodes, case.nodes, case.injectors):
            omissions.append(OmittedCase(case.case, reason))
    missing = needed_and_missing(findings(facts, "campaigns"))
    why = [f"{finding.what}: {finding.detail}" for finding in missing]
    if not why and len(omissions) == len(cases):
        why = [f"no case can run: {omissions[0].case}: {omissions[0].reason}"]
    doubts = []
    if machine.origins.policy != "same_host":
        names = sorted({name for case in cases for name in case.injectors})
        doubts = [doubt for name in names if (doubt := INJECTORS[name].doubt())]
    if in_jobs:
        doubts += missing_on_nodes(machine, facts.config_file.parents[1])
    case_matrix = matrix(checks, offers, fewest_nodes(cases))
    return Feasibility(case_matrix, omissions, "; ".join(why), doubts)


def fewest_nodes(cases: Sequence[CaseNeeds]) -> dict[str, JobNodes]:
    """Return check -> numbers of nodes of the check's smallest case."""
    nodes_by_check = grouped((case.check, case.nodes) for case in cases)
    return {check: min(nodes, key=lambda job: job.total) for check, nodes in nodes_by_check.items()}
