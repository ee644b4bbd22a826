"""Plain text for the terminal: durations, tables, lines that read as sentences.

Text of others is made safe in one place for each output: by `one_line` and `visible` for the
terminal, and by Jinja for a page (`analysis.report.plots`). The latter module also turns formulas
off in labels of plots.
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
    """Unprintable characters escaped, so that none commands the terminal; line breaks stay."""
    return "\n".join(map(one_line, text.split("\n")))


# Durations and tables.


#: Columns of a terminal that every table fits.
WIDTH = 80
_INDENT = "  "
_BREAK = " \\"
#: Stands for a space at which no line is broken; no text has it.
_KEPT_SPACE = "\0"


def duration(seconds: float) -> str:
    """`42 s`, `4 min 10 s`, `3 h 05 min`; whole seconds below an hour, whole minutes above."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min"


def aligned_table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    left: Collection[int] = (),
    width: int = WIDTH,
) -> str:
    """A table of text under a header: columns two spaces apart, in at most `width` columns.

    Columns are right-aligned, except those in `left`. If a row does not fit, its columns are one
    space apart, or continue in an indented line. A column that is too wide for a line is wrapped.
    """
    records = [[one_line(cell) for cell in record] for record in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*records, strict=True)]
    gaps = len(widths) - 1
    gap = " " if gaps <= width - sum(widths) < 2 * gaps else "  "

    def lines(record: Sequence[str], part: Sequence[int]) -> Sequence[str]:
        indent = _INDENT if part[0] else ""
        alone = len(part) == 1 and len(indent) + widths[part[0]] > width
        padded = (f"{record[i]:{'<' if i in left or alone else '>'}{widths[i]}}" for i in part)
        text = (indent + gap.join(padded)).rstrip()
        return wrapped_lines(text, width) if text or not indent else ()

    parts = _columns_by_line(widths, gap, width)
    return "\n".join(line for cells in records for part in parts for line in lines(cells, part))


def _columns_by_line(widths: Sequence[int], gap: str, width: int) -> list[list[int]]:
    """The columns of each line of a row."""
    parts: list[list[int]] = []
    used = 0
    for column, wide in enumerate(widths):
        if parts and used + len(gap) + wide <= width:
            parts[-1].append(column)
            used += len(gap) + wide
        else:
            parts.append([column])
            used = wide + (len(_INDENT) if column else 0)
    return parts


def broken_command(words: Iterable[str], width: int = WIDTH) -> str:
    """A shell command in lines of at most `width` columns, each but the last with a backslash.

    Words that are longer stand alone in their line.
    """
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + 1 + len(word) + len(_BREAK) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"{_INDENT if lines else ''}{word}")
    return f"{_BREAK}\n".join(lines)


def wrapped(text: str, width: int = WIDTH) -> str:
    """Lines of at most `width` columns.

    Longer words, such as paths, are not broken, nor are commands between backticks.
    """
    return "\n".join(part for line in text.split("\n") for part in wrapped_lines(line, width))


def wrapped_lines(line: str, width: int, indent: str = _INDENT) -> list[str]:
    """The lines that a line is wrapped into; all but the first are indented."""
    if len(line) <= width:
        return [line]
    unbroken_commands = re.sub(
        r"`[^`]+`", lambda code: code.group().replace(" ", _KEPT_SPACE), line
    )
    parts = textwrap.wrap(
        unbroken_commands,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace(_KEPT_SPACE, " ") for part in parts]


# Lines that read as sentences: one a case.


@dataclass(frozen=True)
class Line:
    """The statement on one case."""

    #: Name of the case, its figure, its verdict, and more; the most important first.
    parts: Sequence[str]
    details: Sequence[str] = ()
    colour: str | None = None


def terminal_columns() -> int:
    """Columns of the terminal, at least 80; 80 if the output goes to a file or a pipe."""
    return max(WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDTH


def sentences(
    lines: Sequence[Line], width: int = WIDTH, *, min_parts: int = 3, details: bool = False
) -> list[str]:
    """Text of each line: its parts in columns, in at most `width` columns.

    Columns are two spaces apart, or one. If they do not fit, the last parts are omitted, but the
    first `min_parts` are always shown, the last of them wrapped. With `details`, the omitted parts
    and the details of each line follow in lines of their own.
    """
    shown = [[one_line(part) for part in line.parts] for line in lines]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    fitting = (
        (count, gap)
        for count in range(len(widths), min_parts - 1, -1)  # rather fewer spaces than fewer parts
        for gap in ("  ", " ")
        if sum(widths[:count]) + len(gap) * (count - 1) <= width
    )
    count, gap = next(fitting, (min_parts, "  "))
    last = sum(widths[: count - 1]) + len(gap) * (count - 1)
    indent = " " * last if 2 * last <= width else _INDENT

    def text(line: Line, parts: Sequence[str]) -> Iterator[str]:
        padded = (f"{part:{room}}" for part, room in zip(parts, widths[:count], strict=False))
        yield from wrapped_lines(gap.join(padded).rstrip(), width, indent)
        below = [gap.join(filter(None, parts[count:])), *line.details] if details else []
        for detail in filter(None, below):
            yield from wrapped_lines(f"{_INDENT * 2}{one_line(detail)}", width, _INDENT * 3)

    return ["\n".join(text(line, parts)) for line, parts in zip(lines, shown, strict=True)]
