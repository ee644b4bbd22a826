"""The schema of campaign files. `docs/campaigns.md` shows it by example.

The models hold values in SI units. The description of a field says which values are allowed. It is
shown to the user if a value is refused. A *cell* is a combination of levels of factors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, ValidationInfo

from records import units
from records.acceptance import AcceptanceLimits, limit_field
from records.arms import ARMS, BASELINE, level_text
from records.block_plan import Scale
from records.run import MARGIN, PAIRS_CAP, PAIRS_FLOOR
from records.sample import Level
from records.yaml_file import Duration, Fraction, Record, quantity

#: Bounds of the number of pairs. Fewer pairs than the minimum give no interval of 95 %
#: (`docs/method.md`).
MIN_PAIRS, MAX_PAIRS = 6, 100_000

#: Variables of a check that a sweep sets.
SWEEP_VARIABLES = frozenset({"cores", "node", "comm_node"})

#: Warm-up runs of a block unless a campaign sets them (`warmups` of the mixin).
WARMUPS = 1

_OTHER_ARMS = [arm for arm in ARMS if arm != BASELINE]


#: A variable of a check, or FIXTURE.PARAMETER.
VARIABLE_PATTERN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
#: Maximum length of a level, characters. Levels become part of file names.
_MAX_LEVEL_LENGTH = 40
#: Characters that a level cannot have, besides blanks.
_REFUSED_CHARACTERS = frozenset(',;="\\')

FACTORS_RULE = (
    "a mapping of factors to lists of levels, such as rate: [0, 25%, full]; each level once: a"
    f" number, true, false, or a word of at most {_MAX_LEVEL_LENGTH} characters without , ; ="
    ' " \\ and blanks'
)
CELLS_RULE = "a list of mappings of factors, or arm, to one level each, such as {workers: free}"


def check_factors(factors: dict[str, Any]) -> dict[str, Any]:
    """Raises ValueError for an invalid factor or list of levels."""
    for name, levels in factors.items():
        _check_name(name)
        if not isinstance(levels, list) or not levels:
            raise ValueError(f"{name}: no list of levels found")
        for index, level in enumerate(levels):
            _check_level(level)
            if level in levels[:index]:
                raise ValueError(f"{name}: duplicate level {level!r}")
    return factors


def check_cells(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Raises ValueError for a cell without factors, or with a factor that has no single level."""
    for cell in cells:
        if not cell or not isinstance(cell, dict):
            raise ValueError(f"{cell!r:.60} is not a mapping of factors")
        for name, level in cell.items():
            _check_name(name)
            _check_level(level)
    return cells


def _check_name(name: str) -> None:
    if not VARIABLE_PATTERN.fullmatch(name):
        raise ValueError(f"{name!r} is an invalid name of a factor")


def _check_level(level: Any) -> None:
    """Raises ValueError for a level whose text cannot be a part of the name of a case or a file."""
    if type(level) not in (int, float, bool, str):
        raise ValueError(f"{level!r:.60} is not a number, a word, true or false")
    if isinstance(level, float) and not math.isfinite(level):
        raise ValueError(f"{level} is not a finite number")
    text = level_text(level)
    has_refused_character = any(c in _REFUSED_CHARACTERS or c.isspace() for c in text)
    if not 0 < len(text) <= _MAX_LEVEL_LENGTH or has_refused_character or not text.isprintable():
        raise ValueError(f"{text!r:.60} is an invalid level")
    if isinstance(level, str) and (level in ("true", "false") or _reads_as_number(level)):
        raise ValueError(f"{text!r} is an invalid word: it reads as a number or a truth value")


def _reads_as_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _word_or_quantity(read: Callable[[str, str], float], *words: str) -> Callable[[Any], str]:
    """Return a validator of a text that is one of `words` or a quantity above zero."""

    def check(text: Any) -> str:
        if text not in words and not quantity(read, text) > 0:
            raise ValueError(f"{text!r} is not above zero")
        return str(text)

    return check


def _check_settings(settings: dict[str, Any]) -> dict[str, Any]:
    for name, value in settings.items():
        if not VARIABLE_PATTERN.fullmatch(name):
            raise ValueError(f"{name!r} is an invalid name of a variable")
        if not isinstance(value, str | int | float | bool):
            raise ValueError(f"{name!r} has no single value")
    return settings


