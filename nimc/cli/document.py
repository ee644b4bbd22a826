"""What commands print: text, or JSON with the number of its schema (docs/command-line.md#json).

Text is a line a case, their plot, notes, and what to do next.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from records.text import Line, columns, one_line, plot, sentences, visible, wrapped

if TYPE_CHECKING:
    from analysis.statistics.interval import Estimate

#: Command -> number of its document's schema, where it is not 1; it rises if a key goes or changes
#: its meaning.
_SCHEMAS = {
    **dict.fromkeys(("doctor", "model predict", "plan", "simulate --paper", "traffic import"), 2),
    **dict.fromkeys(("nights run", "qualify", "writers", "writers --paper"), 2),
    **dict.fromkeys(("advise", "model evaluate", "model fit", "simulate", "traffic show"), 3),
}


def print_document(command: str, document: Mapping[str, object]) -> None:
    """Print a command's document, its schema first."""
    click.echo(json.dumps({"schema": _SCHEMAS.get(command, 1), **document}, indent=1))


def show(command: str, document: Mapping[str, object], as_json: bool, text: str) -> None:
    """Print a command's document as JSON, or else its text."""
    if as_json:
        print_document(command, document)
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
