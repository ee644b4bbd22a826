"""An answer as a section of the report: its table, its picture and its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import floor, log10, nan
from statistics import median
from textwrap import fill
from typing import TYPE_CHECKING, Any

import polars as pl

from analysis.display.figures import divisor_and_unit, number
from analysis.questions.question import PER_RATE, Plot, Question, answer, estimate_of, sentences_of
from analysis.report import plots
from analysis.report.data import RunData
from analysis.report.plots import (
    LEVEL_COLOURS,
    LEVEL_MARKERS,
    Picture,
    View,
    draw_points,
    light_colour,
)
from analysis.report.sections import Files, Part, Section
from analysis.report.words import DASH
from analysis.statistics.interval import Interval
from records.groups import grouped
from records.text import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
#: Most characters of a line that names a row of a picture, and the height of such a line, inches.
_LINE, _LINE_IN = 36, 0.15
#: Most pictures of an answer.
_PICTURES = 24
#: The content of a picture, by its kind.
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
    return run.cached(question.name, lambda: answer(question, run))


def section(
    question: Question,
    part: Part,
    position: int,
    *,
    link: str = "",
    folded: bool = False,
    more: Callable[[Sequence[RunData]], Files] | None = None,
) -> Section:
    """The section of a question, with its file, and `more` files of its subject."""

    def view(run: RunData) -> View | None:
        table = answered(question, run)
        return None if table.is_empty() else _view(question, table, run)

    def files(runs: Sequence[RunData]) -> Files:
        return {**_file(question, runs), **(more(runs) if more else {})}

    return Section(
        part=part,
        position=position,
        name=question.name,
        view=view,
        title=question.title,
        files=files,
        link=link,
        folded=folded,
        template="question",
    )


def _file(question: Question, runs: Sequence[RunData]) -> Files:
    """NAME.json: the rows of all runs under NAME, each with `run` and the caveats `emulated`."""
    rows = []
    for run in runs:
        named = {"run": run.header.run, "emulated": run.emulation_caveats()}
        rows += [named | row for row in answered(question, run).to_dicts()]
    return {f"{question.name}.json": {question.name: rows}} if rows else {}


def _view(question: Question, table: pl.DataFrame, run: RunData) -> View:
    rows = table.to_dicts()
    whole = question.plot == "points"
    shape = spread if question.spread else whole_rows
    headings, numeric, cells = shape(question, table.clear() if whole else table)
    pictures = _pictures(question, rows)
    reasons = [row.get("why", "") for row in rows]
    cases = table["case"].unique().to_list() if "case" in table.columns else None
    return View(
        text=question.text,
        headings=headings,
        numeric=numeric,
        rows=cells,
        sentences=sentences_of(question, table),
        # A section that can say nothing is folded, with the reasons.
        silent="; ".join(dict.fromkeys(reasons)) if all(reasons) else "",
        pictures=[
            _picture(question, drawn, name, text, _undrawn(rows, pictures, whole))
            for text, drawn, name in pictures[:_PICTURES]
        ],
        # A long table is folded below its pictures.
        long=len(cells) > _OPEN,
        emulated=run.emulation_caveats(cases),
    )


Columns = tuple[list[str], list[bool], list[list[tuple[str, str]]]]


def whole_rows(question: Question, table: pl.DataFrame) -> Columns:
    """Headings, which of them are of numbers, and cells: a column for each key and figure."""
    names = list(dict.fromkeys([*question.by, question.main, *_others(question, table)]))
    numeric = [table.schema[name].is_numeric() for name in names]
    cells = [[_cell(question, row, name) for name in names] for row in table.to_dicts()]
    return [_heading(question, name) for name in names], numeric, cells


def spread(question: Question, table: pl.DataFrame) -> Columns:
    """Return rows as `whole_rows` does: one for each key but `spread`, and each value of that."""
    keys = [name for name in question.by if name != question.spread]
    values = table[question.spread].unique(maintain_order=True).to_list()
    groups = grouped((tuple(row[name] for name in keys), row) for row in table.to_dicts())
    cells = []
    for group in groups.values():
        row_of = {row[question.spread]: row for row in group}
        figures = [
            _together(question, row_of[value]) if value in row_of else ("", "") for value in values
        ]
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


def _undrawn(rows: Sequence[Row], pictures: Sequence[object], whole: bool) -> str:
    """Return what of the rows is not drawn, since there are too many."""
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
    divisor, scaled = divisor_and_unit(value, unit)
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
    text = [f"{round(value, places) + 0:.{places}f}" for value in figures]
    return f"{text[0]}{suffix}", f"{text[1]} to {text[2]}"


def _beyond(name: str, *ends: float | None) -> str:
    """Return where something crosses that has one end only: `above 7.2 GB/s`."""
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


#: Draws rows of the answer: the figures of a column.
Draw = Callable[["Figure", Question, Sequence[Row], str], None]


def _pictures(question: Question, rows: Sequence[Row]) -> list[tuple[str, Sequence[Row], str]]:
    """The values of `apart`, their rows, and the name of what is drawn."""
    pictures: list[tuple[str, Sequence[Row], str]] = []
    for name in (question.drawn or (question.main,)) if question.plot else ():
        drawn = [row for row in rows if row[name] is not None]
        drawn = drawn if question.plot == "points" else drawn[:_DRAWN]
        groups = grouped((_label(question.apart, row), row) for row in drawn)
        pictures += [(text, group, name) for text, group in groups.items()]
    return pictures


def _picture(question: Question, rows: Sequence[Row], name: str, part: str, more: str) -> Picture:
    """The figures of the column `name`; its caption ends with `more`."""
    assert question.plot
    height_in, draw = _DRAWN_BY[question.plot]
    labelled = [(_label(question.by, row), row) for row in rows]
    if question.plot == "points":
        # Of a cloud, its median.
        clouds = grouped((_label(question.axes[1:], row), row) for row in rows)
        labelled = [
            (label, {**cloud[0], name: median(r[name] for r in cloud)})
            for label, cloud in clouds.items()
        ]
    texts = []
    for label, row in labelled:
        value, ends = _cell(question, row, name)
        texts.append(f"{label} {value}".lstrip() + (f" ({ends})" if ends else ""))

    def drawn(figure: Figure) -> plots.Hover:
        draw(figure, question, rows, name)
        return {}

    return Picture(
        name=f"{question.name} {part}",
        title=f"{question.title}: {'; '.join(texts)}",
        caption=f"{_MEANINGS[question.plot]} {more}".rstrip(),
        height_in=height_in(question, rows),
        draw=drawn,
        part=part,
    )


def _label(names: Sequence[str], row: Row) -> str:
    return " ".join(str(row[name]) for name in names if row[name] not in (None, ""))


def _named(question: Question, row: Row) -> str:
    """The keys of a row that its picture does not share, in as many lines as they need."""
    text = _label([key for key in question.by if key not in question.apart], row)
    return text if len(text) <= _LINE else fill(text.replace(",", ", "), _LINE)


def _rows_in(question: Question, rows: Sequence[Row], least_in: float) -> float:
    """Height of a picture with a row for each row of the answer, at least so much each."""
    lines = max(1 + _named(question, row).count("\n") for row in rows)
    return 0.9 + max(least_in, lines * _LINE_IN + 0.03) * len(rows)


def _scaled(question: Question, rows: Sequence[Row], name: str) -> tuple[float, str]:
    """Divisor for a picture's axis and its label."""
    unit, text = _unit(name), question.headings.get(name, name.replace("_", " "))
    unit = one_line(rows[0][question.units[name]]) if name in question.units else unit
    if unit == _S_PER_GB:
        return 1 / _PER_GB, f"{text}, s/GB"
    if unit == _SHARE:
        return 0.01, f"{text}, %"
    divisor, scaled = divisor_and_unit(max(abs(float(row[name])) for row in rows), unit)
    return divisor, f"{text}, {scaled}" if unit else text


