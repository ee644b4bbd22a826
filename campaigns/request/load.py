"""From a campaign file to a checked campaign. Whatever is wrong is told before anything runs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from analysis.errors import InputError
from campaigns.request import marked_yaml
from campaigns.request.marked_yaml import Marked, Place, one_line
from campaigns.request.nodes import nodes_taken
from campaigns.request.schema import SWEPT, Campaign, Entry
from injection.injectors import INJECTORS, writing_rate_b_s
from injection.machine.machine import Machine
from injection.plan import TIMED_ARMS

#: More faults than this are not told at once.
_MOST_FAULTS = 10

#: Line of the file, and what is wrong there.
_Fault = tuple[int, str]


def load_campaign(
    path: Path, checks: Mapping[str, frozenset[str]], machine: Machine | None = None
) -> Campaign:
    """The campaign in a file, for a machine where one is given.

    `checks` holds every workload's check and the variables that `set` may give it. Raises
    InputError with one line a fault: `FILE:LINE: field: what was found; allowed: what is`.
    """
    marked = marked_yaml.load(path)
    if not isinstance(marked.data, dict):
        keys = ", ".join(Campaign.model_fields)
        _refuse(path, [(1, f"{_show(marked.data)} found; a campaign is a mapping of {keys}")])
    try:
        campaign = Campaign.model_validate(marked.data)
    except ValidationError as error:
        _refuse(path, (_fault(marked, each) for each in error.errors(include_url=False)))
        raise
    _refuse(path, _cross_faults(marked, campaign, checks))
    if machine is not None:
        _refuse(path, _node_faults(marked, campaign, machine))
        _refuse(path, _rate_faults(marked, campaign, machine))
    return campaign


def _refuse(path: Path, faults: Iterable[_Fault]) -> None:
    lines = [one_line(f"{path}:{line}: {text}") for line, text in sorted(faults)]
    if len(lines) > _MOST_FAULTS:
        lines[_MOST_FAULTS:] = [f"{path}: {len(lines) - _MOST_FAULTS} more faults"]
    if lines:
        raise InputError("\n".join(lines))


def _fault(marked: Marked, error: ErrorDetails) -> _Fault:
    place: Place = error["loc"]
    if error["type"] == "extra_forbidden":
        return _unknown(marked, "key", place, _model_around(place).model_fields)
    if error["type"] == "missing":
        found = "missing"
    elif error["type"] == "value_error":
        found = str(error["ctx"]["error"])
    else:
        found = f"{_show(error['input'])} found"
    allowed = _field_at(place).description
    return marked.line(place), f"{_dotted(place)}: {found}; allowed: {allowed}"


def _cross_faults(
    marked: Marked, campaign: Campaign, checks: Mapping[str, frozenset[str]]
) -> Iterable[_Fault]:
    """What no field by itself can tell."""
    pairs = campaign.pairs
    if pairs.cap is not None and pairs.cap < pairs.floor:
        found = f"pairs.cap: {pairs.cap} is below pairs.floor"
        yield marked.line(("pairs", "cap")), f"{found}; allowed: a whole number from {pairs.floor}"
    first: dict[str, int] = {}
    for index, entry in enumerate(campaign.workloads):
        place: Place = ("workloads", index)
        for case in entry.cases:
            if case.name in first:
                found = f"'{case.name}' is a case already, in line {first[case.name]}"
                text = f"{_dotted((*place, 'case'))}: {found}; allowed: another name"
                yield marked.line(place), text
            first.setdefault(case.name, marked.line(place))
        if entry.check not in checks:
            yield _unknown(marked, "workload", (*place, "check"), checks, entry.check)
            continue
        yield from _scaling_faults(marked, campaign, entry, place, checks[entry.check])
        yield from _sweep_faults(marked, entry, place, checks[entry.check])
        for name in entry.set:
            if name not in checks[entry.check]:
                yield _unknown(marked, "variable", (*place, "set", name), checks[entry.check])


def _scaling_faults(
    marked: Marked, campaign: Campaign, entry: Entry, place: Place, variables: frozenset[str]
) -> Iterable[_Fault]:
    """Scales and arms of short writes that the check does not know."""
    if entry.scales is not None and "nodes" not in variables:
        text = f"{_dotted((*place, 'scales'))}: '{entry.check}' runs on one node; allowed: none"
        yield marked.line((*place, "scales")), text
    if entry.scales is not None and "nodes" in entry.set:
        text = f"{_dotted((*place, 'set', 'nodes'))}: 'scales' gives them; allowed: one of the two"
        yield marked.line((*place, "set", "nodes")), text
    timed = [arm for arm in campaign.arms if arm in TIMED_ARMS]
    if timed and "write" not in variables:
        text = f"arms: '{entry.check}' has no arm '{timed[0]}'; allowed: another workload or arm"
        yield marked.line(("arms",)), text


def _sweep_faults(
    marked: Marked, entry: Entry, place: Place, variables: frozenset[str]
) -> Iterable[_Fault]:
    """A sweep of a check that has no cores or nodes to choose, or that chooses them as well."""
    if entry.sweep is None:
        return
    line = marked.line((*place, "sweep"))
    where = _dotted((*place, "sweep"))
    if not variables >= SWEPT:
        yield line, f"{where}: '{entry.check}' has no cores and NUMA nodes to choose; allowed: none"
    if entry.scales is not None:
        yield line, f"{where}: 'scales' stands beside it; allowed: one of the two"
    for name in sorted(SWEPT & entry.set.keys()):
        text = f"{_dotted((*place, 'set', name))}: 'sweep' gives it; allowed: one of the two"
        yield marked.line((*place, "set", name)), text


def _node_faults(marked: Marked, campaign: Campaign, machine: Machine) -> Iterable[_Fault]:
    """Cases that take more nodes than the machine has, the first of each entry."""
    for index, entry in enumerate(campaign.workloads):
        field = ("scales",) if entry.scales else ("set", "nodes") if "nodes" in entry.set else ()
        place: Place = ("workloads", index, *field)
        try:
            taken = {case.nodes: nodes_taken(campaign, case, machine) for case in entry.cases}
        except InputError as error:
            yield marked.line(("workloads", index, "set")), f"{_dotted(place)}: {error}"
            continue
        most = machine.nodes
        found = next((nodes for nodes in taken if most and taken[nodes] > most), None)
        if found is not None:
            text = f"{_dotted(place)}: {found} found, {taken[found]} nodes with its origins"
            yield marked.line(place), f"{text}; allowed: {most} (nodes of site/{machine.name}.yaml)"


def _rate_faults(marked: Marked, campaign: Campaign, machine: Machine) -> Iterable[_Fault]:
    """A rate that the machine's injector, or the one asked for, cannot hold."""
    asked = campaign.injector
    injector = INJECTORS[machine.injector if asked.name == "auto" else asked.name]
    try:
        writing_rate_b_s(injector, asked.rate)
    except InputError as error:
        yield marked.line(("injector", "rate")), f"injector.{error}"


