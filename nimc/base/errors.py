"""The two kinds of failure; `nimc` prints them in one line and sets the exit code."""

from __future__ import annotations

from nimc.base.text import one_line


class NimcError(Exception):
    """A failure reported to the user without a traceback: each argument is a line."""

    exit_code = 3

    def __str__(self) -> str:
        """A path with a line break makes no second line."""
        return "\n".join(one_line(str(line)) for line in self.args)


class InputError(NimcError):
    """Wrong usage or input. The text names the file, the field and what is allowed."""

    exit_code = 2


class MachineError(NimcError):
    """The machine or a tool on it failed."""

    exit_code = 3
