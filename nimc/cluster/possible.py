"""What of a campaign can run on its machine now, and why not the rest.

`nimc plan`, `nimc run` and nights ask this; `nimc doctor` has the same answers for all workloads.
"""

from __future__ import annotations

from dataclasses import dataclass

from nimc.campaign.cases import Omitted
from nimc.campaign.matrix import Matrix, matrix
from nimc.campaign.plan import Request
from nimc.cluster.doctor import of_machine
from records.campaign import Entry
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

    @property
    def cannot(self) -> dict[str, str]:
        """Case -> why it cannot run."""
        return {omitted.case: omitted.reason for omitted in self.absent}


def possible(request: Request) -> Possible:
    """Ask this host, and Slurm. Raises InputError for writes that cannot be made."""
    site, settings = request.machine, request.settings
    asks = {case.name: _Needs.of(request, case) for case in request.campaign.cases}
    reasons = {needs: _lack(request, needs) for needs in set(asks.values())}  # cases are many
    absent = [Omitted(name, reason) for name, needs in asks.items() if (reason := reasons[needs])]
    rows = of_machine(site, settings.partitions, settings.environment, host.detect())
    why = [f"{row.what}: {row.detail}" for row in rows if row.needed and row.state == "missing"]
    if not why and len(absent) == len(asks):
        why = [f"no case can run: {absent[0].case}: {absent[0].reason}"]
    return Possible(request.matrix(), absent, "; ".join(why))


@dataclass(frozen=True)
class _Needs:
    """What decides whether a case can run."""

    check: str
    #: Target nodes, and all that it takes from their partition.
    targets: int
    nodes: int
    injectors: frozenset[str]

    @classmethod
    def of(cls, request: Request, case: Entry) -> _Needs:
        writes = (treatment.writes for treatment in request.treatments[case.name])
        injectors = frozenset(of_treatment.injector for of_treatment in writes if of_treatment)
        return cls(case.check, case.nodes, request.nodes_from_partition(case), injectors)


def _lack(request: Request, needs: _Needs) -> str | None:
    """Why it cannot run: its nodes, the programs of its writers, or what its workload requires."""
    if lack := lacking_nodes(request.machine, needs.targets):
        return lack
    for injector in () if request.slurm else sorted(needs.injectors):  # else only a job will tell
        if lack := lacking(request.machine, "injector", injector):
            return f"injector {injector}: {lack}"
    check = {needs.check: request.checks[needs.check]}
    return matrix(check, request.offers, {needs.check: needs.nodes}).nowhere.get(needs.check)
