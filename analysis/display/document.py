"""Shows a document in a chosen form: text, Markdown, CSV, LaTeX or JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic_core import PydanticSerializationError, to_json

from analysis.display import latex
from analysis.display.lines import aligned_table, terminal_columns
from records.text import one_line

#: Forms of a document. The form `text` has all parts of the document, the other forms only tables.
Form = Literal["text", "markdown", "csv", "latex"]


class Tabular(Protocol):
    """A part of a document that every form shows. `str` gives its form `text`."""

    @property
    def header(self) -> Sequence[str]:
        """The names of the columns."""

    @property
    def rows(self) -> Sequence[Sequence[str]]:
        """The cells of each row."""


@dataclass(frozen=True)
class Table:
    """A table with a header."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    #: Indices of the columns that have texts, which are left-aligned.
    left_aligned: Collection[int] = ()

    def __str__(self) -> str:
        return aligned_table(self.header, self.rows, self.left_aligned, terminal_columns())


def formatted_parts(parts: Iterable[str | Tabular], form: Form = "text") -> str:
    """Return the parts of a document in a form: as `text` all parts, else only the tables.

    In forms other than `text`, each table ends with a line break.
    """
    if form == "text":
        return "\n".join(map(str, parts))
    tables = [part for part in parts if not isinstance(part, str)]
    return "\n".join(formatted_table(form, table.header, table.rows) for table in tables)


def formatted_table(form: Form, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as Markdown, CSV or LaTeX, with a line break at its end."""
    records = [[one_line(text) for text in record] for record in (header, *rows)]
    if form == "csv":
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerows([map(_harmless_cell, record) for record in records])
        return buffer.getvalue()
    if form == "markdown":
        escaped = [[re.sub(r"([|\\*_<`])", r"\\\1", text) for text in record] for record in records]
        lines = [f"| {' | '.join(cells)} |" for cells in escaped]
        return "\n".join([lines[0], f"|{'---|' * len(header)}", *lines[1:], ""])
    return latex.tabular(records)


#: A number with a sign, and perhaps a unit such as `%` or `GB/s`.
_SIGNED_NUMBER = re.compile(r"[+-][\d.,]+(?:e[+-]?\d+)?(?: [%\w/]+)?", re.ASCII)


def _harmless_cell(text: str) -> str:
    """Return a cell's text, with an apostrophe before it if a spreadsheet would read a formula.

    A single sign, such as `-` for no value, is no formula, nor is a number.
    """
    is_formula = len(text) > 1 and text.startswith(("=", "+", "-", "@"))
    return f"'{text}" if is_formula and not _SIGNED_NUMBER.fullmatch(text) else text


def json_text(document: Mapping[str, object]) -> str:
    """A document as JSON for printing; characters that are not ASCII are escaped.

    Pydantic's writer is five times as fast as Python's, but escapes nothing. So it is used only if
    nothing must be escaped.
    """
    with suppress(PydanticSerializationError):  # a path in another encoding
        text = to_json(document, indent=1, inf_nan_mode="constants")
        if text.isascii():
            return text.decode()
    return json.dumps(document, indent=1)


def json_file_text(document: Mapping[str, object]) -> str:
    """A document as JSON for a file. Pydantic is not used, since it writes numbers differently."""
    return json.dumps(document, indent=1) + "\n"
