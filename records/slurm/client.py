"""Who asks Slurm: for what it has, for its reservations and jobs, and whether it still answers."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from records.errors import MachineError
from records.programs import START_FOLDER, ProgramAnswer, ask
from records.slurm import parse
from records.slurm.parse import SlurmNode, nodes_in, working_in

#: Submits jobs; `--version` of it is Slurm's.
SUBMIT = "sbatch"
#: What must be on PATH: jobs are submitted and their steps started, and ReFrame asks for states.
COMMANDS = (SUBMIT, "srun", "scontrol", "sacct")
PING = ("scontrol", "ping")
#: What gives an accounting that does not answer.
ACCOUNTING_REMEDY = "configure slurmdbd: ReFrame's scheduler 'slurm' reads job states from sacct"


# Whether it is there. `environment` is that in which ReFrame runs the commands.


def missing_commands() -> list[str]:
    """Which of the commands are not on PATH."""
    return [name for name in COMMANDS if not shutil.which(name)]


def lists_nodes() -> bool:
    """Whether nodes can be asked for here."""
    return bool(shutil.which("sinfo"))


def controller_fault(environment: Mapping[str, str]) -> str:
    """What was said instead of an answer of slurmctld; empty if it answers."""
    answer = ask(PING, environment)
    return "" if answer.ok and parse.is_up(answer.text) else answer.last


def accounting_fault(environment: Mapping[str, str]) -> str:
    """The same of the accounting."""
    answer = ask(["sacct", "-n", "-X"], environment)
    return "" if answer.ok else answer.last


# What it has.


def ask_nodes(partition: str | None, environment: Mapping[str, str]) -> list[SlurmNode]:
    """Nodes of a partition, of the default partitions without one. Raises MachineError."""
    command = ["sinfo", "--Node", "--noheader", "--format=%N %T"]
    command += [f"--partition={partition}"] if partition else []
    return nodes_in(ask(command, environment).required())


def partitions() -> list[parse.SlurmPartition]:
    """Partitions that can run jobs, the default first. Raises MachineError."""
    return parse.partitions(_shown("partition"))


def whole_node_partitions(environment: Mapping[str, str]) -> set[str | None]:
    """Partitions that give whole nodes only; None for the default one if it does."""
    answer = ask(["scontrol", "--oneliner", "show", "partition"], environment)
    return parse.whole_node_partitions(answer.stdout) if answer.ok else set()


def shapes(partition: parse.SlurmPartition) -> list[tuple[parse.NodeShape, int]]:
    """Shapes of a partition's nodes with their numbers. Raises MachineError."""
    return parse.shapes(_shown("node"), partition)


def settings() -> dict[str, str]:
    """What `slurm.conf` sets. Raises MachineError."""
    return parse.settings(_shown("config"))


def _shown(what: str) -> str:
    command = ["scontrol", "--oneliner", "show", what]
    answer = ask(command)
    if not answer.ok:
        raise MachineError(f"{' '.join(command)}: {answer.last}")
    return answer.stdout


def mpi_types() -> list[str]:
    """The interfaces of steps to an application's MPI."""
    return parse.mpi_types(ask(["srun", "--mpi=list"]).text)


def accounts(user: str) -> list[str]:
    """Accounts of a user; none if the accounting does not answer."""
    command = ["sacctmgr", "--noheader", "--parsable2", "show", "assoc", f"user={user}"]
    answer = ask([*command, "format=account"])
    return parse.accounts(answer.text) if answer.ok else []


def hostnames(nodelist: str) -> list[str]:
    """Node names from Slurm's compact list. Raises MachineError."""
    if not nodelist:
        return []
    return parse.hostnames(ask(["scontrol", "show", "hostnames", nodelist]).required())


# Reservations.


def create_reservation(name: str, minutes: int, user: str) -> list[str]:
    """The command that creates a reservation from now; its nodes are to be added."""
    command = ["scontrol", "create", "reservation", f"ReservationName={name}"]
    return [*command, "StartTime=now", f"Duration={minutes}", f"Users={user}"]


