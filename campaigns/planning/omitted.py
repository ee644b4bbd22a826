"""Cases that a machine cannot have: left out before anything runs, and told with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.errors import InputError
from analysis.numbers import count
from campaigns.request.schema import Campaign
from injection.machine.machine import Machine


@dataclass(frozen=True)
class Omitted:
    """A case that is not measured on this machine."""

    case: str
    #: One line for people.
    reason: str


def leave_out(campaign: Campaign, machine: Machine) -> tuple[Campaign, list[Omitted]]:
    """The campaign without the cases that need more NUMA nodes than the machine has, and those.

    Raises InputError where none is left.
    """
    nodes = machine.node_facts().numa_nodes
    absent = [
        Omitted(
            case.name,
            f"needs {count(entry.needs_numa_nodes, 'NUMA node')}, {machine.name} has {nodes}",
        )
        for entry in campaign.workloads
        if entry.needs_numa_nodes > nodes
        for case in entry.cases
    ]
    left = [entry for entry in campaign.workloads if entry.needs_numa_nodes <= nodes]
    if not left:
        raise InputError(f"{campaign.name}: no case is left: {absent[0].case} {absent[0].reason}")
    return campaign.model_copy(update={"workloads": left}), absent


def told(absent: Sequence[Omitted]) -> list[str]:
    """A line for each reason, with the cases that it is given for."""
    reasons = dict.fromkeys(each.reason for each in absent)
    return [
        f"left out ({reason}): {', '.join(each.case for each in absent if each.reason == reason)}"
        for reason in reasons
    ]
