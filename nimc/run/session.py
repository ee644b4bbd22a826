"""Runs ReFrame sessions as child processes that end with the campaign, and finds their processes.

In this module, a *run* is one of three things that have a folder of their own: a run of a campaign,
a job that inspects nodes, or an injection. `run` is its folder. ReFrame starts them, except for an
injection on this host, whose conductor `nimc` starts (`nimc.cluster.injection_session`).
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from nimc.readiness.reframe import reframe_environment
from records import kernel_text, processes
from records.checkout import ROOT, python_main, python_path
from records.errors import MachineError
from records.interrupts import Interrupts
from records.slurm import client

#: Environment variable that every process of a run inherits. Its value is the run's folder.
RUN_VARIABLE = "NIMC_RUN"
#: Time between two calls of the function that updates progress, seconds.
_TICK_S = 1.0
#: How long ReFrame may take to cancel its jobs before it is killed, seconds.
GRACE_S = 30.0
#: How long the other processes of a block may take to end after ReFrame, seconds: the agents end
#: the writers, then the conductor ends the agents, and then it is ended itself.
_BLOCK_GRACE_S = 3 * processes.GRACE_S
#: Longest time in which `nimc run` ends a block after a signal, seconds: ReFrame ends, then the
#: other processes, then the jobs that ReFrame has left.
CLEAN_UP_S = GRACE_S + _BLOCK_GRACE_S + client.CANCEL_TIMEOUT_S


def run_session(
    argv: Sequence[str], run: Path, log: Path, interrupts: Interrupts, tick: Callable[[], None]
) -> int:
    """Run ReFrame's command `argv`, append its output to `log`, and call `tick` once a second.

    Returns the exit status. Raises Stopped after a signal. If this process is a subreaper (the
    kernel makes it the parent of orphaned descendants), all processes that the command started have
    ended when this function returns.
    """
    environment = reframe_environment()
    # The results of a campaign are in the run's folder. ReFrame's own database is not used, even if
    # the configuration enables it: it is for sessions that users start without a campaign.
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
    """Start a child process that can import this checkout and is signalled if this process ends.

    Output goes to `output`. Standard error goes to `errors`, or else to `output` too.
    """
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
    """End ReFrame and give it time to cancel its jobs.

    ReFrame is killed after the grace period, or on a second signal.
    """
    child.terminate()
    until_s = time.monotonic() + GRACE_S
    while child.poll() is None and time.monotonic() < until_s and interrupts.count < 2:
        interrupts.wait(0.5)
    child.kill()
    child.wait()


def end_jobs(run: Path, known_jobs: Collection[str], tell: Callable[[str], None]) -> None:
    """Cancel the jobs that ReFrame may have left in a run's folder.

    If Slurm cannot be asked, `tell` prints the command with which the user can cancel them. This
    command has the ids in `known_jobs`.
    """
    try:
        client.cancel_jobs(run)
    except MachineError as error:
        tell(f"{error}; jobs of this run may go on: {client.cancel_command(known_jobs)}")


#: Prefix of the name of the folder of a job that inspects nodes (`nimc.cluster.in_job`).
INSPECTION_FOLDER_PREFIX = ".nimc-inspection-"
#: Prefix of the name of the folder of an injection (`nimc.cluster.injection_session`).
INJECTION_FOLDER_PREFIX = ".nimc-inject-"
#: Prefix of the names of temporary folders -> the one name of all of them for users.
_COMMON_NAMES = {
    INSPECTION_FOLDER_PREFIX: "an inspection of nodes",
    INJECTION_FOLDER_PREFIX: "an injection",
}


def processes_of(run: Path) -> list[int]:
    """Return the PIDs of this user's processes here that the run in folder `run` started."""
    return [pid for pid, path in run_processes() if _is_same(path, run)]


def concurrent_runs(run: Path) -> list[str]:
    """Return the names of this user's runs, other than `run`, that have processes on this host.

    All jobs that inspect nodes have one name in the list, and so have all injections. These names
    come last.
    """
    names = {Path(path).name for _, path in run_processes() if not _is_same(path, run)}
    temporary_names = {name for name in names if name.startswith(tuple(_COMMON_NAMES))}
    common_names = [
        common_name
        for prefix, common_name in _COMMON_NAMES.items()
        if any(name.startswith(prefix) for name in temporary_names)
    ]
    return [*sorted(names - temporary_names), *common_names]


def _is_same(path: str, run: Path) -> bool:
    """Return whether a path names the run's folder, perhaps through links."""
    return os.path.realpath(path) == os.path.realpath(run)


def run_processes() -> Iterator[tuple[int, str]]:
    """Yield the PID and the run's folder of each process of this user that a run started.

    This process itself is left out.
    """
    prefix = f"{RUN_VARIABLE}=".encode()
    for pid in set(kernel_text.pids()) - {os.getpid()}:
        with kernel_text.suppress_gone_or_hidden():
            process = Path(f"/proc/{pid}")
            if process.stat().st_uid != os.geteuid():
                continue  # another user may have set the variable in a process of their own
            for entry in (process / "environ").read_bytes().split(b"\0"):
                if entry.startswith(prefix):
                    yield pid, os.fsdecode(entry.removeprefix(prefix))


#: Command that starts the `nimc` of this checkout, even if PATH leads to another `nimc`.
NIMC_COMMAND = tuple(python_main("nimc.cli.main"))


def stop_child(child: subprocess.Popen[bytes], timeout_s: float = CLEAN_UP_S) -> None:
    """Ask `nimc run` to end and wait for it.

    Within `timeout_s`, it cancels its jobs. A third-party check may then still read the runs of the
    block, and a second signal ends that. If `nimc run` does not end within another `timeout_s`, it
    is killed.
    """
    for _ in range(2):
        child.terminate()
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout_s)
            return
    child.kill()
    child.wait()
