"""Plain-text output: durations and tables."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

#: Columns of a terminal that every table fits.
WIDTH = 80
_GAP = "  "
_INDENT = "  "
_BREAK = " \\"


def duration(seconds: float) -> str:
    """`42 s`, `4 min 10 s`, `3 h 05 min`; whole seconds below an hour, whole minutes above."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min"


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], width: int = WIDTH) -> str:
    """Right-aligned columns under their headings, two spaces apart, in at most `width` columns.

    A row takes one line if that fits; else columns go on under it, indented, and a column that is
    too wide for one line is wrapped.
    """
    records = [header, *rows]
    widths = [max(len(record[i]) for record in records) for i in range(len(header))]
    parts = _parts(widths, width)
    return "\n".join(
        line
        for record in records
        for part in parts
        for line in _lines([record[i] for i in part], [widths[i] for i in part], part[0], width)
    )


def _parts(widths: Sequence[int], width: int) -> list[list[int]]:
    """Columns of each line of a row: as few lines as fit, of about the same length."""
    lines = len(_greedy(widths, width))
    least = min(max(widths), width)
    narrow = next(each for each in range(least, width + 1) if len(_greedy(widths, each)) <= lines)
    return _greedy(widths, width if lines == 1 else narrow)


def _greedy(widths: Sequence[int], width: int) -> list[list[int]]:
    parts: list[list[int]] = []
    used = 0
    for column, each in enumerate(widths):
        if parts and used + len(_GAP) + each <= width:
            parts[-1].append(column)
            used += len(_GAP) + each
        else:
            parts.append([column])
            used = each + (len(_INDENT) if column else 0)
    return parts


def _lines(cells: Sequence[str], widths: Sequence[int], first: int, width: int) -> list[str]:
    indent = _INDENT if first else ""
    if len(cells) == 1 and len(indent) + widths[0] > width:
        text = indent + cells[0]
        return _wrapped_line(text, width) if cells[0] else ([] if first else [""])
    padded = (cell.rjust(each) for cell, each in zip(cells, widths, strict=True))
    return [(indent + _GAP.join(padded)).rstrip()]


def broken(words: Iterable[str], width: int = WIDTH) -> str:
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
    """Lines of at most `width` columns; words that are longer, such as paths, stay whole."""
    return "\n".join(part for line in text.split("\n") for part in _wrapped_line(line, width))


def _wrapped_line(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    return textwrap.wrap(
        line, width, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
    )
