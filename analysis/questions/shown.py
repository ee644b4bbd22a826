"""An answer as a section of the report: its table, its picture and its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import floor, log10, nan
from typing import Any

import polars as pl
from markupsafe import Markup

from analysis.questions.question import Question, answer
from analysis.report.data import RunData
from analysis.report.plots import (
    LEVEL_COLOURS,
    View,
    drawing,
    finish,
    interval,
    legend,
    level_line,
    light,
    rows_axes,
    themed_svg,
)
from analysis.report.sections import Files, Part, Section
from analysis.report.words import DASH
from analysis.statistics.interval import CONFIDENCE, Estimate
from records.groups import grouped
from records.units import number, scale

#: Ending of a column -> its unit, longer endings first. Seconds per byte are shown per gigabyte.
_UNITS = {"_b_s": "B/s", "_s_b": "s/GB", "_s": "s", "_b": "B"}
_S_PER_GB, _PER_GB = "s/GB", 1e9
_ENDS = ("low", "high")
#: Most digits of a figure with an interval.
_MOST_DIGITS = 4
#: Most rows of an answer that are drawn; the table has all.
_DRAWN = 48
#: Most rows of a table that is open.
_OPEN = 24
Row = Mapping[str, Any]


def answered(question: Question, run: RunData) -> pl.DataFrame:
    """The rows of the answer, worked out once a run: page and files share them."""
    if question.name not in run.answers:
        run.answers[question.name] = answer(question, run)
    return run.answers[question.name]


def section(question: Question, part: Part, place: int) -> Section:
    """The section of a question, with its file."""

    def view(run: RunData, anchor: str) -> View | None:
        table = answered(question, run)
        return None if table.is_empty() else _view(question, table, run, anchor)

    return Section(
        part,
        place,
        question.name,
        view,
        title=question.title,
        files=_file(question),
        template="question",
    )


def _file(question: Question) -> Callable[[Sequence[RunData]], Files]:
    """NAME.json: the rows of all runs under NAME, each with `run` and the caveats `emulated`."""

    def files(runs: Sequence[RunData]) -> Files:
        rows = [
            {"run": run.header.run, "emulated": run.emulated(), **row}
            for run in runs
            for row in answered(question, run).to_dicts()
        ]
        return {f"{question.name}.json": {question.name: rows}} if rows else {}

    return files


def _view(question: Question, table: pl.DataFrame, run: RunData, anchor: str) -> View:
    rows = table.to_dicts()
    columns = [*question.by, question.main, *_others(question, table)]
    emulated = run.emulated(table["case"].unique().to_list() if "case" in table.columns else None)
    return View(
        question=question,
        headings=[_heading(question, name) for name in columns],
        numeric=[table.schema[name].is_numeric() for name in columns],
        rows=[[_cell(question, row, name) for name in columns] for row in rows],
        # A section that can say nothing is folded, with the reasons.
        silent="; ".join(dict.fromkeys(row["why"] for row in rows)) if _silent(rows) else "",
        svgs=_pictures(question, rows, anchor),
        drawn=min(len(rows), _DRAWN),
        # A long table is folded below its pictures.
        long=len(rows) > _OPEN and question.plot is not None,
        emulated=emulated,
    )


def _others(question: Question, table: pl.DataFrame) -> list[str]:
    """Columns of the page's table after keys and main estimate; `why` stands below the word."""
    facts = [name for name in question.facts if name != "n"]
    rest = [*list(question.estimates)[1:], *facts, "n", "word"]
    return [name for name in question.columns or rest if name in table.columns]


def _silent(rows: Sequence[Row]) -> bool:
    """Whether no row has a word that says something."""
    return all(row.get("why") for row in rows)


def _unit(name: str) -> str:
    return next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")


def _heading(question: Question, name: str) -> str:
    unit = _unit(name)
    ending = next((end for end in _UNITS if name.endswith(end)), "")
    plain = {"n": "pairs", "word": "verdict"}.get(name, name.removesuffix(ending).replace("_", " "))
    text = question.headings.get(name, plain)
    return f"{text}, {unit}" if unit == _S_PER_GB else text


