"""Turns a campaign file into a checked campaign. Every error is reported before anything runs.

A *check* is a ReFrame test, which runs one workload. An *entry* is an element of the file's list
`workloads`: a check with its settings. A *case* is an entry at one level of each factor that cannot
change within a block. A *cell* (in `exclude` and `only`) is a combination of levels.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from conductor.injectors import INJECTORS
from nimc.campaign import cases, layouts
from nimc.campaign.scales import scheduled_arms
from nimc.readiness.checks import UNKNOWN_CHECK, CheckDescription, third_party_check
from records.arms import level_text, standard_arms
from records.campaign import SWEEP_VARIABLES, Campaign, Entry
from records.errors import InputError, MachineError, shown_value, suggestion
from records.machine.site import Machine
from records.sample import Level
from records.text import one_line
from records.units import plural
from records.yaml_file import Keys, YamlDocument, containing_model, field_at
from reframe_tests.crossing import ARM, FULL, RATE
from reframe_tests.planning import level_faults

#: Largest number of faults that an error message lists.
_MOST_FAULTS = 10
#: Factor -> key of the campaign's `injector` that sets one value for the whole campaign instead.
_INJECTOR_KEYS = {
    RATE: "rate",
    "message": "message",
    "queue_pairs": "queue_pairs",
    "injector": "name",
}
#: Maximum length of a case's name, characters. Files are named by it, with a suffix.
_MAX_CASE_NAME_LENGTH = 160


@dataclass(frozen=True)
class FieldFault:
    """A fault of a field of the file."""

    #: Keys that lead to the field.
    location: Keys
    #: The fault, and what is allowed.
    message: str
    #: Keys that lead to the field whose line number is printed; None: `location`.
    line_location: Keys | None = None


def unknown_key(
    noun: str, location: Keys, allowed: Iterable[str], check: str | None = None
) -> FieldFault:
    """Return the fault of a key that is not allowed at its location.

    The message calls the key a `noun`, such as 'variable'. For `check` see `unknown_message`.
    """
    return FieldFault(location, unknown_message(noun, location[-1], allowed, check))


def unknown_message(
    noun: str, name: object, allowed: Iterable[str], check: str | None = None
) -> str:
    """Return a message such as `unknown key 'sed', did you mean 'seed'?; allowed: ...`.

    If `check` is given, the message says that `name` does not belong to this check.
    """
    names = sorted(allowed)
    owner = f" of '{check}'" if check else ""
    hint = suggestion(str(name), names)
    return f"unknown {noun} '{name}'{owner}{hint}; allowed: {', '.join(names) or 'none'}"


def dotted(location: Keys) -> str:
    """Return a location as users write it, such as `workloads[2].set.ranks`."""
    parts = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in location)
    return "".join(parts).removeprefix(".")


def load_campaign(
    document: YamlDocument, checks: Mapping[str, CheckDescription], machine: Machine
) -> Campaign:
    """Return the campaign in a file, checked for a machine.

    Its list `workloads` has the cases instead of the entries (`cases.expand`). Raises InputError
    with a line for each of the first faults (`refuse`).
    """
    if not isinstance(document.data, dict):
        keys = ", ".join(Campaign.model_fields)
        raise InputError(
            f"{document.path}:1: {shown_value(document.data)} found; a campaign is a mapping of"
            f" {keys}"
        )
    try:
        campaign = Campaign.model_validate(document.data)
    except ValidationError as error:
        refuse(document, map(_schema_fault, error.errors(include_url=False)))
        raise
    contexts = [
        _EntryContext(campaign, entry, ("workloads", index), checks.get(entry.check, UNKNOWN_CHECK))
        for index, entry in enumerate(campaign.workloads)
    ]
    refuse(
        document,
        [
            *_field_faults(contexts, checks),
            *_cell_faults(contexts),
            *_case_faults(contexts),
        ],
    )
    faults = list(_length_faults(contexts, machine))

    def add_fault(index: int, key: str, error: InputError) -> None:
        location: Keys = ("workloads", index, key) if key else ("workloads", index)
        faults.append(FieldFault(location, str(error)))

    expanded = cases.expand(campaign, checks, machine, add_fault)
    refuse(document, faults)
    return expanded


def refuse(document: YamlDocument, faults: Iterable[FieldFault]) -> None:
    """Raise InputError if there are faults. It has a line for each of the first faults.

    A line is `FILE:LINE: FIELD: FAULT; allowed: VALUES`, or `OPTION: FAULT; allowed: VALUES` if
    `nimc measure` made the document from its options.
    """
    if document.options:
        option_lines = [f"{document.option(fault.location)}: {fault.message}" for fault in faults]
        lines = list(map(one_line, dict.fromkeys(option_lines)))
    else:
        numbered_messages = {
            (
                _line_of(document, fault.line_location or fault.location),
                f"{dotted(fault.location)}: {fault.message}",
            )
            for fault in faults
        }
        lines = [
            one_line(f"{document.path}:{line}: {message}")
            for line, message in sorted(numbered_messages)
        ]
    unlisted = len(lines) - _MOST_FAULTS
    if unlisted > 0:
        lines = [*lines[:_MOST_FAULTS], f"{document.path}: {plural(unlisted, 'more error')}"]
    if lines:
        raise InputError(*lines)


def _line_of(document: YamlDocument, location: Keys) -> int:
    """Return the number of the line with a field's key, or else of the line with its value."""
    return document.key_lines.get(location) or document.line(location)


