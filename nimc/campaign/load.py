"""From a campaign file to a checked campaign. Every error is reported before anything runs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from nimc.base import marked_yaml
from nimc.base.errors import InputError, show
from nimc.base.marked_yaml import Marked, Place, field_at, model_around
from nimc.base.text import one_line
from nimc.campaign import cases
from nimc.campaign.cases import scheduled
from nimc.campaign.checks import CheckVariables
from nimc.campaign.schema import SWEPT, Campaign, Entry
from nimc.machine.site import Machine
from nimc.node.injectors import INJECTORS
from nimc.node.length import LEAST_ROWS, doublings, least_run_s
from nimc.records.arms import ARMS, standard_arms
from nimc.records.sample import Level
from reframe_tests import scaling
from reframe_tests.crossing import ARM, FULL, RATE, level_text
from reframe_tests.factors import FACTORS, OF_CORES, check_level

# Errors in a campaign that involve several fields or its checks, but not the machine.


#: Line of the file, and the error.
Fault = tuple[int, str]
#: Factors whose single level has a key of its own in `injector`.
_OF_INJECTOR = (RATE, "message")
#: Longest name of a case, which with a suffix names files.
_LONGEST_CASE = 160


def faults_of(
    marked: Marked, campaign: Campaign, checks: Mapping[str, CheckVariables]
) -> Iterator[Fault]:
    """Every error in the file; cases without treatments are reported only if there is no other."""
    found = list(_faults_of_fields(marked, campaign, checks))
    yield from found or _empty_cases(marked, campaign, checks)


def _faults_of_fields(
    marked: Marked, campaign: Campaign, checks: Mapping[str, CheckVariables]
) -> Iterator[Fault]:
    pairs = campaign.pairs
    if pairs.cap is not None and pairs.cap < pairs.floor:
        found = f"pairs.cap: {pairs.cap} is below pairs.floor"
        yield marked.line(("pairs", "cap")), f"{found}; allowed: a whole number from {pairs.floor}"
    for index, entry in enumerate(campaign.workloads):
        place: Place = ("workloads", index)
        if entry.check not in checks:
            yield unknown(marked, "workload", (*place, "check"), checks, entry.check)
            continue
        check = checks[entry.check]
        yield from _set_faults(marked, entry, place, check)
        yield from _arm_faults(marked, campaign, entry, place, check)
        yield from _sweep_faults(marked, campaign, entry, place, check)
        yield from _factor_faults(marked, campaign, entry, place, check)
    yield from _cell_faults(marked, campaign)
    yield from _case_faults(marked, campaign, checks)


def _set_faults(
    marked: Marked, entry: Entry, place: Place, check: CheckVariables
) -> Iterator[Fault]:
    for name, value in entry.set.items():
        if name not in check.settable:
            yield unknown(marked, "variable", (*place, "set", name), check.settable)
        elif name == "warmups" and (type(value) is not int or value < 0):
            text = (
                f"{dotted((*place, 'set', name))}: {value!r} found; allowed: whole numbers from 0"
            )
            yield marked.line((*place, "set", name)), text
        elif name != "warmups" and (wrong := _type_fault(check, name, value)):
            yield _at(marked, (*place, "set", name), wrong)


def _type_fault(check: CheckVariables, name: str, value: Level) -> str | None:
    kind = check.types.get(name)
    if kind is None or kind.accepts(value):
        return None
    return f"{value!r} found; allowed: {kind.allowed}"


def _arm_faults(
    marked: Marked, campaign: Campaign, entry: Entry, place: Place, check: CheckVariables
) -> Iterator[Fault]:
    """Scheduled arms of a check that has no timetable, or that writes at several rates."""
    scheduled = cases.scheduled(campaign.arms)
    if scheduled and "write" not in check.variables:
        text = f"'{entry.check}' has no arm '{scheduled[0]}'; allowed: another workload or arm"
        yield _at(marked, ("arms",), text)
    if scheduled and RATE in cases.factors_of(campaign, entry):
        text = f"cannot be combined with the arm '{scheduled[0]}'; allowed: one of the two"
        yield _at(marked, _place_of(RATE, entry, place), text)


def _sweep_faults(
    marked: Marked, campaign: Campaign, entry: Entry, place: Place, check: CheckVariables
) -> Iterator[Fault]:
    """A sweep of a check without its variables, or combined with factors or with their values."""
    if entry.sweep is None:
        return
    where: Place = (*place, "sweep")
    if not check.settable >= SWEPT:
        text = f"'{entry.check}' has no variables {', '.join(sorted(SWEPT))}; allowed: none"
        yield _at(marked, where, text)
    for name in cases.factors_of(campaign, entry):
        if name in SWEPT or not check.changes_within(name):
            text = f"cannot be combined with the factor '{name}'; allowed: factors that change"
            yield _at(marked, where, f"{text} within a block, but {', '.join(sorted(SWEPT))}")
    for name in sorted(SWEPT & entry.set.keys()):
        text = "cannot be combined with 'sweep'; allowed: one of the two"
        yield _at(marked, (*place, "set", name), text)


def _factor_faults(
    marked: Marked, campaign: Campaign, entry: Entry, place: Place, check: CheckVariables
) -> Iterator[Fault]:
    """Factors that the check lacks or that are also set, and invalid levels."""
    for name, levels in cases.factors_of(campaign, entry).items():
        where = _place_of(name, entry, place)
        if name not in check.factors:
            yield unknown(marked, "factor", where, check.factors, of=f" of '{entry.check}'")
            continue
        for index, level in enumerate(levels):
            try:
                check_level(name, level)
            except InputError as error:
                yield marked.line((*where, index)), f"{dotted(where[:-1])}.{error}"
            if name == "nodes" and (type(level) is not int or level < 1):
                text = f"{dotted(where)}: {level} found; allowed: whole numbers from 1"
                yield marked.line((*where, index)), text
            elif name not in FACTORS and (wrong := _type_fault(check, name, level)):
                yield marked.line((*where, index)), f"{dotted(where)}: {wrong}"
        if name in OF_CORES and not check.comparable_across_cores:
            text = f"the figure of merit of '{entry.check}' cannot be compared between numbers of"
            yield _at(marked, where, f"{text} cores; allowed: another workload or factor")
        if name in entry.set:
            text = f"cannot be combined with {dotted((*place, 'set', name))}"
            yield _at(marked, where, f"{text}; allowed: one of the two")
        if name in _OF_INJECTOR and getattr(campaign.injector, name) not in ("auto", FULL):
            text = f"cannot be combined with injector.{name}; allowed: one of the two"
            yield _at(marked, where, text)


def _cell_faults(marked: Marked, campaign: Campaign) -> Iterator[Fault]:
    """Cells with factors, levels or arms that the campaign does not have."""
    arms: list[Level] = list(campaign.arms or ARMS)
    of_all: dict[str, list[Level]] = {ARM: arms}
    for index, entry in enumerate(campaign.workloads):
        own = cases.factors_of(campaign, entry)
        for name, levels in own.items():
            of_all[name] = [*of_all.get(name, []), *levels]
        yield from _cells_of(marked, ("workloads", index), entry, {ARM: arms, **own})
    yield from _cells_of(marked, (), campaign, of_all)


def _cells_of(
    marked: Marked, place: Place, requested: Campaign | Entry, known: Mapping[str, Sequence[Level]]
) -> Iterator[Fault]:
    for key, cells in (("exclude", requested.exclude), ("only", requested.only)):
        for index, cell in enumerate(cells):
            for name, level in cell.items():
                where = (*place, key, index, name)
                if name not in known:
                    yield unknown(marked, "factor", where, known)
                elif level not in known[name]:
                    allowed = ", ".join(dict.fromkeys(map(level_text, known[name])))
                    yield _at(marked, where, f"{level_text(level)} found; allowed: {allowed}")


def _case_faults(
    marked: Marked, campaign: Campaign, checks: Mapping[str, CheckVariables]
) -> Iterator[Fault]:
    """Duplicate or too long names of cases, and entries without cases."""
    first: dict[str, int] = {}
    for index, entry in enumerate(campaign.workloads):
        place: Place = ("workloads", index)
        line = marked.line(place)
        check = checks.get(entry.check, CheckVariables(frozenset()))
        found = cases.cases_of(campaign, entry, check)
        if not found:
            yield line, f"{dotted(place)}: exclude and only leave no case; allowed: at least one"
        for case in found:
            if case.name in first:
                text = f"duplicate case name '{case.name}', first in line {first[case.name]}"
                yield line, f"{dotted((*place, 'case'))}: {text}; allowed: another name"
            if len(case.name) > _LONGEST_CASE:
                text = f"{dotted((*place, 'case'))}: '{case.name:.40}...' has {len(case.name)}"
                yield line, f"{text} characters; allowed: at most {_LONGEST_CASE}"
            first.setdefault(case.name, line)


def _empty_cases(
    marked: Marked, campaign: Campaign, checks: Mapping[str, CheckVariables]
) -> Iterator[Fault]:
    """Cases without treatments."""
    arms = campaign.arms or standard_arms(same_host=True)
    for index, entry in enumerate(campaign.workloads):
        for case in cases.cases_of(campaign, entry, checks[entry.check]):
            if case.factors or case.exclude or case.only:
                try:
                    cases.treatments(arms, case)
                except InputError as error:
                    place: Place = ("workloads", index)
                    yield marked.line(place), f"{dotted(place)}: {case.name}: {error}"


def _place_of(factor: str, entry: Entry, place: Place) -> Place:
    """Where the levels of an entry's factor are given: in the entry, or for the campaign."""
    return (*place, "factors", factor) if factor in entry.factors else ("factors", factor)


