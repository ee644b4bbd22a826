"""Shows the answer of a question as a section of the report, with a table, pictures and a file.

An answer is a table with one row per group of pairs or runs (`analysis.questions.question`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import floor, log10, nan
from statistics import median
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

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

#: Unit in which seconds per byte are shown.
_S_PER_GB = "s/GB"
#: Ending of a column's name -> its unit, longer endings first.
_UNITS = {"_b_s": "B/s", "_s_b": _S_PER_GB, "_s": "s", "_b": "B"}
_B_PER_GB = 1e9
#: Endings of the names of the two columns of an interval.
_ENDS = ("low", "high")
#: Maximum significant digits of a figure with an interval.
_MAX_DIGITS = 4
#: Unit of shares, which are shown in per cent.
_SHARE_UNIT = "1"
#: Smallest count that is shown with an exponent.
_MIN_EXPONENT_COUNT = 1e7
#: Smallest p value that is shown as a number.
_MIN_SHOWN_P = 0.001
#: Maximum number of rows that are drawn for an answer. The table has all rows.
_MAX_DRAWN_ROWS = 48
#: Maximum number of rows of a table that is not folded.
_MAX_OPEN_ROWS = 24
#: Maximum number of characters in a line of a row's label in a picture.
_MAX_LINE_CHARACTERS = 36
#: Height of a line of a row's label, in inches.
_LINE_HEIGHT_IN = 0.15
#: Maximum number of pictures of an answer.
_MAX_PICTURES = 24
#: Index of the colour of all rows of a forest plot, if colours do not distinguish a key.
_ONE_COLOUR_INDEX = 1
#: Kind of picture -> its caption.
_CAPTIONS: Mapping[Plot, str] = {
    "forest": "Point and bar: estimate and interval.",
    "lines": "Point and bar: estimate and interval.",
    "points": "One point per run.",
    "change": "Circle: without traffic; triangle: with it.",
    "map": "Each cell: estimate and interval; larger values are darker. Lines: sizes of caches.",
}
Row = Mapping[str, Any]


class _Drawing(NamedTuple):
    """The content of one picture: the rows that share the values of `picture_keys`."""

    #: The values of `picture_keys`, as text; empty if there are no such keys.
    key_text: str
    rows: Sequence[Row]
    #: The column that is drawn.
    column: str


def cached_answer(question: Question, run: RunData) -> pl.DataFrame:
    """The rows of the answer, computed once for each run."""
    return run.cached(question.name, lambda: answer(question, run))


def section(
    question: Question,
    part: Part,
    position: int,
    *,
    link: str = "",
    folded: bool = False,
    make_more_files: Callable[[Sequence[RunData]], Files] | None = None,
    make_more_sentences: Callable[[RunData, pl.DataFrame], list[str]] | None = None,
) -> Section:
    """The section of a question.

    Its data files are the answer's file and the files that `make_more_files` returns. Its sentences
    are those of the question, and those that `make_more_sentences` returns for the run and the
    answer.
    """

    def make_view(run: RunData) -> View | None:
        table = cached_answer(question, run)
        if table.is_empty():
            return None
        more_sentences = make_more_sentences(run, table) if make_more_sentences else []
        return _view(question, table, run, more_sentences)

    def make_files(runs: Sequence[RunData]) -> Files:
        return {
            **_answer_file(question, runs),
            **(make_more_files(runs) if make_more_files else {}),
        }

    return Section(
        part=part,
        position=position,
        name=question.name,
        make_view=make_view,
        title=question.title,
        make_files=make_files,
        link=link,
        folded=folded,
        template="question",
    )


def _answer_file(question: Question, runs: Sequence[RunData]) -> Files:
    """The file NAME.json, with the rows of the answers of all runs under the key NAME.

    Each row also has the name of its run (`run`) and the caveats of its run (`emulated`). If there
    are no rows, there is no file.
    """
    rows = []
    for run in runs:
        run_columns = {"run": run.header.run, "emulated": run.emulation_caveats()}
        rows += [run_columns | row for row in cached_answer(question, run).to_dicts()]
    return {f"{question.name}.json": {question.name: rows}} if rows else {}


def _view(
    question: Question, table: pl.DataFrame, run: RunData, more_sentences: Sequence[str]
) -> View:
    rows = table.to_dicts()
    question = replace(question, by=tuple(name for name in question.by if name in table.columns))
    table_layout = layout_by_column_key if question.column_key else layout_by_row
    # A cloud of points has no table, since its picture has all rows.
    shown_table = table.clear() if question.plot == "points" else table
    headings, numeric, cells = table_layout(question, shown_table)
    drawings = _drawings(question, rows)
    note = _undrawn_note(question, rows, drawings)
    reasons = [row.get("why", "") for row in rows]
    cases = table["case"].unique().to_list() if "case" in table.columns else None
    return View(
        text=question.text,
        headings=headings,
        numeric=numeric,
        rows=cells,
        sentences=[*sentences_of(question, table), *more_sentences],
        # If no row of a section has a result, the section is folded and shows the rows' reasons.
        silent="; ".join(dict.fromkeys(reasons)) if all(reasons) else "",
        pictures=[_picture(question, drawing, note) for drawing in drawings[:_MAX_PICTURES]],
        # A long table is folded below its pictures.
        long=len(cells) > _MAX_OPEN_ROWS,
        emulation_caveats=run.emulation_caveats(cases),
    )


#: A table in three parts: the headings, for each column whether it has numbers, and the cells of
#: each row. A cell is a text, and a smaller text below it.
TableLayout = tuple[list[str], list[bool], list[list[tuple[str, str]]]]


def layout_by_row(question: Question, table: pl.DataFrame) -> TableLayout:
    """A table with a row for each row of the answer, and a column for each key and figure."""
    names = list(dict.fromkeys([*question.by, question.main, *_figure_columns(question, table)]))
    numeric = [table.schema[name].is_numeric() for name in names]
    cells = [[_cell(question, row, name) for name in names] for row in table.to_dicts()]
    return [_heading(question, name) for name in names], numeric, cells


def layout_by_column_key(question: Question, table: pl.DataFrame) -> TableLayout:
    """A table with a column for each value of `column_key`.

    It has a row for each combination of values of the other keys.
    """
    keys = [name for name in question.by if name != question.column_key]
    column_values = table[question.column_key].unique(maintain_order=True).to_list()
    groups = grouped((tuple(row[name] for name in keys), row) for row in table.to_dicts())
    cells = []
    for group in groups.values():
        row_by_value = {row[question.column_key]: row for row in group}
        key_cells = [_cell(question, group[0], name) for name in keys]
        figure_cells = [
            _combined_cell(question, row_by_value[value]) if value in row_by_value else ("", "")
            for value in column_values
        ]
        cells.append(key_cells + figure_cells)
    headings = [*(_heading(question, name) for name in keys), *map(str, column_values)]
    return headings, [False] * len(keys) + [True] * len(column_values), cells


def _combined_cell(question: Question, row: Row) -> tuple[str, str]:
    """The main figure, and the lines below it: its interval and other columns that have a value."""
    value, interval = _cell(question, row, question.main)
    lines = [interval]
    for name in question.columns:
        if isinstance(row[name], str):
            lines.append(row[name])
        elif row[name] is not None:
            lines.append(f"{_heading(question, name)} {_cell(question, row, name)[0]}")
    return value, "\n".join(line for line in lines if line)


def _undrawn_note(question: Question, rows: Sequence[Row], drawings: Sequence[_Drawing]) -> str:
    """Return a note if not all pictures or rows are drawn, and an empty text otherwise."""
    if len(drawings) > _MAX_PICTURES:
        return f"{_MAX_PICTURES} of {len(drawings)} pictures are drawn; the file has all rows."
    drawable_counts = [len(_drawable_rows(rows, column)) for column in _drawn_columns(question)]
    if max(drawable_counts) > _MAX_DRAWN_ROWS and question.plot != "points":
        return f"{_MAX_DRAWN_ROWS} of {max(drawable_counts)} rows are drawn; the table has all."
    return ""


def _figure_columns(question: Question, table: pl.DataFrame) -> list[str]:
    """The columns of the page's table after keys and main estimate."""
    facts = [name for name in question.facts if name != "n"]
    all_columns = [*list(question.estimates)[1:], *facts, "n", "word"]
    return [name for name in question.columns or all_columns if name in table.columns]