def _forest(figure: Figure, question: Question, rows: Sequence[Row], name: str) -> None:
    """A row for each row of the answer, with its interval; colours by the first of `axes`."""
    divisor, axis = _scaled(question, rows, name)
    colour = question.axes[0] if question.axes else ""
    levels = list(dict.fromkeys(row[colour] for row in rows)) if colour else []
    labels = [_named(question, row) for row in rows]
    axes = plots.rows_axes(figure, labels, axis, line=None if _unit(name) else 1.0)
    for line, row in enumerate(rows):
        index = levels.index(row[colour]) if colour else 1
        if question.behind and row[f"{question.behind}_low"] is not None:
            plots.draw_repeatability(
                axes, Interval(*(row[f"{question.behind}_{end}"] for end in _ENDS)), line
            )
        estimate = estimate_of(row, name)
        scaled = estimate.mapped(lambda value: value / divisor) if estimate else None
        plots.draw_interval(axes, scaled, line, LEVEL_COLOURS[index % len(LEVEL_COLOURS)], "o")


def _change(figure: Figure, question: Question, rows: Sequence[Row], _: str) -> None:
    """A row for each row of the answer: its values without and with traffic, logarithmic."""
    changes = [(row, *(row[column] for column in question.axes)) for row in rows]
    positive = [(row, off, on) for row, off, on in changes if off and on and off > 0 and on > 0]
    axes = plots.rows_axes(figure, [_named(question, row) for row, *_ in positive], "", line=None)
    for line, (_, off, on) in enumerate(positive):
        axes.plot([off, on], [line, line], color=light_colour("muted"), lw=1.5)
        draw_points(axes, [off], [line], "off", "o", 6)
        draw_points(axes, [on], [line], "on", "^", 6)
    if positive:
        plots.set_logarithmic(axes, "x")


