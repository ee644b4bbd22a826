"""What of a campaign can run on its machine now, and why not the rest.

`nimc plan`, `nimc run` and nights ask this; `nimc doctor` has the same answers for all workloads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, cached_property

from conductor.injectors import INJECTORS
from nimc.campaign.cases import Omitted
from nimc.campaign.plan import Request
from nimc.possible.matrix import Matrix, matrix
from nimc.possible.needs import of_machine
from records.machine import host
from reframe_tests.factors import lacking, lacking_nodes


@dataclass(frozen=True)
class Possible:
    """What can run, and what cannot."""

    #: Which of its workloads runs where.
    matrix: Matrix
    #: Cases that can run nowhere, each with the reason.
    absent: list[Omitted]
    #: Why nothing can be started, in one line; empty if something can.
    why: str
    #: What else may keep writers from writing, a line each.
    doubts: list[str] = field(default_factory=list)

    @cached_property  # each case is looked up in it
    def cannot(self) -> dict[str, str]:
        """Case -> why it cannot run."""
        return {omitted.case: omitted.reason for omitted in self.absent}


def possible(request: Request) -> Possible:
    """Ask this host, and Slurm. Raises InputError for writes that cannot be made."""
    site, settings = request.machine, request.settings

    @cache  # cases are many
    def lack(check: str, targets: int, nodes: int, injectors: frozenset[str]) -> str | None:
        """Why cases cannot run: nodes, programs of writers, or what the workload requires."""
        if reason := lacking_nodes(site, targets):
            return reason
        for injector in () if request.slurm else sorted(injectors):  # else only a job will tell
            if reason := lacking(site, "injector", injector):
                return f"injector {injector}: {reason}"
        cells = matrix({check: request.checks[check]}, request.offers, {check: nodes})
        return cells.nowhere.get(check)

    absent, used = [], set[str]()
    for case in request.campaign.cases:
        writes = [treatment.writes for treatment in request.treatments[case.name]]
        injectors = frozenset(of_treatment.injector for of_treatment in writes if of_treatment)
        used |= injectors
        nodes = request.nodes_from_partition(case)
        if reason := lack(case.check, case.nodes, nodes, injectors):
            absent.append(Omitted(case.name, reason))
    rows = of_machine(site, settings.partitions, settings.environment, host.detect())
    why = [f"{row.what}: {row.detail}" for row in rows if row.needed and row.state == "missing"]
    if not why and len(absent) == len(request.campaign.cases):
        why = [f"no case can run: {absent[0].case}: {absent[0].reason}"]
    apart = site.origins.policy != "same_host"
    doubts = [INJECTORS[name].doubt() for name in sorted(used)] if apart else []
    return Possible(request.matrix(), absent, "; ".join(why), [*filter(None, doubts)])
