"""From a campaign file to a checked campaign. Every error is reported before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from nimc.base.errors import InputError, near, show
from nimc.base.marked_yaml import Marked, Place, field_at, model_around
from nimc.base.text import one_line
from nimc.campaign import cases
from nimc.campaign.checks import CheckVariables
from nimc.campaign.schema import SWEPT, Campaign, Entry
from nimc.machine.site import Machine
from nimc.node.injectors import INJECTORS
from nimc.node.length import LEAST_ROWS, doublings, least_run_s
from nimc.records.arms import ARMS, level_text, standard_arms
from nimc.records.sample import Level
from nimc.traffic.trace import load as load_trace
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


@dataclass(frozen=True)
class _Faults:
    """Finds the errors of a campaign that its schema cannot: several fields, checks, machine."""

    marked: Marked
    campaign: Campaign
    checks: Mapping[str, CheckVariables]

    def all(self) -> Iterator[Fault]:
        """Every error that needs no machine; cases without treatments only if there is no other."""
        found = [*self._of_fields(), *self._of_cells(), *self._of_cases()]
        yield from found or self._without_treatments()

    def at(self, place: Place, text: str, line_of: Place | None = None) -> Fault:
        """An error in the field at `place`; it is in the line of another one if that is given."""
        return self.marked.line(place if line_of is None else line_of), f"{dotted(place)}: {text}"

    def both(self, place: Place, other: str) -> Fault:
        """An error in the field at `place`, which excludes another one."""
        return self.at(place, f"cannot be combined with {other}; allowed: one of the two")

    def _entries(self) -> Iterator[tuple[Place, Entry]]:
        for index, entry in enumerate(self.campaign.workloads):
            yield ("workloads", index), entry

    def _of_fields(self) -> Iterator[Fault]:
        pairs = self.campaign.pairs
        if pairs.cap is not None and pairs.cap < pairs.floor:
            text = f"{pairs.cap} is below pairs.floor; allowed: a whole number from {pairs.floor}"
            yield self.at(("pairs", "cap"), text)
        for place, entry in self._entries():
            check = self.checks.get(entry.check)
            if check is None:
                where: Place = (*place, "check")
                yield unknown(self.marked, "workload", where, self.checks, entry.check)
                continue
            yield from self._of_set(entry, place, check)
            yield from self._of_arms(entry, place, check)
            yield from self._of_sweep(entry, place, check)
            for name, levels in cases.factors_of(self.campaign, entry).items():
                yield from self._of_factor(name, levels, entry, place, check)

    def _of_set(self, entry: Entry, place: Place, check: CheckVariables) -> Iterator[Fault]:
        """Wrong variables and values, and parameters of which no value is chosen."""
        for name, value in entry.set.items():
            where: Place = (*place, "set", name)
            if name not in check.settable:
                yield unknown(self.marked, "variable", where, check.settable)
            elif name == "warmups":
                if type(value) is not int or value < 0:
                    yield self.at(where, f"{value!r} found; allowed: whole numbers from 0")
            elif wrong := _type_fault(check, name, value):
                yield self.at(where, wrong)
        given = entry.set.keys() | cases.factors_of(self.campaign, entry).keys()
        for name in check.parameters.keys() - given:
            allowed = f"allowed, here or in factors: {', '.join(check.parameters[name])}"
            yield self.at((*place, "set"), f"parameter {name!r} missing; {allowed}")

    def _of_arms(self, entry: Entry, place: Place, check: CheckVariables) -> Iterator[Fault]:
        """Scheduled arms of a check that has no timetable, or that writes at several rates."""
        for arm in cases.scheduled(self.campaign.arms)[:1]:
            if "write" not in check.variables:
                text = f"'{entry.check}' has no arm '{arm}'; allowed: another workload or arm"
                yield self.at(("arms",), text)
            if RATE in cases.factors_of(self.campaign, entry):
                yield self.both(_place_of(RATE, entry, place), f"the arm '{arm}'")

    def _of_sweep(self, entry: Entry, place: Place, check: CheckVariables) -> Iterator[Fault]:
        """A sweep of a check without its variables, or combined with factors or their values."""
        if entry.sweep is None:
            return
        where: Place = (*place, "sweep")
        swept = ", ".join(sorted(SWEPT))
        if not check.settable >= SWEPT:
            yield self.at(where, f"'{entry.check}' has no variables {swept}; allowed: none")
        for name in cases.factors_of(self.campaign, entry):
            if name in SWEPT or not check.changes_within(name):
                text = f"cannot be combined with the factor '{name}'; allowed: factors that change"
                yield self.at(where, f"{text} within a block, but {swept}")
        for name in sorted(SWEPT & entry.set.keys()):
            yield self.both((*place, "set", name), "'sweep'")

    def _of_factor(
        self, name: str, levels: list[Level], entry: Entry, place: Place, check: CheckVariables
    ) -> Iterator[Fault]:
        """A factor that the check lacks or that is also set, and invalid levels."""
        where = _place_of(name, entry, place)
        if name not in check.factors:
            yield unknown(self.marked, "factor", where, check.factors, of=f" of '{entry.check}'")
            return
        for index, level in enumerate(levels):
            line_of: Place = (*where, index)
            try:
                check_level(name, level)
            except InputError as error:
                yield self.marked.line(line_of), f"{dotted(where[:-1])}.{error}"
            if name == "nodes" and (type(level) is not int or level < 1):
                yield self.at(where, f"{level} found; allowed: whole numbers from 1", line_of)
            elif name not in FACTORS and (wrong := _type_fault(check, name, level)):
                yield self.at(where, wrong, line_of)
        if name in OF_CORES and not check.comparable_across_cores:
            text = f"the figure of merit of '{entry.check}' cannot be compared between numbers of"
            yield self.at(where, f"{text} cores; allowed: another workload or factor")
        if name in entry.set:
            yield self.both(where, dotted((*place, "set", name)))
        key = _OF_INJECTOR.get(name)
        if key and getattr(self.campaign.injector, key) not in ("auto", FULL):
            yield self.both(where, f"injector.{key}")

    def _of_cells(self) -> Iterator[Fault]:
        """Cells with factors, levels or arms that the campaign does not have."""
        arms: list[Level] = list(self.campaign.arms or ARMS)
        of_all: dict[str, list[Level]] = {ARM: arms}
        for place, entry in self._entries():
            own = cases.factors_of(self.campaign, entry)
            for name, levels in own.items():
                of_all[name] = [*of_all.get(name, []), *levels]
            yield from self._cells_in(place, entry, {ARM: arms, **own})
        yield from self._cells_in((), self.campaign, of_all)

    def _cells_in(
        self, place: Place, requested: Campaign | Entry, known: Mapping[str, Sequence[Level]]
    ) -> Iterator[Fault]:
        for key, cells in (("exclude", requested.exclude), ("only", requested.only)):
            for index, cell in enumerate(cells):
                for name, level in cell.items():
                    where = (*place, key, index, name)
                    if name not in known:
                        yield unknown(self.marked, "factor", where, known)
                    elif level not in known[name]:
                        allowed = ", ".join(dict.fromkeys(map(level_text, known[name])))
                        yield self.at(where, f"{level_text(level)} found; allowed: {allowed}")

    def _of_cases(self) -> Iterator[Fault]:
        """Duplicate or too long names of cases, and entries without cases."""
        first: dict[str, int] = {}
        for place, entry in self._entries():
            name: Place = (*place, "case")
            check = self.checks.get(entry.check, CheckVariables(frozenset()))
            found = cases.cases_of(self.campaign, entry, check)
            if not found:
                yield self.at(place, "exclude and only leave no case; allowed: at least one")
            for case in found:
                if case.name in first:
                    text = f"duplicate case name '{case.name}', first in line {first[case.name]}"
                    yield self.at(name, f"{text}; allowed: another name", place)
                if len(case.name) > _LONGEST_CASE:
                    text = f"'{case.name:.40}...' has {len(case.name)} characters"
                    yield self.at(name, f"{text}; allowed: at most {_LONGEST_CASE}", place)
                first.setdefault(case.name, self.marked.line(place))

    def _without_treatments(self) -> Iterator[Fault]:
        """Cases without treatments."""
        arms = self.campaign.arms or standard_arms(same_host=True)
        for place, entry in self._entries():
            for case in cases.cases_of(self.campaign, entry, self.checks[entry.check]):
                if case.factors or case.exclude or case.only:
                    try:
                        cases.treatments(arms, case)
                    except InputError as error:
                        yield self.at(place, f"{case.name}: {error}")

    def of_nodes(self, machine: Machine) -> Iterator[Fault]:
        """The smallest case of each entry of which none fits (else `cases.leave_out`)."""
        for place, entry in self._entries():
            settings: Place = (*place, "set")
            where: Place = (*settings, "nodes") if "nodes" in entry.set else place
            if "nodes" in cases.factors_of(self.campaign, entry):
                where = _place_of("nodes", entry, place)
            found = cases.cases_of(self.campaign, entry, self.checks[entry.check])
            try:
                taken = {c.nodes: cases.nodes_taken(self.campaign, c, machine) for c in found}
            except InputError as error:
                yield self.at(settings, str(error))
                continue
            most = machine.nodes
            first = min(taken, default=0)
            if most and taken and all(each > most for each in taken.values()):
                text = f"{first} found, {taken[first]} nodes with its origins; allowed: {most}"
                yield self.at(where, f"{text} (nodes of site/{machine.name}.yaml)")

    def of_lengths(self, machine: Machine) -> Iterator[Fault]:
        """Entries that expect too short runs of a check that cannot be lengthened."""
        least, rows = least_s(self.campaign, machine), _rows(self.campaign, machine)
        for place, entry in self._entries():
            if entry.expect < least and not self.checks[entry.check].lengthened_by:
                yield self.at(
                    (*place, "expect"),
                    f"{entry.expect:g} s found; runs of '{entry.check}' cannot be lengthened, and"
                    f" {rows} take {least:g} s; allowed: a larger problem of at least {least:g}s",
                )


def _type_fault(check: CheckVariables, name: str, value: Level) -> str | None:
    kind = check.types.get(name)
    if kind is None or kind.accepts(value):
        return None
    return f"{value!r} found; allowed: {kind.allowed}"


def _place_of(factor: str, entry: Entry, place: Place) -> Place:
    """Where the levels of an entry's factor are given: in the entry, or for the campaign."""
    return (*place, "factors", factor) if factor in entry.factors else ("factors", factor)


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
    text = (
        f"unknown {kind} '{wrong}'{of}{near(wrong, known)}; allowed: {', '.join(known) or 'none'}"
    )
    return marked.line(place, key=name is None), f"{dotted(place)}: {text}"


