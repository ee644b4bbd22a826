"""Makes all commands that are printed for a user to type.

A user can type a command as it is printed, in the folder in which it is printed. The shell then
finds the program, and relative paths start from this folder.
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
#: Default of the option `--results`.
_DEFAULT_RESULTS = "results"


def _installed_program() -> Path:
    """Path of the program beside this Python."""
    return Path(sys.executable).with_name(PROGRAM)


def _is_on_path() -> bool:
    """Return whether the shell finds this program by its name.

    Also returns True if the program is not installed, since then there is no path to show.
    """
    installed = _installed_program()
    if not installed.exists():
        return True
    path = shutil.which(PROGRAM)
    return path is not None and os.path.realpath(path) == os.path.realpath(installed)


@dataclass(frozen=True)
class Shell:
    """The shell in which commands are typed."""

    #: Its current folder; None: it may be any folder of this host, so paths are shown in full.
    folder: Path | None = None

    @classmethod
    def here(cls) -> Shell:
        """The shell of this process."""
        try:
            return cls(Path.cwd())
        except FileNotFoundError:  # the current folder is gone
            return cls()

    def words(self, *arguments: str | Path) -> list[str]:
        """The quoted words of a command, the program first. Paths are relative to the folder."""
        if _is_on_path():
            program = PROGRAM
        else:
            program = self.path_from_folder(_installed_program())
            if program == PROGRAM:  # a word without `/` is only looked up on PATH
                program = f"./{PROGRAM}"
        words = [program]
        for argument in arguments:
            if isinstance(argument, Path):
                words.append(self.path_from_folder(argument))
            else:
                words.append(argument)
        return [shlex.quote(word) for word in words]

    def line(self, *arguments: str | Path) -> str:
        """The command in one line."""
        return " ".join(self.words(*arguments))

    def results_option(self, folder: Path) -> list[str | Path]:
        """The option that names a folder of runs; empty for the default folder."""
        if self.folder is not None and folder.absolute() == self.folder / _DEFAULT_RESULTS:
            return []
        return ["--results", folder]

    def path_from_folder(self, path: Path) -> str:
        """The path, relative to the shell's folder if the path lies in that folder."""
        path = path.absolute()
        if self.folder is not None and path.is_relative_to(self.folder):
            return str(path.relative_to(self.folder))
        return str(path)


def command(*words: str | Path) -> str:
    """A command for the shell of this process."""
    return Shell.here().line(*words)


def setup_command(*extras: str) -> str:
    """The command that installs the base of this checkout, and its `extras`."""
    script = Shell.here().path_from_folder(ROOT / "scripts" / "setup.sh")
    return shlex.join(["sh", script, *extras])


def campaign_word(file: Path) -> str | Path:
    """The word for a campaign in a command: its name if it is in `campaigns/`, or else its path."""
    return file.stem if file.absolute() == ROOT / "campaigns" / f"{file.stem}.yaml" else file
