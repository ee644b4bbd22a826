"""How many nodes a case needs on a machine."""

from __future__ import annotations

from typing import Any

from analysis.errors import InputError
from campaigns.request.cases import scheduled
from campaigns.request.schema import Campaign, Entry
from injection.machine.machine import Machine
from reframe_tests import scaling


def short_writes(campaign: Campaign, entry: Entry) -> scaling.ScaleRequest:
    """A case's request for short writes: its settings, and the campaign's rate and message."""
    fields = scaling.ScaleRequest.__dataclass_fields__
    given = {
        name: _taken(name, value, fields[name].default)
        for name, value in entry.set.items()
        if name in fields
    }
    injector = campaign.injector
    return scaling.ScaleRequest(
        **{"nodes": 1, **given, "rate": injector.rate, "message": injector.message}
    )


def _taken(name: str, value: Any, default: object) -> Any:
    """A variable's value as the check expects it: a number, or text. Raises InputError."""
    if isinstance(default, str):
        return str(value)  # a quantity without its unit is a number here
    if type(value) is int or (type(value) is float and isinstance(default, float)):
        return value
    kind = "a number" if isinstance(default, float) else "a whole number"
    raise InputError(f"{name}: {value!r} found; allowed: {kind}")


def origins_taken(campaign: Campaign, entry: Entry, machine: Machine) -> int:
    """Origin nodes of an allocation; 0 on a shared host. Raises InputError as `nodes_taken`."""
    if scheduled(campaign.arms):
        return scaling.load(short_writes(campaign, entry), machine).origins
    return 0 if machine.origins.policy == "same_host" else machine.origins.nodes


def nodes_taken(campaign: Campaign, entry: Entry, machine: Machine) -> int:
    """Target and origin nodes of an allocation. Raises InputError for impossible writes."""
    return entry.nodes + origins_taken(campaign, entry, machine)
