"""Short runs of programs of this host."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
            errors="replace",
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
