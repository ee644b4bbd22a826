"""The two kinds of failure; `nimc` prints them in one line and sets the exit code."""

from __future__ import annotations


class NimcError(Exception):
    """A failure reported to the user in one line, without a traceback."""

    exit_code = 3


class InputError(NimcError):
    """Wrong usage or input. The text names the file, the field and what is allowed."""

    exit_code = 2


class MachineError(NimcError):
    """The machine or a tool on it failed."""

    exit_code = 3