def dotted(place: Place) -> str:
    """`workloads[2].set.ranks`"""
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place).removeprefix(".")


@dataclass(frozen=True)
class Length:
    """The length of a case's runs: if the writers' rows do not fit in, they are made longer."""

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


def _rows(campaign: Campaign, machine: Machine) -> str:
    return f"{LEAST_ROWS} rows of {_injector(campaign, machine)}"


def lengths(
    campaign: Campaign, checks: Mapping[str, CheckVariables], machine: Machine
) -> list[Length]:
    """The length of each case's runs; empty if any length will do."""
    least = least_s(campaign, machine)
    rows = _rows(campaign, machine)
    return [
        Length(
            case=case.name,
            expected_s=case.expect,
            least_s=least,
            rows=rows,
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
        found = [_fault(marked, each) for each in error.errors(include_url=False)]
        refuse(path, [*found, *_missing_arms(marked)])
        raise
    refuse(path, _missing_arms(marked))
    faults = _Faults(marked, campaign, checks)
    refuse(path, faults.all())
    if machine is not None:
        refuse(path, faults.of_nodes(machine))
        refuse(path, faults.of_lengths(machine))
    if campaign.traffic is None:
        return campaign
    trace = path.parent / campaign.traffic.trace
    if not trace.is_file():
        allowed = "a file that 'nimc traffic import' wrote"
        refuse(path, [faults.at(("traffic",), f"{trace} does not exist; allowed: {allowed}")])
    load_trace(trace)
    chosen = campaign.traffic.model_copy(update={"trace": str(trace.resolve())})
    return campaign.model_copy(update={"traffic": chosen})


def _missing_arms(marked: Marked) -> Iterable[Fault]:
    """Arms are required unless there are factors."""
    workloads = marked.data.get("workloads")
    entries = workloads if isinstance(workloads, list) else []
    crossed = [marked.data, *(each for each in entries if isinstance(each, dict))]
    if "arms" not in marked.data and not any(each.get("factors") for each in crossed):
        allowed = Campaign.model_fields["arms"].description
        yield marked.line(()), f"arms: missing; allowed: {allowed}"


def refuse(path: Path, faults: Iterable[Fault]) -> None:
    """Raise InputError with a line for each of the first faults of a file, if there are any."""
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
