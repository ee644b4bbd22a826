"""The limits within which a run is accepted.

Only this module has their defaults and bounds. A machine's file (`proof`), a campaign
(`verify`) and a check set their values. Only `limit_field` needs more than the standard library.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, NamedTuple

from records.errors import InputError

#: The limits of disturbance, which campaigns and checks set by these names.
DISTURBANCE_LIMITS = ("foreign_cpus", "steal_share", "frequency_drop", "foreign_share")


@dataclass(frozen=True, kw_only=True)
class AcceptanceLimits:
    """The limits within which a run is accepted, its time limits, and how often it is repeated."""

    #: Least share of its uncontended rate that every writer must reach through the whole window.
    min_share: float = 0.5
    #: Largest share of its uncontended rate that a writer may reach on average. A larger share
    #: shows that this rate was measured too low, since an application can only slow a writer.
    max_share: float = 1.25
    #: Largest allowed difference between the bytes that a target's device counted and the bytes
    #: that the writers reported, as a share of the latter.
    counter_share: float = 0.2
    #: A writer reports its bytes at intervals; a report is a *row*. The writer has stalled if its
    #: next row is later than this many intervals.
    late_rows: float = 2.0
    #: Longest time within a run in which a writer may seem to write nothing, seconds. This is read
    #: from the origin's device or the target's memory. Perftest pauses half as long between two
    #: rows.
    silent_s: float = 0.5
    #: Longest time for which the conductor may stand still within a run, and the largest jump of
    #: its wall clock, seconds.
    pause_s: float = 1.0
    # The largest disturbances of a target node in any arm (`DISTURBANCE_LIMITS`). Without a limit,
    # a disturbance is recorded, but rejects no run.
    #: Mean number of hardware threads that foreign processes keep busy. The daemons of an idle node
    #: keep 0.01 to 0.05 busy, a busy process 1.
    foreign_cpus: float | None = 0.25
    #: Share of the processor time that the hypervisor takes. The default is the smallest effect
    #: that usually matters.
    steal_share: float | None = 0.02
    #: Drop of the frequency of the application's cores below the median of the block's accepted
    #: runs, as a share of this median. The default is one or two turbo steps.
    frequency_drop: float | None = 0.1
    #: Rate of the bytes that pass the targets' devices in runs without writers, as a share of the
    #: writers' uncontended rate.
    foreign_share: float | None = 0.02
    #: Largest share of all rails' bytes that may pass the rails outside the rail policy. Each rail
    #: of the policy must pass a larger share.
    rail_share: float = 0.02
    #: Maximum number of times that a rejected run is repeated.
    retries: int = 2
    #: Rows that every writer must have reported before the application starts.
    ready_rows: int = 1
    #: Time within which the writers must reach their speed, seconds.
    ready_timeout_s: float = 30.0
    #: Time limit of one run of the application, seconds.
    run_timeout_s: float = 3600.0

    def __post_init__(self) -> None:
        """Raises InputError for a value out of its bounds."""
        for name, rule in RULES.items():
            value = getattr(self, name)
            if value is not None and not rule.allows(value):
                raise InputError(f"{name}: {value!r} found; allowed: {rule.allowed}")


class Rule(NamedTuple):
    """The allowed values of a limit."""

    #: The allowed values in words, for messages.
    allowed: str
    #: Name of a comparison (`ge`, `lt`, ...) -> the bound.
    bounds: dict[str, float]

    def allows(self, value: float) -> bool:
        """Return whether a value is within the bounds."""
        return all(getattr(operator, name)(value, bound) for name, bound in self.bounds.items())


_SHARE_BOUNDS = {"ge": 0.0, "le": 1.0}
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
        "null, or a number from 0 to 1: share of the time that the hypervisor takes", _SHARE_BOUNDS
    ),
    "frequency_drop": Rule(
        "null, or a number from 0 to 1: how far the frequency is below the usual one", _SHARE_BOUNDS
    ),
    "foreign_share": Rule(
        "null, or a number from 0 to 1: foreign bytes, as a share of the rate alone", _SHARE_BOUNDS
    ),
}


def limit_field(name: str, **changes: Any) -> Any:
    """Return pydantic's field for a limit, with its default, and bounds and description from RULES.
    `changes` replace arguments of the field, such as its default.
    """
    from pydantic import Field  # not on compute nodes

    arguments: dict[str, Any] = {"default": getattr(AcceptanceLimits, name)}
    if rule := RULES.get(name):
        arguments |= rule.bounds
        arguments["description"] = rule.allowed
    return Field(**(arguments | changes))
