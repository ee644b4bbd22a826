"""Text of others, made safe for where it is shown: terminal, markup of Rich, mathtext.

HTML is escaped by the templates (`analysis.report.shell`), and SVG by `markupsafe`.
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
