"""Text on one line: makes foreign text safe to print, and lists names.

`analysis.display` lays out all other text. These functions are here since modules of `records` and
of the conductor need them and cannot import `analysis`.
"""

from __future__ import annotations

from collections.abc import Iterable


def one_line(text: str) -> str:
    """A text with its line breaks and unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def first_names(names: Iterable[object], limit: int) -> str:
    """The first `limit` names, each once, and the number of further names."""
    distinct = list(dict.fromkeys(map(str, names)))
    shown = ", ".join(distinct[:limit])
    more = len(distinct) - limit
    return f"{shown} and {more} more" if more > 0 else shown