def _unit(name: str) -> str:
    if name.endswith("share"):
        return _SHARE_UNIT
    return next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")


def _heading(question: Question, name: str) -> str:
    unit = _unit(name)
    ending = next((ending for ending in _UNITS if name.endswith(ending)), "")
    headings = {
        name: name.removesuffix(ending).replace("_", " "),
        "n": "pairs",
        "word": "verdict",
        **question.headings,
    }
    return f"{headings[name]}, {unit}" if unit == _S_PER_GB else headings[name]


def figure_texts(
    name: str, value: Any, *ends: float | None, unit: str | None = None
) -> tuple[str, str]:
    """Return the texts of a column's value and of its interval. The second text may be empty.

    `ends` are the low and the high end of the interval. An end that is not known is None. The value
    is shown in `unit`. If `unit` is None, the unit in the column's name is used.

    If there is an interval, value and ends have the same decimals: as many as two significant
    digits of the interval's width need, but no more than give the largest four significant digits.
    Digits before the decimal point are never rounded.
    """
    if value is None:
        return _one_sided(name, *ends), ""
    if not isinstance(value, float):
        return str(value), ""
    if name == "p":  # a p value
        return f"{value:.3f}" if value >= _MIN_SHOWN_P else f"< {_MIN_SHOWN_P}", ""
    if name == "r":  # a coefficient of correlation
        return f"{value:.3f}", " to ".join(f"{end:.2f}" for end in ends if end is not None)
    unit = _unit(name) if unit is None else unit
    if unit == "count":
        return f"{value:,.0f}" if abs(value) < _MIN_EXPONENT_COUNT else f"{value:.2e}", ""
    divisor, shown_unit = divisor_and_unit(value, unit)
    if unit == PER_RATE:
        divisor, shown_unit = 1 / _B_PER_GB, PER_RATE
    elif unit == _S_PER_GB:
        divisor, shown_unit = 1 / _B_PER_GB, ""  # the heading has the unit
    elif unit == _SHARE_UNIT:
        divisor, shown_unit = 0.01, "%"
    suffix = f" {shown_unit}" if shown_unit else ""
    known_ends = [end / divisor for end in ends if end is not None]
    if len(known_ends) < 2 or known_ends[0] == known_ends[1]:
        return f"{number(value / divisor)}{suffix}", ""
    low, high = known_ends
    figures = (value / divisor, low, high)
    largest = max(map(abs, figures))
    decimals = max(min(1 - floor(log10(high - low)), _MAX_DIGITS - 1 - floor(log10(largest))), 0)
    # Adding 0 to a rounded -0 gives 0.
    texts = [f"{round(figure, decimals) + 0:.{decimals}f}" for figure in figures]
    return f"{texts[0]}{suffix}", f"{texts[1]} to {texts[2]}"


