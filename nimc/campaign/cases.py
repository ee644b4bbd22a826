"""From entries and factors to cases: a case for each level that cannot change within a block."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product

from nimc.base.errors import InputError
from nimc.campaign.checks import CheckVariables
from nimc.campaign.schema import Campaign, Entry
from nimc.records.arms import ARMS, standard_arms
from nimc.records.sample import Level
from reframe_tests.crossing import Cell, Crossed, cross, level_text

#: The factor whose levels appear without its name in names of cases: `lammps@4`.
_NODES = "nodes"
#: Characters that are not allowed in the name of a case, which names files.
_UNSAFE = re.compile(r"[^A-Za-z0-9._@+%=,-]")


def scheduled(arms: Sequence[str]) -> list[str]:
    """The arms whose writers follow a timetable."""
    return [arm for arm in arms if ARMS[arm].writing == "scheduled"]


def expand(
    campaign: Campaign, checks: Mapping[str, CheckVariables], *, same_host: bool
) -> Campaign:
    """The campaign with its entries replaced by cases; each has all factors it is crossed with.

    A campaign without factors is returned unchanged.
    """
    requested: list[Campaign | Entry] = [campaign, *campaign.workloads]
    if not any(each.factors or each.exclude or each.only for each in requested):
        return campaign
    return campaign.model_copy(
        update={
            "workloads": [
                case
                for entry in campaign.workloads
                for case in cases_of(campaign, entry, checks[entry.check])
            ],
            "arms": campaign.arms or standard_arms(same_host=same_host),
            "factors": {},
            "exclude": [],
            "only": [],
        }
    )


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
