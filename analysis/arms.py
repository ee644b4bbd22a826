"""The standard arms: what each is for, what its writers do, and how it looks.

One table, which every other place asks. Standard library only, since compute nodes read it too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

#: What a treatment is for: what others are paired with; the question itself; a busy process in the
#: writers' place; the baseline once more. All but effects must be silent: nothing is written.
Role = Literal["baseline", "effect", "control", "floor"]

#: What writers do: nothing, write from before a run to after its end, or write under a timetable.
Writing = Literal["none", "continuous", "scheduled"]


@dataclass(frozen=True)
class Arm:
    """One row of the table."""

    name: str
    role: Role
    writing: Writing
    #: Light and dark colour, and the shape of points: shape as well, for readers who tell no red
    #: from green.
    colours: tuple[str, str]
    marker: str
    #: Injector that stands in the writers' place, whatever the campaign asks for.
    control: str | None = None
    #: What figures add to the name.
    label: str = ""

    @property
    def silent(self) -> bool:
        """Whether nothing may be written in it."""
        return self.role != "effect"


#: In the order of tables and figures.
_TABLE = (
    Arm("off", "baseline", "none", ("#2f6fbb", "#6aa9f4"), "o"),
    Arm("on", "effect", "continuous", ("#c8434f", "#f4838c"), "^"),
    Arm("constant", "effect", "scheduled", ("#2f8f5b", "#6fd09b"), "P"),
    Arm("daly", "effect", "scheduled", ("#7d5ba6", "#b79ae0"), "v"),
    Arm("full", "effect", "continuous", ("#c8434f", "#f4838c"), "^"),
    Arm("spin", "control", "none", ("#b7791f", "#e3b341"), "s", "spin", "(control)"),
    Arm("aa", "floor", "none", ("#6f9fd0", "#9cc7f7"), "D", None, "(off again)"),
)
#: Name -> arm.
ARMS: dict[str, Arm] = {arm.name: arm for arm in _TABLE}
#: What stands for an arm that the table does not know, as one of a later version: it writes.
_OTHER = Arm("", "effect", "continuous", ("#b0479a", "#e08fd0"), "p")

#: The baseline that others are held against unless they say otherwise.
BASELINE = "off"
#: Between an arm and its levels in a treatment's name: `on@rate=25%`.
LEVELS = "@"


def arm_of(treatment: str) -> Arm:
    """The arm that a treatment is of: `on` for `on@rate=25%`."""
    return ARMS.get(treatment.partition(LEVELS)[0], _OTHER)


def in_order(treatments: Iterable[str]) -> list[str]:
    """Treatments in the order of tables and figures; those of no known arm come last."""
    places = {name: place for place, name in enumerate(ARMS)}

    def key(name: str) -> tuple[int, str, bool]:
        arm = name.partition(LEVELS)[0]
        return places.get(arm, len(places)), arm, LEVELS in name

    return sorted(treatments, key=key)
