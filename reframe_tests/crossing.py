"""Crosses arms and factors: makes a treatment of each combination of levels. Pure functions.

A treatment is the conditions of a run. An arm says what the writers do in it, for example `off` or
`on`. A factor is an axis of conditions, and its levels are the values.

Each level of a factor of the application (ranks, cores, a tool) has its own baseline. Levels of a
factor of the writes (rate, message, direction) share a baseline, since nothing writes in a
baseline.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from records import yaml_file
from records.arms import ARMS, BASELINE, arm_of, level_in_name, treatment_name
from records.campaign import CELLS_RULE, FACTORS_RULE, check_cells, check_factors
from records.errors import InputError
from records.sample import Level
from records.treatment import Treatment
from reframe_tests.factors import FACTORS

#: Factor -> levels in order; names of treatments omit the first level.
Factors = Mapping[str, Sequence[Level]]
#: Factor (or `arm`) -> level. A cell is an entry of `exclude` or `only`, and selects treatments.
Cell = Mapping[str, Level]

#: The factor whose level 0 is the baseline, and its level that is omitted in names of treatments.
RATE, FULL = "rate", "full"
#: Key of the arm in a cell.
ARM = "arm"


def cross(
    arms: Sequence[str], factors: Factors, exclude: Sequence[Cell] = (), only: Sequence[Cell] = ()
) -> list[Treatment]:
    """Return the treatments of a pair. Their field `writes` is not set yet.

    They are in order of the application's levels, then of `arms`. A cell of `exclude` removes the
    treatments that have all of its levels. With `only`, just the treatments that a cell selects are
    kept. A baseline is kept if a treatment is paired with it, or if a cell of `only`
    selects it. Raises InputError for duplicate names, or if no treatment that writes is left.
    """
    application_factors = {
        name: levels for name, levels in factors.items() if not _changes_writes(name)
    }
    treatments: list[Treatment] = []
    for app_levels in _combinations(application_factors):
        group = [
            treatment
            for arm in arms
            for treatment in _arm_treatments(arm, app_levels, factors)
            if treatment.role == "baseline" or _is_selected(treatment, exclude, only)
        ]
        is_selected = bool(only) and any(_is_selected(row, exclude, only) for row in group)
        if len(group) > 1 or len(arms) == 1 or is_selected:
            treatments += group
    has_writers = any(ARMS[arm].role == "effect" for arm in arms)
    if has_writers and not any(treatment.role == "effect" for treatment in treatments):
        raise InputError("exclude, only: no treatment that writes is left; allowed: at least one")
    names = [treatment.name for treatment in treatments]
    if duplicates := sorted(name for name in names if names.count(name) > 1):
        raise InputError(f"factors: duplicate treatment {duplicates[0]}; allowed: each level once")
    return treatments


def application_levels(factors: Mapping[str, Level]) -> dict[str, Level]:
    """Return the levels that change how the application is started."""
    return {name: level for name, level in factors.items() if not _changes_writes(name)}


def _changes_writes(name: str) -> bool:
    """Return whether a factor changes the writes; a check's own variables never do."""
    return name in FACTORS and FACTORS[name].changes == "writes"


def _combinations(factors: Factors) -> Iterator[dict[str, Level]]:
    """Yield all combinations of the factors' levels."""
    for levels in product(*factors.values()):
        yield dict(zip(factors, levels, strict=True))


def _arm_treatments(
    arm: str, app_levels: dict[str, Level], factors: Factors
) -> Iterator[Treatment]:
    """Yield the treatments of an arm at a combination of the application's levels."""
    row = ARMS[arm]
    baseline = None if arm == BASELINE else _name(BASELINE, app_levels, factors)
    write_factors = {name: levels for name, levels in factors.items() if _changes_writes(name)}
    if row.silent:
        name = _name(arm, app_levels, factors)
        zero_rate = {RATE: 0} if row.role != "control" and RATE in write_factors else {}
        yield Treatment(name=name, role=row.role, baseline=baseline, factors=app_levels | zero_rate)
        return
    for write_levels in _combinations(write_factors):
        if not is_zero_rate(write_levels.get(RATE, FULL)):
            levels = app_levels | write_levels
            name = _name(arm, levels, factors)
            yield Treatment(name=name, role=row.role, baseline=baseline, factors=levels)


def is_zero_rate(rate: Level) -> bool:
    """Return whether a level of `rate` means that nothing is written."""
    return re.fullmatch(r"0+(\.0+)?[A-Za-z/%]*", str(rate)) is not None


def _name(arm: str, levels: Mapping[str, Level], factors: Factors) -> str:
    """Return the name of a treatment, without the levels that names omit."""
    named_levels = {}
    for name, level in levels.items():
        omitted = FULL if name == RATE else factors[name][0]
        if level != omitted:
            named_levels[name] = level_in_name(level)
    return treatment_name(arm, named_levels)


def _is_selected(treatment: Treatment, exclude: Sequence[Cell], only: Sequence[Cell]) -> bool:
    """Return whether `exclude` and `only` keep a treatment.

    No cell of `exclude` may fit the treatment. If `only` has cells, one of them must fit it. In a
    silent treatment nothing writes, so it has no levels of the writes' factors. A cell of `exclude`
    with such a level never fits a silent treatment. In a cell of `only`, such levels are ignored.
    """
    levels: dict[str, Level] = {ARM: treatment.arm, **treatment.factors}
    if arm_of(treatment.name).silent:
        levels = {name: level for name, level in levels.items() if not _changes_writes(name)}

    def agrees(cell: Cell) -> bool:
        """Return whether no level of a cell differs from the treatment's."""
        return all(levels.get(name, level) == level for name, level in cell.items())

    if any(cell.keys() <= levels.keys() and agrees(cell) for cell in exclude):
        return False
    return not only or any(map(agrees, only))


# Reading factors and cells from a check's variables, whose text is written as in a campaign file.


def read_factors(text: str) -> dict[str, list[Level]]:
    """Return the factors of a text such as `{rate: [0, 25%, full]}`. Raises InputError."""
    factors: dict[str, list[Level]] = _read(text, "factors", dict, check_factors, FACTORS_RULE)
    return factors


def read_cells(text: str, variable: str) -> list[dict[str, Level]]:
    """Return the cells of a text such as `[{load: idle}, {arm: aa}]`. Raises InputError."""
    cells: list[dict[str, Level]] = _read(text, variable, list, check_cells, CELLS_RULE)
    return cells


def _read(
    text: str, variable: str, container: type, check: Callable[[Any], Any], allowed: str
) -> Any:
    """Return the checked YAML of a variable, which must be a `container` (dict or list).

    `allowed` says in words what the variable may be. Raises InputError.
    """
    data = yaml_file.parse(text, Path(variable)).data
    if not isinstance(data, container):
        raise InputError(f"{variable}: {text!r:.60} found; allowed: {allowed}")
    try:
        return check(data)
    except ValueError as error:
        raise InputError(f"{variable}: {error}; allowed: {allowed}") from None
