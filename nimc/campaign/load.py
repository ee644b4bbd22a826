"""From a campaign file to a checked campaign. Every error is reported before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from nimc.campaign import rules
from nimc.campaign.checks import CheckVariables
from nimc.campaign.rules import Fault, dotted, unknown
from records.campaign import Campaign, TrafficChoice
from records.errors import InputError, show
from records.machine.site import Machine
from records.marked_yaml import Marked, Place, field_at, model_around
from records.text import one_line
from records.traffic.trace import load as load_trace

#: No more errors than this are listed.
_MOST_FAULTS = 10


def load_campaign(
    marked: Marked, checks: Mapping[str, CheckVariables], machine: Machine | None = None
) -> Campaign:
    """The campaign in a file, checked against a machine if one is given.

    Its trace, which can be read, has its whole path. Raises InputError with one line an error:
    `FILE:LINE: field: found; allowed: what is`.
    """
    if not isinstance(marked.data, dict):
        keys = ", ".join(Campaign.model_fields)
        raise InputError(
            f"{marked.path}:1: {show(marked.data)} found; a campaign is a mapping of {keys}"
        )
    try:
        campaign = Campaign.model_validate(marked.data)
    except ValidationError as error:
        of_schema = map(_of_schema, error.errors(include_url=False))
        refuse(marked, [*of_schema, *_missing_arms(marked)])
        raise
    refuse(marked, _missing_arms(marked))
    refuse(
        marked,
        [
            *rules.of_fields(campaign, checks),
            *rules.of_cells(campaign),
            *rules.of_cases(campaign, checks),
        ],
    )
    refuse(marked, rules.of_treatments(campaign, checks))
    if machine is not None:
        refuse(marked, rules.of_nodes(campaign, checks, machine))
        refuse(marked, rules.of_lengths(campaign, checks, machine))
    if campaign.traffic is None:
        return campaign
    return campaign.model_copy(update={"traffic": _with_path(campaign.traffic, marked)})


def _with_path(traffic: TrafficChoice, marked: Marked) -> TrafficChoice:
    """The traffic with the whole path of its trace, which can be read."""
    trace = marked.path.parent / traffic.trace
    if not trace.is_file():
        text = f"{trace} does not exist; allowed: a file that 'nimc traffic import' wrote"
        refuse(marked, [Fault(("traffic",), text)])
    load_trace(trace)
    return traffic.model_copy(update={"trace": str(trace.resolve())})


def refuse(marked: Marked, faults: Iterable[Fault]) -> None:
    """Raise InputError with a line for each of the first faults of a file, if there are any."""
    texts = sorted({(_line_of(marked, fault), _text(marked, fault)) for fault in faults})
    lines = [one_line(f"{marked.path}:{line}: {text}") for line, text in texts]
    if len(lines) > _MOST_FAULTS:
        lines[_MOST_FAULTS:] = [f"{marked.path}: {len(lines) - _MOST_FAULTS} more errors"]
    if lines:
        raise InputError(*lines)


def _line_of(marked: Marked, fault: Fault) -> int:
    return marked.line(fault.place if fault.line_of is None else fault.line_of, key=fault.key)


def _text(marked: Marked, fault: Fault) -> str:
    earlier = fault.earlier
    text = fault.text if earlier is None else fault.text.format(line=marked.line(earlier))
    return f"{dotted(fault.place)}: {text}"


def _of_schema(error: ErrorDetails) -> Fault:
    place: Place = error["loc"]
    if error["type"] == "extra_forbidden":
        return unknown("key", place, model_around(Campaign, place).model_fields)
    wrong = f"{show(error['input'])} found"
    if error["type"] == "missing":
        wrong = "missing"
    elif error["type"] == "value_error":
        wrong = str(error["ctx"]["error"])
    return Fault(place, f"{wrong}; allowed: {field_at(Campaign, place).description}")


def _missing_arms(marked: Marked) -> Iterator[Fault]:
    """Arms are required unless there are factors."""
    workloads = marked.data.get("workloads")
    entries = workloads if isinstance(workloads, list) else []
    crossed = [marked.data, *(each for each in entries if isinstance(each, dict))]
    if "arms" not in marked.data and not any(each.get("factors") for each in crossed):
        allowed = Campaign.model_fields["arms"].description
        yield Fault(("arms",), f"missing; allowed: {allowed}")