def _one_sided(name: str, *ends: float | None) -> str:
    """An interval with one known end as text: `above 7.2 GB/s`."""
    for word, end in zip(("above", "below"), ends, strict=False):
        if end is not None:
            return f"{word} {figure_texts(name, end)[0]}"
    return DASH


def _cell(question: Question, row: Row, name: str) -> tuple[str, str]:
    """The text of a cell, and the smaller text below it."""
    if name == "word":
        return row["word"], row["why"]
    ends = (row[f"{name}_low"], row[f"{name}_high"]) if name in question.estimates else ()
    unit = row[question.units[name]] if name in question.units else None
    return figure_texts(name, row[name], *ends, unit=unit)


# Pictures.


#: Draws one column of some rows of an answer into a figure.
Draw = Callable[["Figure", Question, Sequence[Row], str], None]


def _drawings(question: Question, rows: Sequence[Row]) -> list[_Drawing]:
    """The drawings of an answer, one for each picture."""
    if not question.plot:
        return []
    drawings = []
    for column in _drawn_columns(question):
        drawn_rows = _drawable_rows(rows, column)
        if question.plot != "points":
            drawn_rows = drawn_rows[:_MAX_DRAWN_ROWS]
        groups = grouped((_key_text(question.picture_keys, row), row) for row in drawn_rows)
        drawings += [_Drawing(key_text, group, column) for key_text, group in groups.items()]
    return drawings


