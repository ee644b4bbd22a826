"""The standard arms: their role, what their writers do, and how figures show them.

No other module lists arms. This module uses only the standard library, because compute nodes import
it too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

#: The role of a treatment. `baseline`: other treatments are paired with it; `effect`: its effect is
#: measured, and only this role may write; `control`: a busy process replaces the writers; `floor`:
#: the baseline is repeated.
Role = Literal["baseline", "effect", "control", "floor"]

#: When writers write: never, from before a run until after it, or by a timetable.
Writing = Literal["none", "continuous", "scheduled"]


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A standard arm, which is a row of the table below."""

    name: str
    role: Role
    writing: Writing
    #: Light and dark colour, and the marker of points, for readers who cannot tell red from green.
    colours: tuple[str, str]
    marker: str
    #: Program that a control runs instead of the campaign's injector; None for all other arms.
    control_injector: str | None = None
    #: Text added to the name in figures.
    label: str = ""

    @property
    def silent(self) -> bool:
        """Return whether nothing may write during runs of this arm."""
        return self.role != "effect"

    @property
    def scheduled(self) -> bool:
        """Return whether its writers follow a timetable."""
        return self.writing == "scheduled"


#: All arms, in the order of tables and figures.
_TABLE = (
    Arm(name="off", role="baseline", writing="none", colours=("#2f6fbb", "#6aa9f4"), marker="o"),
    Arm(name="on", role="effect", writing="continuous", colours=("#c8434f", "#f4838c"), marker="^"),
    Arm(
        name="constant",
        role="effect",
        writing="scheduled",
        colours=("#2f8f5b", "#6fd09b"),
        marker="P",
    ),
    Arm(
        name="daly", role="effect", writing="scheduled", colours=("#7d5ba6", "#b79ae0"), marker="v"
    ),
    Arm(
        name="full", role="effect", writing="continuous", colours=("#c8434f", "#f4838c"), marker="^"
    ),
    Arm(
        name="spin",
        role="control",
        writing="none",
        colours=("#b7791f", "#e3b341"),
        marker="s",
        control_injector="spin",
        label="(control)",
    ),
    Arm(
        name="aa",
        role="floor",
        writing="none",
        colours=("#6f9fd0", "#9cc7f7"),
        marker="D",
        label="(off repeated)",
    ),
)
#: Name -> arm.
ARMS: dict[str, Arm] = {arm.name: arm for arm in _TABLE}
#: Arms whose writers follow a timetable.
SCHEDULED = tuple(arm.name for arm in _TABLE if arm.scheduled)
#: Used for every unknown arm, such as an arm of a later version. An unknown arm is assumed to
#: write.
_UNKNOWN_ARM = Arm(
    name="", role="effect", writing="continuous", colours=("#b0479a", "#e08fd0"), marker="p"
)

#: The default baseline.
BASELINE = "off"
#: Separates the arm from its levels in a treatment's name.
_LEVELS_SEPARATOR = "@"


def standard_arms(*, same_host: bool) -> list[str]:
    """The arms of a campaign that names no arms.

    The control is among them only if origin and target share a host.
    """
    roles = {"baseline", "floor"}
    if same_host:
        roles.add("control")
    return [name for name, arm in ARMS.items() if name == "on" or arm.role in roles]


def level_text(level: object) -> str:
    """A level as written in campaigns."""
    return str(level).lower() if isinstance(level, bool) else str(level)


def level_in_name(level: object) -> str:
    """A level as written in the name of a treatment."""
    return level_text(level).replace("/", "_")


def treatment_name(arm: str, levels: Mapping[str, str]) -> str:
    """A treatment's name: `on@rate=25%,tool=mpip`. Names are made and read in this module only."""
    if not levels:
        return arm
    settings = [f"{factor}={level}" for factor, level in levels.items()]
    return f"{arm}{_LEVELS_SEPARATOR}{','.join(settings)}"


class ArmAndLevels(NamedTuple):
    """The parts of a treatment's name."""

    arm: str
    #: Factor -> level as written in the name. The first level of a factor is left out of names.
    levels: dict[str, str]


def arm_and_levels(treatment: str) -> ArmAndLevels:
    """The arm and the named levels of a treatment: `on` and {rate: `25%`} for `on@rate=25%`.

    A sample's `factors` has the values of levels.
    """
    arm, _, settings_text = treatment.partition(_LEVELS_SEPARATOR)
    settings = (text.partition("=") for text in settings_text.split(",") if text)
    return ArmAndLevels(arm, {factor: level for factor, _, level in settings})


def without_factor(treatment: str, factor: str) -> str:
    """A treatment's name without a level: `off@tool=mpip` without `tool` is `off`."""
    arm, levels = arm_and_levels(treatment)
    levels.pop(factor, None)
    return treatment_name(arm, levels)


@cache  # called for each of thousands of cases
def arm_of(treatment: str) -> Arm:
    """The standard arm of a treatment: `on` for `on@rate=25%`. Any other arm has no name."""
    return ARMS.get(arm_and_levels(treatment).arm, _UNKNOWN_ARM)


def natural_key(name: str) -> list[tuple[float, str]]:
    """The key that sorts names by the numbers in them: `stream@2` before `stream@10`."""
    parts = re.split(r"(\d+(?:\.\d+)?)", name)  # the parts with odd indices are the numbers
    return [(float(part), "") if index % 2 else (0.0, part) for index, part in enumerate(parts)]


def in_table_order(treatments: Iterable[str]) -> list[str]:
    """Treatments in the order used by tables and figures; unknown arms come last."""
    positions = {name: position for position, name in enumerate(ARMS)}

    def key(name: str) -> tuple[int, str, bool, list[tuple[float, str]]]:
        arm, levels = arm_and_levels(name)
        return positions.get(arm, len(positions)), arm, bool(levels), natural_key(name)

    return sorted(treatments, key=key)
