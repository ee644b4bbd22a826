"""An answer as a section of the report: its table, its picture and its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import floor, log10, nan
from statistics import median
from typing import TYPE_CHECKING, Any

import polars as pl
from markupsafe import Markup

from analysis.questions.question import PER_RATE, Plot, Question, answer, estimate_of
from analysis.report.data import RunData
from analysis.report.plots import (
    LEVEL_COLOURS,
    View,
    band,
    drawing,
    finish,
    interval,
    legend,
    level_line,
    level_look,
    light,
    logarithmic,
    points,
    rows_axes,
    themed_svg,
)
from analysis.report.sections import Files, Part, Section
from analysis.report.words import DASH
from analysis.statistics.interval import Interval
from records.groups import grouped
from records.units import number, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Ending of a column -> its unit, longer endings first. Seconds per byte are shown per gigabyte.
_UNITS = {"_b_s": "B/s", "_s_b": "s/GB", "_s": "s", "_b": "B"}
_S_PER_GB, _PER_GB = "s/GB", 1e9
_ENDS = ("low", "high")
#: Most digits of a figure with an interval.
_MOST_DIGITS = 4
#: Unit of shares, which are shown in per cent.
_SHARE = "1"
#: A count from here on has an exponent.
_LARGEST_COUNT = 1e7
#: Least p value that is shown as a number.
_LEAST_P = 0.001
#: Most rows of an answer that are drawn; the table has all.
_DRAWN = 48
#: Most rows of a table that is open.
_OPEN = 24
#: Most pictures of an answer.
_PICTURES = 24
#: What a picture shows, by its kind.
_MEANINGS: Mapping[Plot, str] = {
    "forest": "Point and bar: estimate and interval.",
    "lines": "Point and bar: estimate and interval.",
    "points": "One point per run.",
    "change": "Circle: without traffic; triangle: with it.",
    "map": "A cell: estimate and interval; the darker, the larger. Lines: sizes of caches.",
}
Row = Mapping[str, Any]


def answered(question: Question, run: RunData) -> pl.DataFrame:
    """The rows of the answer, worked out once a run."""
    return run.once(question.name, lambda: answer(question, run))


def section(
    question: Question,
    part: Part,
    place: int,
    more: Callable[[Sequence[RunData]], Files] | None = None,
) -> Section:
    """The section of a question, with its file, and `more` files of its subject."""

    def view(run: RunData, anchor: str) -> View | None:
        table = answered(question, run)
        return None if table.is_empty() else _view(question, table, run, anchor)

    def files(runs: Sequence[RunData]) -> Files:
        return {**_file(question, runs), **(more(runs) if more else {})}

    title, name = question.title, question.name
    return Section(part, place, name, view, title=title, files=files, template="question")


def _file(question: Question, runs: Sequence[RunData]) -> Files:
    """NAME.json: the rows of all runs under NAME, each with `run` and the caveats `emulated`."""
    rows = []
    for run in runs:
        named = {"run": run.header.run, "emulated": run.emulated()}
        rows += [named | row for row in answered(question, run).to_dicts()]
    return {f"{question.name}.json": {question.name: rows}} if rows else {}


def _view(question: Question, table: pl.DataFrame, run: RunData, anchor: str) -> View:
    rows = table.to_dicts()
    whole = question.plot == "points"
    shape = spread if question.spread else whole_rows
    headings, numeric, cells = shape(question, table.clear() if whole else table)
    pictures = _pictures(question, rows)
    return View(
        question=question,
        headings=headings,
        numeric=numeric,
        rows=cells,
        sentences=question.sentences(table) if question.sentences else [],
        # A section that can say nothing is folded, with the reasons.
        silent="; ".join(dict.fromkeys(row["why"] for row in rows)) if _silent(rows) else "",
        svgs=[
            (text, draw(question, of, name, f"{anchor}{index}"))
            for index, (text, draw, of, name) in enumerate(pictures[:_PICTURES])
        ],
        meaning=_MEANINGS[question.plot] if question.plot else "",
        undrawn=_undrawn(rows, pictures, whole),
        # A long table is folded below its pictures.
        long=len(cells) > _OPEN,
        emulated=run.emulated(_cases(table)),
    )


Columns = tuple[list[str], list[bool], list[list[tuple[str, str]]]]


def whole_rows(question: Question, table: pl.DataFrame) -> Columns:
    """Headings, which of them are of numbers, and cells: a column for each key and figure."""
    names = list(dict.fromkeys([*question.by, question.main, *_others(question, table)]))
    numeric = [table.schema[name].is_numeric() for name in names]
    cells = [[_cell(question, row, name) for name in names] for row in table.to_dicts()]
    return [_heading(question, name) for name in names], numeric, cells


def spread(question: Question, table: pl.DataFrame) -> Columns:
    """As `whole_rows`: one for each key but `spread`, and for each value of that."""
    keys = [name for name in question.by if name != question.spread]
    values = table[question.spread].unique(maintain_order=True).to_list()
    groups = grouped((tuple(row[name] for name in keys), row) for row in table.to_dicts())
    cells = []
    for group in groups.values():
        of = {row[question.spread]: row for row in group}
        figures = [_together(question, of[value]) if value in of else ("", "") for value in values]
        cells.append([*(_cell(question, group[0], name) for name in keys), *figures])
    headings = [*(_heading(question, name) for name in keys), *map(str, values)]
    return headings, [False] * len(keys) + [True] * len(values), cells


def _together(question: Question, row: Row) -> tuple[str, str]:
    """The main figure; in lines below it its interval and the other columns that have a value."""
    value, ends = _cell(question, row, question.main)
    more = [name for name in question.columns if row[name] is not None]
    texts = [
        row[name]
        if isinstance(row[name], str)
        else f"{_heading(question, name)} {_cell(question, row, name)[0]}"
        for name in more
    ]
    return value, "\n".join(filter(None, (ends, *texts)))


def _cases(table: pl.DataFrame) -> list[str] | None:
    return table["case"].unique().to_list() if "case" in table.columns else None


def _undrawn(rows: Sequence[Row], pictures: Sequence[object], whole: bool) -> str:
    """What of the rows is not drawn, since there are too many."""
    if len(pictures) > _PICTURES:
        return f"{_PICTURES} of {len(pictures)} pictures are drawn; the file has all rows."
    if len(rows) > _DRAWN and not whole:
        return f"{_DRAWN} of {len(rows)} rows are drawn; the table has all."
    return ""


def _others(question: Question, table: pl.DataFrame) -> list[str]:
    """Columns of the page's table after keys and main estimate; `why` stands below the word."""
    facts = [name for name in question.facts if name != "n"]
    rest = [*list(question.estimates)[1:], *facts, "n", "word"]
    return [name for name in question.columns or rest if name in table.columns]


