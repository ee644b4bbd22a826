"""Can this run here? `init` and `doctor` ask for all needs, `plan` and `run` for a campaign's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from conductor.injectors import INJECTORS
from nimc.possible.checks import CheckVariables
from nimc.possible.facts import Facts, find_facts
from nimc.possible.finding import HostFinding
from nimc.possible.matrix import Matrix, Offers, matrix
from nimc.possible.needs import TABLE, Scope
from records import checkout
from records.sample import Level
from reframe_tests.factors import missing_level, missing_nodes


def findings(facts: Facts, *scopes: Scope) -> list[HostFinding]:
    """Return what the table's rows find, in its order; only those of `scopes`, if any is named."""
    rows = [need for need in TABLE if not scopes or need.scope in scopes]
    return [row for need in rows for row in need.find(facts)]


def missing(rows: Sequence[HostFinding]) -> list[HostFinding]:
    """Return what is needed and missing."""
    return [row for row in rows if row.needed and row.state == "missing"]


@dataclass(frozen=True)
class Diagnosis:
    """All findings, in the order in which to fix them."""

    machine: str
    #: The reason that keeps campaigns from running, in one line; empty if there is none.
    why: str
    findings: list[HostFinding]
    #: Facts of the host (`records.machine.host`).
    host: dict[str, Any]
    #: The matrix of every partition; empty if the settings or the checks cannot be read.
    matrix: Matrix

    @property
    def sentence(self) -> str:
        """The verdict."""
        return f"{self.machine} is " + (f"not ready: {self.why}" if self.why else "ready")

    def as_dict(self) -> dict[str, Any]:
        """The diagnosis as in JSON."""
        verdict = "not ready" if self.why else "ready"
        return asdict(self) | {"verdict": verdict, "matrix": asdict(self.matrix)["cells"]}


def examine(
    name: str, node_findings: Sequence[HostFinding] = (), root: Path = checkout.ROOT
) -> Diagnosis:
    """Check this host for the machine `name`; `node_findings` are those of a job on nodes.

    Raises InputError if there is no file of that name; an invalid file is a finding.
    """
    facts = find_facts(name, root, node_findings)
    rows = findings(facts)
    why = ", ".join(row.what for row in missing(rows))
    return Diagnosis(name, why, rows, facts.host.as_dict(), facts.matrix)


@dataclass(frozen=True)
class CaseNeeds:
    """The needs of a case of a campaign."""

    case: str
    check: str
    targets: int
    #: Nodes from the partition of its targets.
    nodes: int
    #: Those of its writers.
    injectors: frozenset[str]


@dataclass(frozen=True)
class Omitted:
    """A case that is not measured on this machine, or a level of one."""

    case: str
    #: One line.
    reason: str
    #: The level that the machine lacks; None where it lacks the whole case.
    factor: str | None = None
    level: Level | None = None


@dataclass(frozen=True)
class Possible:
    """The parts of a campaign that can run, and those that cannot."""

    #: Which of its workloads runs where.
    matrix: Matrix
    #: Cases that can run nowhere, each with the reason.
    absent: list[Omitted]
    #: Why nothing can be started, in one line; empty if something can.
    why: str
    #: Other reasons that may keep writers from writing, a line each.
    doubts: list[str] = field(default_factory=list)

    @cached_property  # each case is looked up in it
    def cannot(self) -> dict[str, str]:
        """Case -> why it cannot run."""
        return {omitted.case: omitted.reason for omitted in self.absent}


def possible(
    facts: Facts,
    cases: Sequence[CaseNeeds],
    checks: Mapping[str, CheckVariables],
    offers: Offers,
    *,
    in_jobs: bool,
) -> Possible:
    """Return what of these cases can run; asks this host, and Slurm. `facts` have a site file.

    `offers`: of the places of the targets. `in_jobs`: writers start on nodes, not on this host.
    """
    machine = facts.machine
    assert machine is not None

    @cache  # cases are many
    def why_not(check: str, targets: int, nodes: int, injectors: frozenset[str]) -> str | None:
        """Return why cases cannot run: nodes, programs of writers, or needs of the workload."""
        if reason := missing_nodes(machine, targets):
            return reason
        for injector in () if in_jobs else sorted(injectors):  # else only a job will tell
            if reason := missing_level(machine, "injector", injector):
                return f"injector {injector}: {reason}"
        cells = matrix({check: checks[check]}, offers, {check: nodes})
        return cells.nowhere.get(check)

    absent = []
    for case in cases:
        if reason := why_not(case.check, case.targets, case.nodes, case.injectors):
            absent.append(Omitted(case.case, reason))
    rows = missing(findings(facts, "campaigns"))
    why = [f"{row.what}: {row.detail}" for row in rows]
    if not why and len(absent) == len(cases):
        why = [f"no case can run: {absent[0].case}: {absent[0].reason}"]
    apart = machine.origins.policy != "same_host"
    used = sorted({injector for case in cases for injector in case.injectors}) if apart else []
    doubts = [INJECTORS[name].doubt() for name in used]
    case_matrix = matrix(checks, offers, fewest_nodes(cases))
    return Possible(case_matrix, absent, "; ".join(why), [*filter(None, doubts)])


def fewest_nodes(cases: Sequence[CaseNeeds]) -> dict[str, int]:
    """Check -> nodes of its smallest case."""
    nodes: dict[str, int] = {}
    for case in cases:
        nodes[case.check] = min(case.nodes, nodes.get(case.check, case.nodes))
    return nodes
