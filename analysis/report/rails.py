"""Rails of a run on the page: figures 1 to 3 of the multirail study, for this machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from analysis.numbers import quantity
from analysis.remedies.mpi_calls import Calls, CallsEffect, RunCalls
from analysis.remedies.rails import MPI, Finding, PolicyEffect
from analysis.remedies.reservation import emulated_cases
from analysis.report.data import RunData
from analysis.report.rail_plots import calls_plot, policies_plot, runs_plot
from analysis.statistics.interval import Estimate, known

#: Most cases with a figure of single runs; rail_runs.csv has all.
MOST_CASES = 8
_EMULATED = "Emulated RDMA, not RDMA hardware."


@dataclass(frozen=True)
class RailsView:
    """The section of one run."""

    calls_svg: Markup | None
    calls: list[Calls]
    #: What was compared, in words, and its figure.
    policies_svgs: list[tuple[str, Markup]]
    policies: list[tuple[str, PolicyEffect]]
    #: Case, and the figure of its runs.
    runs_svgs: list[tuple[str, Markup]]
    changes: list[CallsEffect]
    #: Cases with single runs, drawn or not.
    cases: int
    margin: float
    emulated: list[str]


def rails_view(run: RunData, name: str) -> RailsView | None:
    """The section of a run; None if it compared no rails and counted no MPI calls."""
    found = run.rails()
    if not found.policies and not found.calls:
        return None
    texts = dict.fromkeys(text for each in emulated_cases(run.samples).values() for text in each)
    margin = run.header.margin
    label = f" {_EMULATED}" if texts else ""
    groups: dict[str, list[PolicyEffect]] = {}
    for row in found.policies:
        groups.setdefault(compared(row), []).append(row)
    of_case: dict[str, list[RunCalls]] = {}
    # Without several policies it would be a figure of noise.
    for single in found.runs if found.changes else []:
        of_case.setdefault(single.case, []).append(single)
    said = {
        case: said_changes([row for row in found.changes if row.case == case], margin)
        for case in of_case
    }
    return RailsView(
        calls_svg=(
            Markup(calls_plot(found.calls, f"{name}c", said_calls(found.calls) + label))
            if found.calls
            else None
        ),
        calls=found.calls,
        policies_svgs=[
            (what, Markup(policies_plot(own, f"{name}p{i}", said_policies(own, margin) + label)))
            for i, (what, own) in enumerate(groups.items())
        ],
        policies=[(compared(row), row) for row in found.policies],
        runs_svgs=[
            (case, Markup(runs_plot(own, f"{name}r{i}", said[case] + label)))
            for i, (case, own) in enumerate(list(of_case.items())[:MOST_CASES])
        ],
        changes=found.changes,
        cases=len(of_case),
        margin=margin,
        emulated=list(texts),
    )


def compared(row: PolicyEffect) -> str:
    """What a comparison varies, and under which traffic."""
    if row.factor == MPI:
        return f"rails of MPI, {'without writers' if row.arm == 'off' else f'under {row.arm}'}"
    return f"rails of the writers, under {row.arm}"


def said_calls(rows: Sequence[Calls]) -> str:
    """The kind of call that takes most time in each case, for readers who do not see the figure."""
    texts = []
    for case in dict.fromkeys(row.case for row in rows):
        own = sorted((row for row in rows if row.case == case), key=lambda row: -row.share)
        texts.append(f"{case}: {' and '.join(map(_of_kind, own))} of the time")
    return "; ".join(texts) + "."


def _of_kind(row: Calls) -> str:
    ends = ""
    if row.share_low is not None and row.share_high is not None:
        ends = f" ({row.share_low:.1%} to {row.share_high:.1%})"
    size = "" if row.message_b is None else f", mean message {quantity(row.message_b, 'B', 3)},"
    return f"{row.kind} {row.share:.1%}{ends}{size}"


def said_policies(rows: Iterable[PolicyEffect], margin: float) -> str:
    """The finding on each policy."""
    words = {"more": "faster", "less": "slower"}
    return _sentence(
        f"{row.case} {row.policy}: {_found(row.finding, words, margin)}"
        + _figures(known(row.speed, row.speed_low, row.speed_high), "speed", row.reference)
        for row in rows
    )


def said_changes(rows: Iterable[CallsEffect], margin: float) -> str:
    """The finding on the time in each kind of call at each policy."""
    words = {"more": "more time", "less": "less time"}
    return _sentence(
        f"{row.kind} at {row.policy}: {_found(row.finding, words, margin)}"
        + _figures(known(row.ratio, row.ratio_low, row.ratio_high), "time", row.reference)
        for row in rows
    )


def _found(finding: Finding, words: Mapping[str, str], margin: float) -> str:
    if finding == "no difference":
        return f"no difference: less than {100 * margin:.3g} %"
    return words.get(finding, finding)


def _figures(of: Estimate | None, what: str, reference: str) -> str:
    if of is None:
        return ""
    return f", {of.value:.3f} ({of.low:.3f} to {of.high:.3f}) of the {what} at {reference}"


def _sentence(texts: Iterable[str]) -> str:
    return "; ".join(texts) + "."
