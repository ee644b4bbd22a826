"""Outages of Slurm and its accounting while a session runs; nothing waits for their answers."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from records.errors import MachineError
from records.programs import START_FOLDER
from records.slurm import client
from records.slurm.parse import PendingJob, jobs_in_folder

#: Interval of the probes, and time limit of an answer, seconds.
_PROBE_INTERVAL_S = 20.0
_ANSWER_TIMEOUT_S = 60.0
#: Silence that is reported, and silence after which a session is ended, seconds.
REPORT_AFTER_S = 60.0
END_AFTER_S = 600.0
#: Absence of a job, although Slurm answers, after which a session is ended, seconds.
LOST_AFTER_S = 60.0
#: Part of Slurm -> a command that fails without it.
PROBES = {
    "slurmctld (squeue)": client.SQUEUE,
    "accounting (sacct)": ("sacct", "--allocations", "--noheader", "--jobs=1"),
}


class SilentError(MachineError):
    """Slurm does not answer any more."""


class LostJobError(MachineError):
    """Slurm does not know a job any more that ReFrame still waits for."""


@dataclass(kw_only=True)
class Probe:
    """A part of Slurm that is asked again and again.

    A part that has never answered counts as answering: a site may not have it.
    """

    name: str
    command: Sequence[str]
    asked_s: float = float("-inf")
    answered_s: float | None = None
    reported: bool = False
    running: subprocess.Popen[bytes] | None = None
    output: IO[bytes] = field(default_factory=tempfile.TemporaryFile)

    def ask(self, now_s: float) -> str | None:
        """Start or look after the command; returns its output once it has succeeded."""
        if self.running is None:
            if now_s - self.asked_s >= _PROBE_INTERVAL_S:
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
            if now_s - self.asked_s > _ANSWER_TIMEOUT_S:
                self.running.kill()
            return None
        self.running = None
        if status != 0:
            return None
        self.answered_s = self.asked_s
        self.output.seek(0)
        return self.output.read().decode(errors="replace")

    def close(self) -> None:
        """Ask no more."""
        if self.running is not None:
            self.running.kill()
            self.running.wait()
        self.output.close()

    def silent_s(self, now_s: float) -> float:
        """Time since its last answer, seconds; 0 if it has never answered."""
        return 0.0 if self.answered_s is None else now_s - self.answered_s


class SlurmWatch:
    """Asks Slurm now and then, reports a long silence, and ends a session after a longer one."""

    def __init__(self, run: Path, tell: Callable[[str], None]) -> None:
        self._run = run
        self._tell = tell
        self.probes = [Probe(name=name, command=command) for name, command in PROBES.items()]
        #: Jobs of the run at the last answer of slurmctld; None for a job that is not pending.
        self.jobs: dict[str, PendingJob | None] = {}
        self._begun = False
        #: Time since which slurmctld has had no job of a block that has begun; None if it has one.
        self._gone_s: float | None = None

    def close(self) -> None:
        """Ask no more."""
        for probe in self.probes:
            probe.close()

    @property
    def pending(self) -> PendingJob | None:
        """Return why a job of the run waits in the queue, and until when; None if none does."""
        return next(filter(None, self.jobs.values()), None)

    def next_block(self) -> None:
        """Call this before each block: its job is not submitted yet."""
        self._begun, self._gone_s = False, None

    def check(self, now_s: float, *, begun: bool, finished: bool, reading: bool = False) -> None:
        """Call this about once a second.

        Raises SilentError after ten minutes of silence, or earlier if the block is `finished`: then
        only ReFrame still waits. Raises LostJobError if slurmctld answers and has had no job for a
        minute although the block has `begun`: a job that it lost in a crash may be running for ever
        in the accounting, which ReFrame asks. While ReFrame is `reading` the outputs of a block
        that has ended, it gets ten minutes.
        """
        self._begun |= begun
        for probe in self.probes:
            answer = probe.ask(now_s)
            if answer is not None and probe.command is client.SQUEUE:
                self.jobs = jobs_in_folder(self._run, answer)
                self._begun |= bool(self.jobs)
                if self.jobs or not self._begun:
                    self._gone_s = None
                elif self._gone_s is None:
                    self._gone_s = now_s
            silent_s = probe.silent_s(now_s)
            if silent_s > (REPORT_AFTER_S if finished else END_AFTER_S):
                raise SilentError(f"{probe.name} has not answered for {silent_s:.0f} s")
            if probe.reported != (silent_s > REPORT_AFTER_S):
                probe.reported = not probe.reported
                self._tell(
                    f"{probe.name} has not answered for {silent_s:.0f} s; waits up to"
                    f" {END_AFTER_S / 60:.0f} min"
                    if probe.reported
                    else f"{probe.name} answers again"
                )
        gone_s = 0.0 if self._gone_s is None else now_s - self._gone_s
        limit_s = END_AFTER_S if reading else LOST_AFTER_S
        if gone_s > limit_s and not any(probe.reported for probe in self.probes):
            raise LostJobError(f"the block's job has not been in the queue for {gone_s:.0f} s")
