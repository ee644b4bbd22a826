"""Text in one line: what others wrote, made safe, and lists of names.

What people read is laid out in `analysis.display`. This part is needed here: errors and a job's
last words quote others, as agents do, and the conductor names nodes.
"""

from __future__ import annotations

from collections.abc import Iterable


def one_line(text: str) -> str:
    """Line breaks and unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def first_names(names: Iterable[object], most: int) -> str:
    """The first names, each once, and how many more there are."""
    distinct = list(dict.fromkeys(map(str, names)))
    more = len(distinct) - most
    return ", ".join(distinct[:most]) + (f" and {more} more" if more > 0 else "")
