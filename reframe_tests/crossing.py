"""Treatments from arms and factors: all combinations of levels, named, with baselines. Pure.

Each level of a factor of the application (ranks, cores, a wrapping tool) has its own baseline.
Levels of a factor of the writes (rate, message, direction) share one, since it writes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from nimc.base.errors import InputError
from nimc.records.arms import ARMS, BASELINE, LEVELS, Role, arm_of
from nimc.records.sample import Level
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
    them. A baseline stays if any treatment is paired with it. Raises InputError if nothing is left,
    or for duplicate names.
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
        if len(group) > 1 or len(arms) == 1:
            found += group
    asked = any(ARMS[arm].role == "effect" for arm in arms)
    if asked and not any(each.role == "effect" for each in found):
        raise InputError("exclude, only: no treatment that writes is left; allowed: at least one")
    names = [each.name for each in found]
    if twice := {name for name in names if names.count(name) > 1}:
        name = sorted(twice)[0]
        raise InputError(f"factors: duplicate treatment {name}; allowed: each level once")
    return found


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
        writes: dict[str, Level] = {RATE: 0} if row.role != "control" and RATE in of_writes else {}
        yield Crossed(
            name, arm, row.role, None if arm == BASELINE else baseline, application, writes
        )
        return
    for cell in _cells(of_writes):
        if RATE not in cell or not is_nothing(cell[RATE]):
            name = _name(arm, application | cell, {**of_application, **of_writes})
            yield Crossed(name, arm, row.role, baseline, application, cell)


def is_nothing(rate: Level) -> bool:
    """Whether a level of `rate` means that nothing is written."""
    return re.fullmatch(r"0+(\.0+)?[A-Za-z/%]*", str(rate)) is not None


def _name(arm: str, levels: Mapping[str, Level], factors: Factors) -> str:
    shown = [
        f"{name}={str(level).replace('/', '_')}"
        for name, level in levels.items()
        if level != (FULL if name == RATE else factors[name][0])
    ]
    return arm + (LEVELS + ",".join(shown) if shown else "")


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
        else missing and name != ARM
        for name, level in cell.items()
    )


def read_factors(text: str) -> dict[str, list[Level]]:
    """`rate=0,25%,full;reserved_cores=0,1` as a table. Raises InputError."""
    found: dict[str, list[Level]] = {}
    for name, levels in _parts(text):
        if name in found:
            raise InputError(f"factors: {name}: duplicate factor; allowed: each factor once")
        found[name] = [read_level(level) for level in levels.split(",")]
    return found


def read_cells(text: str, field_: str) -> list[dict[str, Level]]:
    """`buffer=other,load=idle;arm=aa` as a list of cells. Raises InputError."""
    cells = []
    for part in filter(None, text.split(";")):
        pairs = [pair.partition("=") for pair in part.split(",")]
        if any(not name or not equals or not level for name, equals, level in pairs):
            raise InputError(f"{field_}: {part!r} found; allowed: such as buffer=other,load=idle")
        cells.append({name: read_level(level) for name, _, level in pairs})
    return cells


def _parts(text: str) -> Iterator[tuple[str, str]]:
    for part in filter(None, text.split(";")):
        name, equals, levels = part.partition("=")
        if not name or not equals or not all(levels.split(",")):
            raise InputError(f"factors: {part!r} found; allowed: such as rate=0,25%,full")
        yield name, levels


def read_level(text: str) -> Level:
    """A level from its text: a whole number, a number, true or false, else the word itself."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def as_text(factors: Factors) -> str:
    """Inverse of `read_factors`."""
    return ";".join(f"{name}={','.join(map(level_text, each))}" for name, each in factors.items())


def cells_as_text(cells: Iterable[Cell]) -> str:
    """Inverse of `read_cells`."""
    return ";".join(
        ",".join(f"{name}={level_text(level)}" for name, level in cell.items()) for cell in cells
    )


def level_text(level: Level) -> str:
    """A level as written in campaigns."""
    return str(level).lower() if isinstance(level, bool) else str(level)
