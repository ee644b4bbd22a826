"""Rules of a campaign that its schema cannot have: of fields, checks and a machine. Pure.

Each gives the faults of a campaign, of which `nimc.campaign.load` says the lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from conductor.injectors import INJECTORS
from conductor.length import LEAST_ROWS
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
    #: The field whose line is shown if it is not this one.
    line_of: Place | None = None


def unknown(kind: str, place: Place, allowed: Iterable[str], of: str = "") -> Fault:
    """The key at a place is not one of those that are allowed."""
    return Fault(place, unknown_text(kind, place[-1], allowed, of))


def unknown_text(kind: str, name: object, allowed: Iterable[str], of: str = "") -> str:
    """`unknown key 'sed', did you mean 'seed'?; allowed: ...`"""
    names = sorted(allowed)
    hint = near(str(name), names)
    return f"unknown {kind} '{name}'{of}{hint}; allowed: {', '.join(names) or 'none'}"


def dotted(place: Place) -> str:
    """`workloads[2].set.ranks`"""
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place).removeprefix(".")


def _both(place: Place, other: str) -> Fault:
    return Fault(place, f"cannot be combined with {other}; allowed: one of the two")


@dataclass(frozen=True)
class _Asked:
    """An entry, its campaign and its check."""

    campaign: Campaign
    entry: Entry
    place: Place
    check: CheckVariables

    @cached_property
    def factors(self) -> dict[str, list[Level]]:
        """Its own, and the campaign's."""
        return cases.factors_of(self.campaign, self.entry)

    @cached_property
    def cases(self) -> list[Entry]:
        """Its cases, before a sweep is resolved."""
        return cases.cases_of(self.campaign, self.entry, self.check)

    def at(self, *keys: str | int) -> Place:
        """The place of one of its keys."""
        return (*self.place, *keys)

    def place_of(self, factor: str) -> Place:
        """Where the levels of a factor are given: in the entry, or for the campaign."""
        return self.at("factors", factor) if factor in self.entry.factors else ("factors", factor)


def _entries(campaign: Campaign, checks: Mapping[str, CheckVariables]) -> Iterator[_Asked]:
    unknown_check = CheckVariables(frozenset())
    for index, entry in enumerate(campaign.workloads):
        check = checks.get(entry.check, unknown_check)
        yield _Asked(campaign, entry, ("workloads", index), check)


def of_fields(campaign: Campaign, checks: Mapping[str, CheckVariables]) -> Iterator[Fault]:
    """Unknown injectors and checks, settings that a check does not have, and wrong levels."""
    name = campaign.injector.name
    writing = ["auto", *sorted(name for name, of in INJECTORS.items() if of.writes)]
    if name not in writing:
        text = f"{show(name)} found; allowed: {' '.join(writing)}"
        yield Fault(("injector", "name"), text)
    for asked in _entries(campaign, checks):
        if asked.entry.check not in checks:
            text = unknown_text("workload", asked.entry.check, checks)
            yield Fault(asked.at("check"), text)
            continue
        for rule in (_settings, _arms, _sweep, _factors, _levels):
            yield from rule(asked)


def _settings(asked: _Asked) -> Iterator[Fault]:
    """Wrong variables and values."""
    for name, value in asked.entry.set.items():
        where = asked.at("set", name)
        if name not in asked.check.settable:
            yield unknown("variable", where, asked.check.settable)
        elif name == "warmups" and (type(value) is not int or value < 0):
            yield Fault(where, f"{value!r} found; allowed: whole numbers from 0")
        elif name != "warmups":
            yield from _wrong_type(asked.check, name, value, where, where)


def _wrong_type(
    check: CheckVariables, name: str, value: Level, place: Place, line_of: Place
) -> Iterator[Fault]:
    kind = check.types.get(name)
    if kind is not None and not kind.accepts(value):
        yield Fault(place, f"{value!r} found; allowed: {kind.allowed}", line_of)


def _arms(asked: _Asked) -> Iterator[Fault]:
    """Scheduled arms of a check that has no timetable, or that writes at several rates."""
    for arm in cases.scheduled(asked.campaign.arms)[:1]:
        if "write" not in asked.check.variables:
            text = f"'{asked.entry.check}' has no arm '{arm}'; allowed: another workload or arm"
            yield Fault(("arms",), text)
        if RATE in asked.factors:
            yield _both(asked.place_of(RATE), f"the arm '{arm}'")


def _sweep(asked: _Asked) -> Iterator[Fault]:
    """A sweep of a check without its variables, or combined with factors or their values."""
    entry, check = asked.entry, asked.check
    if entry.sweep is None:
        return
    swept = ", ".join(sorted(SWEPT))
    if not check.settable >= SWEPT:
        yield Fault(asked.at("sweep"), f"'{entry.check}' has no variables {swept}; allowed: none")
    for name in asked.factors:
        if name in SWEPT or not check.changes_within(name):
            allowed = f"factors that change within a block, but {swept}"
            text = f"cannot be combined with the factor '{name}'; allowed: {allowed}"
            yield Fault(asked.at("sweep"), text)
    for name in sorted(SWEPT & entry.set.keys()):
        yield _both(asked.at("set", name), "'sweep'")