def _schema_fault(error: ErrorDetails) -> FieldFault:
    location: Keys = error["loc"]
    if error["type"] == "extra_forbidden":
        return unknown_key("key", location, containing_model(Campaign, location).model_fields)
    if error["type"] == "missing":
        fault = "missing"
    elif error["type"] == "value_error":
        fault = str(error["ctx"]["error"])
    else:
        fault = f"{shown_value(error['input'])} found"
    return FieldFault(location, f"{fault}; allowed: {field_at(Campaign, location).description}")


def _unvalidated_entries(document: YamlDocument) -> list[dict[str, object]]:
    """Return the workloads of a campaign that is not yet validated.

    A workload that is not a mapping is returned as an empty one.
    """
    entries = document.data.get("workloads") if isinstance(document.data, dict) else None
    if not isinstance(entries, list):
        return []
    return [entry if isinstance(entry, dict) else {} for entry in entries]


# Rules that the schema cannot express, since they compare fields, or need the checks or the
# machine.


def _conflict(location: Keys, other: str) -> FieldFault:
    """Return the fault that a key cannot be combined with `other`, a phrase for a message."""
    return FieldFault(location, f"cannot be combined with {other}; allowed: one of the two")


@dataclass(frozen=True)
class _EntryContext:
    """An entry, its campaign and its check."""

    campaign: Campaign
    entry: Entry
    location: Keys
    check: CheckDescription

    @cached_property
    def factors(self) -> dict[str, list[Level]]:
        """Return the factors of the entry, and the campaign's factors that it does not replace."""
        return cases.factors_of(self.campaign, self.entry)

    @cached_property
    def cases(self) -> list[Entry]:
        """Return the cases of the entry. A sweep is not yet replaced by a case for each point."""
        return cases.cases_of(self.campaign, self.entry, self.check)

    def key_location(self, *keys: str | int) -> Keys:
        """Return the location in the file of a key of the entry."""
        return (*self.location, *keys)

    def location_of(self, factor: str) -> Keys:
        """Return the location in the file of a factor's levels, in the entry or in the campaign."""
        if factor in self.entry.factors:
            return self.key_location("factors", factor)
        return ("factors", factor)


def _field_faults(
    contexts: Sequence[_EntryContext], checks: Collection[str]
) -> Iterator[FieldFault]:
    """Yield the faults of injector, checks, settings, arms, sweeps, factors and levels."""
    injector_name = contexts[0].campaign.injector.name
    injectors = {name: injector for name, injector in INJECTORS.items() if injector.writes}
    allowed = ["auto", *sorted(injectors)]
    if injector_name not in allowed:
        name_by_program = {
            injector.program: name for name, injector in injectors.items() if injector.program
        }
        if injector_name in name_by_program:
            hint = f", did you mean '{name_by_program[injector_name]}'?"
        else:
            hint = suggestion(injector_name, allowed)
        message = f"{shown_value(injector_name)} found{hint}; allowed: {' '.join(allowed)}"
        yield FieldFault(("injector", "name"), message)
    for context in contexts:
        if context.entry.check not in checks:
            message = unknown_message("workload", context.entry.check, checks)
            yield FieldFault(context.key_location("check"), message)
            continue
        for name in context.entry.set.keys() - context.check.settable:
            yield unknown_key("variable", context.key_location("set", name), context.check.settable)
        yield from _arm_faults(context)
        yield from _sweep_faults(context)
        yield from _factor_faults(context)
        yield from _value_faults(context)