def figure(name: str, value: Any, *ends: float | None) -> tuple[str, str]:
    """A value of a column as text in the unit of its name, and its interval in the same unit.

    With an interval, both have the decimals that its width carries: two significant digits, and at
    most four of the figure.
    """
    if value is None:
        return DASH, ""
    if not isinstance(value, float):
        return str(value), ""
    unit = _unit(name)
    divisor, scaled = (1 / _PER_GB, "") if unit == _S_PER_GB else scale(value, unit)
    suffix = f" {scaled}" if scaled else ""
    known = [end / divisor for end in ends if end is not None]
    if len(known) < len(_ENDS) or known[0] == known[1]:
        return f"{number(value / divisor)}{suffix}", ""
    low, high = known
    figures = (value / divisor, low, high)
    size = max(map(abs, figures))
    places = max(min(1 - floor(log10(high - low)), _MOST_DIGITS - 1 - floor(log10(size))), 0)
    # Adding 0 to a rounded -0 gives 0.
    text = [f"{round(each, places) + 0:.{places}f}" for each in figures]
    return f"{text[0]}{suffix}", f"{text[1]} to {text[2]}"


def _cell(question: Question, row: Row, name: str) -> tuple[str, str]:
    """Text of a cell, and the smaller text below it."""
    if name == "word":
        return row["word"], row["why"]
    ends = (row[f"{name}_low"], row[f"{name}_high"]) if name in question.estimates else ()
    return figure(name, row[name], *ends)


# Pictures.


def _pictures(question: Question, rows: Sequence[Row], anchor: str) -> list[tuple[str, Markup]]:
    """The values of `apart`, and the picture of their rows."""
    shown = [row for row in rows if row[question.main] is not None][:_DRAWN]
    if question.plot is None:
        return []
    draw = _forest if question.plot == "forest" else _lines
    groups = grouped((_label(question.apart, row), row) for row in shown)
    return [
        (text, draw(question, of, f"{anchor}{index}"))
        for index, (text, of) in enumerate(groups.items())
    ]


def _estimate(row: Row, name: str) -> Estimate:
    return Estimate(row[name], row[f"{name}_low"], row[f"{name}_high"], CONFIDENCE)


def _said(question: Question, rows: Sequence[Row]) -> str:
    """The figures in words, for readers who do not see the picture."""
    name = question.main
    parts = []
    for row in rows:
        value, ends = figure(name, row[name], row[f"{name}_low"], row[f"{name}_high"])
        parts.append(f"{_label(question.by, row)} {value}" + (f" ({ends})" if ends else ""))
    return f"{question.title}: {'; '.join(parts)}"


def _label(names: Sequence[str], row: Row) -> str:
    return " ".join(str(row[name]) for name in names if row[name] not in (None, ""))


def _scaled(question: Question, rows: Sequence[Row], name: str) -> tuple[float, str]:
    """Divisor for a picture's axis and its label."""
    unit, text = _unit(name), question.headings.get(name, name.replace("_", " "))
    if unit == _S_PER_GB:
        return 1 / _PER_GB, f"{text}, s/GB"
    divisor, scaled = scale(max(abs(float(row[name])) for row in rows), unit)
    return divisor, f"{text}, {scaled}" if unit else text


def _forest(question: Question, rows: Sequence[Row], anchor: str) -> Markup:
    """A row for each row of the answer, with its interval; colours by the first of `axes`."""
    name = question.main
    divisor, axis = _scaled(question, rows, name)
    colour = question.axes[0] if question.axes else ""
    levels = list(dict.fromkeys(row[colour] for row in rows)) if colour else []
    with drawing(0.9 + 0.34 * len(rows)) as drawn:
        names = [key for key in question.by if key not in question.apart]
        labels = [_label(names, row) for row in rows]
        axes = rows_axes(drawn, labels, axis, line=None if _unit(name) else 1.0)
        for line, row in enumerate(rows):
            index = levels.index(row[colour]) if colour else 1
            shown = _estimate(row, name).mapped(lambda value: value / divisor)
            interval(axes, shown, line, LEVEL_COLOURS[index % len(LEVEL_COLOURS)], "o")
        return themed_svg(drawn, anchor, _said(question, rows))


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


def _lines(question: Question, rows: Sequence[Row], anchor: str) -> Markup:
    """A line for each combination of the later `axes`, over the first."""
    name, across = question.main, question.axes[0]
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
                for place, row, own in zip(places, rows, labels, strict=True)
                if own == label
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
        return themed_svg(drawn, anchor, _said(question, rows))
