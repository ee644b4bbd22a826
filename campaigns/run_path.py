"""An argument that is the folder of a run, or a file of measurements."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from analysis.errors import InputError

#: Parts of a run that readers open: a pipe among them would be waited for without end.
_READ = ("run.json", "samples/*", "counters/*", "provenance/*")


class RunPath(click.ParamType[Path]):
    """A path that leads to a file, or to a folder without pipes and devices in place of files."""

    name = "run"

    def convert(
        self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        """Raises InputError."""
        path = Path(value)
        try:
            for file in (path, *(each for pattern in _READ for each in path.glob(pattern))):
                mode = file.stat().st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    raise InputError(f"{file}: neither a file nor a folder")
        except FileNotFoundError as error:
            raise InputError(f"{os.fsdecode(error.filename)}: does not exist") from None
        except OSError as error:
            raise InputError(f"{os.fsdecode(error.filename)}: {error.strerror}") from None
        except ValueError as error:  # a zero byte in it
            raise InputError(f"{value!r}: {error}") from None
        return path

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Paths, as the shell itself completes them."""
        return [CompletionItem(incomplete, type="file")]
