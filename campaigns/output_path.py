"""An option that is a file or folder to write to."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from analysis.errors import InputError
from analysis.replacing import named_output, require_output


class OutputPath(click.ParamType[Path]):
    """A path of a file, or with `folder` of a folder, that may be written (`analysis.replacing`).

    It is refused before any work is done.
    """

    name = "path"

    def __init__(self, *, folder: bool = False) -> None:
        self._folder = folder

    def convert(
        self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        """Raises InputError."""
        text = str(value)
        if not text or "\0" in text:
            option = max(param.opts, key=len) if param else self.name
            raise InputError(f"{option}: {text!r} found; allowed: a path")
        path = named_output(Path(text))
        require_output(path, folder=self._folder)
        return path

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Paths, as the shell itself completes them."""
        return [CompletionItem(incomplete, type="dir" if self._folder else "file")]