def _map(figure: Figure, question: Question, rows: Sequence[Row], name: str) -> None:
    """A cell for each row of the answer, and lines at the sizes of `marks`; larger is darker."""
    sides = [list(dict.fromkeys(row[key] for row in rows)) for key in question.axes]
    least, most = (end(row[name] for row in rows) for end in (min, max))
    axes = figure.subplots()
    for row in rows:
        x, y = (side.index(row[key]) for side, key in zip(sides, question.axes, strict=True))
        depth = (row[name] - least) / (most - least) if most > least else 0.0
        corners = [x - 0.5, x + 0.5, x + 0.5, x - 0.5], [y - 0.5, y - 0.5, y + 0.5, y + 0.5]
        axes.fill(*corners, color=light_colour("on"), alpha=0.05 + 0.5 * depth, lw=0)
        value, ends = _cell(question, row, name)
        axes.text(x, y + 0.02, value, ha="center", va="bottom", fontsize="small")
        axes.text(x, y - 0.05, ends, ha="center", va="top", fontsize="x-small")
    for key in question.axes:
        sizes = {row[key]: row[f"{key}_b"] for row in rows}
        for position, marks in mark_positions(question, list(sizes.values()), rows[0]).items():
            _marked(axes, ", ".join(marks), position, key == question.axes[0])
    axes.set_xticks(range(len(sides[0])), sides[0])
    axes.set_yticks(range(len(sides[1])), sides[1])
    axes.set(xlim=(-0.5, len(sides[0]) - 0.5), ylim=(-0.5, len(sides[1]) - 0.5))
    labels = [question.headings.get(key, key.replace("_", " ")) for key in question.axes]
    axes.set(xlabel=labels[0], ylabel=labels[1])


def _marked(axes: Axes, text: str, position: float, across: bool) -> None:
    """A line at a position of one side, with its text at the end."""
    style: Any = {"fontsize": "x-small", "va": "bottom" if across else "center"}
    if across:
        axes.axvline(position, color=light_colour("ink"), lw=1, ls="--")
        axes.text(position, 1.0, text, ha="center", transform=axes.get_xaxis_transform(), **style)
    else:
        axes.axhline(position, color=light_colour("ink"), lw=1, ls="--")
        axes.text(1.01, position, text, ha="left", transform=axes.get_yaxis_transform(), **style)