def _drawn_columns(question: Question) -> Sequence[str]:
    return question.drawn_estimates or (question.main,)


def _drawable_rows(rows: Sequence[Row], column: str) -> Sequence[Row]:
    return [row for row in rows if row[column] is not None]


def _picture(question: Question, drawing: _Drawing, note: str) -> Picture:
    """The picture of a drawing; its caption ends with the note."""
    assert question.plot
    key_text, rows, column = drawing
    height_of, draw = _PLOTS[question.plot]
    labelled_rows = [(_key_text(question.by, row), row) for row in rows]
    if question.plot == "points":
        # The title has the median of each cloud.
        clouds = grouped((_key_text(question.plot_columns[1:], row), row) for row in rows)
        labelled_rows = [
            (label, {**cloud[0], column: median(row[column] for row in cloud)})
            for label, cloud in clouds.items()
        ]
    figures = []
    for label, row in labelled_rows:
        value, interval = _cell(question, row, column)
        figures.append(f"{label} {value}".lstrip() + (f" ({interval})" if interval else ""))

    def draw_rows(figure: Figure) -> plots.Hover:
        draw(figure, question, rows, column)
        return {}

    return Picture(
        name=f"{question.name} {key_text}",
        alt_text=f"{question.title}: {'; '.join(figures)}",
        caption=f"{_CAPTIONS[question.plot]} {note}".rstrip(),
        height_in=height_of(question, rows),
        draw=draw_rows,
        key_text=key_text,
    )


def _key_text(names: Sequence[str], row: Row) -> str:
    """The values of keys in a row, as one text."""
    return " ".join(str(row[name]) for name in names if row[name] not in (None, ""))


def _row_label(question: Question, row: Row) -> str:
    """The label of a row: all its keys except `picture_keys`, in as many lines as they need."""
    label = _key_text([key for key in question.by if key not in question.picture_keys], row)
    if len(label) <= _MAX_LINE_CHARACTERS:
        return label
    return fill(label.replace(",", ", "), _MAX_LINE_CHARACTERS)


def _rows_height_in(question: Question, rows: Sequence[Row], min_row_in: float) -> float:
    """The height of a picture with a row for each row of the answer."""
    lines = max(1 + _row_label(question, row).count("\n") for row in rows)
    return 0.9 + max(min_row_in, lines * _LINE_HEIGHT_IN + 0.03) * len(rows)


def _axis_scale(question: Question, rows: Sequence[Row], name: str) -> tuple[float, str]:
    """The divisor of a column's values on an axis, and the label of the axis."""
    label = question.headings.get(name, name.replace("_", " "))
    unit = one_line(rows[0][question.units[name]]) if name in question.units else _unit(name)
    if unit == _S_PER_GB:
        return 1 / _B_PER_GB, f"{label}, {_S_PER_GB}"
    if unit == _SHARE_UNIT:
        return 0.01, f"{label}, %"
    divisor, shown_unit = divisor_and_unit(max(abs(float(row[name])) for row in rows), unit)
    return divisor, f"{label}, {shown_unit}" if unit else label


def _draw_forest(figure: Figure, question: Question, rows: Sequence[Row], name: str) -> None:
    """Draw an estimate and its interval for each row of the answer, below each other.

    If there are `plot_columns`, rows with different values of the first one have different colours.
    """
    divisor, axis_label = _axis_scale(question, rows, name)
    colour_key = question.plot_columns[0] if question.plot_columns else ""
    levels = list(dict.fromkeys(row[colour_key] for row in rows)) if colour_key else []
    labels = [_row_label(question, row) for row in rows]
    axes = plots.rows_axes(figure, labels, axis_label, no_effect=None if _unit(name) else 1.0)
    for position, row in enumerate(rows):
        colour_index = levels.index(row[colour_key]) if colour_key else _ONE_COLOUR_INDEX
        if question.background and row[f"{question.background}_low"] is not None:
            low, high = (row[f"{question.background}_{end}"] for end in _ENDS)
            plots.draw_repeatability(axes, Interval(low, high), position)
        estimate = estimate_of(row, name)
        scaled_estimate = estimate.mapped(lambda value: value / divisor) if estimate else None
        colour = LEVEL_COLOURS[colour_index % len(LEVEL_COLOURS)]
        plots.draw_interval(axes, scaled_estimate, position, colour, "o")


