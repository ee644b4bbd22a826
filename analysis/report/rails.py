"""Rails of a run on the page: figures 1 to 3 of the multirail study, for this machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.remedies.rails import KINDS, MPI, Calls, CallsEffect, Finding, PolicyEffect, RunCalls
from analysis.remedies.reservation import emulated_cases
from analysis.report.data import RunData
from analysis.report.plots import (
    LEVEL_COLOURS,
    LEVEL_MARKERS,
    STYLE,
    light,
    logarithmic,
    themed_svg,
)
from analysis.statistics.interval import Estimate, known
from nimc.base.units import quantity, scale

# The figures of the multirail study for this machine: MPI calls, rail policies, single runs.


_WIDTH_IN = 5.0
_ROW_IN = 0.5
_LINE_IN = 0.24


def calls_plot(rows: Sequence[Calls], name: str, said: str) -> str:
    """Figure 1: one row per case; share of time on the left, mean message on the right."""
    cases = list(dict.fromkeys(row.case for row in rows))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH_IN, 1.2 + _ROW_IN * len(cases)), layout="constrained")
        share, size = figure.subplots(1, 2, sharey=True)
        for index, kind in enumerate(KINDS):
            own = [row for row in rows if row.kind == kind]
            places = [cases.index(row.case) + 0.4 * (index - 0.5) for row in own]
            colour = light(LEVEL_COLOURS[index])
            share.barh(places, [100 * row.share for row in own], 0.36, color=colour, label=kind)
            for place, row in zip(places, own, strict=True):
                if row.share_low is not None and row.share_high is not None:
                    ends = [100 * row.share_low, 100 * row.share_high]
                    share.plot(ends, [place, place], color=light("ink"), lw=1.4)
                if row.message_b is not None:
                    marker = LEVEL_MARKERS[index]
                    size.plot(row.message_b, place, marker, color=colour, ms=6)
                if row.message_low_b is not None and row.message_high_b is not None:
                    ends = [row.message_low_b, row.message_high_b]
                    size.plot(ends, [place, place], color=colour, lw=2.5)
        share.set_yticks(range(len(cases)), cases)
        share.set_ylim(len(cases) - 0.5, -0.5)
        share.set_xlabel("share of the time, %")
        size.set_xlabel("mean message, B")
        logarithmic(size)
        for axes in (share, size):
            axes.tick_params(length=0)
            axes.grid(axis="x")
        figure.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=8)
        return themed_svg(figure, name, f"Time in MPI calls and mean size of a message. {said}")


def policies_plot(rows: Sequence[PolicyEffect], name: str, said: str) -> str:
    """Figure 2: one line per case and policy; speed relative to the first policy."""
    policies = list(dict.fromkeys(row.policy for row in rows))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH_IN, 1.0 + _LINE_IN * len(rows)), layout="constrained")
        axes = figure.subplots()
        axes.axvline(1, color=light("muted"), lw=1)
        for place, row in enumerate(rows):
            if row.floor_low is not None and row.floor_high is not None:
                axes.fill_between(
                    [row.floor_low, row.floor_high],
                    place - 0.42,
                    place + 0.42,
                    color=light("band"),
                    alpha=0.45,
                    lw=0,
                )
            if row.speed is None or row.speed_low is None or row.speed_high is None:
                continue
            colour = light(_colour(policies.index(row.policy)))
            marker = LEVEL_MARKERS[policies.index(row.policy) % len(LEVEL_MARKERS)]
            axes.plot([row.speed_low, row.speed_high], [place, place], color=colour, lw=3)
            axes.plot(row.speed, place, marker, color=colour, ms=6, gid=f"policy-{place}")
        axes.set_yticks(range(len(rows)), [f"{row.case} {row.policy}" for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(f"speed / speed at {rows[0].reference}")
        axes.tick_params(length=0)
        axes.grid(axis="x")
        return themed_svg(figure, name, f"Speed under each rail policy. {said}")


def runs_plot(rows: Sequence[RunCalls], name: str, said: str) -> str:
    """Figure 3: time in each kind of call against the run's number, one colour per policy."""
    policies = sorted(
        {row.policy for row in rows}, key=lambda policy: (policy != "default", policy)
    )
    divisor, unit = scale(max(row.time_s for row in rows), "s")
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH_IN, 4.2), layout="constrained")
        panels = figure.subplots(len(KINDS), 1, sharex=True)
        for kind, axes in zip(KINDS, panels, strict=True):
            for index, policy in enumerate(policies):
                own = [row for row in rows if (row.kind, row.policy) == (kind, policy)]
                label = policy if kind == KINDS[0] else ""
                _points(axes, own, divisor, index, label)
            axes.set_title(kind, loc="left", fontsize=10)
            axes.set_ylabel(f"time in {unit}")
            axes.set_ylim(bottom=0)
            axes.tick_params(length=0)
            axes.grid(axis="y")
        panels[-1].set_xlabel("run, in order of time")
        figure.legend(loc="outside upper left", ncols=4, frameon=False, fontsize=8)
        return themed_svg(figure, name, f"Time in MPI calls in each run, by rail policy. {said}")


def _points(axes: Axes, own: Sequence[RunCalls], divisor: float, index: int, label: str) -> None:
    axes.plot(
        [row.number for row in own],
        [row.time_s / divisor for row in own],
        LEVEL_MARKERS[index % len(LEVEL_MARKERS)],
        color=light(_colour(index)),
        ms=4,
        mew=0,
        alpha=0.7,
        label=label,
        gid=f"runs-{index}",
    )


def _colour(index: int) -> str:
    return LEVEL_COLOURS[index % len(LEVEL_COLOURS)]


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
