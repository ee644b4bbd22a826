"""Latency against traffic on the page: a figure per case, and what the latency leaves a core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
import polars as pl
from markupsafe import Markup
from matplotlib.figure import Figure

from analysis.effects.caveats import emulations
from analysis.report.data import RunData
from analysis.report.plots import LEVEL_COLOURS, LEVEL_MARKERS, STYLE, light, themed_svg
from analysis.subjects.latency import CLOSE, LINE_B, WORKLOAD, LatencyPoint, points
from nimc.base.units import plural
from nimc.records.arms import LEVELS


@dataclass(frozen=True)
class LatencyCase:
    """One case."""

    name: str
    svg: Markup
    points: list[LatencyPoint]
    #: Where the credits are measured; None if no core loaded memory without writers.
    reference: LatencyPoint | None


@dataclass(frozen=True)
class LatencyView:
    """The section of one run."""

    cases: list[LatencyCase]
    emulated: list[str]
    line_b: int = LINE_B
    close: float = CLOSE


def latency_view(run: RunData, name: str) -> LatencyView | None:
    """The latencies of a run; None if it has none."""
    found = points(run.samples, run.results)
    if not found:
        return None
    own = run.samples.filter(pl.col("workload").cast(pl.String) == WORKLOAD)
    cases = {point.case: [each for each in found if each.case == point.case] for point in found}
    return LatencyView(
        [_case(case, each, f"{name}{i}") for i, (case, each) in enumerate(cases.items())],
        emulations([str(text) for text in own["transport"].unique(maintain_order=True)]),
    )


def writers_of(point: LatencyPoint) -> str:
    """What the writers of a point do, in words."""
    if point.role == "baseline":
        return "no writers"
    arm = point.arm.partition(LEVELS)[0]
    return "control" if point.role == "control" else f"{arm}, {point.rate}"


def _case(case: str, found: Sequence[LatencyPoint], name: str) -> LatencyCase:
    reference = next((point for point in found if point.reference), None)
    return LatencyCase(case, Markup(_plot(found, name)), list(found), reference)


def _plot(found: Sequence[LatencyPoint], name: str) -> str:
    """One line per writers' rate, from no loading core to the most."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.0, 3.6), layout="constrained")
        axes = figure.subplots()
        for index, line in enumerate(dict.fromkeys(map(writers_of, found))):
            own = [point for point in found if writers_of(point) == line]
            colour = light(LEVEL_COLOURS[index % len(LEVEL_COLOURS)])
            at = [point.traffic_b_s / 1e9 for point in own]
            marker = LEVEL_MARKERS[index % len(LEVEL_MARKERS)]
            middle = [1e9 * point.median_s for point in own]
            axes.plot(
                at, middle, color=colour, marker=marker, ms=5, lw=1.4, label=line, clip_on=False
            )
            for x, point in zip(at, own, strict=True):
                if point.latency:
                    ends = [1e9 * point.latency.low, 1e9 * point.latency.high]
                    axes.plot([x, x], ends, color=colour, lw=2.5, alpha=0.6)
        axes.set_xlabel("traffic of loading cores and writers, GB/s")
        axes.set_ylabel("latency, ns")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.tick_params(length=0)
        axes.grid(axis="y")
        figure.legend(loc="outside upper left", ncols=3, frameon=False, fontsize=8)
        return themed_svg(figure, name, f"Latency against traffic. {_said(found)}")


def _said(found: Sequence[LatencyPoint]) -> str:
    """The points, for readers who do not see the figure."""
    return "; ".join(
        f"{writers_of(point)}, {plural(point.load_threads, 'core')}: {1e9 * point.median_s:.0f} ns"
        f" at {point.traffic_b_s / 1e9:.2f} GB/s"
        for point in found
    )
