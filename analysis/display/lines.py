"""Plain text for the terminal: durations, tables, and tables with a line for each case.

Text from outside the program is made safe in one place for each kind of output: by `one_line` and
`visible` for the terminal, and by Jinja for a page (`analysis.report.plots`). `plots` also turns
off formulas in labels of plots.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from records.text import one_line


def visible(text: str) -> str:
    """The text with unprintable characters escaped, so that none controls the terminal.

    Line breaks stay.
    """
    return "\n".join(map(one_line, text.split("\n")))


# Durations and tables.


#: Every table fits into a terminal of this many columns, unless a word is longer.
WIDTH = 80
_INDENT = "  "
_CONTINUATION = " \\"
#: Replaces a space at which a line must not be broken. It occurs in no text.
_KEPT_SPACE = "\0"


def duration(seconds: float) -> str:
    """`42 s`, `4 min 10 s`, `3 h 05 min`; whole seconds below an hour, whole minutes above."""
    whole_s = round(seconds)
    if whole_s < 60:
        return f"{whole_s} s"
    if whole_s < 3600:
        return f"{whole_s // 60} min {whole_s % 60:02} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min"


def aligned_table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    left_aligned: Collection[int] = (),
    width: int = WIDTH,
) -> str:
    """A table of text under a header, with lines of at most `width` characters.

    Columns are two spaces apart, and right-aligned, except those in `left_aligned`. If a row is too
    wide, columns are one space apart if that suffices. Otherwise they stay two spaces apart, and
    the row goes on in indented lines.
    A column that is too wide for a line is wrapped, but words are not broken.
    """
    records = [[one_line(cell) for cell in record] for record in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*records, strict=True)]
    gap_count = len(widths) - 1
    gap = " " if gap_count <= width - sum(widths) < 2 * gap_count else "  "
    columns_of_lines = _columns_of_lines(widths, gap, width)

    def lines(record: Sequence[str], columns: Sequence[int]) -> Sequence[str]:
        """The lines for some columns of a row: one, or several if a column alone is too wide."""
        indent = _INDENT if columns[0] else ""
        is_too_wide = len(columns) == 1 and len(indent) + widths[columns[0]] > width
        padded_cells = [
            record[column].ljust(widths[column])
            if column in left_aligned or is_too_wide
            else record[column].rjust(widths[column])
            for column in columns
        ]
        text = (indent + gap.join(padded_cells)).rstrip()
        return wrapped_lines(text, width) if text or not indent else ()

    table_lines: list[str] = []
    for record in records:
        for columns in columns_of_lines:
            table_lines += lines(record, columns)
    return "\n".join(table_lines)


def _columns_of_lines(widths: Sequence[int], gap: str, width: int) -> list[list[int]]:
    """For each line of a row, the indices of the columns in this line."""
    columns_of_lines: list[list[int]] = []
    used_width = 0
    for column, column_width in enumerate(widths):
        if columns_of_lines and used_width + len(gap) + column_width <= width:
            columns_of_lines[-1].append(column)
            used_width += len(gap) + column_width
        else:
            columns_of_lines.append([column])
            used_width = column_width + (len(_INDENT) if column else 0)
    return columns_of_lines


def broken_command(words: Iterable[str], width: int = WIDTH) -> str:
    """A shell command in lines of at most `width` characters.

    All lines except the last end with a backslash. A word that does not fit beside indent and
    backslash makes a longer line.
    """
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + 1 + len(word) + len(_CONTINUATION) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"{_INDENT if lines else ''}{word}")
    return f"{_CONTINUATION}\n".join(lines)


def wrapped(text: str, width: int = WIDTH) -> str:
    """The text in lines of at most `width` characters.

    Longer words, such as paths, are not broken. Commands between backticks are not broken either.
    """
    return "\n".join(part for line in text.split("\n") for part in wrapped_lines(line, width))


def wrapped_lines(line: str, width: int, indent: str = _INDENT) -> list[str]:
    """The lines that a line is wrapped into; all but the first are indented."""
    if len(line) <= width:
        return [line]
    line_with_kept_spaces = re.sub(
        r"`[^`]+`", lambda command: command[0].replace(" ", _KEPT_SPACE), line
    )
    parts = textwrap.wrap(
        line_with_kept_spaces,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace(_KEPT_SPACE, " ") for part in parts]


# Tables with a line for each case: its cells can be read as a sentence.


@dataclass(frozen=True)
class Line:
    """One line of such a table: the statement on one case."""

    #: Name of the case, its figure, its verdict, and more; the most important first.
    cells: Sequence[str]
    details: Sequence[str] = ()
    #: Name of click's colour for the line; None: the terminal's own.
    colour: str | None = None


def terminal_columns() -> int:
    """Columns of the terminal, at least 80; 80 if the output goes to a file or a pipe."""
    return max(WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDTH


def aligned_lines(
    lines: Sequence[Line], width: int = WIDTH, *, min_columns: int = 3, details: bool = False
) -> list[str]:
    """Text of each line, at most `width` characters wide, with its cells in aligned columns.

    Columns are two spaces apart, or one space if one more column fits then. If the columns do not
    fit, the last ones are omitted. The first `min_columns` are always shown; if they do not fit,
    their line is wrapped. With `details`, the omitted cells and the details of each line
    follow in lines of their own.
    """
    cells_of_lines = [[one_line(cell) for cell in line.cells] for line in lines]
    widths = [max(map(len, column)) for column in zip(*cells_of_lines, strict=True)]
    # Narrow gaps are preferred to fewer columns.
    fitting_layouts = (
        (count, gap)
        for count in range(len(widths), min_columns - 1, -1)
        for gap in ("  ", " ")
        if sum(widths[:count]) + len(gap) * (count - 1) <= width
    )
    count, gap = next(fitting_layouts, (min_columns, "  "))
    start_of_last_column = sum(widths[: count - 1]) + len(gap) * (count - 1)
    indent = " " * start_of_last_column if 2 * start_of_last_column <= width else _INDENT

    def text_lines(line: Line, cells: Sequence[str]) -> Iterator[str]:
        padded_cells = map(str.ljust, cells[:count], widths[:count])
        yield from wrapped_lines(gap.join(padded_cells).rstrip(), width, indent)
        omitted_cells = gap.join(filter(None, cells[count:]))
        for detail in filter(None, [omitted_cells, *line.details] if details else []):
            yield from wrapped_lines(f"{_INDENT * 2}{one_line(detail)}", width, _INDENT * 3)

    return [
        "\n".join(text_lines(line, cells))
        for line, cells in zip(lines, cells_of_lines, strict=True)
    ]
