"""What commands print: text, JSON with the number of its schema, or its tables in another form.

Text is a line a case under a header, notes, and what to do next (docs/command-line.md#json).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, get_args

import click

from analysis.display.document import Form, Tabular, in_json, shown
from analysis.display.lines import Line, columns, sentences, visible, wrapped
from records.errors import InputError
from records.text import one_line


@dataclass(frozen=True)
class Answer:
    """What a command gives: a document, or the same as text, and its exit status."""

    document: Mapping[str, object]
    #: Made only if they are printed.
    parts: Iterable[str | Tabular]
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
                click.echo(shown(parts, form), nl=form == "text")
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


def log(line: str) -> None:
    """Print progress, or a remark, which is no part of what a command gives."""
    click.echo(f"nimc: {one_line(line)}", err=True)


def silent(line: str) -> None:
    """Print nothing, in place of `log`."""


# Text.


def prose(text: str, **style: Any) -> str:
    """Text that may name what others wrote, in lines of 80 columns, as `click.style` styles it."""
    return click.style(wrapped(visible(text)), **style)


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A line a case (`analysis.display.lines.sentences`), and notes, once."""

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
        styled = [click.style(text, **style) for text, style in zip(texts, styles, strict=False)]
        more = [f"-v adds: {self.more}"] if self.more and not self.details else []
        about = [*filter(None, [self.legend]), *more] if lines else []
        noted = [prose(note, dim=True) for note in dict.fromkeys([*about, *self.notes])]
        parts = (styled, [*noted, *map(prose, self.following)])
        return "\n\n".join("\n".join(part) for part in parts if part)