def _factors(asked: _Asked) -> Iterator[Fault]:
    """Factors that the check lacks or that are also set, and levels of the check's own."""
    entry, check = asked.entry, asked.check
    if layouts.is_open(entry) and "reserved_cores" in asked.factors:
        yield _both(asked.at("set", layouts.LAYOUT), "the factor 'reserved_cores'")
    for name, levels in asked.factors.items():
        where = asked.place_of(name)
        if name not in check.factors:
            yield unknown("factor", where, check.factors, of=f" of '{entry.check}'")
            continue
        for index, level in enumerate(levels):
            if name == "nodes" and (type(level) is not int or level < 1):
                yield Fault(where, f"{level} found; allowed: whole numbers from 1", (*where, index))
            elif name not in FACTORS:
                yield from _wrong_type(check, name, level, where, (*where, index))
        if name in entry.set:
            yield _both(where, dotted(asked.at("set", name)))
        key = _OF_INJECTOR.get(name)
        if key and getattr(asked.campaign.injector, key) not in ("auto", FULL):
            yield _both(where, f"injector.{key}")


def _levels(asked: _Asked) -> Iterator[Fault]:
    """Levels that are not allowed, of factors and of the variables that could be factors."""
    levels = cases.requested(asked.campaign, asked.entry, asked.check).levels
    across = asked.check.comparable_across_cores
    for name, index, text in level_faults(levels, asked.factors, comparable_across_cores=across):
        where = asked.at("check")
        if name in asked.factors:
            where = asked.place_of(name)
        elif name in asked.entry.set:
            where = asked.at("set", name)
        elif name in _OF_INJECTOR:
            where = ("injector", _OF_INJECTOR[name])
        yield Fault(where, text, None if index is None else (*where, index))


def of_cells(campaign: Campaign) -> Iterator[Fault]:
    """Cells with factors, levels or arms that the campaign does not have."""
    arms: list[Level] = list(campaign.arms or ARMS)
    of_all: dict[str, list[Level]] = {ARM: arms}
    for asked in _entries(campaign, {}):
        for name, levels in asked.factors.items():
            of_all[name] = [*of_all.get(name, []), *levels]
        yield from _cells_in(asked.place, asked.entry, {ARM: arms, **asked.factors})
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
    names = set[str]()
    for asked in _entries(campaign, checks):
        if not asked.cases:
            yield Fault(asked.place, "exclude and only leave no case; allowed: at least one")
        for name in (case.name for case in asked.cases):
            if name in names:
                text = f"duplicate case name '{name}'; allowed: another name"
                yield Fault(asked.at("case"), text, asked.place)
            if len(name) > _LONGEST_CASE:
                text = (
                    f"'{name:.40}...' has {len(name)} characters; allowed: at most {_LONGEST_CASE}"
                )
                yield Fault(asked.at("case"), text, asked.place)
            names.add(name)


def of_treatments(campaign: Campaign, checks: Mapping[str, CheckVariables]) -> Iterator[Fault]:
    """Cases without treatments."""
    arms = campaign.arms or standard_arms(same_host=True)
    for asked in _entries(campaign, checks):
        for case in asked.cases:
            if case.factors or case.exclude or case.only:
                try:
                    cases.treatments(arms, case)
                except InputError as error:
                    yield Fault(asked.place, f"{case.name}: {error}")


def of_writes(
    campaign: Campaign, checks: Mapping[str, CheckVariables], machine: Machine
) -> Iterator[Fault]:
    """Entries whose short writes cannot be made."""
    for asked in _entries(campaign, checks):
        for case in asked.cases:
            try:
                cases.nodes_taken(campaign, case, machine)
            except InputError as error:
                yield Fault(asked.at("set"), str(error))


def of_lengths(
    campaign: Campaign, checks: Mapping[str, CheckVariables], machine: Machine
) -> Iterator[Fault]:
    """Entries that expect too short runs of a check that cannot be lengthened."""
    least = least_s(campaign, machine)
    rows = f"{LEAST_ROWS} rows of {_injector(campaign, machine)}"
    for asked in _entries(campaign, checks):
        entry = asked.entry
        if entry.expect < least and not asked.check.lengthened_by:
            text = (
                f"{entry.expect:g} s found; runs of '{entry.check}' cannot be lengthened, and"
                f" {rows} take {least:g} s; allowed: a larger problem of at least {least:g}s"
            )
            yield Fault(asked.at("expect"), text)


def least_s(campaign: Campaign, machine: Machine) -> float:
    """The shortest run of a campaign, seconds; 0 if no writer writes before and after its runs."""
    if campaign.arms and not any(ARMS[arm].writing == "continuous" for arm in campaign.arms):
        return 0.0
    return LEAST_ROWS * (INJECTORS[_injector(campaign, machine)].row_s or 0.0)


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
