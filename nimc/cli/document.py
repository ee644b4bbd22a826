"""What commands print: JSON documents, each with the number of its schema (docs/json.md), or text.

The list in a document that is its table can be printed as CSV instead. Text is a line a case, their
plot, notes, and what to do next.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from records.text import Line, cell, columns, one_line, plot, sentences, visible, wrapped

if TYPE_CHECKING:
    from analysis.statistics.interval import Estimate

# Rows of a JSON document as CSV, for spreadsheets.


def csv_text(document: Mapping[str, object], path: Sequence[str]) -> str:
    """The list of objects at `path`, one line each under a header with all their keys.

    With two names in the path, rows of inner lists begin with the figures and texts around them.
    Lists and objects in a cell are JSON; unknown is empty.
    """
    rows = list(_rows(document, path))
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def _rows(document: Mapping[str, object], path: Sequence[str]) -> Iterator[dict[str, object]]:
    first, *others = path
    found = document.get(first)
    for each in found if isinstance(found, list) else []:
        if not others:
            yield dict(each)
            continue
        around = {name: value for name, value in each.items() if not isinstance(value, list | dict)}
        for row in _rows(each, others):
            yield {**around, **row}


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return json.dumps(value)
    if value is None or isinstance(value, int | float):
        return value
    return cell(value if isinstance(value, str) else json.dumps(value, default=str))


#: How a command prints its figures, if not as text.
Form = Literal["json", "csv"]

#: Command -> number of its document's schema, where it is not 1; it rises if a key goes or changes
#: its meaning.
_SCHEMAS = {
    **dict.fromkeys(("doctor", "model predict", "plan", "simulate", "traffic import"), 2),
    **dict.fromkeys(("nights run", "writers", "writers --paper"), 2),
    **dict.fromkeys(("model evaluate", "model fit", "traffic show"), 3),
}
#: Command -> where its document has the rows of its table: names of keys, the outer one first.
TABLES: dict[str, tuple[str, ...]] = {
    "advise": ("advice", "remedies"),
    "compare": ("comparisons",),
    "doctor": ("findings",),
    "model evaluate": ("placements",),
    "model predict": ("placements", "points"),
    "nights alarms": ("watched",),
    "nights list": ("nights",),
    "plan": ("cases",),
    "qualify": ("claims",),
    "remedy list": ("remedies",),
    "report": ("reports", "runs", "results"),
    "run": ("results",),
    "runs": ("runs",),
    "simulate": ("rows",),
    "spack info": ("environments", "specs"),
    "sweep-nodes": ("nodes",),
    "writers": ("rows",),
    "writers --paper": ("columns",),
}


def print_document(command: str, document: Mapping[str, object], form: Form = "json") -> None:
    """Print a command's document, its schema first; or its table as CSV."""
    if form == "csv":
        click.echo(csv_text(document, TABLES[command]), nl=False)
    else:
        schema = _SCHEMAS.get(command, 1)
        click.echo(json.dumps({"schema": schema, **document}, indent=1))


def show(command: str, document: Mapping[str, object], form: Form | None, text: str) -> None:
    """Print a command's document in the requested form, or else its text."""
    if form:
        print_document(command, document, form)
    else:
        click.echo(text)


def log(line: str) -> None:
    """Print progress, or a remark, which is no part of what a command gives."""
    click.echo(f"nimc: {one_line(line)}", err=True)


def silent(line: str) -> None:
    """Print nothing, in place of `log`."""


# Text.


def prose(text: str, **style: Any) -> str:
    """Text that may name what others wrote, in lines of 80 columns, as `click.style` styles it."""
    return click.style(wrapped(visible(text)), **style)


def listing(
    title: str,
    lines: Sequence[Line],
    notes: Iterable[str] = (),
    *,
    legend: str,
    needed: int = 3,
    more: str = "",
    details: bool = False,
    following: Iterable[str] = (),
) -> str:
    """A line a case (`records.text.sentences`), the plot of their intervals, and notes, once.

    `title`: of the plot. `legend`: what lines hold. `needed`: parts that are never left out.
    `more`: what `details`, the option -v, adds. `following`: what to do next.
    """
    width = columns()
    texts = sentences(lines, width, needed=needed, details=details)
    shown = [click.style(text, fg=of.colour) for text, of in zip(texts, lines, strict=True)]
    drawn = plot(title, lines, width)
    about = [legend, *([f"-v adds: {more}"] if more and not details else [])] if lines else []
    noted = [prose(note, dim=True) for note in dict.fromkeys([*about, *notes])]
    parts = ["\n".join(each) for each in (shown, drawn, [*noted, *map(prose, following)]) if each]
    return "\n\n".join(parts)


def ratio_of(of: Estimate | None) -> tuple[float, float, float] | None:
    """A ratio as the plot has it."""
    return (of.value, of.low, of.high) if of else None
