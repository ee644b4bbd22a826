"""Ends programs that may have started job steps.

The tasks of a step are not descendants of its `srun`, and may go on if the `srun` is killed. So
before an `srun` is killed, Slurm kills its tasks, and the `srun` ends when they have ended.

In a heterogeneous job of Slurm 26.05, a signal that ends an `srun` of the first component cancels
the whole job. So in such a job, SIGTERM too is sent to the tasks by Slurm, not to the `srun`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Collection, Sequence
from contextlib import suppress

from records import processes
from records.programs import ask
from records.slurm import parse
from records.slurm.client import command_environment
from records.slurm.options import JOB_VARIABLE, SRUN

#: Time limit of each command of Slurm, seconds. It must be short, since the conductor waits only a
#: minute for a writer to end.
ANSWER_TIMEOUT_S = 3.0
#: Interval at which the end of a `srun` is checked, seconds.
_POLL_S = 0.05


async def stop(process: asyncio.subprocess.Process) -> int:
    """End one process as `stop_all` does. Returns its exit status."""
    (status,) = await stop_all([process])
    return status


async def stop_all(running: Sequence[asyncio.subprocess.Process]) -> list[int]:
    """End processes, their groups and the job steps that they have started.

    Returns the exit status of each. If Slurm does not answer, only processes of this host get
    signals.
    """
    groups = {process.pid for process in running}
    jobs, signals = _components(), [signal.SIGTERM, signal.SIGKILL]
    if not jobs and JOB_VARIABLE in os.environ and _launchers(groups):
        jobs, signals = [os.environ[JOB_VARIABLE]], [signal.SIGKILL]
        # srun passes it on to its tasks.
        await asyncio.gather(*(processes.signal_and_wait(one, signal.SIGTERM) for one in running))
    for signum in signals if jobs else ():
        launchers = _launchers(groups)
        if not launchers:
            break
        await asyncio.to_thread(_signal_steps, jobs, launchers, signum)
        deadline_s = time.monotonic() + processes.GRACE_S
        while _launchers(groups) and time.monotonic() < deadline_s:
            await asyncio.sleep(_POLL_S)
    return await asyncio.gather(*map(processes.stop, running))


def _components() -> list[str]:
    """Return the ids of the components of this process's heterogeneous job; empty in other jobs."""
    variables = sorted(os.environ.items())
    return [job for name, job in variables if name.startswith("SLURM_JOB_ID_HET_GROUP_")]


def _launchers(groups: Collection[int]) -> set[int]:
    """Return the PIDs of all `srun` in process groups, including any whose parent has ended."""
    live = processes.live_processes()
    sruns = [pid for pid in processes.descendants(live=live) if live[pid].name == SRUN]
    return {pid for pid in sruns if _group_of(pid) in groups}


def _group_of(pid: int) -> int | None:
    with suppress(ProcessLookupError):
        return os.getpgid(pid)
    return None


def _signal_steps(jobs: Sequence[str], launchers: Collection[int], signum: signal.Signals) -> None:
    """Signal the tasks that the `srun` with the PIDs `launchers` have started."""
    host = socket.gethostname()
    show = ["scontrol", "--oneliner", "show", "step"]
    answers = [ask([*show, job], timeout_s=ANSWER_TIMEOUT_S).stdout for job in jobs]
    steps = [step for text in answers for step in parse.steps_started_by(text, host, launchers)]
    if steps:
        command = ["scancel", f"--signal={signum.name.removeprefix('SIG')}", *steps]
        ask(command, command_environment(os.environ), timeout_s=ANSWER_TIMEOUT_S)