def _silent(rows: Sequence[Row]) -> bool:
    """Whether no row has a word that says something."""
    return all(row.get("why") for row in rows)


def _unit(name: str) -> str:
    if name.endswith("share"):
        return _SHARE
    return next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")


def _heading(question: Question, name: str) -> str:
    unit = _unit(name)
    ending = next((end for end in _UNITS if name.endswith(end)), "")
    plain = {"n": "pairs", "word": "verdict"}.get(name, name.removesuffix(ending).replace("_", " "))
    text = question.headings.get(name, plain)
    return f"{text}, {unit}" if unit == _S_PER_GB else text


def figure(name: str, value: Any, *ends: float | None, unit: str | None = None) -> tuple[str, str]:
    """A value of a column as text, and its interval; in `unit`, else in the unit of its name.

    With an interval, both have the decimals that its width carries: two significant digits, and at
    most four of the figure.
    """
    if value is None:
        return _beyond(name, *ends), ""
    if not isinstance(value, float):
        return str(value), ""
    if name == "p":
        return f"{value:.3f}" if value >= _LEAST_P else f"< {_LEAST_P}", ""
    if name == "r":
        return f"{value:.3f}", " to ".join(f"{end:.2f}" for end in ends if end is not None)
    unit = _unit(name) if unit is None else unit
    if unit == "count":
        return f"{value:,.0f}" if abs(value) < _LARGEST_COUNT else f"{value:.2e}", ""
    divisor, scaled = scale(value, unit)
    if unit in (_S_PER_GB, PER_RATE):
        divisor, scaled = 1 / _PER_GB, unit if unit == PER_RATE else ""
    elif unit == _SHARE:
        divisor, scaled = 0.01, "%"
    suffix = f" {scaled}" if scaled else ""
    closed = [end / divisor for end in ends if end is not None]
    if len(closed) < len(_ENDS) or closed[0] == closed[1]:
        return f"{number(value / divisor)}{suffix}", ""
    low, high = closed
    figures = (value / divisor, low, high)
    size = max(map(abs, figures))
    places = max(min(1 - floor(log10(high - low)), _MOST_DIGITS - 1 - floor(log10(size))), 0)
    # Adding 0 to a rounded -0 gives 0.
    text = [f"{round(of, places) + 0:.{places}f}" for of in figures]
    return f"{text[0]}{suffix}", f"{text[1]} to {text[2]}"


