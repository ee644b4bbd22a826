"""Prints the results of commands: as text, as JSON, or only their tables in another form.

The text of most commands is a table with a line for each case, then notes, then what the user
should do next. docs/command-line.md#json describes the JSON documents.
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
    """The result of a command, as a JSON document and as text, and the command's exit status."""

    #: The JSON document, without its schema number.
    document: Mapping[str, object]
    #: The parts of the text. They are iterated over only if the text is printed, so an iterator can
    #: save the time of computing them.
    parts: Iterable[str | Tabular]
    #: Exit status.
    status: int = 0
    #: Schema number of the document. It is raised if a key is removed or its meaning changes.
    schema: int = 1


def prints_answer(*, tables: bool = False) -> Callable[[Callable[..., Any]], Callable[..., int]]:
    """Return a decorator for a command that returns an Answer.

    The decorated command prints the Answer and returns its exit status. It has the option `--json`
    and, if `tables` is true, the option `--format`. If the command returns an exit status instead
    of an Answer, for example because it was stopped, nothing is printed.
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
    help="Form of what is printed; all but text have only the tables.",
)


def log(line: str) -> None:
    """Print a line of progress or a remark on standard error, apart from the command's answer."""
    click.echo(f"nimc: {one_line(line)}", err=True)


def discard(line: str) -> None:
    """Print nothing. It replaces `log` if progress is not to be printed."""


# The text of commands.


def prose(text: str, **style: Any) -> str:
    """Return text wrapped to 80 columns, in a style of `click.style`.

    Characters that could control the terminal are replaced.
    """
    return click.style(wrapped(visible(text)), **style)


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A table of lines (`analysis.display.lines.aligned_lines`), followed by notes."""

    #: Headings of the columns.
    header: Sequence[str]
    #: Lines of the table.
    lines: Sequence[Line]
    #: Notes after the table. Equal notes are printed once.
    notes: Iterable[str] = ()
    #: Explanation of the header, printed before the notes.
    legend: str = ""
    #: Number of columns, from the first, that are printed even in a narrow terminal.
    min_columns: int = 3
    #: Whether the option -v was given. If so, cells without room and the details of lines are
    #: printed.
    details: bool = False
    #: What the option -v adds, in words. It is printed if -v was not given.
    details_hint: str = ""
    #: Sentences after the notes: a summary, or what the user should do next.
    conclusions: Iterable[str] = ()

    @property
    def rows(self) -> list[Sequence[str]]:
        """Return the cells of each line."""
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
