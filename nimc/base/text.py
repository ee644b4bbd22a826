"""Text of others, made safe for the terminal.

Other places have one edge each: Jinja escapes what goes into a page (`analysis.report.shell`),
`analysis.report.plots` the labels of plots and turns formulas off, and `nimc.base.tables`
escapes the cells of tables.
"""

from __future__ import annotations

#: How much of a program's first and of its last line is quoted, characters.
_FIRST, _LAST = 120, 200


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


def quoted(text: str) -> str:
    """The first and the last line that have words: what went wrong is in one of them."""
    lines = [" ".join(line.split()) for line in text.split("\n") if any(map(str.isalnum, line))]
    if len(lines) < 2:
        return _cut("".join(lines), _FIRST + _LAST)
    between = " ... " if len(lines) > 2 else " / "
    return _cut(lines[0], _FIRST) + between + _cut(lines[-1], _LAST)


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[: most - 3]}..."
