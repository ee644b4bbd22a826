"""Sessions of ReFrame: children that never outlive the campaign, and whether Slurm answers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from records import kernel_text, processes
from records.checkout import ROOT, python_main, python_path
from records.commands import setup_command
from records.errors import MachineError
from records.interrupts import Interrupts
from records.programs import START_FOLDER, which
from records.slurm import client, parse

#: Environment variable with the path of another ReFrame.
REFRAME_VARIABLE = "NIMC_REFRAME"
#: Set for everything that a run starts: the run's folder.
RUN_VARIABLE = "NIMC_RUN"
#: How often progress is updated, seconds.
_TICK_S = 1.0
#: How long ReFrame may take to cancel its jobs, seconds.
_GRACE_S = 30.0
#: How long a block may then take to end: its agents their writers, and its conductor the agents.
_END_BLOCK_S = 3 * processes.GRACE_S


def find_reframe() -> str:
    """Path of ReFrame; raises MachineError if it is not found."""
    named = os.environ.get(REFRAME_VARIABLE)
    reframe = shutil.which(named) if named else which("reframe")
    if reframe is None and named:
        raise MachineError(
            f"reframe: not found {REFRAME_VARIABLE}={named}; correct it, or unset it"
        )
    if reframe is None:
        where = f"next to {sys.executable} or on PATH"
        raise MachineError(f"reframe: not found {where}; `{setup_command()}` installs it")
    return os.path.abspath(reframe)


def run_session(
    argv: Sequence[str], run: Path, log: Path, interrupts: Interrupts, tick: Callable[[], None]
) -> int:
    """Run a command, its output in `log`; calls `tick` once a second.

    Returns its exit status. Raises Stopped after a signal. No process that it started is left when
    this returns or raises, provided that this process is a subreaper.
    """
    # The user's own settings of ReFrame are left out: jobs are found by the stage folder.
    environment = {key: of for key, of in os.environ.items() if not key.startswith("RFM_")}
    # The run's folder has its results: ReFrame's own database, which the configuration may turn on,
    # is for sessions without a campaign.
    environment |= {"RFM_ENABLE_RESULTS_STORAGE": "no", RUN_VARIABLE: str(run)}
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
        processes.end_descendants(_END_BLOCK_S, lambda: interrupts.count > 1)
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


#: Begins the name of the folder of a job that looks at nodes (`nimc.cluster.in_job`).
LOOK = ".nimc-look-"


def users_of(run: Path) -> list[int]:
    """This user's processes on this host that a run has started and that still exist."""
    return [pid for pid, of in _started() if of == str(run)]


def others_beside(run: Path) -> list[str]:
    """Names of this user's other runs that have processes on this host."""
    names = {Path(of).name for _, of in _started() if of != str(run)}
    looks = [name for name in names if name.startswith(LOOK)]
    return [*sorted(names.difference(looks)), *(["a look at nodes"] if looks else [])]


def _started() -> Iterator[tuple[int, str]]:
    """This user's other processes that a run has started, and its folder."""
    mark = f"{RUN_VARIABLE}=".encode()
    for pid in set(kernel_text.pids()) - {os.getpid()}:
        with kernel_text.gone_or_hidden():
            process = Path(f"/proc/{pid}")
            if process.stat().st_uid != os.geteuid():
                continue  # anyone can name a run in the environment of their own process
            for entry in (process / "environ").read_bytes().split(b"\0"):
                if entry.startswith(mark):
                    yield pid, os.fsdecode(entry.removeprefix(mark))


#: `nimc` with this Python, whatever is installed.
NIMC = tuple(python_main("nimc.cli.main"))