def _at(marked: Marked, place: Place, text: str) -> Fault:
    return marked.line(place), f"{dotted(place)}: {text}"


def unknown(
    marked: Marked,
    kind: str,
    place: Place,
    allowed: Iterable[str],
    name: str | None = None,
    of: str = "",
) -> Fault:
    """The fault that the key at `place` (or the value `name` there) is not allowed."""
    known = sorted(allowed)
    wrong = str(place[-1]) if name is None else name
    near = difflib.get_close_matches(wrong, known, n=1)
    hint = f", did you mean '{near[0]}'?" if near else ""
    text = f"unknown {kind} '{wrong}'{of}{hint}; allowed: {', '.join(known) or 'none'}"
    return marked.line(place, key=name is None), f"{dotted(place)}: {text}"


def dotted(place: Place) -> str:
    """`workloads[2].set.ranks`"""
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place).removeprefix(".")


# How many nodes a case needs on a machine.


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


# Errors: cases that need more nodes than a machine has.


def node_faults(
    marked: Marked, campaign: Campaign, checks: Mapping[str, CheckVariables], machine: Machine
) -> Iterator[Fault]:
    """The smallest case of each entry that has none that fits, in a campaign valid otherwise.

    Of an entry with some that fit, `nimc.campaign.prepare` leaves out the others.
    """
    for index, entry in enumerate(campaign.workloads):
        place: Place = ("workloads", index)
        where: Place = (*place, "set", "nodes") if "nodes" in entry.set else place
        if "nodes" in campaign.factors:
            where = ("factors", "nodes")
        if "nodes" in entry.factors:
            where = (*place, "factors", "nodes")
        found = cases.cases_of(campaign, entry, checks[entry.check])
        try:
            taken = {case.nodes: nodes_taken(campaign, case, machine) for case in found}
        except InputError as error:
            yield marked.line((*place, "set")), f"{dotted((*place, 'set'))}: {error}"
            continue
        most = machine.nodes
        first = min(taken, default=0)
        if most and taken and all(each > most for each in taken.values()):
            text = f"{dotted(where)}: {first} found, {taken[first]} nodes with its origins"
            yield marked.line(where), f"{text}; allowed: {most} (nodes of site/{machine.name}.yaml)"


