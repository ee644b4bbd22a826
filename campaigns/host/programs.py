"""Short questions to the programs of this host."""

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
    """What a program answered."""

    ok: bool
    text: str

    @property
    def last(self) -> str:
        """Its last line, without colours: where programs say what went wrong."""
        lines = re.sub(r"\x1b\[[0-9;]*m", "", self.text).strip().splitlines()
        return lines[-1].strip() if lines else "no answer"


def ask(command: Sequence[str], environment: Mapping[str, str] | None = None) -> ProgramAnswer:
    """Run a short command; an absent program is an answer too. None keeps the environment."""
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
    """Path of a program: beside this Python, as wheels install them, else on PATH."""
    return shutil.which(str(Path(sys.executable).parent / name)) or shutil.which(name)


@dataclass(frozen=True)
class ReframeSettings:
    """What a ReFrame configuration says and does."""

    #: This process's environment with what the configuration sets in it (`SLURM_CONF`).
    environment: dict[str, str]
    #: Of its first system, as they stand in the file; empty where it cannot be read.
    partitions: list[dict[str, Any]]


def settings_of(config: Path) -> ReframeSettings:
    """Run a ReFrame configuration in a process of its own, and tell what came of it."""
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
