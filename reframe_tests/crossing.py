"""Treatments from arms and factors: all combinations of levels, named, with baselines. Pure.

Each level of a factor of the application (ranks, cores, a wrapping tool) has its own baseline.
Levels of a factor of the writes (rate, message, direction) share one, since it writes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from records import marked_yaml
from records.arms import ARMS, BASELINE, arm_of, level_in_name, treatment_name
from records.campaign import CELLS_RULE, FACTORS_RULE, check_cells, check_factors
from records.errors import InputError
from records.sample import Level
from records.treatment import Treatment
from reframe_tests.factors import FACTORS

#: Factor -> levels in order; names leave out the first level.
Factors = Mapping[str, Sequence[Level]]
#: Factor (or `arm`) -> level: the treatments that an entry of `exclude` or `only` selects.
Cell = Mapping[str, Level]

#: The factor whose level 0 is the baseline, and its level that names leave out.
RATE, FULL = "rate", "full"
#: Key of a cell for the arm.
ARM = "arm"


def cross(
    arms: Sequence[str], factors: Factors, exclude: Sequence[Cell] = (), only: Sequence[Cell] = ()
) -> list[Treatment]:
    """All treatments of a pair; at each combination of application levels the baseline comes first.

    What their writers do is not resolved. A cell of `exclude` removes the treatments that have all
    of its levels, of which a cell of `only` leaves no others. A baseline stays if any treatment is
    paired with it, or if a cell of `only` names it. Raises InputError if nothing is left, or for
    duplicate names.
    """
    application = {name: levels for name, levels in factors.items() if not _changes_writes(name)}
    treatments: list[Treatment] = []
    for cell in _cells(application):
        group = [
            treatment
            for arm in arms
            for treatment in _arm_treatments(arm, cell, factors)
            if treatment.role == "baseline" or _wanted(treatment, exclude, only)
        ]
        alone = bool(only) and _wanted(group[0], exclude, only)
        if len(group) > 1 or len(arms) == 1 or alone:
            treatments += group
    writes = any(ARMS[arm].role == "effect" for arm in arms)
    if writes and not any(treatment.role == "effect" for treatment in treatments):
        raise InputError("exclude, only: no treatment that writes is left; allowed: at least one")
    names = [treatment.name for treatment in treatments]
    if twice := sorted(name for name in names if names.count(name) > 1):
        raise InputError(f"factors: duplicate treatment {twice[0]}; allowed: each level once")
    return treatments


def application_levels(factors: Mapping[str, Level]) -> dict[str, Level]:
    """The levels that change how the application is started."""
    return {name: level for name, level in factors.items() if not _changes_writes(name)}


def _changes_writes(name: str) -> bool:
    """Return whether a factor is one of the writes; a check's own variable is the application's."""
    return name in FACTORS and FACTORS[name].part == "writes"


def _cells(factors: Factors) -> Iterator[dict[str, Level]]:
    for levels in product(*factors.values()):
        yield dict(zip(factors, levels, strict=True))


def _arm_treatments(
    arm: str, application: dict[str, Level], factors: Factors
) -> Iterator[Treatment]:
    """The treatments of an arm at a combination of the application's levels."""
    row = ARMS[arm]
    baseline = None if arm == BASELINE else _name(BASELINE, application, factors)
    write_factors = {name: levels for name, levels in factors.items() if _changes_writes(name)}
    cells: Iterable[dict[str, Level]] = _cells(write_factors)
    if row.silent:
        cells = [{RATE: 0} if row.role != "control" and RATE in write_factors else {}]
    for cell in cells:
        if row.silent or not is_nothing(cell.get(RATE, FULL)):
            levels = application | cell
            name = _name(arm, application if row.silent else levels, factors)
            yield Treatment(name=name, role=row.role, baseline=baseline, factors=levels)


def is_nothing(rate: Level) -> bool:
    """Return whether a level of `rate` means that nothing is written."""
    return re.fullmatch(r"0+(\.0+)?[A-Za-z/%]*", str(rate)) is not None


def _name(arm: str, levels: Mapping[str, Level], factors: Factors) -> str:
    shown = {
        name: level_in_name(level)
        for name, level in levels.items()
        if level != (FULL if name == RATE else factors[name][0])
    }
    return treatment_name(arm, shown)


def _wanted(treatment: Treatment, exclude: Sequence[Cell], only: Sequence[Cell]) -> bool:
    """Return whether no cell excludes a treatment, and one of `only` selects it, if there are any.

    Silent ones have no levels of the writes: none is excluded by one, and any is selected.
    """
    levels: dict[str, Level] = {ARM: treatment.arm, **treatment.factors}
    if arm_of(treatment.name).silent:
        levels = {name: level for name, level in levels.items() if not _changes_writes(name)}

    def is_elsewhere(cell: Cell) -> bool:
        return any(levels.get(name, level) != level for name, level in cell.items())

    if any(cell.keys() <= levels.keys() and not is_elsewhere(cell) for cell in exclude):
        return False
    return not only or not all(map(is_elsewhere, only))


# Factors and cells as a campaign file and a check's variables give them.


def read_factors(text: str) -> dict[str, list[Level]]:
    """`{rate: [0, 25%, full]}`, as in a campaign's file. Raises InputError."""
    factors: dict[str, list[Level]] = _read(text, "factors", dict, check_factors, FACTORS_RULE)
    return factors


def read_cells(text: str, variable: str) -> list[dict[str, Level]]:
    """`[{buffer: other, load: idle}, {arm: aa}]`, as in a campaign's file. Raises InputError."""
    cells: list[dict[str, Level]] = _read(text, variable, list, check_cells, CELLS_RULE)
    return cells


def _read(text: str, variable: str, kind: type, check: Callable[[Any], Any], rule: str) -> Any:
    value = marked_yaml.parse(text, Path(variable)).data
    if not isinstance(value, kind):
        raise InputError(f"{variable}: {text!r:.60} found; allowed: {rule}")
    try:
        return check(value)
    except ValueError as error:
        raise InputError(f"{variable}: {error}; allowed: {rule}") from None
