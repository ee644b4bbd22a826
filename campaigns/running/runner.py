"""Runs a campaign block by block, until every case is as precise as requested."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from analysis.errors import MachineError
from campaigns.planning import sweep
from campaigns.planning.plan import Site, block_s, command
from campaigns.request.cases import treatments
from campaigns.request.schema import Campaign, Entry
from campaigns.running import jobs
from campaigns.running.case_state import CaseState, case_state
from campaigns.running.failure import is_begun, is_done, is_read, why_failed
from campaigns.running.folder import require_folder
from campaigns.running.interrupts import Interrupts
from campaigns.running.progress import Display, NewSamples, RunCounter, clock_s, run_line
from campaigns.running.session import run_session
from campaigns.running.slurm_watch import LostJobError, SilentError, SlurmWatch
from injection import processes
from reframe_tests.crossing import Crossed


@dataclass(frozen=True)
class Failure:
    """A case that could not be measured."""

    case: str
    #: One line.
    reason: str

    def __str__(self) -> str:
        return f"{self.case}: {self.reason}"


@dataclass(frozen=True)
class CampaignRunner:
    """Runs the blocks of a campaign; holds what is the same for all of them."""

    campaign: Campaign
    site: Site
    #: Folder of the run, and path of ReFrame.
    run: Path
    reframe: str
    #: Of the order of runs.
    seed: int
    interrupts: Interrupts
    display: Display

    @cached_property
    def slurm(self) -> SlurmWatch | None:
        """None where Slurm does not run the jobs."""
        return SlurmWatch(self.run, self.display.tell) if self.site.slurm else None

    def run_all(self) -> list[Failure]:
        """Measure every case; a failure of one does not stop the others.

        Raises Stopped on a signal. All samples are on disk at any time.
        """
        processes.become_subreaper()
        failures = []
        left = {entry.name: entry for entry in self.campaign.cases}
        for entry in self._order():
            left.pop(entry.name)
            failure = self._run_case(entry, sum(map(self._case_least_s, left.values())))
            if failure:
                failures.append(failure)
        return failures

    def _order(self) -> Iterator[Entry]:
        """The cases in order; a sweep of few cores chooses the next one after each."""
        cases = self.campaign.cases
        for entry in cases:
            same = sweep.siblings(entry, cases) if entry.adaptive else []
            if not same:
                yield entry
            elif entry == same[0]:
                begun = [each for each in same if self._state(each).next_block]
                yield from begun
                while chosen := sweep.next_case(self.run, same, begun):
                    begun.append(chosen)
                    yield chosen

    def _run_case(self, entry: Entry, later_s: float) -> Failure | None:
        now = self._state(entry)
        rejected_before = now.rejected
        while pairs := now.missing(self.campaign.pairs, rejected_before):
            reason = self._run_block(entry, now.next_block, pairs, later_s)
            before, now = now, self._state(entry)
            if reason is None and (now.pairs, now.rejected) == (before.pairs, before.rejected):
                why = (
                    now.last_reason
                    or f"no run was started; see {self._logs(entry, now.next_block - 1)}"
                )
                reason = f"block {before.next_block} added no pair: {why}"
            if reason:
                return Failure(entry.name, reason)
        if not now.pairs:
            why = f"no pair was accepted: {now.last_reason}; 'nimc run' again makes as many more"
            return Failure(entry.name, why)
        return None

    def _run_block(self, entry: Entry, block: int, pairs: int, later_s: float) -> str | None:
        """Run one ReFrame session. Returns why it failed, None if it did not."""
        logs = self._logs(entry, block)
        try:
            logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MachineError(f"{logs}: {error.strerror}") from error
        run = str(self.run)
        _, *arguments = command(self.campaign, entry, self.site, block, pairs, run, self.seed)
        samples = NewSamples(self.run / "samples" / f"{entry.name}.jsonl")
        crossed = self._treatments(entry)
        counter = RunCounter(
            later_s=later_s,
            block_runs=entry.warmups + pairs * len(crossed),
            block_s=block_s(crossed, entry, pairs, self.site.least_run_s),
            started_s=clock_s(),
        )

        def tick() -> None:
            now_s = clock_s()
            for sample in samples.new():
                counter.add(sample, now_s)
                self.display.detail(run_line(sample))
            self.display.show(f"{entry.name}, block {block}", counter, now_s)
            if self.slurm:
                done, read = is_done(logs), is_read(logs)
                finished, reading = done and read, done and not read
                self.slurm.look(now_s, begun=is_begun(logs), finished=finished, reading=reading)

        if self.slurm:
            self.slurm.next_block()
        tick()
        log = logs / "reframe.log"
        self.display.detail(f"{entry.name}, block {block}: ReFrame's output is in {log}")
        status = None
        try:
            status = run_session([self.reframe, *arguments], self.run, log, self.interrupts, tick)
        except (SilentError, LostJobError) as error:
            if is_done(logs) and is_read(logs):
                self.display.tell(f"{error}; the block was done")
                return None
            if isinstance(error, SilentError):
                raise
            return f"{error}, and ReFrame still waits for it"
        finally:
            if status != 0:
                self._end_jobs()
        require_folder(self.run)
        return why_failed(status, logs)

    def _end_jobs(self) -> None:
        """Cancel jobs that ReFrame may have left, or say that this is not possible."""
        if self.slurm:
            try:
                jobs.cancel(self.run)
            except MachineError as error:
                ids = " ".join(self.slurm.jobs) or "JOB (squeue --me lists them)"
                self.display.tell(f"{error}; jobs of this run may go on: scancel {ids}")

    def _state(self, entry: Entry) -> CaseState:
        treated = [each.name for each in self._treatments(entry) if each.baseline is not None]
        return case_state(self.run, entry.name, treated)

    def _treatments(self, entry: Entry) -> list[Crossed]:
        return treatments(self.campaign.arms, entry)

    def _logs(self, entry: Entry, block: int) -> Path:
        return self.run / "logs" / entry.name / str(block)

    def least_s(self) -> float:
        """Expected time that the campaign needs at least, seconds."""
        return sum(map(self._case_least_s, self.campaign.cases))

    def _case_least_s(self, entry: Entry) -> float:
        if sweep.is_optional(entry, self.campaign.cases):
            return 0.0
        missing = self.campaign.pairs.floor - self._state(entry).pairs
        crossed = self._treatments(entry)
        return block_s(crossed, entry, missing, self.site.least_run_s) if missing > 0 else 0.0
