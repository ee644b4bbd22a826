"""Watches Slurm and its accounting for outages during a session, without waiting for answers."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from records.errors import MachineError
from records.programs import FILE_SYSTEM_ROOT
from records.slurm import client
from records.slurm.parse import PendingJob, jobs_in_folder

#: Time from the start of one probe to the next, and time limit of an answer, seconds.
_PROBE_INTERVAL_S = 20.0
_ANSWER_TIMEOUT_S = 60.0
#: Silence that is reported, seconds.
REPORT_AFTER_S = 60.0
#: Silence after which a session is ended while runs go on, seconds.
END_AFTER_S = 600.0
#: Silence after which a session is ended once its block is finished, seconds.
END_AFTER_FINISH_S = 60.0
#: Absence of a job, although Slurm answers, after which a session is ended, seconds.
LOST_AFTER_S = 60.0
#: Part of Slurm -> a command that fails without it.
PROBES = {
    "slurmctld (squeue)": client.JOBS_COMMAND,
    "accounting (sacct)": ("sacct", "--allocations", "--noheader", "--jobs=1"),
}


class SilentError(MachineError):
    """Slurm does not answer any more."""


class LostJobError(MachineError):
    """ReFrame waits for a job that Slurm no longer knows."""


@dataclass(kw_only=True)
class Probe:
    """A part of Slurm that is asked again and again.

    A part that has never answered is not reported as silent, since a site may not have it.
    """

    name: str
    command: Sequence[str]
    #: When the command was last started, by the clock of `now_s`.
    started_s: float = float("-inf")
    #: When the last command that succeeded was started; None if none has succeeded.
    last_success_s: float | None = None
    #: True if the present silence has been reported.
    is_reported: bool = False
    #: The running command; None between two commands.
    process: subprocess.Popen[bytes] | None = None
    output: IO[bytes] = field(default_factory=tempfile.TemporaryFile)

    def ask(self, now_s: float) -> str | None:
        """Start the command if it is due, or see whether it has ended.

        Return its output when it has succeeded; None in all other calls.
        """
        if self.process is None:
            if now_s - self.started_s >= _PROBE_INTERVAL_S:
                self.started_s = now_s
                self.output.seek(0)
                self.output.truncate()
                with suppress(OSError):  # no such program
                    self.process = subprocess.Popen(
                        self.command,
                        cwd=FILE_SYSTEM_ROOT,
                        env=client.command_environment(os.environ),
                        stdin=subprocess.DEVNULL,
                        stdout=self.output,
                        stderr=subprocess.DEVNULL,
                    )
            return None
        status = self.process.poll()
        if status is None:
            if now_s - self.started_s > _ANSWER_TIMEOUT_S:
                self.process.kill()
            return None
        self.process = None
        if status != 0:
            return None
        self.last_success_s = self.started_s
        self.output.seek(0)
        return self.output.read().decode(errors="replace")

    def close(self) -> None:
        """Stop asking: end a command that is still running."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.output.close()

    def silent_s(self, now_s: float) -> float:
        """Return the time since the start of the last command that succeeded; 0 if none has."""
        return 0.0 if self.last_success_s is None else now_s - self.last_success_s


class SlurmWatch:
    """Asks Slurm now and then, reports a long silence, and ends a session after a longer one."""

    def __init__(self, run: Path, tell: Callable[[str], None]) -> None:
        self._run = run
        self._tell = tell
        self.probes = [Probe(name=name, command=command) for name, command in PROBES.items()]
        #: Job of the run at the last answer of slurmctld -> why it waits; None if it does not.
        self.jobs: dict[str, PendingJob | None] = {}
        #: True once the block's job has been in the queue, or has left files.
        self._begun = False
        #: When the queue was first seen without the job of a block that has begun; None while the
        #: job is in it.
        self._absent_since_s: float | None = None

    def close(self) -> None:
        """Stop asking: end a command that is still running."""
        for probe in self.probes:
            probe.close()

    @property
    def pending(self) -> PendingJob | None:
        """Return why a job of the run waits in the queue, and until when; None if no job waits."""
        return next(filter(None, self.jobs.values()), None)

    def next_block(self) -> None:
        """Call this before each block, while its job is not submitted yet."""
        self._begun, self._absent_since_s = False, None

    def check(self, now_s: float, *, begun: bool, finished: bool, reading: bool = False) -> None:
        """Call this about once a second.

        `begun`: the block's job has left files. `reading`: all runs of the block have ended, and
        ReFrame reads their outputs. `finished`: it has read them.

        Raises SilentError after ten minutes of silence, or after one minute if the block is
        `finished`, since only ReFrame still waits for Slurm then.

        Raises LostJobError if Slurm and its accounting answer and the block has begun, but its job
        has not been in the queue for a minute, or for ten minutes while ReFrame is `reading`. If
        slurmctld loses a job in a crash, the accounting may list it as running for ever, and
        ReFrame asks the accounting.
        """
        self._begun |= begun
        for probe in self.probes:
            answer = probe.ask(now_s)
            if answer is not None and probe.command is client.JOBS_COMMAND:
                self.jobs = jobs_in_folder(self._run, answer)
                self._begun |= bool(self.jobs)
                if self.jobs or not self._begun:
                    self._absent_since_s = None
                elif self._absent_since_s is None:
                    self._absent_since_s = now_s
            silent_s = probe.silent_s(now_s)
            silence_text = f"has not answered for {silent_s:.0f} s"
            if silent_s > (END_AFTER_FINISH_S if finished else END_AFTER_S):
                raise SilentError(f"{probe.name} {silence_text}")
            is_silent = silent_s > REPORT_AFTER_S
            if is_silent != probe.is_reported:
                probe.is_reported = is_silent
                limit = f"{END_AFTER_S / 60:.0f} min"
                news = f"{silence_text}; nimc waits up to {limit}" if is_silent else "answers again"
                self._tell(f"{probe.name} {news}")
        absent_s = 0.0 if self._absent_since_s is None else now_s - self._absent_since_s
        limit_s = END_AFTER_S if reading else LOST_AFTER_S
        if absent_s > limit_s and not any(probe.is_reported for probe in self.probes):
            raise LostJobError(f"the block's job has not been in the queue for {absent_s:.0f} s")