def _arm_faults(context: _EntryContext) -> Iterator[FieldFault]:
    """Yield the faults of an arm with scheduled writes (short writes that follow a timetable).

    The check must be able to have such writes, and the campaign must not have the factor `rate`.
    """
    for arm in scheduled_arms(context.campaign.arms)[:1]:  # one arm is enough for a message
        if "write" not in context.check.variables:
            message = (
                f"'{context.entry.check}' has no arm '{arm}'; allowed: another workload or arm"
            )
            yield FieldFault(("arms",), message)
        if RATE in context.factors:
            yield _conflict(context.location_of(RATE), f"the arm '{arm}'")


def _sweep_faults(context: _EntryContext) -> Iterator[FieldFault]:
    """Yield the faults of a sweep.

    The check must have the variables that a sweep sets. Factors and settings must not set them too.
    All factors must change within a block. The writers must have the full rate, or the levels of
    `rate` must include it.
    """
    entry, check = context.entry, context.check
    if entry.sweep is None:
        return
    swept = ", ".join(sorted(SWEEP_VARIABLES))
    if missing := sorted(SWEEP_VARIABLES - check.settable):
        noun = "variable" if len(missing) == 1 else "variables"
        yield FieldFault(
            context.key_location("sweep"),
            f"'{entry.check}' has no {noun} {', '.join(missing)}; allowed: no sweep",
        )
    for name in context.factors:
        if name in SWEEP_VARIABLES or not check.changes_within(name):
            allowed = f"factors that change within a block, except {swept}"
            message = f"cannot be combined with the factor '{name}'; allowed: {allowed}"
            yield FieldFault(context.key_location("sweep"), message)
    rate = context.campaign.injector.rate
    if rate != FULL:
        message = f"{shown_value(rate)} found; allowed: full, since a model is fitted to the sweep"
        yield FieldFault(("injector", "rate"), message)
    if FULL not in context.factors.get(RATE, [FULL]):
        message = "no level full; allowed: full, too, since a model is fitted to its runs"
        yield FieldFault(context.location_of(RATE), message)
    for name in sorted(SWEEP_VARIABLES & entry.set.keys()):
        yield _conflict(context.key_location("set", name), "'sweep'")


def _factor_faults(context: _EntryContext) -> Iterator[FieldFault]:
    """Yield the faults of factors.

    The check must have the factor, and neither `set` nor `injector` may set its level. The factor
    `reserved_cores` cannot be combined with a layout that is chosen by measurement.
    """
    entry, check = context.entry, context.check
    if layouts.is_to_be_chosen(entry) and "reserved_cores" in context.factors:
        yield _conflict(context.key_location("set", layouts.LAYOUT), "the factor 'reserved_cores'")
    for name in context.factors:
        location = context.location_of(name)
        if name not in check.factors:
            yield unknown_key("factor", location, check.factors, entry.check)
            continue
        if name in entry.set:
            yield _conflict(location, dotted(context.key_location("set", name)))
        key = _INJECTOR_KEYS.get(name)
        if key and getattr(context.campaign.injector, key) not in ("auto", FULL):
            yield _conflict(location, f"injector.{key}")


def _value_faults(context: _EntryContext) -> Iterator[FieldFault]:
    """Yield the faults of variables' values and of factors' levels that are not allowed."""
    entry, check = context.entry, context.check
    set_levels = {name: value for name, value in entry.set.items() if name in check.settable}
    levels = {**cases.case_request(context.campaign, entry, check).levels, **set_levels}
    for name, index, message in level_faults(
        levels,
        context.factors,
        comparable_across_cores=check.comparable_across_cores,
        check=check.check_level,
    ):
        location = context.key_location("check")
        if name in context.factors:
            location = context.location_of(name)
            if index is None:
                message = f"check '{entry.check}': {message}"
        elif name in context.entry.set:
            location = context.key_location("set", name)
        elif name in _INJECTOR_KEYS:
            location = ("injector", _INJECTOR_KEYS[name])
        yield FieldFault(location, message, None if index is None else (*location, index))


def _cell_faults(contexts: Sequence[_EntryContext]) -> Iterator[FieldFault]:
    """Yield the faults of cells with factors, levels or arms that the campaign does not have."""
    campaign = contexts[0].campaign
    # A campaign without arms gets the standard arms of its machine. A shared host has all of them.
    arms: list[Level] = [*(campaign.arms or standard_arms(same_host=True))]
    all_levels: dict[str, list[Level]] = {ARM: arms}
    for context in contexts:
        for name, levels in context.factors.items():
            all_levels[name] = [*all_levels.get(name, []), *levels]
        yield from _cell_faults_in(context.location, context.entry, {ARM: arms, **context.factors})
    yield from _cell_faults_in((), campaign, all_levels)