def _beyond(name: str, *ends: float | None) -> str:
    """Where something crosses that has one end only: `above 7.2 GB/s`."""
    words = zip(("above", "below"), ends, strict=False)
    texts = [f"{word} {figure(name, end)[0]}" for word, end in words if end is not None]
    return texts[0] if texts else DASH


def _cell(question: Question, row: Row, name: str) -> tuple[str, str]:
    """Text of a cell, and the smaller text below it."""
    if name == "word":
        return row["word"], row["why"]
    ends = (row[f"{name}_low"], row[f"{name}_high"]) if name in question.estimates else ()
    unit = row[question.units[name]] if name in question.units else None
    return figure(name, row[name], *ends, unit=unit)


# Pictures.


Draw = Callable[[Question, Sequence[Row], str, str], Markup]


def _pictures(
    question: Question, rows: Sequence[Row]
) -> list[tuple[str, Draw, Sequence[Row], str]]:
    """The values of `apart`, how to draw their rows, these, and the name of what is drawn."""
    if question.plot is None:
        return []
    draw = _DRAWN_BY[question.plot]
    pictures: list[tuple[str, Draw, Sequence[Row], str]] = []
    for name in question.drawn or (question.main,):
        shown = [row for row in rows if row[name] is not None]
        shown = shown if question.plot == "points" else shown[:_DRAWN]
        groups = grouped((_label(question.apart, row), row) for row in shown)
        pictures += [(text, draw, of, name) for text, of in groups.items()]
    return pictures


def _said(question: Question, rows: Sequence[Row], name: str) -> str:
    """The figures in words, for readers who do not see the picture."""
    parts = []
    for row in rows:
        value, ends = _cell(question, row, name)
        parts.append(f"{_label(question.by, row)} {value}" + (f" ({ends})" if ends else ""))
    return f"{question.title}: {'; '.join(parts)}"


def _label(names: Sequence[str], row: Row) -> str:
    return " ".join(str(row[name]) for name in names if row[name] not in (None, ""))


def _scaled(question: Question, rows: Sequence[Row], name: str) -> tuple[float, str]:
    """Divisor for a picture's axis and its label."""
    unit, text = _unit(name), question.headings.get(name, name.replace("_", " "))
    unit = rows[0][question.units[name]] if name in question.units else unit
    if unit == _S_PER_GB:
        return 1 / _PER_GB, f"{text}, s/GB"
    if unit == _SHARE:
        return 0.01, f"{text}, %"
    divisor, scaled = scale(max(abs(float(row[name])) for row in rows), unit)
    return divisor, f"{text}, {scaled}" if unit else text


