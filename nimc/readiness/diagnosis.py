"""Whether a machine, or a campaign on it, is ready to run.

`init` and `doctor` check all needs of a machine; `plan` and `run` check those of a campaign.
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
from nimc.readiness.matrix import Matrix, Offers, matrix
from nimc.readiness.needs import NEEDS, Scope
from records import checkout
from records.sample import Level
from reframe_tests.factors import why_too_many_nodes, why_unsupported


def findings(facts: Facts, *scopes: Scope) -> list[HostFinding]:
    """Return the findings of all needs, or of those of `scopes`, in the table's order."""
    needs = [need for need in NEEDS if not scopes or need.scope in scopes]
    return [finding for need in needs for finding in need.find(facts)]


def needed_and_missing(all_findings: Sequence[HostFinding]) -> list[HostFinding]:
    """Return the findings about things that are needed and missing."""
    return [finding for finding in all_findings if finding.needed and finding.state == "missing"]


@dataclass(frozen=True)
class Diagnosis:
    """All findings, in the order in which to fix them."""

    machine: str
    #: What is missing for campaigns to run, in one line; empty if nothing is.
    why: str
    findings: list[HostFinding]
    #: Facts of the host (`records.machine.host`).
    host: dict[str, Any]
    #: The matrix of every partition; empty if the settings or the checks cannot be read.
    matrix: Matrix

    @property
    def sentence(self) -> str:
        """Return the verdict as a sentence."""
        return f"{self.machine} is " + (f"not ready: {self.why}" if self.why else "ready")

    def as_dict(self) -> dict[str, Any]:
        """Return the diagnosis as in JSON."""
        verdict = "not ready" if self.why else "ready"
        return asdict(self) | {"verdict": verdict, "matrix": asdict(self.matrix)["cells"]}


def examine(
    name: str, node_findings: Sequence[HostFinding] = (), root: Path = checkout.ROOT
) -> Diagnosis:
    """Check this host for the machine `name`.

    `node_findings` are those of a job on nodes. Raises InputError if there is no file of that name;
    an invalid file is a finding.
    """
    facts = find_facts(name, root, node_findings)
    all_findings = findings(facts)
    why = ", ".join(finding.what for finding in needed_and_missing(all_findings))
    return Diagnosis(name, why, all_findings, facts.host.as_dict(), facts.matrix)


@dataclass(frozen=True)
class CaseNeeds:
    """The needs of a case of a campaign."""

    case: str
    check: str
    target_nodes: int
    #: How many nodes it takes from its targets' partition.
    nodes: int
    #: Injectors of its writers.
    injectors: frozenset[str]


@dataclass(frozen=True)
class OmittedCase:
    """A case that is not measured on this machine, or a level of a case."""

    case: str
    #: Why, in one line.
    reason: str
    #: The level that the machine lacks; None if the whole case is omitted.
    factor: str | None = None
    level: Level | None = None


@dataclass(frozen=True)
class Feasibility:
    """Which parts of a campaign can run."""

    #: Where each workload can run.
    matrix: Matrix
    #: Cases that can run nowhere, each with the reason.
    omissions: list[OmittedCase]
    #: Why nothing can be started, in one line; empty if something can.
    why: str
    #: Other reasons that may keep writers from writing, a line each.
    doubts: list[str] = field(default_factory=list)

    @cached_property  # each case is looked up in it
    def omission_reasons(self) -> dict[str, str]:
        """Case -> why it cannot run."""
        return {omission.case: omission.reason for omission in self.omissions}


def feasibility_of(
    facts: Facts,
    cases: Sequence[CaseNeeds],
    checks: Mapping[str, CheckDescription],
    offers: Offers,
    *,
    in_jobs: bool,
) -> Feasibility:
    """Return which of these cases can run; asks this host and Slurm.

    `facts` have a valid site file. `offers` are those of the targets' environments. `in_jobs` is
    true if writers start on nodes, not on this host.
    """
    machine = facts.machine
    assert machine is not None

    @cache  # thousands of cases may have the same needs
    def why_not(check: str, target_nodes: int, nodes: int, injectors: frozenset[str]) -> str | None:
        """Return why cases with these needs cannot run; None if they can."""
        if reason := why_too_many_nodes(machine, target_nodes):
            return reason
        local_injectors = [] if in_jobs else sorted(injectors)  # only a job can tell for nodes
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
    case_matrix = matrix(checks, offers, fewest_nodes(cases))
    return Feasibility(case_matrix, omissions, "; ".join(why), doubts)


def fewest_nodes(cases: Sequence[CaseNeeds]) -> dict[str, int]:
    """Check -> nodes of its smallest case."""
    nodes: dict[str, int] = {}
    for case in cases:
        nodes[case.check] = min(case.nodes, nodes.get(case.check, case.nodes))
    return nodes
