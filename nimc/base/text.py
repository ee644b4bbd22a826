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


class Gist:
    """The first and the last line with words of what a program prints: one says what went wrong."""

    def __init__(self) -> None:
        self._first = self._last = ""
        self._number = 0

    def add(self, line: str) -> None:
        """The next line."""
        if any(map(str.isalnum, line)):
            self._last = one_line(" ".join(line.split()))
            self._first = self._first or self._last
            self._number += 1

    def quoted(self, first: int = 120, last: int = 200) -> str:
        """Both, escaped and cut to so many characters; empty if nothing had words."""
        if self._number < 2:
            return _cut(self._last, first + last)
        between = " ... " if self._number > 2 else " / "
        return _cut(self._first, first) + between + _cut(self._last, last)


def quoted(text: str) -> str:
    """The gist of all that a program has printed."""
    gist = Gist()
    for line in text.split("\n"):
        gist.add(line)
    return gist.quoted()


def failure(code: int, gist: Gist) -> str:
    """How a program ended, and why by its own words."""
    said = gist.quoted(80, 100)
    return f"exit status {code}{said and ': '}{said}"


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[: most - 3]}..."