# Runs that the writers' rows do not fit into: made longer where a check can, else refused.


@dataclass(frozen=True)
class Length:
    """The length of a case's runs."""

    case: str
    #: As the campaign expects it, and at least, seconds; and the rows that set the least.
    expected_s: float
    least_s: float
    rows: str
    #: The check's variable that makes runs longer; empty if none does.
    lengthened_by: str
    #: How often it is expected to be doubled.
    doublings: int


def least_s(campaign: Campaign, machine: Machine) -> float:
    """The shortest run of a campaign, seconds; 0 if no writer writes before and after its runs."""
    injector = INJECTORS[_injector(campaign, machine)]
    if campaign.arms and not any(ARMS[arm].writing == "continuous" for arm in campaign.arms):
        return 0.0
    return least_run_s(injector.row_s or 0.0)


def _injector(campaign: Campaign, machine: Machine) -> str:
    return machine.injector if campaign.injector.name == "auto" else campaign.injector.name


def lengths(
    campaign: Campaign, checks: Mapping[str, CheckVariables], machine: Machine
) -> list[Length]:
    """The length of each case's runs; empty if any length will do."""
    least = least_s(campaign, machine)
    return [
        Length(
            case=case.name,
            expected_s=case.expect,
            least_s=least,
            rows=f"{LEAST_ROWS} rows of {_injector(campaign, machine)}",
            lengthened_by=checks[case.check].lengthened_by,
            doublings=doublings(case.expect, least),
        )
        for case in campaign.cases
        if least
    ]


