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

_TIMEOUT_S = 60


@dataclass(frozen=True)
class Answer:
    """What a program answered."""

    ok: bool
    text: str

    @property
    def last(self) -> str:
        """Its last line, without colours: where programs say what went wrong."""
        lines = re.sub(r"\x1b\[[0-9;]*m", "", self.text).strip().splitlines()
        return lines[-1].strip() if lines else "no answer"


def ask(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Answer:
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
        return Answer(False, str(error))
    return Answer(result.returncode == 0, result.stdout + result.stderr)


def which(name: str) -> str | None:
    """Path of a program: beside this Python, as wheels install them, else on PATH."""
    return shutil.which(str(Path(sys.executable).parent / name)) or shutil.which(name)


def version_of(name: str) -> str:
    """First line of what a program says of its version; its name where it does not tell."""
    answer = ask([name, "--version"])
    lines = answer.text.strip().splitlines()
    return lines[0] if answer.ok and lines else name


def environment_of(config: Path) -> dict[str, str]:
    """This process's environment with what a ReFrame configuration sets in it (`SLURM_CONF`)."""
    code = (
        "import json, os, runpy, sys; runpy.run_path(sys.argv[1]);print(json.dumps({**os.environ}))"
    )
    answer = ask([sys.executable, "-c", code, str(config)])
    try:
        return dict(json.loads(answer.text)) if answer.ok else dict(os.environ)
    except json.JSONDecodeError:
        return dict(os.environ)
