"""Treatments from arms and factors: all combinations of levels, named, with baselines. Pure.

Each level of a factor of the application (ranks, cores, a wrapping tool) has its own baseline.
Levels of a factor of the writes (rate, message, direction) share one, since it writes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from records import marked_yaml
from records.arms import ARMS, BASELINE, Role, arm_of, name_of, named_level
from records.campaign import CELLS_RULE, FACTORS_RULE, check_cells, check_factors
from records.errors import InputError
from records.sample import Level
from reframe_tests.factors import FACTORS

#: Factor -> levels in order; names leave out the first level.
Factors = Mapping[str, Sequence[Level]]
#: Factor (or `arm`) -> level: the treatments that an entry of `exclude` or `only` selects.
Cell = Mapping[str, Level]

#: The factor whose level 0 is the baseline, and its level that names leave out.
RATE, FULL = "rate", "full"
#: Key of a cell for the arm.
ARM = "arm"


@dataclass(frozen=True)
class Crossed:
    """A named treatment before the application is laid out."""

    name: str
    arm: str
    role: Role
    baseline: str | None
    #: Levels of the application's factors, and of the factors of the writes.
    application: dict[str, Level] = field(default_factory=dict)
    writes: dict[str, Level] = field(default_factory=dict)

    @property
    def factors(self) -> dict[str, Level]:
        """All its levels."""
        return self.application | self.writes


def cross(
    arms: Sequence[str], factors: Factors, exclude: Iterable[Cell] = (), only: Iterable[Cell] = ()
) -> list[Crossed]:
    """All treatments of a pair; at each combination of application levels the baseline comes first.

    A cell of `exclude` removes the treatments that have all of its levels, a cell of `only` keeps
    them. A baseline stays if any treatment is paired with it, or if a cell of `only` keeps it.
    Raises InputError if nothing is left, or for duplicate names.
    """
    excluded, kept = list(exclude), list(only)
    of_application = {name: each for name, each in factors.items() if _part(name) == "application"}
    of_writes = {name: each for name, each in factors.items() if _part(name) == "writes"}
    found: list[Crossed] = []
    for application in _cells(of_application):
        group = [
            each
            for arm in arms
            for each in _of_arm(arm, application, of_application, of_writes)
            if each.role == "baseline" or _wanted(each, excluded, kept)
        ]
        alone = bool(kept) and _wanted(group[0], excluded, kept)
        if len(group) > 1 or len(arms) == 1 or alone:
            found += group
    requested = any(ARMS[arm].role == "effect" for arm in arms)
    if requested and not any(each.role == "effect" for each in found):
        raise InputError("exclude, only: no treatment that writes is left; allowed: at least one")
    names = [each.name for each in found]
    if twice := sorted(name for name in names if names.count(name) > 1):
        raise InputError(f"factors: duplicate treatment {twice[0]}; allowed: each level once")
    return found


def of_application(factors: Mapping[str, Level]) -> dict[str, Level]:
    """The levels that change how the application is started."""
    return {name: level for name, level in factors.items() if _part(name) == "application"}


def _part(name: str) -> str:
    """Part of a factor; a check's variable that is not in the table belongs to the application."""
    return FACTORS[name].part if name in FACTORS else "application"


def _cells(factors: Factors) -> Iterator[dict[str, Level]]:
    for levels in product(*factors.values()):
        yield dict(zip(factors, levels, strict=True))


def _of_arm(
    arm: str, application: dict[str, Level], of_application: Factors, of_writes: Factors
) -> Iterator[Crossed]:
    row = ARMS[arm]
    baseline = _name(BASELINE, application, of_application)
    if row.silent:
        name = _name(arm, application, of_application)
        paired = None if arm == BASELINE else baseline
        writes: dict[str, Level] = {RATE: 0} if row.role != "control" and RATE in of_writes else {}
        yield Crossed(name, arm, row.role, paired, application, writes)
        return
    for cell in _cells(of_writes):
        if RATE not in cell or not is_nothing(cell[RATE]):
            name = _name(arm, application | cell, {**of_application, **of_writes})
            yield Crossed(name, arm, row.role, baseline, application, cell)


def is_nothing(rate: Level) -> bool:
    """Whether a level of `rate` means that nothing is written."""
    return re.fullmatch(r"0+(\.0+)?[A-Za-z/%]*", str(rate)) is not None


def _name(arm: str, levels: Mapping[str, Level], factors: Factors) -> str:
    shown = {
        name: named_level(level)
        for name, level in levels.items()
        if level != (FULL if name == RATE else factors[name][0])
    }
    return name_of(arm, shown)


def _wanted(each: Crossed, exclude: Sequence[Cell], only: Sequence[Cell]) -> bool:
    """Whether to keep a treatment. Silent ones have no levels of the writes, so no cell of those
    matches them.
    """
    if any(_matches(each, cell) for cell in exclude):
        return False
    return not only or any(_matches(each, cell, missing=True) for cell in only)


def _matches(each: Crossed, cell: Cell, *, missing: bool = False) -> bool:
    """Whether a treatment has all levels of a cell; `missing` ignores factors that it lacks."""
    levels = {ARM: each.arm, **each.factors}
    silent = arm_of(each.arm).silent
    return all(
        levels[name] == level
        if name in levels and not (silent and _part(name) == "writes")
        else missing
        for name, level in cell.items()
    )


# Factors and cells as a campaign file and a check's variables give them.


def read_factors(text: str) -> dict[str, list[Level]]:
    """`{rate: [0, 25%, full]}`, as in a campaign's file. Raises InputError."""
    found: dict[str, list[Level]] = _read(text, "factors", dict, check_factors, FACTORS_RULE)
    return found


def read_cells(text: str, variable: str) -> list[dict[str, Level]]:
    """`[{buffer: other, load: idle}, {arm: aa}]`, as in a campaign's file. Raises InputError."""
    found: list[dict[str, Level]] = _read(text, variable, list, check_cells, CELLS_RULE)
    return found


def _read(text: str, variable: str, kind: type, check: Callable[[Any], Any], rule: str) -> Any:
    found = marked_yaml.parse(text, Path(variable)).data
    if not isinstance(found, kind):
        raise InputError(f"{variable}: {text!r:.60} found; allowed: {rule}")
    try:
        return check(found)
    except ValueError as error:
        raise InputError(f"{variable}: {error}; allowed: {rule}") from None
