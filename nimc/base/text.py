"""Text of others, made safe for the terminal.

Other places have one edge each: Jinja escapes what goes into a page (`analysis.report.plots`),
`analysis.report.plots` the labels of plots and turns formulas off, and `nimc.base.tables`
escapes the cells of tables.
"""

from __future__ import annotations


def visible(text: str) -> str:
    """Unprintable characters escaped, so that none commands the terminal; line breaks stay."""
    return "\n".join(map(one_line, text.split("\n")))


def one_line(text: str) -> str:
    """Line breaks and unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def cell(text: str) -> str:
    """Text for a cell of a spreadsheet: never a formula, no control characters."""
    shown = visible(text)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown
