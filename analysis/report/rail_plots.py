"""The figures of the multirail study for this machine: MPI calls, rail policies, single runs."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.numbers import scale
from analysis.remedies.mpi_calls import KINDS, Calls, RunCalls
from analysis.remedies.rails import PolicyEffect
from analysis.report.log_axis import logarithmic
from analysis.report.palette import LEVEL_COLOURS, LEVEL_MARKERS, STYLE, light, themed_svg

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