def _cell_faults_in(
    location: Keys, cells_owner: Campaign | Entry, levels: Mapping[str, Sequence[Level]]
) -> Iterator[FieldFault]:
    for key, cells in (("exclude", cells_owner.exclude), ("only", cells_owner.only)):
        for index, cell in enumerate(cells):
            for name, level in cell.items():
                level_location = (*location, key, index, name)
                if name not in levels:
                    yield unknown_key("factor", level_location, levels)
                elif level not in levels[name]:
                    allowed = ", ".join(dict.fromkeys(map(level_text, levels[name])))
                    yield FieldFault(
                        level_location, f"{level_text(level)} found; allowed: {allowed}"
                    )


def _case_faults(contexts: Sequence[_EntryContext]) -> Iterator[FieldFault]:
    """Yield the faults of duplicate or too long names of cases, and of entries without cases."""
    names = set[str]()
    for context in contexts:
        if not context.cases:
            yield FieldFault(
                context.location, "exclude and only leave no case; allowed: at least one"
            )
        for case in context.cases:
            name = case.name
            if name in names:
                message = f"duplicate case name '{name}'; allowed: another name"
                yield FieldFault(context.key_location("case"), message, context.location)
            if len(name) > _MAX_CASE_NAME_LENGTH:
                message = (
                    f"'{name:.40}...' has {len(name)} characters; allowed: at most"
                    f" {_MAX_CASE_NAME_LENGTH}"
                )
                yield FieldFault(context.key_location("case"), message, context.location)
            names.add(name)


def _length_faults(contexts: Sequence[_EntryContext], machine: Machine) -> Iterator[FieldFault]:
    """Yield the faults of runs that are too short and that their check cannot lengthen.

    A run must last for enough rows of the writers, and for a precise count of their bytes.
    """
    least_s, why = cases.shortest_run(contexts[0].campaign, machine)
    for context in contexts:
        entry = context.entry
        if entry.expect < least_s and not context.check.lengthened_by:
            message = (
                f"{entry.expect:g} s found; runs of '{entry.check}' cannot be lengthened, and"
                f" {why}; allowed: a larger problem, and its run time, at least {least_s:g} s"
            )
            yield FieldFault(context.key_location("expect"), message)


# A third-party check is written as `check: PATH.py:Class`. The class in this file must have the
# mixin of `reframe_tests` as a base.

_FILE_AND_CLASS = re.compile(r"[^\x00-\x1f]+\.py:[A-Za-z_]\w*", re.ASCII)


def load_third_party_checks(
    document: YamlDocument, taken_names: Collection[str], config: Path, system: str
) -> dict[str, CheckDescription]:
    """Return the third-party checks that a campaign file names: class name -> description.

    ReFrame describes each check, with its settings file `config` and the name `system` of a system
    in it. In `document`, the class name replaces `PATH.py:Class`. Raises InputError with a line for
    each of the first checks that cannot be used, for example because its name is in `taken_names`.
    """
    third_party_checks: dict[str, CheckDescription] = {}
    path_by_name: dict[str, Path] = {}
    faults = []
    for index, file_and_class in third_party_check_names(document):
        file_name, name = file_and_class.rsplit(":", 1)
        path = Path(os.path.normpath(document.path.parent / file_name))
        try:
            if name in taken_names or path_by_name.get(name, path) != path:
                raise InputError(
                    "another check has the same name; allowed: a subclass with another name"
                )
            if name not in third_party_checks:
                third_party_checks[name] = third_party_check(path, name, config, system)
            path_by_name[name] = path
            document.data["workloads"][index]["check"] = name
        except (InputError, MachineError) as error:
            faults.append(
                FieldFault(("workloads", index, "check"), f"{file_and_class} found: {error}")
            )
    refuse(document, faults)
    return third_party_checks


def third_party_check_names(document: YamlDocument) -> list[tuple[int, str]]:
    """Return the index and `PATH.py:Class` of each workload that is a third-party check.

    The campaign may be invalid.
    """
    checks = [entry.get("check") for entry in _unvalidated_entries(document)]
    return [
        (index, check)
        for index, check in enumerate(checks)
        if isinstance(check, str) and _FILE_AND_CLASS.fullmatch(check)
    ]
