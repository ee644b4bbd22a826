"""Errors in a campaign that involve several fields or its checks, but not the machine."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from analysis.arms import ARMS, standard_arms
from analysis.errors import InputError
from analysis.sample import Level
from campaigns.request import cases
from campaigns.request.checks import CheckVariables
from campaigns.request.schema import SWEPT, Campaign, Entry
from injection.machine.marked_yaml import Marked, Place
from reframe_tests.crossing import ARM, FULL, RATE, level_text
from reframe_tests.factors import FACTORS, OF_CORES, check_level

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
    marked: Marked, place: Place, asked: Campaign | Entry, known: Mapping[str, Sequence[Level]]
) -> Iterator[Fault]:
    for key, cells in (("exclude", asked.exclude), ("only", asked.only)):
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
