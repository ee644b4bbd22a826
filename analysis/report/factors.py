"""Effects by factor: layout of axis and lines, figures and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from markupsafe import Markup

from analysis import units
from analysis.arms import ARMS, LEVELS, arm_of
from analysis.contrasts import Contrast
from analysis.errors import InputError
from analysis.estimate import Result
from analysis.report.factor_plot import Axis, Line, Plotted, factor_plot
from analysis.report.palette import LEVEL_COLOURS, LEVEL_MARKERS, marker, variable
from analysis.sample import Level

#: Most figures of one case; the table has everything.
MOST_FIGURES = 6
#: Levels are spaced evenly if any distance exceeds this multiple of the smallest one.
_WIDEST = 12
#: The factor whose levels are requested rates; the axis shows the rates reached.
RATE, FULL = "rate", "full"
#: Name of the arm among the factors, for a case with effects of several arms.
ARM = "arm"

Kind = Literal["number", "share", "rate", "size"]


class Layout(NamedTuple):
    """Factors by role: on the axis, one line per level, separate figures."""

    axis: str
    lines: str | None
    figures: list[str]


@dataclass(frozen=True)
class FactorFigure:
    """One figure of a case."""

    svg: Markup
    #: Its levels of factors with separate figures: `buffer nic, load read`.
    at: str
    axis: str
    #: Labels of the lines; empty if there is only one.
    lines: list[str]


@dataclass(frozen=True)
class FactorsView:
    """The section of one case."""

    #: Columns of the table, and its rows: one per treatment with a baseline.
    factors: list[str]
    rows: list[Result]
    figures: list[FactorFigure]
    #: Number of figures without the limit.
    combinations: int
    #: Prices and gains of the application's levels.
    contrasts: list[Contrast]


def factors_view(
    rows: Sequence[Result], pairs: pl.DataFrame, contrasts: Sequence[Contrast], name: str
) -> FactorsView | None:
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
    layout = lay_out(varied)
    of_figure: dict[str, list[Result]] = {}
    for row in _sorted(effects, varied):
        of_figure.setdefault(_at(row, layout.figures), []).append(row)
    return FactorsView(
        factors=[factor for factor in _levels(rows) if factor != ARM],
        rows=_sorted(rows, _levels(rows)),
        figures=[
            _figure(chosen, pairs, layout, varied, at, f"{name}{index}")
            for index, (at, chosen) in enumerate(list(of_figure.items())[:MOST_FIGURES])
        ],
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


def level_text(level: Level | None) -> str:
    """A level as written in campaigns; empty for none."""
    if level is None:
        return ""
    return str(level).lower() if isinstance(level, bool) else str(level)


def _level(row: Result, factor: str) -> Level | None:
    if factor == ARM:
        return row.arm.partition(LEVELS)[0]
    return row.factors.get(factor)


def _levels(rows: Sequence[Result]) -> dict[str, list[Level]]:
    """Factor -> its levels in order, over all treatments; arms of effects come last."""
    names = dict.fromkeys(chain.from_iterable(row.factors for row in rows))
    found = {name: _ordered(name, rows) for name in names}
    arms = dict.fromkeys(row.arm.partition(LEVELS)[0] for row in rows if row.role == "effect")
    return {**found, ARM: list(arms)}


def _ordered(factor: str, rows: Sequence[Result]) -> list[Level]:
    """Levels by value if they are quantities; else the first level first, the others by name."""
    levels = list(dict.fromkeys(row.factors[factor] for row in rows if factor in row.factors))
    sizes = {level: math.inf for level in levels if level == FULL} | {
        level: value[1] for level in levels if (value := _value(level))
    }
    if len(sizes) == len(levels):
        return sorted(levels, key=lambda level: sizes[level])
    later = {row.factors[factor] for row in rows if factor in row.factors and _names(row, factor)}
    return sorted(levels, key=lambda level: (level in later, level_text(level)))


def _names(row: Result, factor: str) -> bool:
    """Whether a treatment's name has a level of the factor; names omit first levels."""
    parts = row.arm.partition(LEVELS)[2].split(",")
    return any(each.startswith(f"{factor}=") for each in parts)


def _value(level: Level) -> tuple[Kind, float] | None:
    """Kind of quantity and value of a level; None for a word or a boolean."""
    if isinstance(level, bool):
        return None
    if isinstance(level, int | float):
        return "number", float(level)
    readers: dict[Kind, Callable[[str], float]] = {
        "share": lambda text: float(text.removesuffix("%")) if text.endswith("%") else math.nan,
        "rate": lambda text: units.rate_b_s(text, "level"),
        "size": lambda text: units.size_b(text, "level"),
    }
    for kind, read in readers.items():
        try:
            value = read(level)
        except (InputError, ValueError):
            continue
        if not math.isnan(value):
            return kind, value
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
            each.index(level) if (level := _level(row, name)) in each and level is not None else -1
            for name, each in levels.items()
        ]
        return [arms.index(arm) if arm in arms else len(arms), *places]

    return sorted(rows, key=key)


def _at(row: Result, factors: Sequence[str]) -> str:
    parts = (f"{factor} {level_text(_level(row, factor))}" for factor in factors)
    return ", ".join(parts).replace("_", " ")


def _figure(
    rows: Sequence[Result],
    pairs: pl.DataFrame,
    layout: Layout,
    varied: Mapping[str, Sequence[Level]],
    at: str,
    name: str,
) -> FactorFigure:
    axis = _axis(rows, layout.axis, varied)
    of_line: dict[str, list[Result]] = {}
    for row in rows:
        of_line.setdefault(_at(row, [layout.lines] if layout.lines else []), []).append(row)
    looks = [_look(chosen[0], index, layout.lines) for index, chosen in enumerate(of_line.values())]
    lines = [
        Line(text, *look, [_point(row, pairs, axis, layout.axis) for row in chosen])
        for (text, chosen), look in zip(of_line.items(), looks, strict=True)
    ]
    svg = Markup(factor_plot(lines, axis, name))
    labels = [line.label for line in lines if line.label]
    return FactorFigure(svg, at, layout.axis.replace("_", " "), labels)


def _look(row: Result, index: int, factor: str | None) -> tuple[str, str]:
    """Colour and marker of a line: the arm's, or those of a level."""
    if factor is None or factor == ARM:
        return variable(row.arm), marker(row.arm)
    return LEVEL_COLOURS[index % len(LEVEL_COLOURS)], LEVEL_MARKERS[index % len(LEVEL_MARKERS)]


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
    ratios = own["ratio"].to_list()
    if axis.ticks is None:
        rates = [(rate or math.nan) / 1e9 for rate in own["writer_rate_b_s"]]
        x = row.writer_rate_b_s / 1e9 if row.writer_rate_b_s is not None else None
        return Plotted(row, x, rates, ratios)
    text = level_text(_level(row, factor))
    (x,) = (place for place, tick in axis.ticks.items() if tick == text)
    return Plotted(row, x, None, ratios)
