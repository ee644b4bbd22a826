"""A document in the chosen form: text, Markdown, CSV, LaTeX or JSON."""

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

#: Forms in which tables are shown. Only `text` also has the other parts of a document.
Form = Literal["text", "markdown", "csv", "latex"]


class Tabular(Protocol):
    """A part of a document that every form shows; its `str` is its text."""

    @property
    def header(self) -> Sequence[str]:
        """The names of the columns."""

    @property
    def rows(self) -> Sequence[Sequence[str]]:
        """The cells of each row."""


@dataclass(frozen=True)
class Table:
    """Figures under a header."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    #: Indices of the columns that have texts, which are left-aligned.
    left_aligned: Collection[int] = ()

    def __str__(self) -> str:
        return aligned_table(self.header, self.rows, self.left_aligned, terminal_columns())


def formatted_parts(parts: Iterable[str | Tabular], form: Form = "text") -> str:
    """The parts in a form: `text` has all of them, the other forms only the tables.

    In the other forms, each table ends with a line break.
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


def _harmless_cell(text: str) -> str:
    """Text for a cell, changed if a spreadsheet would take it for a formula."""
    return f"'{text}" if len(text) > 1 and text.startswith(("=", "+", "-", "@")) else text


def json_text(document: Mapping[str, object]) -> str:
    """The text of a document to print, with all but ASCII escaped.

    Pydantic's writer is five times as fast as Python's, but escapes nothing.
    """
    with suppress(PydanticSerializationError):  # a path in another encoding
        text = to_json(document, indent=1, inf_nan_mode="constants")
        if text.isascii():
            return text.decode()
    return json.dumps(document, indent=1)


def json_file_text(document: Mapping[str, object]) -> str:
    """The text of a file with a document; its figures are written as by Python, not Pydantic."""
    return json.dumps(document, indent=1) + "\n"
