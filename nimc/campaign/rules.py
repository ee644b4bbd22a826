"""Rules of a campaign that its schema cannot have: of fields, checks and a machine. Pure.

Each gives the faults of a campaign, of which `nimc.campaign.load` says the lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from conductor.injectors import INJECTORS
from conductor.length import LEAST_ROWS, least_run_s
from nimc.campaign import cases, layouts
from nimc.campaign.checks import CheckVariables
from records.arms import ARMS, level_text, standard_arms
from records.campaign import SWEPT, Campaign, Entry
from records.errors import InputError, near, show
from records.machine.site import Machine
from records.marked_yaml import Place
from records.sample import Level
from reframe_tests.crossing import ARM, FULL, RATE
from reframe_tests.factors import FACTORS
from reframe_tests.planning import level_faults

#: Factor whose single level has a key in `injector` -> that key.
_OF_INJECTOR = {RATE: "rate", "message": "message", "injector": "name"}
#: Longest name of a case, which with a suffix names files.
_LONGEST_CASE = 160


@dataclass(frozen=True)
class Fault:
    """What is wrong in the field at a place."""

    place: Place
    #: What is wrong with it, and what is allowed.
    text: str
    #: The field whose line is shown if it is not this one; and whether the key is wrong.
    line_of: Place | None = None
    key: bool = False
    #: The field whose line the text names as `{line}`.
    earlier: Place | None = None


def unknown(kind: str, place: Place, allowed: Iterable[str], of: str = "") -> Fault:
    """The key at a place is not one of those that are allowed."""
    return Fault(place, unknown_text(kind, place[-1], allowed, of), key=True)


def unknown_text(kind: str, name: object, allowed: Iterable[str], of: str = "") -> str:
    """`unknown key 'sed', did you mean 'seed'?; allowed: ...`"""
    names = sorted(allowed)
    hint = near(str(name), names)
    return f"unknown {kind} '{name}'{of}{hint}; allowed: {', '.join(names) or 'none'}"


def _both(place: Place, other: str) -> Fault:
    return Fault(place, f"cannot be combined with {other}; allowed: one of the two")


def _entries(campaign: Campaign) -> Iterator[tuple[Place, Entry]]:
    for index, entry in enumerate(campaign.workloads):
        yield ("workloads", index), entry


def _place_of(factor: str, entry: Entry, place: Place) -> Place:
    """Where the levels of an entry's factor are given: in the entry, or for the campaign."""
    return (*place, "factors", factor) if factor in entry.factors else ("factors", factor)


def of_fields(campaign: Campaign, checks: Mapping[str, CheckVariables]) -> Iterator[Fault]:
    """Unknown injectors and checks, settings that a check does not have, and wrong levels."""
    name = campaign.injector.name
    writing = ["auto", *sorted(each.name for each in INJECTORS.values() if each.writes)]
    if name not in writing:
        text = f"{show(name)} found; allowed: {' '.join(writing)}"
        yield Fault(("injector", "name"), text)
    for place, entry in _entries(campaign):
        check = checks.get(entry.check)
        if check is None:
            yield Fault((*place, "check"), unknown_text("workload", entry.check, checks))
            continue
        yield from _of_set(entry, place, check)
        yield from _of_arms(campaign, entry, place, check)
        yield from _of_sweep(campaign, entry, place, check)
        yield from _of_factors(campaign, entry, place, check)
        yield from _of_levels(campaign, entry, place, check)


def _of_set(entry: Entry, place: Place, check: CheckVariables) -> Iterator[Fault]:
    """Wrong variables and values."""
    for name, value in entry.set.items():
        where: Place = (*place, "set", name)
        if name not in check.settable:
            yield unknown("variable", where, check.settable)
        elif name == "warmups" and (type(value) is not int or value < 0):
            yield Fault(where, f"{value!r} found; allowed: whole numbers from 0")
        elif name != "warmups":
            yield from _of_type(check, name, value, where, where)


def _of_type(
    check: CheckVariables, name: str, value: Level, place: Place, line_of: Place
) -> Iterator[Fault]:
    kind = check.types.get(name)
    if kind is not None and not kind.accepts(value):
        yield Fault(place, f"{value!r} found; allowed: {kind.allowed}", line_of)


