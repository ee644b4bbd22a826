"""Whether Slurm and its accounting answer while a session runs; nothing waits for them."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from nimc.base.errors import MachineError
from nimc.machine import slurm

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
    "slurmctld (squeue)": slurm.SQUEUE,
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

    def silent_s(self, now_s: float) -> float:
        return 0.0 if self.answered_s is None else now_s - self.answered_s


class SlurmWatch:
    """Asks Slurm now and then, reports a long silence, and ends a session after a longer one."""

    def __init__(self, run: Path, tell: Callable[[str], None]) -> None:
        self._run = run
        self._tell = tell
        self._probes = [_Probe(*each) for each in _ASKED.items()]
        #: Jobs of the run when slurmctld answered last, and why each waits.
        self.jobs: dict[str, str] = {}
        self._begun = False
        #: Since when slurmctld has had no job of a block that began; None if it has one.
        self._gone_s: float | None = None

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
            if answer is not None and probe.command is slurm.SQUEUE:
                self.jobs = slurm.working_in(self._run, answer)
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
