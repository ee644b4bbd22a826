"""The one form in which results are printed: a line a case, their plot, notes, what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click

from analysis.statistics.interval import Estimate
from nimc.base.tables import Line, columns, plot, sentences, wrapped
from nimc.base.text import visible


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
    """A line a case (`nimc.base.tables.sentences`), the plot of their intervals, and notes, once.

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