def mark_positions(
    question: Question, sizes: Sequence[float | None], row: Row
) -> dict[float, list[str]]:
    """Position between two cells of a map -> headings of the marks that lie there.

    Cells are at 0, 1, ...; `sizes` has their bytes, in increasing order, `row` those of the marks.
    A mark as large as a cell lies above it. Marks beyond all sizes, on either side, have no
    position, and none has one if a size is unknown.
    """
    numbers = [size for size in sizes if size is not None]
    positions: dict[float, list[str]] = {}
    for mark in question.marks if len(numbers) == len(sizes) else ():
        below = sum(size <= (row[mark] or 0) for size in numbers)
        if 0 < below < len(numbers):
            positions.setdefault(below - 0.5, []).append(question.headings.get(mark, mark))
    return positions


def _series(figure: Figure, question: Question, rows: Sequence[Row], name: str) -> None:
    """The rows over the first of `axes`: a line, or a cloud, for each combination of the others."""
    across, cloud = question.axes[0], question.plot == "points"
    divisor, y_axis = _scaled(question, rows, name)
    texts = list(dict.fromkeys(row[across] for row in rows))
    if named := isinstance(texts[0], str):
        unit, x_axis = 1.0, question.headings.get(across, across.replace("_", " "))
    else:
        unit, x_axis = _scaled(question, rows, across)

    def abscissa(row: Row) -> float:
        return float(texts.index(row[across])) if named else row[across] / unit

    def height(row: Row, column: str) -> float:
        return nan if row[column] is None else row[column] / divisor

    axes = figure.subplots()
    for index, (label, group) in enumerate(
        grouped((_label(question.axes[1:], row), row) for row in rows).items()
    ):
        css = LEVEL_COLOURS[index % len(LEVEL_COLOURS)]
        shape = LEVEL_MARKERS[index % len(LEVEL_MARKERS)]
        places = [abscissa(row) for row in group]
        heights = [height(row, name) for row in group]
        if cloud:
            style = {"alpha": 0.7, "mew": 0, "label": label, "gid": f"points-{index}"}
            draw_points(axes, places, heights, css, shape, 4, **style)
            if question.behind and group[0][question.behind] is not None:
                line = sorted((abscissa(row), height(row, question.behind)) for row in group)
                axes.plot(*zip(*line, strict=True), color=light_colour(css), lw=1.6)
        else:
            axes.plot(
                places, heights, color=light_colour(css), marker=shape, ms=5, lw=1.4, label=label
            )
            low, high = ([height(row, f"{name}_{end}") for row in group] for end in _ENDS)
            axes.vlines(places, low, high, color=light_colour(css), lw=2.5, alpha=0.6)
    if named:
        axes.set_xticks(range(len(texts)), texts)
    limits: dict[str, Any] = {} if named or cloud else {"xlim": (0, None)}
    if cloud or _unit(name):
        limits["ylim"] = (0, None)
    else:
        axes.axhline(1.0, color=light_colour("muted"), lw=1)
    plots.finish_axes(axes, x_axis, y_axis, **limits)
    if axes.get_legend_handles_labels()[1]:
        figure.legend(loc="outside upper left", ncols=4 if cloud else 3)


#: Kind of picture -> its height in inches, and what draws it.
_DRAWN_BY: Mapping[Plot, tuple[Callable[[Question, Sequence[Row]], float], Draw]] = {
    "forest": (lambda question, rows: _rows_in(question, rows, 0.34), _forest),
    "change": (lambda question, rows: _rows_in(question, rows, 0.26), _change),
    "map": (lambda question, rows: 1.3 + 0.55 * len({row[question.axes[1]] for row in rows}), _map),
    "points": (lambda *_: 3.0, _series),
    "lines": (lambda *_: 3.6, _series),
}