def _unknown(
    marked: Marked, kind: str, place: Place, allowed: Iterable[str], name: str | None = None
) -> _Fault:
    """That the key at `place` (or the value `name` there) is none of those allowed."""
    known = sorted(allowed)
    wrong = str(place[-1]) if name is None else name
    near = difflib.get_close_matches(wrong, known, n=1)
    hint = f", did you mean '{near[0]}'?" if near else ""
    text = (
        f"{_dotted(place)}: unknown {kind} '{wrong}'{hint}; allowed: {', '.join(known) or 'none'}"
    )
    return marked.line(place, key=name is None), text


def _dotted(place: Place) -> str:
    """`workloads[2].set.ranks`"""
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place).removeprefix(".")


def _field_at(place: Place) -> FieldInfo:
    """The field of the schema at a place, or the list around it."""
    model: type[BaseModel] = Campaign
    found = FieldInfo()
    for part in place:
        if isinstance(part, str) and part in model.model_fields:
            found = model.model_fields[part]
            model = _model_of(found.annotation) or model
    return found


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """The model that an annotation speaks of: `Pairs`, or `Entry` in `list[Entry]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_of, get_args(annotation))), None)


def _model_around(place: Place) -> type[BaseModel]:
    """The mapping that a key stands in."""
    return _model_of(_field_at(place[:-1]).annotation) or Campaign


def _show(value: Any) -> str:
    """A value so that its author recognises it, in few characters."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
