"""How many nodes a case takes of a machine."""

from __future__ import annotations

from typing import Any

from campaigns.schema import Campaign, Entry
from reframe_tests import scaling
from reframe_tests.injection.plan import TIMED_ARMS
from reframe_tests.machine import Machine


def short_writes(campaign: Campaign, entry: Entry) -> scaling.Asked:
    """What a case asks of short writes: its own settings, and the campaign's rate."""
    fields = scaling.Asked.__dataclass_fields__
    given: dict[str, Any] = {
        # A quantity without its unit is a number here, and text to the check.
        name: str(value) if isinstance(fields[name].default, str) else value
        for name, value in entry.set.items()
        if name in fields
    }
    return scaling.Asked(**{"nodes": 1, **given, "rate": campaign.injector.rate})


def nodes_taken(campaign: Campaign, entry: Entry, machine: Machine) -> int:
    """Target and origin nodes of an allocation. Raises InputError for writes that cannot be."""
    origins = machine.origins
    count = 0 if origins.policy == "same_host" else origins.nodes
    if any(arm in TIMED_ARMS for arm in campaign.arms):
        count = scaling.load(short_writes(campaign, entry), machine).origins
    return entry.nodes + count
