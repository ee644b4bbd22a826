"""Plain-text output: durations and tables."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence

from nimc.base.text import visible

#: Columns of a terminal that every table fits.
WIDTH = 80
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


def aligned(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    left: Collection[int] = (),
    width: int = WIDTH,
) -> str:
    """A table of text: the lines of `blocks`."""
    return "\n".join(blocks(header, rows, left, width))


def blocks(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    left: Collection[int] = (),
    width: int = WIDTH,
) -> list[str]:
    """Text of the header and of each row: columns two spaces apart, in at most `width` columns.

    Columns are right-aligned, but those in `left`. Cells may have several lines, which end together
    in the header and begin together in rows. If a row does not fit, columns are one space apart,
    or go on under it, indented; a column that is too wide for one line is wrapped.
    """
    records = [[visible(cell).split("\n") for cell in record] for record in (header, *rows)]
    height = max(len(cell) for cell in records[0])
    records[0] = [[*[""] * (height - len(cell)), *cell] for cell in records[0]]
    widths = [
        max(len(line) for record in records for line in record[i]) for i in range(len(header))
    ]
    gaps = len(widths) - 1
    gap = " " if gaps <= width - sum(widths) < 2 * gaps else "  "
    parts = _parts(widths, gap, width)

    def lines(record: Sequence[Sequence[str]], part: Sequence[int]) -> Iterator[str]:
        indent = _INDENT if part[0] else ""
        for cells in itertools.zip_longest(*(record[i] for i in part), fillvalue=""):
            alone = len(part) == 1 and len(indent) + widths[part[0]] > width
            padded = (
                f"{cell:{'<' if i in left or alone else '>'}{widths[i]}}"
                for i, cell in zip(part, cells, strict=True)
            )
            text = (indent + gap.join(padded)).rstrip()
            yield from _wrapped_line(text, width) if text or not indent else ()

    return ["\n".join(line for part in parts for line in lines(record, part)) for record in records]


def _parts(widths: Sequence[int], gap: str, width: int) -> list[list[int]]:
    """Columns of each line of a row: as few lines as fit, of about the same length."""
    lines = len(_greedy(widths, gap, width))
    least = min(max(widths), width)
    narrow = next(
        each for each in range(least, width + 1) if len(_greedy(widths, gap, each)) <= lines
    )
    return _greedy(widths, gap, width if lines == 1 else narrow)


def _greedy(widths: Sequence[int], gap: str, width: int) -> list[list[int]]:
    parts: list[list[int]] = []
    used = 0
    for column, each in enumerate(widths):
        if parts and used + len(gap) + each <= width:
            parts[-1].append(column)
            used += len(gap) + each
        else:
            parts.append([column])
            used = each + (len(_INDENT) if column else 0)
    return parts


def folded(text: str, width: int) -> str:
    """Lines of at most `width` characters, cut anywhere, for a cell."""
    shown = visible(text)
    return "\n".join(shown[at : at + width].strip() for at in range(0, len(shown), width))


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