def _of_arms(
    campaign: Campaign, entry: Entry, place: Place, check: CheckVariables
) -> Iterator[Fault]:
    """Scheduled arms of a check that has no timetable, or that writes at several rates."""
    for arm in cases.scheduled(campaign.arms)[:1]:
        if "write" not in check.variables:
            text = f"'{entry.check}' has no arm '{arm}'; allowed: another workload or arm"
            yield Fault(("arms",), text)
        if RATE in cases.factors_of(campaign, entry):
            yield _both(_place_of(RATE, entry, place), f"the arm '{arm}'")


def _of_sweep(
    campaign: Campaign, entry: Entry, place: Place, check: CheckVariables
) -> Iterator[Fault]:
    """A sweep of a check without its variables, or combined with factors or their values."""
    if entry.sweep is None:
        return
    where: Place = (*place, "sweep")
    swept = ", ".join(sorted(SWEPT))
    if not check.settable >= SWEPT:
        yield Fault(where, f"'{entry.check}' has no variables {swept}; allowed: none")
    for name in cases.factors_of(campaign, entry):
        if name in SWEPT or not check.changes_within(name):
            allowed = f"factors that change within a block, but {swept}"
            text = f"cannot be combined with the factor '{name}'; allowed: {allowed}"
            yield Fault(where, text)
    for name in sorted(SWEPT & entry.set.keys()):
        yield _both((*place, "set", name), "'sweep'")


def _of_factors(
    campaign: Campaign, entry: Entry, place: Place, check: CheckVariables
) -> Iterator[Fault]:
    """Factors that the check lacks or that are also set, and levels of the check's own."""
    if layouts.is_open(entry) and "reserved_cores" in cases.factors_of(campaign, entry):
        yield _both((*place, "set", layouts.LAYOUT), "the factor 'reserved_cores'")
    for name, levels in cases.factors_of(campaign, entry).items():
        where = _place_of(name, entry, place)
        if name not in check.factors:
            yield unknown("factor", where, check.factors, of=f" of '{entry.check}'")
            continue
        for index, level in enumerate(levels):
            if name == "nodes" and (type(level) is not int or level < 1):
                yield Fault(where, f"{level} found; allowed: whole numbers from 1", (*where, index))
            elif name not in FACTORS:
                yield from _of_type(check, name, level, where, (*where, index))
        if name in entry.set:
            yield _both(where, dotted((*place, "set", name)))
        key = _OF_INJECTOR.get(name)
        if key and getattr(campaign.injector, key) not in ("auto", FULL):
            yield _both(where, f"injector.{key}")


def _of_levels(
    campaign: Campaign, entry: Entry, place: Place, check: CheckVariables
) -> Iterator[Fault]:
    """Levels that are not allowed, of factors and of the variables that could be factors."""
    factors = cases.factors_of(campaign, entry)
    levels = cases.requested(campaign, entry, check).levels
    across = check.comparable_across_cores
    for name, index, text in level_faults(levels, factors, comparable_across_cores=across):
        where: Place = (*place, "check")
        if name in factors:
            where = _place_of(name, entry, place)
        elif name in entry.set:
            where = (*place, "set", name)
        elif name in _OF_INJECTOR:
            where = ("injector", _OF_INJECTOR[name])
        yield Fault(where, text, None if index is None else (*where, index))


def dotted(place: Place) -> str:
    """`workloads[2].set.ranks`"""
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place).removeprefix(".")


def of_cells(campaign: Campaign) -> Iterator[Fault]:
    """Cells with factors, levels or arms that the campaign does not have."""
    arms: list[Level] = list(campaign.arms or ARMS)
    of_all: dict[str, list[Level]] = {ARM: arms}
    for place, entry in _entries(campaign):
        factors = cases.factors_of(campaign, entry)
        for name, levels in factors.items():
            of_all[name] = [*of_all.get(name, []), *levels]
        yield from _cells_in(place, entry, {ARM: arms, **factors})
    yield from _cells_in((), campaign, of_all)


def _cells_in(
    place: Place, requested: Campaign | Entry, levels: Mapping[str, Sequence[Level]]
) -> Iterator[Fault]:
    for key, cells in (("exclude", requested.exclude), ("only", requested.only)):
        for index, cell in enumerate(cells):
            for name, level in cell.items():
                where = (*place, key, index, name)
                if name not in levels:
                    yield unknown("factor", where, levels)
                elif level not in levels[name]:
                    allowed = ", ".join(dict.fromkeys(map(level_text, levels[name])))
                    yield Fault(where, f"{level_text(level)} found; allowed: {allowed}")


