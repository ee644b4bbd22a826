"""Puts what starts the nights in its place: crontab, scrontab, systemd's user units."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.errors import MachineError
from analysis.replacing import named_output
from campaigns.nightly import summary
from campaigns.nightly.crontab import merged

#: How long such a program may take, seconds.
_ANSWER_S = 60.0
#: Lines of others stay byte for byte, whatever their encoding.
_ANY_BYTES = "surrogateescape"


def table(program: str, block: str) -> str:
    """Replace this nightly's lines in the user's `crontab` or `scrontab`; all others stay.

    Returns what was done.
    """
    listed = _run([program, "-l"])
    # scrontab says so on standard output.
    if listed.returncode and "no crontab" not in (listed.stdout + listed.stderr).lower():
        raise MachineError(f"{program} -l: {_said(listed)}")
    old = listed.stdout if listed.returncode == 0 else ""
    with tempfile.NamedTemporaryFile(
        "w", prefix="nimc-", suffix=".cron", encoding="utf-8", errors=_ANY_BYTES
    ) as file:
        file.write(merged(old, block))
        file.flush()
        done = _run([program, file.name])
    if done.returncode:
        raise MachineError(f"{program}: {_said(done)}")
    return f"installed in your {program}"


def units(texts: Mapping[str, str]) -> str:
    """Write the units, and start the timer. Returns what was done."""
    config = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    folder = named_output(Path(config, "systemd", "user"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"{folder}: {error.strerror}") from error
    for name, text in texts.items():
        summary.write(folder / name, text)
    (timer,) = (name for name in texts if name.endswith(".timer"))
    for words in (["daemon-reload"], ["enable", "--now", timer]):
        done = _run(["systemctl", "--user", *words])
        if done.returncode:
            raise MachineError(
                f"systemctl --user {' '.join(words)}: {_said(done)}; the units are in {folder}"
            )
    return f"installed in {folder}; 'loginctl enable-linger' lets it run while you are logged out"


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors=_ANY_BYTES,
            check=False,
            timeout=_ANSWER_S,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise MachineError(f"{command[0]}: not found on this host") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"{command[0]}: {error}") from None


def _said(done: subprocess.CompletedProcess[str]) -> str:
    return " ".join((done.stderr or done.stdout).split()) or f"exit status {done.returncode}"
