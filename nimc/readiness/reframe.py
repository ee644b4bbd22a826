"""Finds ReFrame's program and the environment variables with which it is started."""

from __future__ import annotations

import os
import shutil
import sys

from records.commands import setup_command
from records.errors import MachineError
from records.programs import find_program

#: Environment variable with which a user names the ReFrame to use.
REFRAME_VARIABLE = "NIMC_REFRAME"


def find_reframe() -> str:
    """Return the path of ReFrame's program. Raises MachineError if it is not found."""
    requested = os.environ.get(REFRAME_VARIABLE)
    reframe = shutil.which(requested) if requested else find_program("reframe")
    if reframe is None and requested:
        setting = f"{REFRAME_VARIABLE}={requested}"
        raise MachineError(f"reframe: {setting} not found; correct the variable, or unset it")
    if reframe is None:
        folders = f"next to {sys.executable} or on PATH"
        raise MachineError(f"reframe: not found {folders}; `{setup_command()}` installs it")
    return os.path.abspath(reframe)


def reframe_environment() -> dict[str, str]:
    """Return the environment of this process without the variables that configure ReFrame.

    A user or a site may have set them. For example, RFM_CONFIG_PATH adds configuration files.
    Others change the stage folder, by which jobs of a run are found.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("RFM_")}