def _draw_change(figure: Figure, question: Question, rows: Sequence[Row], _: str) -> None:
    """Draw the values without and with traffic of each row of the answer, on a logarithmic axis."""
    off_column, on_column = question.plot_columns
    positive_rows = [
        row for row in rows if (row[off_column] or 0) > 0 and (row[on_column] or 0) > 0
    ]
    labels = [_row_label(question, row) for row in positive_rows]
    axes = plots.rows_axes(figure, labels, "", no_effect=None)
    for position, row in enumerate(positive_rows):
        off, on = row[off_column], row[on_column]
        axes.plot([off, on], [position, position], color=light_colour("muted"), lw=1.5)
        draw_points(axes, [off], [position], "off", "o", 6)
        draw_points(axes, [on], [position], "on", "^", 6)
    if positive_rows:
        plots.set_logarithmic(axes, "x")


def _draw_map(figure: Figure, question: Question, rows: Sequence[Row], name: str) -> None:
    """Draw a cell for each row of the answer, and lines at the sizes in `Question.marks`.

    Cells with larger values are darker.
    """
    x_key, y_key = question.plot_columns
    x_levels = list(dict.fromkeys(row[x_key] for row in rows))
    y_levels = list(dict.fromkeys(row[y_key] for row in rows))
    smallest, largest = min(row[name] for row in rows), max(row[name] for row in rows)
    axes = figure.subplots()
    for row in rows:
        x, y = x_levels.index(row[x_key]), y_levels.index(row[y_key])
        darkness = (row[name] - smallest) / (largest - smallest) if largest > smallest else 0.0
        x_corners = [x - 0.5, x + 0.5, x + 0.5, x - 0.5]
        y_corners = [y - 0.5, y - 0.5, y + 0.5, y + 0.5]
        alpha = 0.05 + 0.5 * darkness
        axes.fill(x_corners, y_corners, color=light_colour("on"), alpha=alpha, lw=0)
        value, interval = _cell(question, row, name)
        axes.text(x, y + 0.02, value, ha="center", va="bottom", fontsize="small")
        axes.text(x, y - 0.05, interval, ha="center", va="top", fontsize="x-small")
    for key in question.plot_columns:
        sizes = {row[key]: row[f"{key}_b"] for row in rows}
        for position, marks in mark_positions(question, list(sizes.values()), rows[0]).items():
            _draw_mark(axes, ", ".join(marks), position, vertical=key == x_key)
    axes.set_xticks(range(len(x_levels)), x_levels)
    axes.set_yticks(range(len(y_levels)), y_levels)
    axes.set(xlim=(-0.5, len(x_levels) - 0.5), ylim=(-0.5, len(y_levels) - 0.5))
    x_label, y_label = (
        question.headings.get(key, key.replace("_", " ")) for key in question.plot_columns
    )
    axes.set(xlabel=x_label, ylabel=y_label)


def _draw_mark(axes: Axes, text: str, position: float, *, vertical: bool) -> None:
    """Draw a line at a position of the axis, with its text at the end."""
    style: Any = {"fontsize": "x-small", "va": "bottom" if vertical else "center"}
    if vertical:
        axes.axvline(position, color=light_colour("ink"), lw=1, ls="--")
        axes.text(position, 1.0, text, ha="center", transform=axes.get_xaxis_transform(), **style)
    else:
        axes.axhline(position, color=light_colour("ink"), lw=1, ls="--")
        axes.text(1.01, position, text, ha="left", transform=axes.get_yaxis_transform(), **style)


