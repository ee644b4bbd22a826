"""Slurm jobs of a run that nobody waits for any more: found by where they work, and cancelled."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from analysis.errors import MachineError

#: How long Slurm may take to answer, and jobs to end, seconds.
_ANSWER_S = 60.0
_END_S = 60.0


def working_in(folder: Path, told: str) -> list[str]:
    """Jobs whose working folder lies in `folder`, of lines `JOB FOLDER` as squeue tells them.

    Slurm tells folders without links, which the way to shared file systems often has.
    """
    folder = folder.resolve()
    lines = (line.partition(" ") for line in told.splitlines())
    found = (job for job, _, at in lines if Path(at).resolve().is_relative_to(folder))
    return list(dict.fromkeys(found))


def cancel(run: Path) -> list[str]:
    """Cancel what is left of a run, and wait until it is gone. Returns the jobs' numbers.

    ReFrame cancels its jobs when it is told to stop; one that was killed could not. Raises
    MachineError where Slurm does not answer, or jobs do not end.
    """
    found = _left(run)
    if found:
        _ask("scancel", *found)
        until_s = time.monotonic() + _END_S
        while left := _left(run):
            if time.monotonic() > until_s:
                raise MachineError(f"{run}: jobs of an earlier session do not end: {left}")
            time.sleep(1.0)
    return found


def _left(run: Path) -> list[str]:
    return working_in(run, _ask("squeue", "--me", "--noheader", "--format=%A %Z"))


def _ask(*command: str) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_ANSWER_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"{command[0]}: {error}") from None
    if done.returncode:
        raise MachineError(f"{command[0]}: {' '.join(done.stderr.split())}")
    return done.stdout
