"""The limits within which a run is accepted.

Their names, defaults and bounds stand here alone; a machine's file (`proof`), a campaign (`verify`)
and a check set them. Standard library only, but for `limit_field`.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, NamedTuple

from records.errors import InputError

#: The limits of disturbance, which campaigns and checks set by these names.
LIMITS = ("foreign_cpus", "steal_share", "frequency_drop", "foreign_share")


@dataclass(frozen=True, kw_only=True)
class AcceptanceLimits:
    """Limits that a run must keep to be accepted, and how often and how long it is tried."""

    #: Least share of its rate alone that every writer must reach through the whole window.
    min_share: float = 0.5
    #: Largest share of it that a writer may reach on average: more shows that the rate alone was
    #: disturbed, since an application takes bandwidth and gives none.
    max_share: float = 1.25
    #: Largest share by which the bytes that a target's device counted may differ from the claim.
    counter_share: float = 0.2
    #: A report later than this many of its intervals means that the writer stalled.
    late_rows: float = 2.0
    #: Longest time within a run in which nothing of a writer may be seen at its origin's device or
    #: in its target's memory, seconds: twice what perftest pauses between its rows.
    silent_s: float = 0.5
    #: Longest time in a run that the conductor may stand still, or its wall clock jump, seconds.
    pause_s: float = 1.0
    #: Largest disturbance of a target node, whatever the arm; None is recorded, not judged. Mean
    #: number of hardware threads that foreign processes keep busy: an idle node's daemons take 0.01
    #: to 0.05, one busy process 1.
    foreign_cpus: float | None = 0.25
    #: Share of the processor time that the hypervisor takes: the smallest effect of usual interest.
    steal_share: float | None = 0.02
    #: How far the application's cores are below the median frequency of the block's accepted runs,
    #: a share: a turbo step or two.
    frequency_drop: float | None = 0.1
    #: Bytes that pass the targets' devices although nothing writes, relative to the writers' rate
    #: alone.
    foreign_share: float | None = 0.02
    #: Largest share of the bytes of all rails that may pass those that the rail policy does not
    #: name; each rail that it names must pass more.
    rail_share: float = 0.02
    #: How often a rejected run is repeated.
    retries: int = 2
    #: Rows that every writer must have reported before the application starts.
    ready_rows: int = 1
    #: Time limits until writers are at speed, and for the application, seconds.
    ready_timeout_s: float = 30.0
    run_timeout_s: float = 3600.0

    def __post_init__(self) -> None:
        """Raises InputError for a value out of its bounds."""
        for name, rule in RULES.items():
            value = getattr(self, name)
            if value is not None and not rule.allows(value):
                raise InputError(f"{name}: {value!r} found; allowed: {rule.text}")


class Rule(NamedTuple):
    """The allowed values of a limit, for people, and by the names of comparisons."""

    text: str
    bounds: dict[str, float]

    def allows(self, value: float) -> bool:
        """Return whether a value is within the bounds."""
        return all(getattr(operator, name)(value, bound) for name, bound in self.bounds.items())


_SHARE = {"ge": 0.0, "le": 1.0}
RULES = {
    "min_share": Rule("a number above 0, at most 1: share of the rate alone", {"gt": 0, "le": 1}),
    "max_share": Rule("a number above 1: share of the rate alone", {"gt": 1}),
    "counter_share": Rule("a number above 0: share of the bytes claimed", {"gt": 0}),
    "late_rows": Rule("a number from 1: intervals of a writer's rows", {"ge": 1}),
    "rail_share": Rule("a number above 0, below 0.5: share of all bytes", {"gt": 0, "lt": 0.5}),
    "retries": Rule("a whole number from 0 to 100", {"ge": 0, "le": 100}),
    "foreign_cpus": Rule(
        "null, or a number from 0: hardware threads that foreign processes keep busy", {"ge": 0}
    ),
    "steal_share": Rule(
        "null, or a number from 0 to 1: share of the time that the hypervisor takes", _SHARE
    ),
    "frequency_drop": Rule(
        "null, or a number from 0 to 1: how far the frequency is below the usual one", _SHARE
    ),
    "foreign_share": Rule(
        "null, or a number from 0 to 1: foreign bytes, as a share of the rate alone", _SHARE
    ),
}


def limit_field(name: str, **changes: Any) -> Any:
    """The field of a record that is read, for a limit: with its default, bounds and rule."""
    from pydantic import Field  # not on compute nodes

    rule, default = RULES.get(name), getattr(AcceptanceLimits, name)
    rule_fields: dict[str, Any] = {**rule.bounds, "description": rule.text} if rule else {}
    return Field(**{"default": default, **rule_fields, **changes})
