"""Cases, treatments and digest of a run, derived anew from the campaign and machine that it keeps.

As `nimc.campaign.prepare` and `nimc.run.folder` derive them, but from `run.json` alone: what the
machine lacked is taken from `asked.left_out`, and which variables of a check change within a block
from the names of the cases. A sweep is not derived: its cases follow from the host's cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from nimc.base.checkout import commit
from nimc.base.errors import InputError, first_fault
from nimc.base.marked_yaml import parse
from nimc.campaign import cases
from nimc.campaign.checks import CheckVariables
from nimc.campaign.schema import Campaign, Entry
from nimc.machine.site import Machine
from nimc.records.run import RunHeader
from nimc.run.folder import digest, requirements_of
from reframe_tests.crossing import level_text


@dataclass(frozen=True)
class Derived:
    """Lines on what differs, and on what cannot be derived."""

    contradicted: list[str] = field(default_factory=list)
    unproven: list[str] = field(default_factory=list)


def derive(header: RunHeader) -> Derived:
    """What of `run.json` is not what follows from its campaign and its machine.

    Another commit may derive otherwise: what it finds is unproven, and no contradiction.
    """
    try:
        campaign = _campaign(header)
    except (InputError, ValidationError) as error:
        why = first_fault(error) if isinstance(error, ValidationError) else str(error)
        return Derived(contradicted=[f"campaign_text: {why}"])
    machine = _built(Machine, _mapping(header.facts.get("site")))
    if any(entry.sweep for entry in campaign.workloads):
        return Derived(unproven=["asked.cases, digest: the cases of a sweep are not derived"])
    if not isinstance(machine, Machine) or header.asked.left_out is None:
        return Derived(unproven=["asked.cases, digest: what was left out is not recorded"])
    try:
        found = _expanded(campaign, header, machine)
        asked = requirements_of(found, machine)
    except InputError as error:
        return Derived(contradicted=[f"campaign_text: {error}"])
    hostname = str(_mapping(header.facts.get("host")).get("hostname"))
    lines = [
        f"{name}: {value!r} found; allowed: {allowed!r}, by campaign_text and facts.site"
        for name, value, allowed in (
            ("asked.cases", header.asked.cases, asked.cases),
            ("digest", header.digest, digest(found, machine, hostname, header.asked.nodelist)),
        )
        if value != allowed
    ]
    if header.commit != commit():
        return Derived(unproven=[f"{line} of this version" for line in lines])
    return Derived(contradicted=lines)


def _campaign(header: RunHeader) -> Campaign:
    at = Path("run.json: campaign_text")
    return Campaign.model_validate(parse(header.campaign_text, at).data)


def _expanded(campaign: Campaign, header: RunHeader, machine: Machine) -> Campaign:
    """The campaign with its cases, without those that were left out."""
    names = list(header.asked.cases)
    checks = {
        entry.check: CheckVariables(
            variables=frozenset(),
            within_block=frozenset(
                factor
                for factor in cases.factors_of(campaign, entry)
                if factor != "nodes"
                and not any(f"{factor}=" in name.partition("@")[2] for name in names)
            ),
        )
        for entry in campaign.workloads
    }
    found = cases.expand(campaign, checks, machine)
    left_out = set(header.asked.left_out or ())
    kept = [_without(case, left_out) for case in found.cases if case.name not in left_out]
    return found.model_copy(update={"workloads": kept}) if left_out else found


def _without(case: Entry, left_out: set[str]) -> Entry:
    """The case without the levels that were left out."""
    factors = {
        name: [each for each in levels if f"{case.name} {name}={level_text(each)}" not in left_out]
        for name, levels in case.factors.items()
    }
    return case if factors == case.factors else case.but({"factors": factors})


def _built(annotation: Any, value: Any) -> Any:
    """A record from what `model_dump` made of it; its units are SI already, so none is read."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if not isinstance(value, dict):
            return None
        fields = annotation.model_fields
        known = {
            name: _built(fields[name].annotation, value[name])
            for name in fields.keys() & value.keys()
        }
        return annotation.model_construct(**known)
    inner = next((each for each in get_args(annotation) if _is_record(each)), None)
    if inner is None or value is None:
        return value
    return (
        [_built(inner, each) for each in value] if isinstance(value, list) else _built(inner, value)
    )


def _is_record(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _mapping(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}