def mark_positions(
    question: Question, sizes: Sequence[float | None], row: Row
) -> dict[float, list[str]]:
    """Position between two cells of a map -> headings of the marks that lie there.

    Cells are at 0, 1, ... `sizes` has the size of each cell in bytes, in increasing order. `row`
    has the sizes of the marks in bytes. A mark as large as a cell lies above this cell. A mark that
    is smaller than the first cell, or not smaller than the last cell, has no position. If any size
    in `sizes` is unknown, no mark has a position.
    """
    known_sizes = [size for size in sizes if size is not None]
    if len(known_sizes) < len(sizes):
        return {}
    positions: dict[float, list[str]] = {}
    for mark in question.marks:
        cells_below = sum(size <= (row[mark] or 0) for size in known_sizes)
        if 0 < cells_below < len(known_sizes):
            heading = question.headings.get(mark, mark)
            positions.setdefault(cells_below - 0.5, []).append(heading)
    return positions


def _draw_series(figure: Figure, question: Question, rows: Sequence[Row], name: str) -> None:
    """Draw a column over the first of `plot_columns`, as lines or as clouds of points.

    The rows with equal values of the other `plot_columns` are one line, or one cloud.
    """
    x_column, is_cloud = question.plot_columns[0], question.plot == "points"
    divisor, y_label = _axis_scale(question, rows, name)
    x_values = list(dict.fromkeys(row[x_column] for row in rows))
    x_is_text = isinstance(x_values[0], str)
    if x_is_text:
        x_divisor, x_label = 1.0, question.headings.get(x_column, x_column.replace("_", " "))
    else:
        x_divisor, x_label = _axis_scale(question, rows, x_column)

    def x_of(row: Row) -> float:
        return float(x_values.index(row[x_column])) if x_is_text else row[x_column] / x_divisor

    def y_of(row: Row, column: str) -> float:
        return nan if row[column] is None else row[column] / divisor

    axes = figure.subplots()
    groups = grouped((_key_text(question.plot_columns[1:], row), row) for row in rows)
    for index, (label, group) in enumerate(groups.items()):
        colour = LEVEL_COLOURS[index % len(LEVEL_COLOURS)]
        css_colour = light_colour(colour)
        shape = LEVEL_MARKERS[index % len(LEVEL_MARKERS)]
        x = [x_of(row) for row in group]
        y = [y_of(row, name) for row in group]
        if is_cloud:
            style = {"alpha": 0.7, "mew": 0, "label": label, "gid": f"points-{index}"}
            draw_points(axes, x, y, colour, shape, 4, **style)
            if question.background and group[0][question.background] is not None:
                line = sorted((x_of(row), y_of(row, question.background)) for row in group)
                line_x, line_y = zip(*line, strict=True)
                axes.plot(line_x, line_y, color=css_colour, lw=1.6)
        else:
            axes.plot(x, y, color=css_colour, marker=shape, ms=5, lw=1.4, label=label)
            low, high = ([y_of(row, f"{name}_{end}") for row in group] for end in _ENDS)
            axes.vlines(x, low, high, color=css_colour, lw=2.5, alpha=0.6)
    if x_is_text:
        axes.set_xticks(range(len(x_values)), x_values)
    axis_limits: dict[str, Any] = {} if x_is_text or is_cloud else {"xlim": (0, None)}
    if is_cloud or _unit(name):
        axis_limits["ylim"] = (0, None)
    else:
        axes.axhline(1.0, color=light_colour("muted"), lw=1)
    plots.finish_axes(axes, x_label, y_label, **axis_limits)
    if axes.get_legend_handles_labels()[1]:
        figure.legend(loc="outside upper left", ncols=4 if is_cloud else 3)


def _map_height_in(question: Question, rows: Sequence[Row]) -> float:
    return 1.3 + 0.55 * len({row[question.plot_columns[1]] for row in rows})


#: Kind of picture -> a function that returns its height in inches, and the function that draws it.
_PLOTS: Mapping[Plot, tuple[Callable[[Question, Sequence[Row]], float], Draw]] = {
    "forest": (lambda question, rows: _rows_height_in(question, rows, 0.34), _draw_forest),
    "change": (lambda question, rows: _rows_height_in(question, rows, 0.26), _draw_change),
    "map": (_map_height_in, _draw_map),
    "points": (lambda *_: 3.0, _draw_series),
    "lines": (lambda *_: 3.6, _draw_series),
}
