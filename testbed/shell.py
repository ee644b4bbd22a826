"""Runs other programs. An error is one line with the program's name and its last output."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from records.errors import MachineError
from records.kernel_text import read
from records.programs import FILE_SYSTEM_ROOT, ask, last_line

#: PATH with the folders of daemons (`sbin`), which not every user has on it.
PATH = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
_MISSING_TEXT = "{} is missing: site/minicluster/install.sh installs it, or names its package"


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment with the daemons' folders on PATH, and `extra`."""
    return {**os.environ, "PATH": PATH, **(extra or {})}


def run(
    command: Sequence[str],
    *,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 60,
    label: str = "",
) -> str:
    """Return a command's standard output.

    `env` is added to this process's environment. Raises MachineError if the command fails, with
    `label` (by default the command line) and the reason, and if the program is missing.
    """
    answer = ask(command, environment(env), timeout_s=timeout_s, stdin=stdin)
    if answer.is_missing:
        raise MachineError(_MISSING_TEXT.format(command[0]))
    if not answer.ok:
        raise MachineError(f"{label or ' '.join(command)}: {answer.reason}")
    return answer.stdout


def start(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a program that outlives this process; its output goes to `log`.

    Raises MachineError if the program is missing, and OSError if `log` cannot be written.
    """
    with log.open("ab") as output:
        try:
            return subprocess.Popen(
                command,
                cwd=FILE_SYSTEM_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment(),
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise MachineError(_MISSING_TEXT.format(command[0])) from error


def wait_for(name: str, ready: Callable[[], bool], timeout_s: float, log: Path) -> None:
    """Poll `ready` until it is true.

    Raises MachineError with the log's last line after `timeout_s`.
    """
    deadline_s = time.monotonic() + timeout_s
    pause_s = 0.02
    while not ready():
        if time.monotonic() > deadline_s:
            output = last_line(read(log))
            raise MachineError(f"{name}: not ready after {timeout_s:g} s; its log ends: {output}")
        time.sleep(pause_s)
        # Polls become less and less frequent, since they take processor time from booting nodes.
        pause_s = min(0.5, pause_s * 1.2)
