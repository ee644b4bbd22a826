"""What commands print: text, JSON with the number of its schema, or its tables in another form.

Text is a line a case under a header, notes, and what to do next (docs/command-line.md#json).
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, get_args

import click
from pydantic_core import PydanticSerializationError, to_json

from records import latex
from records.errors import InputError
from records.text import Line, aligned, columns, one_line, sentences, visible, wrapped

#: Forms in which a command's tables are printed; `text` has all else too.
Form = Literal["text", "markdown", "csv", "latex"]


@dataclass(frozen=True)
class Answer:
    """What a command gives: a document, or the same as text, and its exit status."""

    document: Mapping[str, object]
    #: Made only if they are printed.
    parts: Iterable[str | Table | Listing]
    status: int = 0
    #: Of the document; it rises if a key goes or changes its meaning.
    schema: int = 1


def answers(*, tables: bool = False) -> Callable[[Callable[..., Any]], Callable[..., int]]:
    """Add `--json`, and with `tables` `--format`, to a command that gives an Answer, and print it.

    A command that was stopped gives only its exit status.
    """

    def decorate(command: Callable[..., Answer | int]) -> Callable[..., int]:
        @wraps(command)
        def run(*, as_json: bool, form: Form = "text", **options: Any) -> int:
            if as_json and form != "text":
                raise InputError("--json, --format: both found; allowed: one of them")
            answer = command(**options)
            if isinstance(answer, int):
                return answer
            if as_json:
                click.echo(in_json({"schema": answer.schema, **answer.document}))
            elif parts := list(answer.parts):
                click.echo(_printed(parts, form), nl=form == "text")
            return answer.status

        return _json_option(_format_option(run) if tables else run)

    return decorate


_json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document instead of text."
)
_format_option = click.option(
    "--format",
    "form",
    type=click.Choice(get_args(Form)),
    default="text",
    help="Only the tables, in one of these forms.",
)


def in_json(document: Mapping[str, object]) -> str:
    """The document; pydantic's writer is five times as fast, but escapes nothing."""
    with suppress(PydanticSerializationError):  # a path in another encoding
        text = to_json(document, indent=1, inf_nan_mode="constants")
        if text.isascii():
            return text.decode()
    return json.dumps(document, indent=1)


def _printed(parts: Iterable[str | Table | Listing], form: Form) -> str:
    if form == "text":
        return "\n".join(map(str, parts))
    tables = [part for part in parts if not isinstance(part, str)]
    return "\n".join(written(form, table.header, table.rows) for table in tables)


def log(line: str) -> None:
    """Print progress, or a remark, which is no part of what a command gives."""
    click.echo(f"nimc: {one_line(line)}", err=True)


def silent(line: str) -> None:
    """Print nothing, in place of `log`."""


# Text.


def prose(text: str, **style: Any) -> str:
    """Text that may name what others wrote, in lines of 80 columns, as `click.style` styles it."""
    return click.style(wrapped(visible(text)), **style)


@dataclass(frozen=True)
class Table:
    """Figures under a header; columns in `left` are texts."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Collection[int] = ()

    def __str__(self) -> str:
        return aligned(self.header, self.rows, self.left, columns())


@dataclass(frozen=True)
class Listing:
    """A line a case (`records.text.sentences`), and notes, once."""

    #: Of the parts of each line.
    header: Sequence[str]
    lines: Sequence[Line]
    notes: Iterable[str] = ()
    #: What the header does not say.
    legend: str = ""
    #: Parts that are never left out.
    needed: int = 3
    #: What `details`, the option -v, adds.
    more: str = ""
    details: bool = False
    #: What to do next.
    following: Iterable[str] = ()

    @property
    def rows(self) -> list[Sequence[str]]:
        """The parts of each line."""
        return [line.parts for line in self.lines]

    def __str__(self) -> str:
        width, lines = columns(), self.lines
        headed = [Line(self.header), *lines] if lines else []
        texts = sentences(headed, width, needed=self.needed, details=self.details)
        styles: list[dict[str, Any]] = [{"bold": True}, *({"fg": line.colour} for line in lines)]
        shown = [click.style(text, **style) for text, style in zip(texts, styles, strict=False)]
        more = [f"-v adds: {self.more}"] if self.more and not self.details else []
        about = [*filter(None, [self.legend]), *more] if lines else []
        noted = [prose(note, dim=True) for note in dict.fromkeys([*about, *self.notes])]
        parts = (shown, [*noted, *map(prose, self.following)])
        return "\n\n".join("\n".join(part) for part in parts if part)


# Tables for other programs.


def written(form: Form, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as Markdown, CSV or LaTeX, with a line break at its end."""
    records = [[one_line(text) for text in record] for record in (header, *rows)]
    if form == "csv":
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([map(_cell, record) for record in records])
        return out.getvalue()
    if form == "markdown":
        escaped = [[re.sub(r"([|\\*_<`])", r"\\\1", text) for text in record] for record in records]
        lines = [f"| {' | '.join(cells)} |" for cells in escaped]
        return "\n".join([lines[0], f"|{'---|' * len(header)}", *lines[1:], ""])
    return latex.tabular(records)


def _cell(text: str) -> str:
    """Text for a cell of a spreadsheet: never a formula."""
    return f"'{text}" if len(text) > 1 and text.startswith(("=", "+", "-", "@")) else text
