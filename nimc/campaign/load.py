"""From a campaign file to a checked campaign. Every error is reported before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from conductor.injectors import INJECTORS
from conductor.length import LEAST_ROWS, least_run_s
from nimc.campaign import cases
from nimc.campaign.checks import CheckVariables
from records.arms import ARMS, level_text, standard_arms
from records.campaign import SWEPT, Campaign, Entry
from records.errors import InputError, near, show
from records.machine.site import Machine
from records.marked_yaml import Marked, Place, field_at, model_around
from records.sample import Level
from records.text import one_line
from records.traffic.trace import load as load_trace
from reframe_tests.crossing import ARM, FULL, RATE
from reframe_tests.factors import FACTORS, OF_CORES, check_level

#: Line of the file, and the error.
Fault = tuple[int, str]
#: Factor whose single level has a key in `injector` -> that key.
_OF_INJECTOR = {RATE: "rate", "message": "message", "injector": "name"}
#: No more errors than this are listed.
_MOST_FAULTS = 10
#: Longest name of a case, which with a suffix names files.
_LONGEST_CASE = 160


def load_campaign(
    marked: Marked, checks: Mapping[str, CheckVariables], machine: Machine | None = None
) -> Campaign:
    """The campaign in a file, checked against a machine if one is given.

    Its trace, which can be read, has its whole path. Raises InputError with one line an error:
    `FILE:LINE: field: found; allowed: what is`.
    """
    path = marked.path
    if not isinstance(marked.data, dict):
        keys = ", ".join(Campaign.model_fields)
        refuse(path, [(1, f"{show(marked.data)} found; a campaign is a mapping of {keys}")])
    try:
        campaign = Campaign.model_validate(marked.data)
    except ValidationError as error:
        faults = [_fault(marked, each) for each in error.errors(include_url=False)]
        refuse(path, [*faults, *_missing_arms(marked)])
        raise
    refuse(path, _missing_arms(marked))
    rules = _Rules(marked, campaign, checks)
    refuse(path, [*rules.of_fields(), *rules.of_cells(), *rules.of_cases()])
    refuse(path, rules.of_treatments())
    if machine is not None:
        refuse(path, rules.of_nodes(machine))
        refuse(path, rules.of_lengths(machine))
    if campaign.traffic is None:
        return campaign
    trace = path.parent / campaign.traffic.trace
    if not trace.is_file():
        allowed = "a file that 'nimc traffic import' wrote"
        refuse(path, [rules.at(("traffic",), f"{trace} does not exist", allowed)])
    load_trace(trace)
    chosen = campaign.traffic.model_copy(update={"trace": str(trace.resolve())})
    return campaign.model_copy(update={"traffic": chosen})


def least_s(campaign: Campaign, machine: Machine) -> float:
    """The shortest run of a campaign, seconds; 0 if no writer writes before and after its runs."""
    if campaign.arms and not any(ARMS[arm].writing == "continuous" for arm in campaign.arms):
        return 0.0
    return least_run_s(INJECTORS[_injector(campaign, machine)].row_s or 0.0)


def _injector(campaign: Campaign, machine: Machine) -> str:
    """The one with the longest rows, if it is a factor."""
    own = machine.injector if campaign.injector.name == "auto" else campaign.injector.name
    levels = [
        str(level)
        for factors in (campaign.factors, *(entry.factors for entry in campaign.workloads))
        for level in factors.get("injector", [])
        if level in INJECTORS
    ]
    return max(levels or [own], key=lambda name: INJECTORS[name].row_s or 0.0)


# What is wrong with a file: by its schema, and how that is said.


def refuse(path: Path, faults: Iterable[Fault]) -> None:
    """Raise InputError with a line for each of the first faults of a file, if there are any."""
    lines = [one_line(f"{path}:{line}: {text}") for line, text in sorted(set(faults))]
    if len(lines) > _MOST_FAULTS:
        lines[_MOST_FAULTS:] = [f"{path}: {len(lines) - _MOST_FAULTS} more errors"]
    if lines:
        raise InputError(*lines)


def dotted(place: Place) -> str:
    """`workloads[2].set.ranks`"""
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place).removeprefix(".")


def _fault(marked: Marked, error: ErrorDetails) -> Fault:
    place: Place = error["loc"]
    if error["type"] == "extra_forbidden":
        fields = model_around(Campaign, place).model_fields
        return marked.line(
            place, key=True
        ), f"{dotted(place)}: {_unknown('key', place[-1], fields)}"
    wrong = f"{show(error['input'])} found"
    if error["type"] == "missing":
        wrong = "missing"
    elif error["type"] == "value_error":
        wrong = str(error["ctx"]["error"])
    allowed = field_at(Campaign, place).description
    return marked.line(place), f"{dotted(place)}: {wrong}; allowed: {allowed}"


def _missing_arms(marked: Marked) -> Iterator[Fault]:
    """Arms are required unless there are factors."""
    workloads = marked.data.get("workloads")
    entries = workloads if isinstance(workloads, list) else []
    crossed = [marked.data, *(each for each in entries if isinstance(each, dict))]
    if "arms" not in marked.data and not any(each.get("factors") for each in crossed):
        allowed = Campaign.model_fields["arms"].description
        yield marked.line(()), f"arms: missing; allowed: {allowed}"


def _unknown(kind: str, name: object, allowed: Iterable[str], of: str = "") -> str:
    names = sorted(allowed)
    hint = near(str(name), names)
    return f"unknown {kind} '{name}'{of}{hint}; allowed: {', '.join(names) or 'none'}"


@dataclass(frozen=True)
class _Rules:
    """The rules that the schema cannot have: of several fields, of checks, of a machine.

    Each gives the errors of a campaign.
    """

    marked: Marked
    campaign: Campaign
    checks: Mapping[str, CheckVariables]

    def at(self, place: Place, wrong: str, allowed: str, line_of: Place | None = None) -> Fault:
        """An error in the field at `place`; it is in the line of another one if that is given."""
        line = self.marked.line(place if line_of is None else line_of)
        return line, f"{dotted(place)}: {wrong}; allowed: {allowed}"

    def both(self, place: Place, other: str) -> Fault:
        """An error in the field at `place`, which excludes another one."""
        return self.at(place, f"cannot be combined with {other}", "one of the two")

    def unknown(self, kind: str, place: Place, allowed: Iterable[str], of: str = "") -> Fault:
        """The key at `place` is not allowed."""
        text = _unknown(kind, place[-1], allowed, of)
        return self.marked.line(place, key=True), f"{dotted(place)}: {text}"

    def entries(self) -> Iterator[tuple[Place, Entry]]:
        """The entries with their places."""
        for index, entry in enumerate(self.campaign.workloads):
            yield ("workloads", index), entry

    def of_fields(self) -> Iterator[Fault]:
        """Numbers of pairs, unknown checks, and settings that a check does not have."""
        pairs = self.campaign.pairs
        if pairs.cap is not None and pairs.cap < pairs.floor:
            wrong = f"{pairs.cap} is below pairs.floor"
            yield self.at(("pairs", "cap"), wrong, f"a whole number from {pairs.floor}")
        injector = self.campaign.injector.name
        writing = ["auto", *sorted(each.name for each in INJECTORS.values() if each.writes)]
        if injector not in writing:
            yield self.at(("injector", "name"), f"{show(injector)} found", " ".join(writing))
        for place, entry in self.entries():
            check, name = self.checks.get(entry.check), (*place, "check")
            if check is None:
                text = _unknown("workload", entry.check, self.checks)
                yield self.marked.line(name), f"{dotted(name)}: {text}"
                continue
            yield from self._of_set(entry, place, check)
            yield from self._of_arms(entry, place, check)
            yield from self._of_sweep(entry, place, check)
            for factor, levels in cases.factors_of(self.campaign, entry).items():
                yield from self._of_factor(factor, levels, entry, place, check)

    def _of_set(self, entry: Entry, place: Place, check: CheckVariables) -> Iterator[Fault]:
        """Wrong variables and values, and parameters of which no value is chosen."""
        for name, value in entry.set.items():
            where: Place = (*place, "set", name)
            if name not in check.settable:
                yield self.unknown("variable", where, check.settable)
            elif name == "warmups" and (type(value) is not int or value < 0):
                yield self.at(where, f"{value!r} found", "whole numbers from 0")
            elif name != "warmups":
                yield from self._of_type(check, name, value, where, where)
        given = entry.set.keys() | cases.factors_of(self.campaign, entry).keys()
        for name in check.parameters.keys() - given:
            values = f"{', '.join(check.parameters[name])}, here or in factors"
            yield self.at((*place, "set"), f"parameter {name!r} missing", values)

    def _of_type(
        self, check: CheckVariables, name: str, value: Level, place: Place, line_of: Place
    ) -> Iterator[Fault]:
        kind = check.types.get(name)
        if kind is not None and not kind.accepts(value):
            yield self.at(place, f"{value!r} found", kind.allowed, line_of)

    def _of_arms(self, entry: Entry, place: Place, check: CheckVariables) -> Iterator[Fault]:
        """Scheduled arms of a check that has no timetable, or that writes at several rates."""
        for arm in cases.scheduled(self.campaign.arms)[:1]:
            if "write" not in check.variables:
                wrong = f"'{entry.check}' has no arm '{arm}'"
                yield self.at(("arms",), wrong, "another workload or arm")
            if RATE in cases.factors_of(self.campaign, entry):
                yield self.both(_place_of(RATE, entry, place), f"the arm '{arm}'")

    def _of_sweep(self, entry: Entry, place: Place, check: CheckVariables) -> Iterator[Fault]:
        """A sweep of a check without its variables, or combined with factors or their values."""
        if entry.sweep is None:
            return
        where: Place = (*place, "sweep")
        swept = ", ".join(sorted(SWEPT))
        if not check.settable >= SWEPT:
            yield self.at(where, f"'{entry.check}' has no variables {swept}", "none")
        for name in cases.factors_of(self.campaign, entry):
            if name in SWEPT or not check.changes_within(name):
                allowed = f"factors that change within a block, but {swept}"
                yield self.at(where, f"cannot be combined with the factor '{name}'", allowed)
        for name in sorted(SWEPT & entry.set.keys()):
            yield self.both((*place, "set", name), "'sweep'")

    def _of_factor(
        self, name: str, levels: list[Level], entry: Entry, place: Place, check: CheckVariables
    ) -> Iterator[Fault]:
        """A factor that the check lacks or that is also set, and invalid levels."""
        where = _place_of(name, entry, place)
        if name not in check.factors:
            yield self.unknown("factor", where, check.factors, of=f" of '{entry.check}'")
            return
        for index, level in enumerate(levels):
            line_of: Place = (*where, index)
            try:
                check_level(name, level)
            except InputError as error:
                yield self.marked.line(line_of), f"{dotted(where[:-1])}.{error}"
            if name == "nodes" and (type(level) is not int or level < 1):
                yield self.at(where, f"{level} found", "whole numbers from 1", line_of)
            elif name not in FACTORS:
                yield from self._of_type(check, name, level, where, line_of)
        if name in OF_CORES and not check.comparable_across_cores:
            wrong = f"the figure of merit of '{entry.check}' cannot be compared between numbers of"
            yield self.at(where, f"{wrong} cores", "another workload or factor")
        if name in entry.set:
            yield self.both(where, dotted((*place, "set", name)))
        key = _OF_INJECTOR.get(name)
        if key and getattr(self.campaign.injector, key) not in ("auto", FULL):
            yield self.both(where, f"injector.{key}")

    def of_cells(self) -> Iterator[Fault]:
        """Cells with factors, levels or arms that the campaign does not have."""
        arms: list[Level] = list(self.campaign.arms or ARMS)
        of_all: dict[str, list[Level]] = {ARM: arms}
        for place, entry in self.entries():
            own = cases.factors_of(self.campaign, entry)
            for name, levels in own.items():
                of_all[name] = [*of_all.get(name, []), *levels]
            yield from self._cells_in(place, entry, {ARM: arms, **own})
        yield from self._cells_in((), self.campaign, of_all)

    def _cells_in(
        self, place: Place, requested: Campaign | Entry, levels: Mapping[str, Sequence[Level]]
    ) -> Iterator[Fault]:
        for key, cells in (("exclude", requested.exclude), ("only", requested.only)):
            for index, cell in enumerate(cells):
                for name, level in cell.items():
                    where = (*place, key, index, name)
                    if name not in levels:
                        yield self.unknown("factor", where, levels)
                    elif level not in levels[name]:
                        allowed = ", ".join(dict.fromkeys(map(level_text, levels[name])))
                        yield self.at(where, f"{level_text(level)} found", allowed)

    def of_cases(self) -> Iterator[Fault]:
        """Duplicate or too long names of cases, and entries without cases."""
        first: dict[str, int] = {}
        for place, entry in self.entries():
            where: Place = (*place, "case")
            check = self.checks.get(entry.check, CheckVariables(frozenset()))
            expanded = cases.cases_of(self.campaign, entry, check)
            if not expanded:
                yield self.at(place, "exclude and only leave no case", "at least one")
            for name in (case.name for case in expanded):
                if name in first:
                    wrong = f"duplicate case name '{name}', first in line {first[name]}"
                    yield self.at(where, wrong, "another name", place)
                if len(name) > _LONGEST_CASE:
                    wrong = f"'{name:.40}...' has {len(name)} characters"
                    yield self.at(where, wrong, f"at most {_LONGEST_CASE}", place)
                first.setdefault(name, self.marked.line(place))

    def of_treatments(self) -> Iterator[Fault]:
        """Cases without treatments."""
        arms = self.campaign.arms or standard_arms(same_host=True)
        for place, entry in self.entries():
            for case in cases.cases_of(self.campaign, entry, self.checks[entry.check]):
                if case.factors or case.exclude or case.only:
                    try:
                        cases.treatments(arms, case)
                    except InputError as error:
                        yield self.marked.line(place), f"{dotted(place)}: {case.name}: {error}"

    def of_nodes(self, machine: Machine) -> Iterator[Fault]:
        """The smallest case of each entry of which none fits (else `cases.leave_out`)."""
        for place, entry in self.entries():
            settings: Place = (*place, "set")
            where: Place = (*settings, "nodes") if "nodes" in entry.set else place
            if "nodes" in cases.factors_of(self.campaign, entry):
                where = _place_of("nodes", entry, place)
            expanded = cases.cases_of(self.campaign, entry, self.checks[entry.check])
            try:
                taken = {c.nodes: cases.nodes_taken(self.campaign, c, machine) for c in expanded}
            except InputError as error:
                yield self.marked.line(settings), f"{dotted(settings)}: {error}"
                continue
            most, first = machine.nodes, min(taken, default=0)
            if most and taken and min(taken.values()) > most:
                wrong = f"{first} found, {taken[first]} nodes with its origins"
                yield self.at(where, wrong, f"{most} (nodes of site/{machine.name}.yaml)")

    def of_lengths(self, machine: Machine) -> Iterator[Fault]:
        """Entries that expect too short runs of a check that cannot be lengthened."""
        least = least_s(self.campaign, machine)
        rows = f"{LEAST_ROWS} rows of {_injector(self.campaign, machine)}"
        for place, entry in self.entries():
            if entry.expect < least and not self.checks[entry.check].lengthened_by:
                wrong = (
                    f"{entry.expect:g} s found; runs of '{entry.check}' cannot be lengthened, and"
                    f" {rows} take {least:g} s"
                )
                allowed = f"a larger problem of at least {least:g}s"
                yield self.at((*place, "expect"), wrong, allowed)


def _place_of(factor: str, entry: Entry, place: Place) -> Place:
    """Where the levels of an entry's factor are given: in the entry, or for the campaign."""
    return (*place, "factors", factor) if factor in entry.factors else ("factors", factor)