def stop(child: subprocess.Popen[bytes], within_s: float = 120.0) -> None:
    """End the child, which cancels its own jobs; kill it if it takes too long."""
    child.terminate()
    try:
        child.wait(within_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


# Whether Slurm and its accounting answer while a session runs; nothing waits for them.


#: How often they are asked, and how long one answer may take, seconds.
_ASK_S = 20.0
_ANSWER_S = 60.0
#: Silence that is reported, and silence after which a session is ended, seconds.
TELL_S = 60.0
END_S = 600.0
#: A session ends when its job has been gone so long although Slurm answers, seconds.
GONE_S = 60.0
#: Who answers -> a command that fails without it.
_ASKED = {
    "slurmctld (squeue)": client.SQUEUE,
    "accounting (sacct)": ("sacct", "--allocations", "--noheader", "--jobs=1"),
}


class SilentError(MachineError):
    """Slurm does not answer any more."""


class LostJobError(MachineError):
    """Slurm does not know a job any more that ReFrame still waits for."""


@dataclass
class _Probe:
    """One of them. One that has never answered is not waited for: a site may not have it."""

    name: str
    command: Sequence[str]
    asked_s: float = float("-inf")
    answered_s: float | None = None
    told: bool = False
    running: subprocess.Popen[bytes] | None = None
    output: IO[bytes] = field(default_factory=tempfile.TemporaryFile)

    def ask(self, now_s: float) -> str | None:
        """Start or look after the command; its output once it has succeeded."""
        if self.running is None:
            if now_s - self.asked_s >= _ASK_S:
                self.asked_s = now_s
                self.output.seek(0)
                self.output.truncate()
                with suppress(OSError):  # no such program
                    self.running = subprocess.Popen(
                        self.command,
                        cwd=START_FOLDER,
                        stdin=subprocess.DEVNULL,
                        stdout=self.output,
                        stderr=subprocess.DEVNULL,
                    )
            return None
        status = self.running.poll()
        if status is None:
            if now_s - self.asked_s > _ANSWER_S:
                self.running.kill()
            return None
        self.running = None
        if status != 0:
            return None
        self.answered_s = self.asked_s
        self.output.seek(0)
        return self.output.read().decode(errors="replace")

    def close(self) -> None:
        if self.running is not None:
            self.running.kill()
            self.running.wait()
        self.output.close()

    def silent_s(self, now_s: float) -> float:
        return 0.0 if self.answered_s is None else now_s - self.answered_s


class SlurmWatch:
    """Asks Slurm now and then, reports a long silence, and ends a session after a longer one."""

    def __init__(self, run: Path, tell: Callable[[str], None]) -> None:
        self._run = run
        self._tell = tell
        self._probes = [_Probe(name, command) for name, command in _ASKED.items()]
        #: Jobs of the run when slurmctld answered last, and why each waits.
        self.jobs: dict[str, str] = {}
        self._begun = False
        #: Since when slurmctld has had no job of a block that began; None if it has one.
        self._gone_s: float | None = None

    def close(self) -> None:
        """Ask no more."""
        for probe in self._probes:
            probe.close()

    @property
    def waits(self) -> str:
        """Why a job of the run waits in the queue, and until when; empty if none does."""
        return next(filter(None, self.jobs.values()), "")

    def next_block(self) -> None:
        """Call this before each block: its job is not submitted yet."""
        self._begun, self._gone_s = False, None

    def look(self, now_s: float, *, begun: bool, finished: bool, reading: bool = False) -> None:
        """Call this about once a second.

        Raises SilentError after ten minutes of silence, or earlier if the block is `finished`: then
        only ReFrame still waits. Raises LostJobError if slurmctld answers and has had no job for a
        minute although the block has `begun`: a job that it lost in a crash may be running for ever
        in the accounting, which ReFrame asks. While ReFrame is `reading` the outputs of a block
        that has ended, it gets ten minutes.
        """
        self._begun |= begun
        for probe in self._probes:
            answer = probe.ask(now_s)
            if answer is not None and probe.command is client.SQUEUE:
                self.jobs = parse.working_in(self._run, answer)
                self._begun |= bool(self.jobs)
                if self.jobs or not self._begun:
                    self._gone_s = None
                elif self._gone_s is None:
                    self._gone_s = now_s
            silent_s = probe.silent_s(now_s)
            if silent_s > (TELL_S if finished else END_S):
                raise SilentError(f"{probe.name} has not answered for {silent_s:.0f} s")
            if probe.told != (silent_s > TELL_S):
                probe.told = not probe.told
                self._tell(
                    f"{probe.name} has not answered for {silent_s:.0f} s; waits up to"
                    f" {END_S / 60:.0f} min"
                    if probe.told
                    else f"{probe.name} answers again"
                )
        gone_s = 0.0 if self._gone_s is None else now_s - self._gone_s
        most_s = END_S if reading else GONE_S
        if gone_s > most_s and not any(probe.told for probe in self._probes):
            raise LostJobError(f"the block's job has not been in the queue for {gone_s:.0f} s")