def _check_arms(arms: list[str]) -> list[str]:
    for arm in arms:
        if arm not in ARMS:
            raise ValueError(f"unknown arm {arm!r}")
        if arms.count(arm) > 1:
            raise ValueError(f"duplicate arm {arm!r}")
    if BASELINE not in arms or len(arms) < 2:
        raise ValueError("'off' and another arm are needed")
    return arms


Factors = Annotated[dict[str, Any], AfterValidator(check_factors)]
Cells = Annotated[list[dict[str, Any]], AfterValidator(check_cells)]
_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,79}$"
Name = Annotated[str, Field(pattern=_NAME_PATTERN)]
_NAME_RULE = "a name of letters, digits and ._@+- (80 at most, a letter or digit first)"
_DURATION_RULE = "a length of time with its unit, such as 30s, 10min or 1h"


def is_name(value: object) -> bool:
    """Return whether a value may be the name of a campaign or a case."""
    return isinstance(value, str) and re.fullmatch(_NAME_PATTERN, value, re.ASCII) is not None


class SweepRequest(Record):
    """Cases of the contention model: numbers of computing cores, on placements of data."""

    cores: Literal["all", "few"] = Field(
        default="few",
        description="all; or few: eight numbers, evenly spaced, with both ends",
    )
    placements: Literal["local", "calibration", "all"] = Field(
        default="calibration",
        description="local: the first NUMA node; calibration; or all pairs of NUMA nodes",
    )


class Entry(Record):
    """A workload with its settings, or one of the cases with which `cases.expand` replaces it."""

    check: str = Field(description="the name of a workload, or PATH.py:Class")
    case: Name | None = Field(default=None, description=_NAME_RULE)
    #: The entry becomes a case for each number of cores and each placement of data on this machine
    #: (`nimc.campaign.cases`).
    sweep: SweepRequest | None = Field(
        default=None, description="a mapping of cores and placements"
    )
    set: Annotated[dict[str, Any], AfterValidator(_check_settings)] = Field(
        default_factory=dict,
        description="variables of the check, each with one number, text, true or false",
    )
    #: Factors of this entry. They replace factors of the same names in the campaign.
    factors: Factors = Field(default_factory=dict, description=FACTORS_RULE)
    #: Cells that are not measured.
    exclude: Cells = Field(default_factory=list, description=CELLS_RULE)
    #: The only cells that are measured; empty: all cells.
    only: Cells = Field(default_factory=list, description=CELLS_RULE)
    #: Expected length of one run, seconds. The plan estimates with it, and refuses runs that are
    #: too short for the rows of their writers and cannot be lengthened.
    expect: Duration = Field(default=60.0, description=_DURATION_RULE)
    _case_levels: dict[str, Level] = PrivateAttr(default_factory=dict)
    _scale: Scale | None = PrivateAttr(default=None)

    @property
    def name(self) -> str:
        """Name of the case: `case` if the campaign sets it, otherwise the name of the workload."""
        return self.case or self.check

    @property
    def nodes(self) -> int:
        """Target nodes of the case."""
        nodes = self.set.get("nodes", 1)
        return nodes if isinstance(nodes, int) else 1

    @property
    def warmups(self) -> int:
        """Warm-up runs of a block."""
        warmups = self.set.get("warmups", WARMUPS)
        return warmups if type(warmups) is int else WARMUPS

    @property
    def case_levels(self) -> dict[str, Level]:
        """The levels that distinguish this case from the other cases of its entry."""
        return self._case_levels

    def at_levels(self, suffix: str, levels: Mapping[str, Level]) -> Entry:
        """The case `NAME@SUFFIX` of this entry. All runs of its blocks have these levels."""
        case = self.with_changes({"case": f"{self.name}@{suffix}", "set": {**self.set, **levels}})
        case._case_levels = dict(levels)
        return case

    @property
    def scale(self) -> Scale | None:
        """The short writes of the case; None if no arm makes any, or before they are computed."""
        return self._scale

    def with_scale(self, scale: Scale | None) -> Entry:
        """The case with its short writes."""
        case = self.with_changes({})
        case._scale = scale
        return case

    def with_changes(self, changes: Mapping[str, Any]) -> Entry:
        """Return a copy in which some fields have new values."""
        return self.model_copy(update=changes)


def _check_cap(cap: int | None, info: ValidationInfo) -> int | None:
    if cap is not None and cap < info.data.get("floor", cap):
        raise ValueError(f"{cap} is below pairs.floor")
    return cap


