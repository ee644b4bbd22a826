"""The figure of effects by factor: one line per level of a second factor, one point per pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from analysis.estimate import Result
from analysis.report.palette import STYLE, light, themed_svg
from analysis.report.plots import PIXELS_ABOVE, RASTER_ABOVE

#: Distance between a bar and the points of its pairs if these have their own positions, inches.
_ASIDE_IN = 0.08
#: Share of the distance between two levels that the lines' points occupy, side by side.
_ROOM = 0.5


@dataclass(frozen=True)
class Axis:
    """The horizontal axis."""

    label: str
    #: Position -> text of each level; None if every run has its own position.
    ticks: dict[float, str] | None
    #: Whether positions are quantities; levels that are names are spaced evenly.
    numeric: bool

    @property
    def distance(self) -> float:
        """Least distance between two levels."""
        return min((b - a for a, b in pairwise(sorted(self.ticks or ()))), default=1.0)


@dataclass(frozen=True)
class Plotted:
    """One treatment: its result, position and pairs."""

    result: Result
    #: None if no pair counts.
    x: float | None
    #: Positions of the pairs, if each has its own.
    own_x: list[float] | None
    ratios: list[float]


@dataclass(frozen=True)
class Line:
    """The treatments that share a level; the label is empty if there is only one line."""

    label: str
    #: CSS variable.
    colour: str
    marker: str
    points: list[Plotted]


def factor_plot(lines: Sequence[Line], axis: Axis, name: str) -> str:
    """Slowdown against a factor, as an `<svg>` element; `name` makes its ids unique."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.0, 3.4), layout="constrained")
        draw(figure, lines, axis)
        return themed_svg(figure, name, f"Slowdown against {axis.label}")


def draw(figure: Figure, lines: Sequence[Line], axis: Axis) -> Axes:
    """All pairs, each treatment's interval and estimate, and baseline repeatability as bands."""
    axes = figure.subplots()
    axes.axhline(1, color=light("muted"), lw=1)
    raster = sum(len(point.ratios) for line in lines for point in line.points) > RASTER_ABOVE
    for index, line in enumerate(lines):
        # Lines with the same positions are shifted side by side.
        room = _ROOM * axis.distance / len(lines) if axis.ticks else 0.0
        shift = room * (index - (len(lines) - 1) / 2)
        drawn = [point for point in line.points if point.x is not None]
        _repeatability(axes, drawn, shift, room, line.colour if len(lines) > 1 else "band")
        for number, point in enumerate(drawn):
            gid = f"pairs-{index}-{number}"
            _pairs(axes, point, line, _pair_positions(point, shift, room), gid, raster)
        _estimates(axes, line, drawn, shift, axis.numeric)
    _finish(axes, axis)
    if any(line.label for line in lines):
        figure.legend(loc="outside upper left", ncols=3, frameon=False, fontsize=8)
    return axes


def _pairs(axes: Axes, point: Plotted, line: Line, places: Any, gid: str, raster: bool) -> None:
    look: dict[str, Any] = {
        "ls": "none",
        "marker": "," if len(point.ratios) > PIXELS_ABOVE else line.marker,
        "ms": 3.6 if len(point.ratios) < 200 else 1.6,
        "mew": 0,
        "color": light(line.colour),
        "alpha": 0.45,
        "rasterized": raster,
    }
    if point.own_x is not None:
        aside = ScaledTranslation(_ASIDE_IN, 0, axes.figure.dpi_scale_trans)
        look["transform"] = axes.transData + aside
    axes.plot(places, point.ratios, gid=gid, **look)
    # Points with a transform of their own do not widen the limits.
    axes.update_datalim(np.column_stack([places, point.ratios]))


def _pair_positions(point: Plotted, shift: float, room: float) -> Any:
    """Positions of a treatment's pairs: their own, or a little to the right of its interval."""
    if point.own_x is not None:
        return point.own_x
    assert point.x is not None
    return point.x + shift + room * np.linspace(0.12, 0.42, len(point.ratios))


def _repeatability(
    axes: Axes, points: Sequence[Plotted], shift: float, room: float, colour: str
) -> None:
    """A band over the whole width if the treatments share a baseline, else one at each."""
    look: dict[str, Any] = {
        "color": light(colour),
        "alpha": 0.45 if colour == "band" else 0.16,
        "lw": 0,
    }
    floors = {
        (row.noise_floor_low, row.noise_floor_high): None for row in (p.result for p in points)
    }
    if len(floors) == 1:
        ((low, high),) = floors
        if low is not None and high is not None:
            axes.axhspan(low, high, **look)
        return
    for point in points:
        low, high = point.result.noise_floor_low, point.result.noise_floor_high
        if point.x is not None and low is not None and high is not None:
            centre = point.x + shift
            axes.fill_between([centre - room / 2, centre + room / 2], low, high, **look)


def _estimates(
    axes: Axes, line: Line, points: Sequence[Plotted], shift: float, numeric: bool
) -> None:
    """Interval and estimate of each treatment that has them, joined by a line."""
    colour = light(line.colour)
    known = [
        (point.x + shift, row.slowdown, row.slowdown_low, row.slowdown_high)
        for point in sorted(points, key=lambda point: point.x or 0.0)
        if point.x is not None
        and (row := point.result).slowdown is not None
        and row.slowdown_low is not None
        and row.slowdown_high is not None
    ]
    for place, _, low, high in known:
        axes.plot([place, place], [low, high], color=colour, lw=3, zorder=3)
    look: dict[str, Any] = {"lw": 1.3, "ls": "-" if numeric else ":", "zorder": 4}
    look |= {"marker": line.marker, "ms": 6, "mec": light("panel"), "mew": 0.8}
    places, medians = [each[0] for each in known], [each[1] for each in known]
    axes.plot(places, medians, color=colour, label=line.label, **look)


def _finish(axes: Axes, axis: Axis) -> None:
    axes.margins(x=0.06)
    axes.autoscale_view()
    if axis.ticks is None:
        axes.set_xlim(left=0)
    else:
        axes.set_xticks(list(axis.ticks), list(axis.ticks.values()))
        edge = 0.6 * axis.distance
        axes.set_xlim(min(axis.ticks) - edge, max(axis.ticks) + edge)
    axes.set_xlabel(axis.label)
    axes.set_ylabel("slowdown (1 is no effect)")
    axes.tick_params(length=0)
    axes.grid(axis="y")
