"""The path of ReFrame."""

from __future__ import annotations

import os
import shutil
import sys

from records.commands import setup_command
from records.errors import MachineError
from records.programs import find_program

#: Environment variable with the path of another ReFrame.
REFRAME_VARIABLE = "NIMC_REFRAME"


def find_reframe() -> str:
    """Path of ReFrame; raises MachineError if it is not found."""
    named = os.environ.get(REFRAME_VARIABLE)
    reframe = shutil.which(named) if named else find_program("reframe")
    if reframe is None and named:
        raise MachineError(
            f"reframe: not found {REFRAME_VARIABLE}={named}; correct it, or unset it"
        )
    if reframe is None:
        searched = f"next to {sys.executable} or on PATH"
        raise MachineError(f"reframe: not found {searched}; `{setup_command()}` installs it")
    return os.path.abspath(reframe)
