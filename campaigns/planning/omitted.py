"""Cases and levels that a machine cannot run: left out before anything runs, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.errors import InputError
from analysis.sample import Level
from campaigns.request import cases
from campaigns.request.nodes import nodes_taken
from campaigns.request.schema import Campaign, Entry
from injection.machine.machine import Machine
from reframe_tests.crossing import level_text
from reframe_tests.factors import lacking


@dataclass(frozen=True)
class Omitted:
    """A case that is not measured on this machine, or a level of one."""

    case: str
    #: One line.
    reason: str
    #: The level that the machine lacks; None where it lacks the whole case.
    factor: str | None = None
    level: Level | None = None

    @property
    def what(self) -> str:
        """The case, with the level if only that is left out."""
        if self.factor is None or self.level is None:
            return self.case
        return f"{self.case} {self.factor}={level_text(self.level)}"


def leave_out(campaign: Campaign, machine: Machine) -> tuple[Campaign, list[Omitted]]:
    """The campaign without cases and levels that the machine cannot run, and a list of those.

    Raises InputError if no case is left.
    """
    left: list[Entry] = []
    absent: list[Omitted] = []
    for case in campaign.cases:
        kept, reasons = _keep(campaign, case, machine)
        left += [kept] if kept else []
        absent += reasons
    if not left:
        first = absent[0]
        raise InputError(f"{campaign.name}: no case is left: {first.case}: {first.reason}")
    return campaign.model_copy(update={"workloads": left}) if absent else campaign, absent


def _keep(campaign: Campaign, case: Entry, machine: Machine) -> tuple[Entry | None, list[Omitted]]:
    """A case with the levels that the machine has; None if none is left."""
    if too_large := _too_large(campaign, case, machine):
        return None, [Omitted(case.name, too_large)]
    for name, level in case.between.items():
        if reason := lacking(machine, name, level):
            return None, [Omitted(case.name, reason)]
    absent = _lacking_levels(case, machine)
    if not absent:
        return case, []
    factors = {
        name: [level for level in levels if (name, level) not in _cells(absent)]
        for name, levels in case.factors.items()
    }
    kept = case.but({"factors": factors})
    if all(factors.values()) and _has_treatments(campaign.arms, kept):
        return kept, absent
    return None, [Omitted(case.name, absent[0].reason)]


def _too_large(campaign: Campaign, case: Entry, machine: Machine) -> str:
    """Why the machine has too few nodes for a case; empty if it has enough, or if it is unknown."""
    if machine.nodes is None or nodes_taken(campaign, case, machine) <= machine.nodes:
        return ""
    return f"more nodes with its origins than the {machine.nodes} of site/{machine.name}.yaml"


def _lacking_levels(case: Entry, machine: Machine) -> list[Omitted]:
    found = (
        (name, level, lacking(machine, name, level))
        for name, levels in case.factors.items()
        for level in levels
    )
    return [Omitted(case.name, reason, name, level) for name, level, reason in found if reason]


def _cells(absent: Sequence[Omitted]) -> list[tuple[str | None, Level | None]]:
    return [(each.factor, each.level) for each in absent]


def _has_treatments(arms: Sequence[str], case: Entry) -> bool:
    try:
        return bool(cases.treatments(arms, case))
    except InputError:  # `exclude` and `only` remove the rest
        return False


def omission_lines(absent: Sequence[Omitted]) -> list[str]:
    """A line for each reason, with the cases and levels it applies to."""
    reasons = dict.fromkeys(each.reason for each in absent)
    return [
        f"left out ({reason}): {', '.join(each.what for each in absent if each.reason == reason)}"
        for reason in reasons
    ]
