"""Effects by factor: layout of axis and lines, figures and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import polars as pl

from analysis.effects.contrasts import Contrast
from analysis.effects.estimate import Result
from analysis.report import plots
from analysis.report.plots import RASTER_ABOVE, View, light
from records import units
from records.arms import ARMS, arm_of, level_text, parts_of
from records.errors import InputError
from records.groups import grouped
from records.sample import Level

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
            look: dict[str, Any] = {"alpha": 0.45, "mew": 0, "gid": gid, "rasterized": raster}
            _pairs(axes, point, line, shift, room, look)
        _estimates(axes, line, drawn, shift, axis.numeric)
    axes.margins(x=0.06)
    axes.autoscale_view()
    if axis.ticks is None:
        axes.set_xlim(left=0)
    else:
        axes.set_xticks(list(axis.ticks), list(axis.ticks.values()))
        edge = 0.6 * axis.distance
        axes.set_xlim(min(axis.ticks) - edge, max(axis.ticks) + edge)
    plots.finish(axes, axis.label, "slowdown (1 is no effect)")
    if any(line.label for line in lines):
        plots.legend(figure, 3)
    return axes


def _pairs(
    axes: Axes, point: Plotted, line: Line, shift: float, room: float, look: dict[str, Any]
) -> None:
    """A treatment's pairs, at their own places or a little to the right of its interval."""
    places: Any
    if point.own_x is not None:
        from matplotlib.transforms import ScaledTranslation

        places = point.own_x
        aside = ScaledTranslation(_ASIDE_IN, 0, axes.figure.dpi_scale_trans)
        look["transform"] = axes.transData + aside
    else:
        assert point.x is not None
        places = point.x + shift + room * np.linspace(0.12, 0.42, len(point.ratios))
    plots.points(axes, places, point.ratios, line.colour, line.marker, 3.6, **look)
    # Points with a transform of their own do not widen the limits.
    axes.update_datalim(np.column_stack([places, point.ratios]))


def _repeatability(
    axes: Axes, points: Sequence[Plotted], shift: float, room: float, colour: str
) -> None:
    """A band over the whole width if the treatments share a baseline, else one at each."""
    alpha = 0.45 if colour == "band" else 0.16
    look: dict[str, Any] = {"color": light(colour), "alpha": alpha, "lw": 0}
    floors = {point.result.noise_floor for point in points}
    if len(floors) == 1:
        (floor,) = floors
        if floor:
            axes.axhspan(*floor, **look)
        return
    for point in points:
        floor = point.result.noise_floor
        if point.x is not None and floor:
            centre = point.x + shift
            axes.fill_between([centre - room / 2, centre + room / 2], *floor, **look)


def _estimates(
    axes: Axes, line: Line, points: Sequence[Plotted], shift: float, numeric: bool
) -> None:
    """Interval and estimate of each treatment that has them, joined by a line."""
    colour = light(line.colour)
    known = [
        (point.x + shift, point.result.slowdown)
        for point in sorted(points, key=lambda point: point.x or 0.0)
        if point.x is not None and point.result.slowdown
    ]
    for place, of in known:
        axes.plot([place, place], [of.low, of.high], color=colour, lw=3, zorder=3)
    look: dict[str, Any] = {"lw": 1.3, "ls": "-" if numeric else ":", "zorder": 4}
    look |= {"marker": line.marker, "ms": 6, "mec": light("panel"), "mew": 0.8}
    places, medians = [place for place, _ in known], [of.value for _, of in known]
    axes.plot(places, medians, color=colour, label=line.label, **look)


#: Most figures of one case; the table has everything.
MOST_FIGURES = 6
#: Levels are spaced evenly if any distance exceeds this multiple of the smallest one.
_WIDEST = 12
#: The factor whose levels are requested rates; the axis shows the rates reached.
RATE, FULL = "rate", "full"
#: Name of the arm among the factors, for a case with effects of several arms.
ARM = "arm"

Kind = Literal["number", "share", "rate", "size"]
_READERS: dict[Kind, Callable[[str, str], float]] = {
    "share": units.share,
    "rate": units.rate_b_s,
    "size": units.size_b,
}


class Layout(NamedTuple):
    """Factors by role: on the axis, one line per level, separate figures."""

    axis: str
    lines: str | None
    figures: list[str]


def factors_view(
    rows: Sequence[Result], pairs: pl.DataFrame, contrasts: Sequence[Contrast], name: str
) -> View | None:
    """Figures and tables of a case; None if its effects have one level of every factor.

    `rows`, `pairs` and `contrasts` are those of the case only.
    """
    effects = [row for row in rows if row.role == "effect"]
    varied = {
        factor: levels
        for factor, levels in _levels(rows).items()
        if len({_level(row, factor) for row in effects} - {None}) > 1
    }
    if not any(factor != ARM for factor in varied):
        return None
    layout, every = lay_out(varied), _levels(rows)
    of_figure = grouped((_at(row, layout.figures), row) for row in _sorted(effects, varied))
    return View(
        # Columns of the table, and its rows: one per treatment with a baseline.
        factors=[factor for factor in every if factor != ARM],
        rows=_sorted(rows, every),
        figures=[
            _figure(chosen, pairs, layout, varied, at, f"{name}{index}")
            for index, (at, chosen) in enumerate(list(of_figure.items())[:MOST_FIGURES])
        ],
        # Number of figures without the limit.
        combinations=len(of_figure),
        contrasts=list(contrasts),
    )