def _forest(question: Question, rows: Sequence[Row], name: str, anchor: str) -> Markup:
    """A row for each row of the answer, with its interval; colours by the first of `axes`."""
    divisor, axis = _scaled(question, rows, name)
    colour = question.axes[0] if question.axes else ""
    levels = list(dict.fromkeys(row[colour] for row in rows)) if colour else []
    with drawing(0.9 + 0.34 * len(rows)) as drawn:
        names = [key for key in question.by if key not in question.apart]
        labels = [_label(names, row) for row in rows]
        axes = rows_axes(drawn, labels, axis, line=None if _unit(name) else 1.0)
        for line, row in enumerate(rows):
            index = levels.index(row[colour]) if colour else 1
            if question.behind and row[f"{question.behind}_low"] is not None:
                band(axes, Interval(*(row[f"{question.behind}_{end}"] for end in _ENDS)), line)
            of = estimate_of(row, name)
            shown = of.mapped(lambda value: value / divisor) if of else None
            interval(axes, shown, line, LEVEL_COLOURS[index % len(LEVEL_COLOURS)], "o")
        return themed_svg(drawn, anchor, _said(question, rows, name))


def _change(question: Question, rows: Sequence[Row], name: str, anchor: str) -> Markup:
    """A row for each row of the answer: its values without and with traffic, logarithmic."""
    ends = [(row, *(row[column] for column in question.axes)) for row in rows]
    shown = [(row, off, on) for row, off, on in ends if off and on and off > 0 and on > 0]
    with drawing(0.9 + 0.26 * len(shown)) as drawn:
        names = [key for key in question.by if key not in question.apart]
        axes = rows_axes(drawn, [_label(names, row) for row, *_ in shown], "", line=None)
        for line, (_, off, on) in enumerate(shown):
            axes.plot([off, on], [line, line], color=light("muted"), lw=1.5)
            points(axes, [off], [line], "off", "o", 6)
            points(axes, [on], [line], "on", "^", 6)
        if shown:
            logarithmic(axes, "x")
        return themed_svg(drawn, anchor, _said(question, rows, name))


def _map(question: Question, rows: Sequence[Row], name: str, anchor: str) -> Markup:
    """A cell for each row of the answer, and lines at the sizes of `marks`; larger is darker."""
    sides = [list(dict.fromkeys(row[key] for row in rows)) for key in question.axes]
    least, most = (end(row[name] for row in rows) for end in (min, max))
    with drawing(1.3 + 0.55 * len(sides[1])) as drawn:
        axes = drawn.subplots()
        for row in rows:
            x, y = (side.index(row[key]) for side, key in zip(sides, question.axes, strict=True))
            depth = (row[name] - least) / (most - least) if most > least else 0.0
            corners = [x - 0.5, x + 0.5, x + 0.5, x - 0.5], [y - 0.5, y - 0.5, y + 0.5, y + 0.5]
            axes.fill(*corners, color=light("on"), alpha=0.05 + 0.5 * depth, lw=0)
            value, ends = _cell(question, row, name)
            axes.text(x, y + 0.02, value, ha="center", va="bottom", fontsize=9)
            axes.text(x, y - 0.05, ends, ha="center", va="top", fontsize=7)
        for key in question.axes:
            sizes = {row[key]: row[f"{key}_b"] for row in rows}
            for place, marks in _boundaries(question, list(sizes.values()), rows[0]).items():
                _marked(axes, ", ".join(marks), place, key == question.axes[0])
        axes.set_xticks(range(len(sides[0])), sides[0])
        axes.set_yticks(range(len(sides[1])), sides[1])
        axes.set(xlim=(-0.5, len(sides[0]) - 0.5), ylim=(-0.5, len(sides[1]) - 0.5))
        labels = [question.headings.get(key, key.replace("_", " ")) for key in question.axes]
        axes.set(xlabel=labels[0], ylabel=labels[1])
        return themed_svg(drawn, anchor, _said(question, rows, name))


def _marked(axes: Axes, text: str, place: float, across: bool) -> None:
    """A line at a place of one side, with its text at the end."""
    look: Any = {"fontsize": 7, "va": "bottom" if across else "center"}
    if across:
        axes.axvline(place, color=light("ink"), lw=1, ls="--")
        axes.text(place, 1.0, text, ha="center", transform=axes.get_xaxis_transform(), **look)
    else:
        axes.axhline(place, color=light("ink"), lw=1, ls="--")
        axes.text(1.01, place, text, ha="left", transform=axes.get_yaxis_transform(), **look)


