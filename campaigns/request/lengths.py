"""Runs that the writers' rows do not fit into: made longer where a check can, else refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.arms import ARMS
from campaigns.request.checks import CheckVariables
from campaigns.request.faults import Fault, dotted
from campaigns.request.schema import Campaign
from injection.injectors import INJECTORS
from injection.length import LEAST_ROWS, doublings, least_run_s
from injection.machine.machine import Machine
from injection.machine.marked_yaml import Marked, Place


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
