"""Ends programs that may have started job steps.

In a heterogeneous job of Slurm 26.05, an `srun` of the first component that is ended by a signal
cancels the whole job. So the tasks of the `srun` get the signals, and it ends with them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from records import kernel_text, processes
from records.programs import ask
from records.slurm import parse
from records.slurm.options import SRUN


async def stop(process: asyncio.subprocess.Process) -> int:
    """End a process, its group and the job steps that it has started. Returns its exit status.

    If Slurm does not answer, only processes of this host get signals.
    """
    for signum in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            break
        if not await asyncio.to_thread(_signal_steps, process.pid, signum):
            break
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), processes.GRACE_S)
    return await processes.stop(process)


def _signal_steps(pid: int, signum: signal.Signals) -> bool:
    """Signal the tasks that each `srun` of a process has started, in a heterogeneous job.

    Returns whether there are any.
    """
    launchers = {member for member in (pid, *processes.descendants(pid)) if _is_srun(member)}
    if not launchers:
        return False
    steps = [step for job in _components() for step in _steps_of(job, launchers)]
    if steps:
        ask(["scancel", f"--signal={signum.name.removeprefix('SIG')}", *steps])
    return bool(steps)


def _components() -> list[str]:
    """Return the ids of the components of this process's heterogeneous job; none in another job."""
    count = int(os.environ.get("SLURM_HET_SIZE", 0))
    return [os.environ[f"SLURM_JOB_ID_HET_GROUP_{group}"] for group in range(count)]


def _is_srun(pid: int) -> bool:
    return kernel_text.read(Path(f"/proc/{pid}/comm")) == SRUN


def _steps_of(job: str, launchers: Collection[int]) -> list[str]:
    answer = ask(["scontrol", "--oneliner", "show", "step", job])
    return parse.steps_started_by(answer.stdout, socket.gethostname(), launchers)