def lay_out(varied: Mapping[str, Sequence[Level]]) -> Layout:
    """The role of each factor in figures, from the factors that vary (factor -> levels).

    On the axis is the first factor with more than two levels, preferably a numeric one; else the
    first numeric one; else the first. An arm is never on the axis.
    """
    candidates = [factor for factor in varied if factor != ARM]
    axis = max(candidates, key=lambda name: (len(varied[name]) > 2, _is_numeric(name, varied)))
    others = [factor for factor in varied if factor != axis]
    return Layout(axis, others[0] if others else None, others[1:])


def _level(row: Result, factor: str) -> Level | None:
    return parts_of(row.arm)[0] if factor == ARM else row.factors.get(factor)


def _text(row: Result, factor: str) -> str:
    level = _level(row, factor)
    return "" if level is None else level_text(level)


def _levels(rows: Sequence[Result]) -> dict[str, list[Level]]:
    """Factor -> its levels in order, over all treatments; arms of effects come last."""
    names = dict.fromkeys(chain.from_iterable(row.factors for row in rows))
    found = {name: _ordered(name, rows) for name in names}
    arms = dict.fromkeys(parts_of(row.arm)[0] for row in rows if row.role == "effect")
    return {**found, ARM: list(arms)}


def _ordered(factor: str, rows: Sequence[Result]) -> list[Level]:
    """Levels by value if they are quantities; else the first level first, the others by name."""
    levels = list(dict.fromkeys(row.factors[factor] for row in rows if factor in row.factors))
    sizes = {level: math.inf for level in levels if level == FULL} | {
        level: value[1] for level in levels if (value := _value(level))
    }
    if len(sizes) == len(levels):
        return sorted(levels, key=lambda level: sizes[level])
    named = [row for row in rows if factor in parts_of(row.arm)[1]]
    later = {row.factors[factor] for row in named if factor in row.factors}
    return sorted(levels, key=lambda level: (level in later, level_text(level)))


def _value(level: Level) -> tuple[Kind, float] | None:
    """Kind of quantity and value of a level; None for a word or a boolean."""
    if isinstance(level, bool):
        return None
    if isinstance(level, int | float):
        return "number", float(level)
    for kind, read in _READERS.items():
        with suppress(InputError):
            return kind, read(level, "level")
    return None


def _is_numeric(factor: str, varied: Mapping[str, Sequence[Level]]) -> bool:
    """Whether levels have numeric positions on an axis; those of `rate` are the rates reached."""
    kinds = {value[0] if (value := _value(level)) else None for level in varied[factor]}
    return factor == RATE or (len(kinds) == 1 and kinds <= {"number", "share", "rate"})


def _sorted(rows: Sequence[Result], levels: Mapping[str, Sequence[Level]]) -> list[Result]:
    """Rows by arm, then by level, the first factor first; a treatment without a level first."""
    arms = list(ARMS)

    def key(row: Result) -> list[int]:
        arm = arm_of(row.arm).name
        places = [
            each.index(level) if (level := _level(row, name)) in each else -1
            for name, each in levels.items()
        ]
        return [arms.index(arm) if arm in arms else len(arms), *places]

    return sorted(rows, key=key)


def _at(row: Result, factors: Sequence[str]) -> str:
    return ", ".join(f"{factor.replace('_', ' ')} {_text(row, factor)}" for factor in factors)


def _figure(
    rows: Sequence[Result],
    pairs: pl.DataFrame,
    layout: Layout,
    varied: Mapping[str, Sequence[Level]],
    at: str,
    name: str,
) -> View:
    """`svg`, its levels `at` factors with separate figures (`buffer nic, load read`), the factor on
    its `axis`, and the labels of its `lines`, empty if there is only one.
    """
    axis = _axis(rows, layout.axis, varied)
    of_line = grouped((_at(row, [layout.lines] if layout.lines else []), row) for row in rows)
    lines = []
    for index, (text, chosen) in enumerate(of_line.items()):
        arm = chosen[0].arm
        by_arm = layout.lines in (None, ARM)
        look = (plots.variable(arm), plots.marker(arm)) if by_arm else plots.level_look(index)
        points = [_point(row, pairs, axis, layout.axis) for row in chosen]
        lines.append(Line(text, *look, points))
    with plots.drawing(3.4) as figure:
        draw(figure, lines, axis)
        svg = plots.themed_svg(figure, name, f"Slowdown against {axis.label}")
    return View(
        svg=svg,
        at=at,
        axis=layout.axis.replace("_", " "),
        lines=[line.label for line in lines if line.label],
    )


def _axis(rows: Sequence[Result], factor: str, varied: Mapping[str, Sequence[Level]]) -> Axis:
    if factor == RATE and all(row.writer_rate_b_s is not None for row in rows if row.slowdown):
        return Axis("writers' rate in GB/s, as measured", None, numeric=True)
    present = {_level(row, factor) for row in rows}
    levels = [level for level in varied[factor] if level in present]
    numeric = factor != RATE and _is_numeric(factor, varied)
    values = [value[1] for level in levels if numeric and (value := _value(level))]
    if not values or values[-1] - values[0] > _WIDEST * min(np.diff(values), default=1.0):
        values = [float(index) for index in range(len(levels))]
    ticks = dict(zip(values, map(level_text, levels), strict=True))
    return Axis(factor.replace("_", " "), ticks, numeric)


def _point(row: Result, pairs: pl.DataFrame, axis: Axis, factor: str) -> Plotted:
    own = pairs.filter(pl.col("arm").cast(pl.String) == row.arm)
    x, rates, text = None, None, _text(row, factor)
    if axis.ticks is not None:
        (x,) = (place for place, tick in axis.ticks.items() if tick == text)
    else:
        rates = [(rate or math.nan) / 1e9 for rate in own["writer_rate_b_s"]]
        if row.writer_rate_b_s is not None:
            x = row.writer_rate_b_s / 1e9
    return Plotted(row, x, rates, own["ratio"].to_list())
