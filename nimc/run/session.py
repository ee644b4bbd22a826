"""Children that never outlive the campaign: sessions of ReFrame, and `nimc` called by `nimc`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from nimc.base import kernel_text, processes
from nimc.base.checkout import ROOT, python_main, python_path
from nimc.base.errors import MachineError
from nimc.base.interrupts import Interrupts
from nimc.base.programs import which

#: Environment variable with the path of another ReFrame.
REFRAME_VARIABLE = "NIMC_REFRAME"
#: Set for everything that a run starts: the run's folder.
RUN_VARIABLE = "NIMC_RUN"
#: How often progress is updated, seconds.
_TICK_S = 1.0
#: How long ReFrame may take to cancel its jobs, seconds.
_GRACE_S = 30.0
#: How long what ReFrame left may take to remove its files, seconds.
_LEFT_S = 2.0


def find_reframe() -> str:
    """Path of ReFrame; raises MachineError if it is not found."""
    named = os.environ.get(REFRAME_VARIABLE)
    found = shutil.which(named) if named else which("reframe")
    if found is None:
        where = f"{REFRAME_VARIABLE}={named}" if named else f"next to {sys.executable} or on PATH"
        raise MachineError(f"reframe: not found {where}; 'make campaign' installs it")
    return os.path.abspath(found)


def run_session(
    argv: Sequence[str], run: Path, log: Path, interrupts: Interrupts, tick: Callable[[], None]
) -> int:
    """Run a command, its output in `log`; calls `tick` once a second.

    Returns its exit status. Raises Stopped after a signal. No process that it started is left when
    this returns or raises, provided that this process is a subreaper.
    """
    environment = {**os.environ, RUN_VARIABLE: str(run)}
    interrupts.check()
    with log.open("ab") as output:
        child = start(argv, output, environment=environment, cwd=log.parent)
    try:
        while child.poll() is None:
            interrupts.wait(_TICK_S)
            if interrupts.signum is not None:
                _end(child, interrupts)
            else:
                tick()
    finally:
        if child.poll() is None:
            child.kill()
        processes.end_descendants(_LEFT_S)
        child.wait()
    interrupts.check()
    return child.returncode


def start(
    argv: Sequence[str],
    output: IO[bytes],
    *,
    cwd: Path,
    errors: IO[bytes] | None = None,
    environment: Mapping[str, str] = os.environ,
    pass_fds: Collection[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a child that finds this checkout and ends with this process."""
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors or subprocess.STDOUT,
        cwd=cwd,
        env={**environment, "PYTHONPATH": python_path(ROOT)},
        start_new_session=True,  # Ctrl-C of the terminal reaches this process only
        pass_fds=pass_fds,
        preexec_fn=processes.end_with(os.getpid()),
    )


def _end(child: subprocess.Popen[bytes], interrupts: Interrupts) -> None:
    """Let ReFrame cancel its jobs; kill it on a second signal or after the grace period."""
    child.terminate()
    until_s = time.monotonic() + _GRACE_S
    while child.poll() is None and time.monotonic() < until_s and interrupts.count < 2:
        interrupts.wait(0.5)
    child.kill()
    child.wait()


def users_of(run: Path) -> list[int]:
    """This user's processes on this host that a run has started and that still exist."""
    mark = f"{RUN_VARIABLE}={run}".encode()
    found = []
    for pid in set(kernel_text.pids()) - {os.getpid()}:
        with suppress(OSError):
            process = Path(f"/proc/{pid}")
            if process.stat().st_uid != os.geteuid():
                continue  # anyone can name a run in the environment of their own process
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(pid)
    return found


#: `nimc` with this Python, whatever is installed.
NIMC = tuple(python_main("nimc.cli.main"))


def stop(children: Collection[subprocess.Popen[bytes]], within_s: float = 120.0) -> None:
    """End the children, each of which cancels its own jobs; kill those that take too long."""
    for child in children:
        child.terminate()
    until_s = time.monotonic() + within_s
    for child in children:
        try:
            child.wait(max(until_s - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
