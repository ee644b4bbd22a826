"""Errors: cases that need more nodes than a machine has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis.errors import InputError
from campaigns.request import cases
from campaigns.request.checks import CheckVariables
from campaigns.request.faults import Fault, dotted
from campaigns.request.nodes import nodes_taken
from campaigns.request.schema import Campaign
from injection.machine.machine import Machine
from injection.machine.marked_yaml import Marked, Place


def node_faults(
    marked: Marked, campaign: Campaign, checks: Mapping[str, CheckVariables], machine: Machine
) -> Iterator[Fault]:
    """The smallest case of each entry that has none that fits, in a campaign valid otherwise.

    Of an entry with some that fit, `campaigns.planning.omitted` leaves out the others.
    """
    for index, entry in enumerate(campaign.workloads):
        place: Place = ("workloads", index)
        where: Place = (*place, "set", "nodes") if "nodes" in entry.set else place
        if "nodes" in campaign.factors:
            where = ("factors", "nodes")
        if "nodes" in entry.factors:
            where = (*place, "factors", "nodes")
        found = cases.cases_of(campaign, entry, checks[entry.check])
        try:
            taken = {case.nodes: nodes_taken(campaign, case, machine) for case in found}
        except InputError as error:
            yield marked.line((*place, "set")), f"{dotted((*place, 'set'))}: {error}"
            continue
        most = machine.nodes
        first = min(taken, default=0)
        if most and taken and all(each > most for each in taken.values()):
            text = f"{dotted(where)}: {first} found, {taken[first]} nodes with its origins"
            yield marked.line(where), f"{text}; allowed: {most} (nodes of site/{machine.name}.yaml)"