class Pairs(Record):
    """The number of pairs of a case, over all its blocks."""

    floor: int = Field(
        default=PAIRS_FLOOR,
        ge=MIN_PAIRS,
        le=MAX_PAIRS,
        description=f"a whole number from {MIN_PAIRS}",
    )
    #: None: `records.run.PAIRS_CAP`, or `floor` if that is larger. The former is enough to show
    #: that the typical run is within the margin.
    cap: Annotated[int | None, AfterValidator(_check_cap)] = Field(
        default=None, le=MAX_PAIRS, description="a whole number, at least 'floor'"
    )
    #: Half-width that the slowdown's interval must reach, relative to the slowdown.
    precision: Fraction | None = Field(
        default=None, gt=0, lt=1, description="a number between 0 and 1, such as 0.01 for 1 %"
    )
    #: Maximum number of pairs in one allocation. None: `floor` pairs in the first allocation, then
    #: as many as the next interim analysis needs.
    block: int | None = Field(default=None, ge=1, description="a whole number from 1")

    @property
    def maximum(self) -> int:
        """Pairs after which a case ends, however wide its interval."""
        return self.cap or max(self.floor, PAIRS_CAP)


class InjectorChoice(Record):
    """The injector (the program that writes) of the arms with writes, its message and its rate."""

    #: `auto` stands for the injector in the machine's file.
    name: str = Field(default="auto", description="auto, or the name of an injector")
    message: Annotated[str, BeforeValidator(_word_or_quantity(units.size_b, "auto", "dram"))] = (
        Field(default="auto", description="auto, dram, or a size with its unit, such as 64KiB")
    )
    rate: Annotated[str, BeforeValidator(_word_or_quantity(units.rate_b_s, "full"))] = Field(
        default="full", description="full, or a rate with its unit, such as 500MB/s"
    )
    queue_pairs: Literal["auto"] | Annotated[int, Field(ge=1)] = Field(
        default="auto", description="auto, or a whole number from 1"
    )


class Verify(Record):
    """The limits of its writes and of disturbance within which a run is accepted."""

    #: None: the value in the machine's file (`proof.min_share`).
    min_share: Fraction | None = limit_field("min_share", default=None)
    retries: int = limit_field("retries")
    #: Limits of disturbance, for runs of every arm; null: no limit.
    foreign_cpus: float | None = limit_field("foreign_cpus")
    steal_share: Fraction | None = limit_field("steal_share")
    frequency_drop: Fraction | None = limit_field("frequency_drop")
    foreign_share: Fraction | None = limit_field("foreign_share")


class Campaign(Record):
    """A campaign file."""

    name: Name = Field(description=_NAME_RULE)
    title: str = Field(default="", description="text")
    description: str = Field(default="", description="text")
    workloads: list[Entry] = Field(
        min_length=1, description="a list of entries, each with at least 'check'"
    )
    #: Empty: the standard arms of the machine.
    arms: Annotated[list[str], AfterValidator(_check_arms)] = Field(
        default=[],
        description=f"a list with off and at least one more of: {' '.join(_OTHER_ARMS)}",
    )
    #: Factors of every workload.
    factors: Factors = Field(default={}, description=FACTORS_RULE)
    #: Cells that are not measured.
    exclude: Cells = Field(default=[], description=CELLS_RULE)
    #: The only cells that are measured; empty: all cells.
    only: Cells = Field(default=[], description=CELLS_RULE)
    pairs: Pairs = Field(default=Pairs(), description="a mapping")
    injector: InjectorChoice = Field(default=InjectorChoice(), description="a mapping")
    verify: Verify = Field(default=Verify(), description="a mapping")
    #: Smallest relative effect that matters. The verdict 'no effect' means a smaller effect.
    margin: Fraction = Field(
        default=MARGIN, gt=0, lt=1, description="a number between 0 and 1, such as 0.02 for 2 %"
    )
    #: Longest time that one run of an application may take, seconds.
    run_timeout: Duration = Field(
        default=AcceptanceLimits.run_timeout_s, description=_DURATION_RULE
    )
    #: Least time from the end of one run to the start of the next one, seconds.
    rest: Duration | None = Field(default=None, description=_DURATION_RULE)
    seed: int = Field(default=1, ge=0, lt=2**63, description="a whole number from 0")

    @property
    def cases(self) -> list[Entry]:
        """The cases of the campaign, after `cases.expand` has replaced the entries by cases."""
        return self.workloads
