"""What the watch over a machine's nights finds: alarms, and the state of each watched series."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

#: Number of the schema of an alarm's file.
ALARM_SCHEMA = 1
#: A detectable change is found within so many measured nights, with at least this probability.
WITHIN_NIGHTS = 5
POWER = 0.8

AlarmState = Literal["suspected", "confirmed", "dismissed"]


@dataclass(frozen=True)
class ChangedFact:
    """A fact of how runs were made that differs before and after a change; not its cause."""

    name: str
    #: Values of the last run before, and of the first one since the change; None if not recorded.
    before: str | None
    after: str | None


@dataclass(frozen=True)
class NodeRatio:
    """A node against the other nodes, by the nights that ran on it; above 1 is worse."""

    node: str
    ratio: float
    #: Nights that ran on it, of those considered.
    nights: int


@dataclass(frozen=True)
class Alarm:
    """A series got worse. Ratios are of times or slowdowns: above 1 is worse."""

    machine: str
    campaign: str
    case: str
    arm: str
    quantity: str
    unit: str
    #: Night on which it was raised (ISO date), and the first night of the changed ones.
    night: str
    since: str
    #: The run that raised it, and all runs that it rests on: baseline and changed nights.
    run: str
    runs: list[str]
    #: Target nodes of the run that raised it.
    nodes: list[str]
    #: Changed nights against the baseline, with its interval; null bounds if too few nights.
    ratio: float
    ratio_low: float | None
    ratio_high: float | None
    #: Median of the baseline's nights, in `unit`.
    reference: float
    #: Loss that is found within `WITHIN_NIGHTS` with `POWER`, as a share; None if there is none.
    detectable: float | None
    state: AlarmState = "suspected"
    #: Runs that confirmed or dismissed it.
    confirmed_by: list[str] = field(default_factory=list)
    #: What changed at the same time; not said to be the cause.
    changed: list[ChangedFact] = field(default_factory=list)
    #: The node that was worst, where nights ran on different nodes.
    worst_node: NodeRatio | None = None
    schema: int = ALARM_SCHEMA

    def as_dict(self) -> dict[str, Any]:
        """The alarm as in JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Change:
    """The level of a series changed, for the worse or the better."""

    #: First night of the new level, and the night on which it was noticed (ISO dates).
    since: str
    noticed: str
    #: New level against the old one; above 1 is worse.
    ratio: float

    @property
    def worse(self) -> bool:
        """Whether the new level is worse."""
        return self.ratio > 1


@dataclass(frozen=True)
class SeriesWatch:
    """One watched series as it is after its last night."""

    machine: str
    campaign: str
    case: str
    arm: str
    quantity: str
    unit: str
    #: First and last measured night (ISO dates), and their number.
    first: str
    last: str
    nights: int
    #: Nights of the baseline in use; None while there are too few to watch the series.
    baseline_nights: int | None
    #: Median of the baseline, in `unit`, and its relative night-to-night spread (0.01 is 1 %).
    level: float | None
    spread: float | None
    #: Sum now, and the limit at which an alarm is raised, in spreads.
    score: float | None
    limit: float | None
    #: Loss that is found within `WITHIN_NIGHTS` nights with `POWER`, as a share; None if unknown.
    detectable: float | None
    #: Baseline in use against the series' first one; above 1 is worse. Slow drift moves it.
    drift: float | None
    changes: list[Change]

    def as_dict(self) -> dict[str, Any]:
        """The watch as in JSON."""
        return asdict(self)
