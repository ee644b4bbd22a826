"""From a campaign file to a checked campaign. Every error is reported before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from analysis.errors import InputError
from analysis.escape import one_line
from campaigns.request.checks import CheckVariables
from campaigns.request.faults import Fault, dotted, faults_of, unknown
from campaigns.request.lengths import length_faults
from campaigns.request.node_faults import node_faults
from campaigns.request.schema import Campaign
from injection.machine import marked_yaml
from injection.machine.machine import Machine
from injection.machine.marked_yaml import Marked, Place, show
from injection.machine.site_faults import model_in

#: No more errors than this are listed.
_MOST_FAULTS = 10


def load_campaign(
    path: Path, checks: Mapping[str, CheckVariables], machine: Machine | None = None
) -> Campaign:
    """The campaign in a file, checked against a machine if one is given.

    Raises InputError with one line an error: `FILE:LINE: field: found; allowed: what is`.
    """
    marked = marked_yaml.load(path)
    if not isinstance(marked.data, dict):
        keys = ", ".join(Campaign.model_fields)
        _refuse(path, [(1, f"{show(marked.data)} found; a campaign is a mapping of {keys}")])
    try:
        campaign = Campaign.model_validate(marked.data)
    except ValidationError as error:
        found = [_fault(marked, each) for each in error.errors(include_url=False)]
        _refuse(path, [*found, *_missing_arms(marked)])
        raise
    _refuse(path, _missing_arms(marked))
    _refuse(path, faults_of(marked, campaign, checks))
    if machine is not None:
        _refuse(path, node_faults(marked, campaign, checks, machine))
        _refuse(path, length_faults(marked, campaign, checks, machine))
    return campaign


def _missing_arms(marked: Marked) -> Iterable[Fault]:
    """Arms are required unless there are factors."""
    workloads = marked.data.get("workloads")
    entries = workloads if isinstance(workloads, list) else []
    crossed = [marked.data, *(each for each in entries if isinstance(each, dict))]
    if "arms" not in marked.data and not any(each.get("factors") for each in crossed):
        allowed = Campaign.model_fields["arms"].description
        yield marked.line(()), f"arms: missing; allowed: {allowed}"


def _refuse(path: Path, faults: Iterable[Fault]) -> None:
    lines = [one_line(f"{path}:{line}: {text}") for line, text in sorted(set(faults))]
    if len(lines) > _MOST_FAULTS:
        lines[_MOST_FAULTS:] = [f"{path}: {len(lines) - _MOST_FAULTS} more errors"]
    if lines:
        raise InputError(*lines)


def _fault(marked: Marked, error: ErrorDetails) -> Fault:
    place: Place = error["loc"]
    if error["type"] == "extra_forbidden":
        return unknown(marked, "key", place, _model_around(place).model_fields)
    if error["type"] == "missing":
        found = "missing"
    elif error["type"] == "value_error":
        found = str(error["ctx"]["error"])
    else:
        found = f"{show(error['input'])} found"
    allowed = _field_at(place).description
    return marked.line(place), f"{dotted(place)}: {found}; allowed: {allowed}"


def _field_at(place: Place) -> FieldInfo:
    """The field of the schema at a place, or the list around it."""
    model: type[BaseModel] = Campaign
    found = FieldInfo()
    for part in place:
        if isinstance(part, str) and part in model.model_fields:
            found = model.model_fields[part]
            model = model_in(found.annotation) or model
    return found


def _model_around(place: Place) -> type[BaseModel]:
    """The mapping that contains a key."""
    return model_in(_field_at(place[:-1]).annotation) or Campaign