def lines(found: Sequence[Length]) -> Iterator[str]:
    """What the plan says."""
    if not found:
        return
    first = found[0]
    able = [f"{each.case} by {each.lengthened_by}" for each in found if each.lengthened_by]
    fixed = [each.case for each in found if not each.lengthened_by]
    short = f"runs that take less than {first.least_s:g} s in the warm-up ({first.rows})"
    if able:
        yield f"{short} are made 2, 4, ... times as long: {', '.join(able)}"
    if fixed:
        yield f"{short} end the block, since the check cannot be lengthened: {', '.join(fixed)}"
    for each in found:
        if each.doublings:
            new_s = each.expected_s * 2**each.doublings
            yield f"expected to be lengthened: {each.case}, from {each.expected_s:g} to {new_s:g} s"


def length_faults(
    marked: Marked, campaign: Campaign, checks: Mapping[str, CheckVariables], machine: Machine
) -> Iterator[Fault]:
    """Entries that expect too short runs of a check that cannot be lengthened."""
    least = least_s(campaign, machine)
    for index, entry in enumerate(campaign.workloads):
        if entry.expect < least and not checks[entry.check].lengthened_by:
            place: Place = ("workloads", index, "expect")
            rows = f"{LEAST_ROWS} rows of {_injector(campaign, machine)} take {least:g} s"
            yield (
                marked.line(place),
                f"{dotted(place)}: {entry.expect:g} s found; runs of '{entry.check}' cannot be"
                f" lengthened, and {rows}; allowed: a larger problem of at least {least:g}s",
            )


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
        return unknown(marked, "key", place, model_around(Campaign, place).model_fields)
    if error["type"] == "missing":
        found = "missing"
    elif error["type"] == "value_error":
        found = str(error["ctx"]["error"])
    else:
        found = f"{show(error['input'])} found"
    allowed = field_at(Campaign, place).description
    return marked.line(place), f"{dotted(place)}: {found}; allowed: {allowed}"