def of_cases(campaign: Campaign, checks: Mapping[str, CheckVariables]) -> Iterator[Fault]:
    """Duplicate or too long names of cases, and entries without cases."""
    first: dict[str, Place] = {}
    for place, entry in _entries(campaign):
        where: Place = (*place, "case")
        check = checks.get(entry.check, CheckVariables(frozenset()))
        expanded = cases.cases_of(campaign, entry, check)
        if not expanded:
            yield Fault(place, "exclude and only leave no case; allowed: at least one")
        for name in (case.name for case in expanded):
            if name in first:
                text = f"duplicate case name '{name}', first in line {{line}}"
                text += "; allowed: another name"
                yield Fault(where, text, place, earlier=first[name])
            if len(name) > _LONGEST_CASE:
                text = f"'{name:.40}...' has {len(name)} characters"
                yield Fault(where, f"{text}; allowed: at most {_LONGEST_CASE}", place)
            first.setdefault(name, place)


def of_treatments(campaign: Campaign, checks: Mapping[str, CheckVariables]) -> Iterator[Fault]:
    """Cases without treatments."""
    arms = campaign.arms or standard_arms(same_host=True)
    for place, entry in _entries(campaign):
        for case in cases.cases_of(campaign, entry, checks[entry.check]):
            if case.factors or case.exclude or case.only:
                try:
                    cases.treatments(arms, case)
                except InputError as error:
                    yield Fault(place, f"{case.name}: {error}")


def of_nodes(
    campaign: Campaign, checks: Mapping[str, CheckVariables], machine: Machine
) -> Iterator[Fault]:
    """The smallest case of each entry of which none fits (else `cases.leave_out`)."""
    for place, entry in _entries(campaign):
        settings: Place = (*place, "set")
        where: Place = (*settings, "nodes") if "nodes" in entry.set else place
        if "nodes" in cases.factors_of(campaign, entry):
            where = _place_of("nodes", entry, place)
        expanded = cases.cases_of(campaign, entry, checks[entry.check])
        try:
            taken = {case.nodes: cases.nodes_taken(campaign, case, machine) for case in expanded}
        except InputError as error:
            yield Fault(settings, str(error))
            continue
        most, first = machine.nodes, min(taken, default=0)
        if most and taken and min(taken.values()) > most:
            text = f"{first} found, {taken[first]} nodes with its origins"
            yield Fault(where, f"{text}; allowed: {most} (nodes of site/{machine.name}.yaml)")


def of_lengths(
    campaign: Campaign, checks: Mapping[str, CheckVariables], machine: Machine
) -> Iterator[Fault]:
    """Entries that expect too short runs of a check that cannot be lengthened."""
    least = least_s(campaign, machine)
    rows = f"{LEAST_ROWS} rows of {_injector(campaign, machine)}"
    for place, entry in _entries(campaign):
        if entry.expect < least and not checks[entry.check].lengthened_by:
            text = (
                f"{entry.expect:g} s found; runs of '{entry.check}' cannot be lengthened, and"
                f" {rows} take {least:g} s; allowed: a larger problem of at least {least:g}s"
            )
            yield Fault((*place, "expect"), text)


def least_s(campaign: Campaign, machine: Machine) -> float:
    """The shortest run of a campaign, seconds; 0 if no writer writes before and after its runs."""
    if campaign.arms and not any(ARMS[arm].writing == "continuous" for arm in campaign.arms):
        return 0.0
    return least_run_s(INJECTORS[_injector(campaign, machine)].row_s or 0.0)


def _injector(campaign: Campaign, machine: Machine) -> str:
    """The one with the longest rows, if it is a factor."""
    named = machine.injector if campaign.injector.name == "auto" else campaign.injector.name
    levels = [
        str(level)
        for factors in (campaign.factors, *(entry.factors for entry in campaign.workloads))
        for level in factors.get("injector", [])
        if level in INJECTORS
    ]
    return max(levels or [named], key=lambda name: INJECTORS[name].row_s or 0.0)