def _boundaries(
    question: Question, sizes: Sequence[float | None], row: Row
) -> dict[float, list[str]]:
    """Place between two cells, which are at 0, 1, ... -> the marks that lie there or at the lower.

    Marks beyond all sizes, on either side, have none.
    """
    numbers = [size for size in sizes if size is not None]
    places: dict[float, list[str]] = {}
    for mark in question.marks if len(numbers) == len(sizes) else ():
        below = sum(size <= (row[mark] or 0) for size in numbers)
        if 0 < below < len(numbers):
            places.setdefault(below - 0.5, []).append(question.headings.get(mark, mark))
    return places


def _points(question: Question, rows: Sequence[Row], name: str, anchor: str) -> Markup:
    """A point for each row, over the first of `axes`; colours by the others.

    Its text for readers who cannot see it has the medians.
    """
    divisor, axis = _scaled(question, rows, name)
    places, x_axis, _ = _across(question, rows, question.axes[0])
    labels = [_label(question.axes[1:], row) for row in rows]
    medians = []
    with drawing(3.0) as drawn:
        axes = drawn.subplots()
        for index, label in enumerate(dict.fromkeys(labels)):
            chosen = [at for at, text in enumerate(labels) if text == label]
            css, shape = level_look(index)
            values = [rows[at][name] / divisor for at in chosen]
            middle = {**rows[chosen[0]], name: median(rows[at][name] for at in chosen)}
            medians.append(f"{label} {_cell(question, middle, name)[0]}".lstrip())
            look = {"alpha": 0.7, "mew": 0, "label": label, "gid": f"points-{index}"}
            points(axes, [places[at] for at in chosen], values, css, shape, 4, **look)
            line = [(places[at], rows[at][question.behind]) for at in chosen if question.behind]
            if line and line[0][1] is not None:
                across, up = zip(*sorted(line), strict=True)
                axes.plot(across, [value / divisor for value in up], color=light(css), lw=1.6)
        finish(axes, x_axis, axis, ylim=(0, None))
        legend(drawn, 4)
        return themed_svg(drawn, anchor, f"{question.title}: {'; '.join(medians)}")


def _across(
    question: Question, rows: Sequence[Row], name: str
) -> tuple[list[float], str, list[str]]:
    """Places on the x axis, its label, and the texts that stand there instead of numbers."""
    if isinstance(rows[0][name], str):
        names = list(dict.fromkeys(row[name] for row in rows))
        label = question.headings.get(name, name.replace("_", " "))
        return [float(names.index(row[name])) for row in rows], label, names
    divisor, label = _scaled(question, rows, name)
    return [row[name] / divisor for row in rows], label, []


def _lines(question: Question, rows: Sequence[Row], name: str, anchor: str) -> Markup:
    """A line for each combination of the later `axes`, over the first."""
    across = question.axes[0]
    divisor, axis = _scaled(question, rows, name)
    places, x_axis, names = _across(question, rows, across)
    labels = [_label(question.axes[1:], row) for row in rows]
    with drawing(3.6) as drawn:
        axes = drawn.subplots()
        for index, label in enumerate(dict.fromkeys(labels)):
            points = [
                (
                    place,
                    row[name] / divisor,
                    nan if row[f"{name}_low"] is None else row[f"{name}_low"] / divisor,
                    nan if row[f"{name}_high"] is None else row[f"{name}_high"] / divisor,
                )
                for place, row, of in zip(places, rows, labels, strict=True)
                if of == label
            ]
            level_line(axes, index, label, points)
        if names:
            axes.set_xticks(range(len(names)), names)
        if _unit(name):
            finish(axes, x_axis, axis, xlim=None if names else (0, None), ylim=(0, None))
        else:
            axes.axhline(1.0, color=light("muted"), lw=1)
            finish(axes, x_axis, axis, xlim=None if names else (0, None))
        legend(drawn, 3)
        return themed_svg(drawn, anchor, _said(question, rows, name))


_DRAWN_BY: Mapping[Plot, Draw] = {
    "forest": _forest,
    "lines": _lines,
    "points": _points,
    "change": _change,
    "map": _map,
}
