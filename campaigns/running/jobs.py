"""Orphaned Slurm jobs of a run: found by their working folder, and cancelled."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from analysis.errors import MachineError

#: How long Slurm may take to answer, and jobs to end, seconds.
_ANSWER_S = 60.0
_END_S = 60.0
#: Lists this user's jobs, a line `JOB FOLDER` each; components of a heterogeneous job are `JOB+N`.
SQUEUE = ("squeue", "--me", "--noheader", "--format=%i %Z")


def working_in(folder: Path, squeue_output: str) -> list[str]:
    """Jobs whose working folder lies in `folder`, from squeue's lines `JOB FOLDER`.

    Slurm prints folders with links resolved; paths to shared file systems often contain links. It
    does not cancel components of a heterogeneous job, so the whole job is named.
    """
    folder = folder.resolve()
    lines = (line.partition(" ") for line in squeue_output.splitlines())
    found = (
        job
        for job, at in ((name.partition("+")[0], at) for name, _, at in lines)
        if job.isdigit() and at.startswith("/") and "\0" not in at
        if Path(os.path.realpath(at)).is_relative_to(folder)
    )
    return list(dict.fromkeys(found))


def cancel(run: Path) -> list[str]:
    """Cancel the jobs left by a run and wait until they have ended. Returns their ids.

    ReFrame cancels its jobs on SIGTERM, but not if it was killed. Raises MachineError if Slurm
    does not answer or jobs do not end.
    """
    found = _left(run)
    if found:
        refused = ""
        try:
            _ask("scancel", *found)
        except MachineError as error:  # also for jobs that are just ending
            refused = f": {error}"
        until_s = time.monotonic() + _END_S
        while left := _left(run):
            if time.monotonic() > until_s:
                raise MachineError(f"{run}: jobs of an earlier session do not end: {left}{refused}")
            time.sleep(1.0)
    return found


def _left(run: Path) -> list[str]:
    return working_in(run, _ask(*SQUEUE))


def _ask(*command: str) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="surrogateescape",  # folders are compared
            check=False,
            timeout=_ANSWER_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"{command[0]}: {error}") from None
    if done.returncode:
        raise MachineError(f"{command[0]}: {' '.join(done.stderr.split())}")
    return done.stdout
