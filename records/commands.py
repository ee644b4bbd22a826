"""Commands that are printed for a user to type: all are made here.

Typed as they are, where they were printed, they do what is said of them: the shell finds the
program, and paths are right from the current folder.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from records.checkout import ROOT

PROGRAM = "nimc"
#: Where `--results` is, unless it is given.
_RESULTS = "results"


def _installed() -> Path:
    """The program of the Python that runs this."""
    return Path(sys.executable).with_name(PROGRAM)


def _is_on_path() -> bool:
    """Return whether the shell finds this program by name; it has no path unless installed."""
    installed, first = _installed(), shutil.which(PROGRAM)
    if not installed.exists():
        return True
    return first is not None and os.path.realpath(first) == os.path.realpath(installed)


@dataclass(frozen=True)
class Shell:
    """The place where commands are typed; without a folder, anywhere on this host: whole paths."""

    folder: Path | None = None

    @classmethod
    def here(cls) -> Shell:
        """The shell of this process."""
        try:
            return cls(Path.cwd())
        except FileNotFoundError:  # the current folder is gone
            return cls()

    def words(self, *words: str | Path) -> list[str]:
        """A command: the program, and its words quoted. Paths are shown from the folder."""
        program = PROGRAM if _is_on_path() else self.from_folder(_installed())
        if program == PROGRAM and not _is_on_path():
            program = f"./{PROGRAM}"
        shown = (self.from_folder(word) if isinstance(word, Path) else word for word in words)
        return [shlex.quote(word) for word in (program, *shown)]

    def line(self, *words: str | Path) -> str:
        """The command in one line."""
        return " ".join(self.words(*words))

    def results(self, folder: Path) -> list[str | Path]:
        """The option that names a folder of runs; none for the one that is meant without it."""
        if self.folder is not None and folder.absolute() == self.folder / _RESULTS:
            return []
        return ["--results", folder]

    def from_folder(self, path: Path) -> str:
        """The path as the shell takes it."""
        path = path.absolute()
        if self.folder is not None and path.is_relative_to(self.folder):
            return str(path.relative_to(self.folder))
        return str(path)


def command(*words: str | Path) -> str:
    """A command for the shell of this process."""
    return Shell.here().line(*words)


def setup_command(*extras: str) -> str:
    """Return what installs the base of this checkout, and extras of it."""
    script = Shell.here().from_folder(ROOT / "scripts" / "setup.sh")
    return shlex.join(["sh", script, *extras])


def campaign_word(file: Path) -> str | Path:
    """Return what a command calls a campaign: the name of one of `campaigns/`, else the path."""
    return file.stem if file.absolute() == ROOT / "campaigns" / f"{file.stem}.yaml" else file