def delete_reservation(name: str) -> list[str]:
    """The command that removes a reservation."""
    return ["scontrol", "delete", f"ReservationName={name}"]


def run_or_advise(command: list[str]) -> None:
    """Run one of them; MachineError with it for the operator if Slurm refuses."""
    answer = _scontrol(command)
    if not answer.ok:
        raise MachineError(f"{answer.last}; an operator can run: {shlex.join(command)}")


def find_reservation(name: str) -> parse.Reservation | None:
    """The reservation as Slurm shows it; None if there is none of that name."""
    answer = _scontrol(["scontrol", "-o", "show", "reservation", name])
    if "not found" in answer.text:
        return None
    return parse.reservation_in(answer.required())


def _scontrol(command: list[str]) -> ProgramAnswer:
    # Users may have changed the format of times.
    return ask(command, {**os.environ, "SLURM_TIME_FORMAT": "standard"}).ended()


# Orphaned Slurm jobs of a run: found by their working folder, and cancelled.


#: How long jobs may take to end, seconds.
_END_S = 60.0
#: Lists this user's jobs, a line `JOB|STATE|START|REASON|FOLDER` each; components of a
#: heterogeneous job are `JOB+N`. A start lies ahead while the state is `PD`.
SQUEUE = ("squeue", "--me", "--noheader", "--format=%i|%t|%S|%r|%Z")


def cancel(run: Path) -> list[str]:
    """Cancel the jobs left by a run and wait until they have ended. Returns their ids.

    ReFrame cancels its jobs on SIGTERM, but not if it was killed. Raises MachineError if Slurm
    does not answer or jobs do not end.
    """
    jobs = _left(run)
    if jobs:
        refused = ask(["scancel", *jobs])  # fails also for jobs that are just ending
        until_s = time.monotonic() + _END_S
        while left := _left(run):
            if time.monotonic() > until_s:
                why = "" if refused.ok else f": scancel: {refused.reason}"
                raise MachineError(f"{run}: jobs of an earlier session do not end: {left}{why}")
            time.sleep(1.0)
    return jobs


def _left(run: Path) -> list[str]:
    # Folders are compared, whatever their encoding.
    return list(working_in(run, ask(SQUEUE, errors="surrogateescape").required()))


def how_to_cancel(jobs: Collection[str]) -> str:
    """The command with which a user ends jobs of these ids, which may be unknown."""
    return f"scancel {' '.join(jobs) or 'JOB (squeue --me lists them)'}"


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
    "slurmctld (squeue)": SQUEUE,
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
    reported: bool = False
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

    def check(self, now_s: float, *, begun: bool, finished: bool, reading: bool = False) -> None:
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
            if answer is not None and probe.command is SQUEUE:
                self.jobs = working_in(self._run, answer)
                self._begun |= bool(self.jobs)
                if self.jobs or not self._begun:
                    self._gone_s = None
                elif self._gone_s is None:
                    self._gone_s = now_s
            silent_s = probe.silent_s(now_s)
            if silent_s > (TELL_S if finished else END_S):
                raise SilentError(f"{probe.name} has not answered for {silent_s:.0f} s")
            if probe.reported != (silent_s > TELL_S):
                probe.reported = not probe.reported
                self._tell(
                    f"{probe.name} has not answered for {silent_s:.0f} s; waits up to"
                    f" {END_S / 60:.0f} min"
                    if probe.reported
                    else f"{probe.name} answers again"
                )
        gone_s = 0.0 if self._gone_s is None else now_s - self._gone_s
        most_s = END_S if reading else GONE_S
        if gone_s > most_s and not any(probe.reported for probe in self._probes):
            raise LostJobError(f"the block's job has not been in the queue for {gone_s:.0f} s")


# For the operator of a cluster (`testbed`).


#: Clusters of the accounting; and `NODE STATE` of each node, in short words and signs.
CLUSTERS = ("sacctmgr", "-nP", "show", "cluster")
NODE_STATES = ("sinfo", "-h", "-N", "-o", "%n %t")


def add_cluster(name: str) -> list[str]:
    """The command that adds a cluster to the accounting."""
    return ["sacctmgr", "-i", "add", "cluster", name]
