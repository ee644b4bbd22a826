"""Sessions of ReFrame: children that never outlive the campaign."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from nimc.readiness.reframe import reframe_environment
from records import kernel_text, processes
from records.checkout import ROOT, python_main, python_path
from records.interrupts import Interrupts

#: Environment variable with the run's folder, set in every process that a run starts.
RUN_VARIABLE = "NIMC_RUN"
#: How often progress is updated, seconds.
_TICK_S = 1.0
#: How long ReFrame may take to cancel its jobs, seconds.
GRACE_S = 30.0
#: How long a block may take to end after ReFrame, seconds: its agents end the writers, then the
#: conductor ends the agents.
_BLOCK_GRACE_S = 3 * processes.GRACE_S


def run_session(
    argv: Sequence[str], run: Path, log: Path, interrupts: Interrupts, tick: Callable[[], None]
) -> int:
    """Run a command with its output in `log`, and call `tick` once a second.

    Returns the exit status. Raises Stopped after a signal. If this process is a subreaper, no
    process that the command started is left at the end.
    """
    environment = reframe_environment()
    # A run's results are in its folder. ReFrame's own database, which the configuration may enable,
    # is for sessions without a campaign.
    environment |= {"RFM_ENABLE_RESULTS_STORAGE": "no", RUN_VARIABLE: str(run)}
    interrupts.check()
    with log.open("ab") as output:
        child = start_child(argv, output, environment=environment, cwd=log.parent)
    try:
        while child.poll() is None:
            interrupts.wait(_TICK_S)
            if interrupts.signum is not None:
                _end_session(child, interrupts)
            else:
                tick()
    finally:
        if child.poll() is None:
            child.kill()
        processes.end_descendants(_BLOCK_GRACE_S, lambda: interrupts.count > 1)
        child.wait()
    interrupts.check()
    return child.returncode


def start_child(
    argv: Sequence[str],
    output: IO[bytes],
    *,
    cwd: Path,
    errors: IO[bytes] | None = None,
    environment: Mapping[str, str] = os.environ,
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
        preexec_fn=processes.signalled_with_parent(os.getpid()),
    )


def _end_session(child: subprocess.Popen[bytes], interrupts: Interrupts) -> None:
    """Let ReFrame cancel its jobs; kill it on a second signal or after the grace period."""
    child.terminate()
    until_s = time.monotonic() + GRACE_S
    while child.poll() is None and time.monotonic() < until_s and interrupts.count < 2:
        interrupts.wait(0.5)
    child.kill()
    child.wait()


#: Prefix of the folder of a job that looks at nodes (`nimc.cluster.in_job`).
LOOK_FOLDER_PREFIX = ".nimc-look-"


def processes_of(run: Path) -> list[int]:
    """Return the PIDs of this user's processes on this host that a run has started."""
    return [pid for pid, path in run_processes() if path == str(run)]


def concurrent_runs(run: Path) -> list[str]:
    """Return the names of this user's other runs that have processes on this host."""
    names = {Path(path).name for _, path in run_processes() if path != str(run)}
    look_names = {name for name in names if name.startswith(LOOK_FOLDER_PREFIX)}
    return [*sorted(names - look_names), *(["a look at nodes"] if look_names else [])]


def run_processes() -> Iterator[tuple[int, str]]:
    """Yield the PID of each other process of this user that a run started, and the run's folder."""
    prefix = f"{RUN_VARIABLE}=".encode()
    for pid in set(kernel_text.pids()) - {os.getpid()}:
        with kernel_text.suppress_gone_or_hidden():
            process = Path(f"/proc/{pid}")
            if process.stat().st_uid != os.geteuid():
                continue  # anyone can name a run in the environment of their own process
            for entry in (process / "environ").read_bytes().split(b"\0"):
                if entry.startswith(prefix):
                    yield pid, os.fsdecode(entry.removeprefix(prefix))


#: The command of this checkout's `nimc`, even if another `nimc` is first on PATH.
NIMC_COMMAND = tuple(python_main("nimc.cli.main"))


def stop_child(child: subprocess.Popen[bytes], timeout_s: float = 120.0) -> None:
    """End the child, which cancels its own jobs; kill it if it takes too long."""
    child.terminate()
    try:
        child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
