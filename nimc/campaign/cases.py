"""From entries to the cases of a machine: a case for each level that cannot change within a block.

Also the nodes that a case needs, and what the machine cannot run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from nimc.base.errors import InputError
from nimc.campaign import sweep
from nimc.campaign.checks import CheckVariables
from nimc.campaign.schema import Campaign, Entry
from nimc.machine.site import Machine
from nimc.records.arms import ARMS, standard_arms
from nimc.records.sample import Level
from reframe_tests import scaling
from reframe_tests.crossing import Cell, Crossed, cross, level_text
from reframe_tests.factors import lacking

#: The factor whose levels appear without its name in names of cases: `lammps@4`.
_NODES = "nodes"
#: Characters that are not allowed in the name of a case, which names files.
_UNSAFE = re.compile(r"[^A-Za-z0-9._@+%=,-]")


def scheduled(arms: Sequence[str]) -> list[str]:
    """The arms whose writers follow a timetable."""
    return [arm for arm in arms if ARMS[arm].writing == "scheduled"]


def expand(campaign: Campaign, checks: Mapping[str, CheckVariables], machine: Machine) -> Campaign:
    """The campaign with its entries replaced by cases; each has all factors it is crossed with.

    Raises InputError for a sweep if the machine has no cores for the application.
    """
    requested: list[Campaign | Entry] = [campaign, *campaign.workloads]
    cases = [
        case
        for entry in campaign.workloads
        for levels in cases_of(campaign, entry, checks[entry.check])
        for case in sweep.cases_of(levels, machine)
    ]
    changes: dict[str, Any] = {"workloads": cases}
    if any(each.factors or each.exclude or each.only for each in requested):
        same_host = machine.origins.policy == "same_host"
        arms = campaign.arms or standard_arms(same_host=same_host)
        changes |= {"arms": arms, "factors": {}, "exclude": [], "only": []}
    return campaign.model_copy(update=changes)


def factors_of(campaign: Campaign, entry: Entry) -> dict[str, list[Level]]:
    """All factors of an entry; its own levels override the campaign's."""
    return {**campaign.factors, **entry.factors}


def cases_of(campaign: Campaign, entry: Entry, check: CheckVariables) -> list[Entry]:
    """The entry once for each combination of levels that cannot change within a block."""
    factors = factors_of(campaign, entry)
    exclude, only = [*campaign.exclude, *entry.exclude], [*campaign.only, *entry.only]
    if not (factors or exclude or only):
        return [entry]
    within = {name: each for name, each in factors.items() if check.changes_within(name)}
    between = {name: each for name, each in factors.items() if name not in within}
    found = []
    for combination in product(*between.values()):
        levels = dict(zip(between, combination, strict=True))
        without, kept = _remaining(exclude, levels), _remaining(only, levels)
        if {} in without or (only and not kept):
            continue
        case = entry.at(_suffix(levels), levels) if levels else entry
        cells = {"exclude": without, "only": [] if {} in kept else kept}
        found.append(case.but({"factors": within, **cells}))
    return found


def _suffix(levels: Mapping[str, Level]) -> str:
    parts = (
        level_text(level) if name == _NODES else f"{name}={level_text(level)}"
        for name, level in levels.items()
    )
    return _UNSAFE.sub("_", ",".join(parts))


def _remaining(cells: Sequence[Cell], levels: Mapping[str, Level]) -> list[dict[str, Level]]:
    """The rest of each cell that matches these levels of a case; other cells are dropped."""
    return [
        {name: level for name, level in cell.items() if name not in levels}
        for cell in cells
        if all(cell.get(name, level) == level for name, level in levels.items())
    ]


def treatments(arms: Sequence[str], case: Entry) -> list[Crossed]:
    """The treatments of a pair. Raises InputError if nothing is left to compare."""
    found = cross(arms, case.factors, case.exclude, case.only)
    if all(each.baseline is None for each in found):
        raise InputError("exclude, only: no treatment is left; allowed: some of them")
    return found


# How many nodes a case needs on a machine.


def short_writes(campaign: Campaign, entry: Entry) -> scaling.ScaleRequest:
    """A case's request for short writes: its settings, and the campaign's rate and message."""
    fields = scaling.ScaleRequest.__dataclass_fields__
    given = {
        name: _taken(name, value, fields[name].default)
        for name, value in entry.set.items()
        if name in fields
    }
    injector = campaign.injector
    return scaling.ScaleRequest(
        **{"nodes": 1, **given, "rate": injector.rate, "message": injector.message}
    )


def _taken(name: str, value: Any, default: object) -> Any:
    """A variable's value as the check expects it: a number, or text. Raises InputError."""
    if isinstance(default, str):
        return str(value)  # a quantity without its unit is a number here
    if type(value) is int or (type(value) is float and isinstance(default, float)):
        return value
    kind = "a number" if isinstance(default, float) else "a whole number"
    raise InputError(f"{name}: {value!r} found; allowed: {kind}")


def origins_taken(campaign: Campaign, entry: Entry, machine: Machine) -> int:
    """Origin nodes of an allocation; 0 on a shared host. Raises InputError as `nodes_taken`."""
    if scheduled(campaign.arms):
        return scaling.load(short_writes(campaign, entry), machine).origins
    return 0 if machine.origins.policy == "same_host" else machine.origins.nodes


def nodes_taken(campaign: Campaign, entry: Entry, machine: Machine) -> int:
    """Target and origin nodes of an allocation. Raises InputError for impossible writes."""
    return entry.nodes + origins_taken(campaign, entry, machine)


# Cases and levels that a machine cannot run: left out before anything runs, with the reason.


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
    left_out = [(each.factor, each.level) for each in absent]
    factors = {
        name: [level for level in levels if (name, level) not in left_out]
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


def _has_treatments(arms: Sequence[str], case: Entry) -> bool:
    try:
        return bool(treatments(arms, case))
    except InputError:  # `exclude` and `only` remove the rest
        return False


def omission_lines(absent: Sequence[Omitted]) -> list[str]:
    """A line for each reason, with the cases and levels it applies to."""
    reasons = dict.fromkeys(each.reason for each in absent)
    return [
        f"left out ({reason}): {', '.join(each.what for each in absent if each.reason == reason)}"
        for reason in reasons
    ]
