"""Short runs of programs of this host."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TIMEOUT_S = 60


@dataclass(frozen=True)
class ProgramAnswer:
    """Result of a program: success, and its output."""

    ok: bool
    text: str

    @property
    def last(self) -> str:
        """Its last line, without colours: usually the error."""
        lines = re.sub(r"\x1b\[[0-9;]*m", "", self.text).strip().splitlines()
        return lines[-1].strip() if lines else "no answer"


def ask(command: Sequence[str], environment: Mapping[str, str] | None = None) -> ProgramAnswer:
    """Run a short command; a missing program is an answer too. None keeps the environment."""
    try:
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return ProgramAnswer(False, str(error))
    return ProgramAnswer(result.returncode == 0, result.stdout + result.stderr)


def which(name: str) -> str | None:
    """Path of a program: next to this Python, as wheels install them, else on PATH."""
    return shutil.which(str(Path(sys.executable).parent / name)) or shutil.which(name)


@dataclass(frozen=True)
class ReframeSettings:
    """What a ReFrame configuration defines and sets."""

    #: This process's environment with the configuration's changes (`SLURM_CONF`).
    environment: dict[str, str]
    #: Partitions of its first system, as in the file; empty if it cannot be read.
    partitions: list[dict[str, Any]]


def settings_of(config: Path) -> ReframeSettings:
    """Run a ReFrame configuration in a separate process and return its settings."""
    code = (
        "import json, os, runpy, sys; made = runpy.run_path(sys.argv[1]);"
        "parts = made['site_configuration']['systems'][0]['partitions'];"
        "print(json.dumps([{**os.environ}, parts], default=str))"
    )
    answer = ask([sys.executable, "-c", code, str(config)])
    try:
        return ReframeSettings(*json.loads(answer.text if answer.ok else "null"))
    except (ValueError, TypeError):
        return ReframeSettings(dict(os.environ), [])
