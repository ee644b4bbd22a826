"""What commands print: text, a JSON document, or only their tables in another form.

The text of most commands has a table with a line for each case, then notes, then what to do next.
docs/command-line.md#json describes the documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, get_args

import click

from analysis.display.document import Form, Tabular, formatted_parts, json_text
from analysis.display.lines import Line, aligned_lines, terminal_columns, visible, wrapped
from records.errors import InputError
from records.text import one_line


@dataclass(frozen=True)
class Answer:
    """The result of a command: a document, the same as text, and the exit status."""

    document: Mapping[str, object]
    #: The parts of the text. They are iterated over only if the text is printed, so an iterator may
    #: compute them late.
    parts: Iterable[str | Tabular]
    status: int = 0
    #: Schema number of the document; it rises if a key is removed or changes its meaning.
    schema: int = 1


def prints_answer(*, tables: bool = False) -> Callable[[Callable[..., Any]], Callable[..., int]]:
    """Return a decorator that prints the Answer of a command and returns its exit status.

    It adds the option `--json` to the command and, with `tables`, `--format`. A command that was
    stopped returns an exit status instead of an Answer, and nothing is printed.
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
                click.echo(json_text({"schema": answer.schema, **answer.document}))
            elif parts := list(answer.parts):
                click.echo(formatted_parts(parts, form), nl=form == "text")
            return answer.status

        return _json_option(_format_option(run) if tables else run)

    return decorate


_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document instead of text."
)
_format_option = click.option(
    "--format",
    "form",
    type=click.Choice(get_args(Form)),
    default="text",
    help="Print only the tables, in one of these forms.",
)


def log(line: str) -> None:
    """Print progress or a remark on standard error; it is not part of the command's answer."""
    click.echo(f"nimc: {one_line(line)}", err=True)


def discard(line: str) -> None:
    """Print nothing; stands in for `log` if no progress is wanted."""


# Text.


def prose(text: str, **style: Any) -> str:
    """Return text wrapped to 80 columns, safe for the terminal, in a style of `click.style`."""
    return click.style(wrapped(visible(text)), **style)


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A table with a line for each case (`analysis.display.lines.aligned_lines`), then notes."""

    #: Headings of the columns.
    header: Sequence[str]
    lines: Sequence[Line]
    #: Each is shown once.
    notes: Iterable[str] = ()
    #: Explains the header.
    legend: str = ""
    #: How many of the first columns are shown in a narrow terminal too.
    min_columns: int = 3
    #: True if the option -v was given: omitted cells and details of lines are shown.
    details: bool = False
    #: Names what -v adds; shown if it was not given.
    details_hint: str = ""
    #: Sentences after the notes: a summary, or what to do next.
    conclusions: Iterable[str] = ()

    @property
    def rows(self) -> list[Sequence[str]]:
        """The cells of each line."""
        return [line.cells for line in self.lines]

    def __str__(self) -> str:
        table: list[str] = []
        explanations: list[str] = []
        if self.lines:
            header, *texts = aligned_lines(
                [Line(self.header), *self.lines],
                terminal_columns(),
                min_columns=self.min_columns,
                details=self.details,
            )
            table.append(click.style(header, bold=True))
            for line, text in zip(self.lines, texts, strict=True):
                table.append(click.style(text, fg=line.colour))
            if self.legend:
                explanations.append(self.legend)
            if self.details_hint and not self.details:
                explanations.append(f"-v adds: {self.details_hint}")
        notes = dict.fromkeys([*explanations, *self.notes])
        remarks = [prose(note, dim=True) for note in notes]
        remarks += map(prose, self.conclusions)
        return "\n\n".join("\n".join(texts) for texts in (table, remarks) if texts)
