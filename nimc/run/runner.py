"""Runs a campaign block by block, until every case is decided."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Any

from nimc.campaign import layouts
from nimc.campaign.plan import (
    PLAN,
    READING,
    Request,
    block_plan,
    block_s,
    block_sizes,
    blocks_s,
    logs_of,
    next_block_pairs,
    reframe_command,
    run_length_s,
)
from nimc.run.folder import require_folder
from nimc.run.progress import Display, Expected, NewSamples, RunCounter, SessionPace, expected_total
from nimc.run.session import concurrent_runs, run_session
from records import kernel_text, processes
from records.arms import arm_of
from records.block_plan import SKIPPED_FILE, UNREAD_FILE, BlockPlan
from records.calls import load_call
from records.campaign import Campaign, Entry, Pairs
from records.chain import walk_run
from records.errors import InputError, MachineError
from records.interrupts import Interrupts, Stopped
from records.notes import Note
from records.run import PlainName
from records.slurm import client
from records.slurm.outages import LostJobError, SilentError, SlurmWatch

if TYPE_CHECKING:
    import polars as pl

    from analysis.effects.estimate import StoppingRule


# Progress of a case, read from the samples on disk.


@dataclass(frozen=True)
class CaseState:
    """Progress of a case."""

    #: Treatment -> its complete pairs; each may lack others.
    pairs_of: dict[str, int]
    #: Index of the next block; indices are never reused.
    next_block_index: int
    #: Pairs in which all runs of some treatment were rejected.
    rejected: int = 0
    #: Why the last rejected run was rejected; None if there is none.
    last_reason: str | None = None
    #: Every effect is decided, or not to be decided by more pairs, and as precise as requested.
    #: Not judged below the floor, nor at the cap.
    done: bool = False

    @property
    def pairs(self) -> int:
        """Complete pairs of the treatment with the fewest."""
        return min(self.pairs_of.values())

    @property
    def pairs_without_control(self) -> int:
        """The same of all treatments but controls, if there are others."""
        others = [n for name, n in self.pairs_of.items() if arm_of(name).role != "control"]
        return min(others, default=self.pairs)

    def missing(self, requested: Pairs, rejected_before: int = 0) -> int:
        """Pairs of the next block; 0 if the case is done, or too many were rejected.

        As many pairs may be rejected as `pairs.cap` allows to be accepted, so a machine on which
        every run is rejected ends with `too few pairs` instead of never. Those that were rejected
        before this session do not count, so that the next one tries again.
        """
        if self.rejected - rejected_before >= requested.most:
            return 0
        # For a control that lacks pairs, the other treatments are not measured beyond the cap.
        left = max(0, requested.most - self.pairs_without_control)
        return min(next_block_pairs(self.pairs, requested, done=self.done), left)


def case_state(run: Path, case: str, treated: Sequence[str], rule: StoppingRule) -> CaseState:
    """Read the progress of a case; `treated` are its treatments that have a baseline."""
    started = [int(p.name) for p in (run / "logs" / case).glob("[0-9]*") if p.name.isdigit()]
    file = run / "samples" / f"{case}.jsonl"
    if not file.exists() or not file.stat().st_size:
        return CaseState(dict.fromkeys(treated, 0), max(started, default=-1) + 1)

    import polars as pl

    from analysis.samples.pairs import pair_table

    frame = _samples([file])
    pairs = pair_table(frame)
    pairs_of = {name: pairs.filter(pl.col("arm") == name).height for name in treated}
    runs = frame.filter(pl.col("pair") >= 0).group_by("block", "pair", "arm")
    lost = runs.agg(
        counts=(pl.col("status") == "counts").any(),
        rejected=(pl.col("outcome") == "rejected").any(),
    ).filter(~pl.col("counts") & pl.col("rejected"))
    reasons = frame.filter(status="rejected")["reason"].drop_nulls()
    return CaseState(
        pairs_of=pairs_of,
        next_block_index=max([-1, *started, *frame["block"].unique().to_list()]) + 1,
        rejected=lost.n_unique(["block", "pair"]),
        last_reason=str(reasons[-1]) if len(reasons) else None,
        done=rule.asks_of(min(pairs_of.values())) and case_is_done(run, case, rule),
    )


def case_is_done(run: Path, case: str, rule: StoppingRule) -> bool:
    """Return whether a case needs no more pairs, judged as in the report by all measured."""
    from analysis.effects.estimate import results_of
    from analysis.samples.pairs import pair_table

    frame = _samples(sorted((run / "samples").glob("*.jsonl")))
    rows = [row for row in results_of(frame, pair_table(frame), rule) if row.case == case]
    effects = [row for row in rows if row.role == "effect"]
    return all(map(rule.is_done, effects or rows))


def _samples(files: Sequence[Path]) -> pl.DataFrame:
    from analysis.samples.columns import read_samples
    from analysis.samples.pairs import judge_samples

    try:
        return judge_samples(read_samples(files).frame)
    except InputError as error:
        raise InputError(
            f"{error}; to continue this run, remove that line from the file; to start a new one,"
            " give --fresh"
        ) from error


# Why a block failed, in one line: from the conductor, ReFrame and the disk.


#: A disk with less room than this cannot take another sample, bytes.
_FULL_B = 64 * 1024
#: Escape sequences with which ReFrame colours its output.
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
#: Longest reason that is printed, characters.
_LONGEST = 400


def why_failed(status: int, logs: Path) -> str | None:
    """None if the session with exit status `status` and the folder `logs` succeeded."""
    job, block = _read(logs / "job.json"), _read(logs / "block.json")
    if job.get("outcome", "done") != "done":
        return _line(f"{job['outcome']}: {job.get('reason') or 'no reason given'}")
    ended = block.get("state", "done")
    if status == 0 and ended == "done":
        return None if block else _skipped(logs)
    space = os.statvfs(logs)
    if space.f_bavail * space.f_frsize < _FULL_B:
        return f"{logs}: No space left on device"
    if ended != "done":
        return _line(f"{ended}: {block.get('reason') or 'no reason given'}")
    failed = [case for case in reported_cases(logs) if case.get("result") not in ("pass", "skip")]
    phases = {case.get("fail_phase", "run") for case in failed}
    if block and failed and phases <= {"sanity", "performance"}:
        return None  # no pair of an arm, or slower than its reference: results, reported elsewhere
    for case in failed:
        why = case.get("fail_reason") or "no reason given"
        return _line(f"ReFrame failed in '{case.get('fail_phase', 'run')}': {why}")
    log = logs / "reframe.log"
    if status < 0:  # what it printed last is no reason
        return _line(
            f"ReFrame was killed by {Signals(-status).name}, as for lack of memory ({log})"
        )
    return _line(f"ReFrame ended with status {status}: {_last_words(log)}")


def is_done(logs: Path) -> bool:
    """Return whether the conductor has finished the block, whatever ReFrame knows of it."""
    return bool(_read(logs / "block.json").get("state") == "done")


def is_read(logs: Path) -> bool:
    """Return whether ReFrame has no output of a check of others left to read."""
    return not (logs / UNREAD_FILE).exists()


def _read(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        record = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(record, dict):
            return record
    return {}


def reported_cases(logs: Path) -> list[dict[str, str]]:
    """Test cases of ReFrame's report, without fields that are null; none of what is no report."""
    with suppress(KeyError, TypeError, AttributeError):
        return [
            {key: str(value) for key, value in case.items() if value is not None}
            for run in _read(logs / "reframe.json")["runs"]
            for case in run["testcases"]
        ]
    return []


def _last_words(log: Path) -> str:
    """The last error in ReFrame's output, else its last line."""
    lines = list(filter(str.strip, _COLOURS.sub("", kernel_text.read(log)).splitlines()))
    last = ([line for line in lines if "error" in line.lower()] or lines)[-1:]
    return f"{last[0].strip()} ({log})" if last else f"it printed nothing to {log}"


def _skipped(logs: Path) -> str | None:
    """Return why the check was skipped everywhere, as it says itself, or why ReFrame ran none."""
    results = {case.get("result") for case in reported_cases(logs)}
    if results - {"skip"}:
        return None
    reasons: list[str] = []
    with suppress(OSError, ValueError, RecursionError):
        reasons = [str(reason) for reason in json.loads((logs / SKIPPED_FILE).read_bytes())]
    if reasons:
        return _line(f"skipped: {'; '.join(dict.fromkeys(reasons))}")
    if results:
        return "skipped by ReFrame"
    log = logs / "reframe.log"
    return _line(f"ReFrame ran no check: {_last_words(log)}") if log.exists() else None


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


@dataclass(frozen=True)
class Failure:
    """A case that could not be measured."""

    case: PlainName
    #: One line.
    reason: str

    def __str__(self) -> str:
        return f"{self.case}: {self.reason}"


class _CaseError(Exception):
    """The reason why a case could not be measured, in one line."""


@dataclass(frozen=True, kw_only=True)
class CampaignRunner:
    """Runs the blocks of a campaign; holds what is the same for all of them."""

    request: Request
    #: Folder of the run, and path of ReFrame.
    run: Path
    reframe: str
    #: Of the order of runs.
    seed: int
    interrupts: Interrupts
    display: Display
    #: Case -> why it cannot run here (`Request.feasibility`).
    cannot: Mapping[str, str] = field(default_factory=dict)
    #: Case -> pairs that were rejected before this session.
    rejected_before: dict[str, int] = field(default_factory=dict)
    #: Other runs on this host that were named on standard error.
    told_beside: set[str] = field(default_factory=set)
    #: The pace of the blocks so far, the last of which has that of all.
    paces: list[SessionPace] = field(default_factory=lambda: [SessionPace()])

    @property
    def campaign(self) -> Campaign:
        """Return what is requested."""
        return self.request.campaign

    @property
    def _cases(self) -> list[Entry]:
        """Cases that can run."""
        return [case for case in self.campaign.cases if case.name not in self.cannot]

    @cached_property
    def slurm(self) -> SlurmWatch | None:
        """None where Slurm does not run the jobs."""
        return SlurmWatch(self.run, self.display.tell) if self.request.slurm else None

    def close(self) -> None:
        """Ask Slurm no more."""
        if self.slurm:
            self.slurm.close()

    def run_all(self) -> list[Failure]:
        """Measure every case, also after one that failed. Raises Stopped on a signal."""
        processes.become_subreaper()
        failures = dict(self.cannot)
        for cases in self._rounds(failures):
            for index, entry in enumerate(cases, 1):
                try:
                    self._run_case(entry, expected_total(map(self.expected, cases[index:])))
                except _CaseError as error:
                    failures[entry.name] = str(error)
        return [Failure(name, reason) for name, reason in failures.items()]

    def _rounds(self, failed: Collection[str]) -> Iterator[list[Entry]]:
        """The cases, then those that a later one opens again: all are judged together."""
        yield self._cases
        while reopened := [case for case in self._cases if self._goes_on(case, failed)]:
            yield reopened

    def _goes_on(self, case: Entry, failed: Collection[str]) -> bool:
        """Return whether a case of this session needs another block."""
        if case.name in failed:
            return False
        before = self.rejected_before[case.name]
        return bool(self._state(case).missing(self.campaign.pairs, before))

    def _run_case(self, entry: Entry, later: Expected) -> None:
        """Run blocks of a case until it is decided, `later` those of others. Raises _CaseError."""
        notes = []
        if layouts.is_to_be_chosen(entry):
            chosen = self._layout(entry, later)
            self.display.tell(f"{entry.name}: layout {chosen} is the fastest without writers")
            others = [layout for layout in self.request.layouts_of(entry) if layout != chosen]
            notes = [Note.LAYOUT(layout=chosen, others=", ".join(others))] if others else []
            entry = layouts.with_layout(entry, chosen)
        self._read_left(entry, self.interrupts)
        now = self._state(entry)
        rejected_before = self.rejected_before.setdefault(entry.name, now.rejected)
        while pairs := now.missing(self.campaign.pairs, rejected_before):
            after = expected_total([self._expected_from(entry, now.pairs + pairs), later])
            self._run_block(entry, now.next_block_index, pairs, after, notes)
            before, now = now, self._state(entry)
            if (now.pairs, now.rejected) == (before.pairs, before.rejected):
                logs = logs_of(self.run, entry, now.next_block_index - 1)
                why = now.last_reason or f"no run was started; see {logs}"
                raise _CaseError(f"block {before.next_block_index} added no pair: {why}")
        if not now.pairs_without_control:
            raise _CaseError(
                f"no pair was accepted: {now.last_reason}; the same command makes as many more"
            )

    def _layout(self, entry: Entry, later: Expected) -> str:
        """The fastest layout of a case, which is measured first. Raises _CaseError."""
        search = self.request.search(entry)
        (compared,) = search.campaign.cases
        treated = search.treatments[compared.name]
        if layout := layouts.fastest(self.run, compared, treated):
            return layout
        block = len(list((self.run / "logs" / compared.name).glob("[0-9]*")))
        after = expected_total([self.expected(entry), later])
        try:
            with closing(replace(self, request=search)) as searching:
                searching._run_block(compared, block, layouts.RUNS, after)
        except _CaseError as error:
            raise _CaseError(f"{compared.name}: {error}") from None
        layout = layouts.fastest(self.run, compared, treated)
        if layout is None:
            few = f"a layout has fewer than {layouts.RUNS} accepted runs"
            raise _CaseError(f"{compared.name}: {few}")
        return layout

    def _run_block(
        self, entry: Entry, block: int, pairs: int, later: Expected, notes: Sequence[str] = ()
    ) -> None:
        """Run a block, and have its check read what it left unread. Raises _CaseError."""
        try:
            self._measure_block(entry, block, pairs, later, notes)
        except Stopped:
            with Interrupts() as once_more:
                self._read_or_tell(entry, once_more)
            raise
        except (_CaseError, SilentError):
            self._read_or_tell(entry, self.interrupts)
            raise
        self._read_left(entry, self.interrupts)

    def _measure_block(
        self, entry: Entry, block: int, pairs: int, later: Expected, notes: Sequence[str]
    ) -> None:
        """Run one ReFrame session. Raises _CaseError."""
        require_folder(self.run)  # one that was renamed is not made again
        logs = logs_of(self.run, entry, block)
        logs.mkdir(parents=True, exist_ok=True)
        treated = self.request.treatments[entry.name]
        plan = block_plan(self.request, entry, block, pairs, self.run, seed=self.seed)
        folder = load_call(self.run, self.campaign.name).folder
        notes = [*plan.notes, *notes, *self._beside()]
        plan = replace(plan, notes=notes, folder=str(folder or ""))
        plan.save(logs / PLAN)
        samples = self.run / "samples" / f"{entry.name}.jsonl"
        # Runs of a check of others are no samples until it has read their figures.
        ended = logs / UNREAD_FILE if self.request.check(entry).file else samples
        counter = RunCounter(
            later=later,
            block_runs=entry.warmups + pairs * len(treated),
            block_s=block_s(self.request, entry, treated, pairs),
            run_s=run_length_s(self.request, entry, treated),
            started_s=time.monotonic(),
            before=self.paces[-1],
        )
        new = NewSamples(ended), NewSamples(samples)
        tick = self._tick(f"{entry.name}, block {block}", logs, *new, counter)
        tick()
        log = logs / "reframe.log"
        self.display.detail(f"{entry.name}, block {block}: ReFrame's output is in {log}")
        status = None
        try:
            session = self._session(entry, block, PLAN)
            status = run_session(session, self.run, log, self.interrupts, tick)
        except (SilentError, LostJobError) as error:
            if is_done(logs) and is_read(logs):
                self.display.tell(f"{error}; the block was done")
                return
            if isinstance(error, SilentError):
                raise
            raise _CaseError(f"{error}, and ReFrame still waits for it") from None
        finally:
            self.paces.append(counter.pace)
            if status != 0:
                self._end_jobs()
        require_folder(self.run)
        if reason := why_failed(status, logs):
            raise _CaseError(reason)

    def _session(self, entry: Entry, block: int, plan: str) -> list[str]:
        """ReFrame's command for a block."""
        _, *arguments = reframe_command(self.request, entry, block, str(self.run), plan)
        head = walk_run(self.run).head
        return [self.reframe, *arguments, f"--session-extras=nimc_head={head}"]

    # Runs of a check of others, which is what reads their figures once a block has ended.

    def _unread(self, entry: Entry) -> list[int]:
        """Blocks that ended before the check had read all of their runs."""
        left = (self.run / "logs" / entry.name).glob(f"*/{UNREAD_FILE}")
        return sorted(int(path.parent.name) for path in left)

    def _read_left(self, entry: Entry, interrupts: Interrupts) -> None:
        """Have the check read them now. Raises _CaseError if it cannot, Stopped on a signal."""
        for block in self._unread(entry):
            logs = logs_of(self.run, entry, block)
            replace(BlockPlan.load(logs / PLAN), pairs=0).save(logs / READING)
            log = logs / "reading.log"
            self.display.tell(f"{entry.name}, block {block}: the check reads its runs")
            session = self._session(entry, block, READING)
            run_session(session, self.run, log, interrupts, lambda: None)
            if not is_read(logs):
                why = _last_words(log)
                raise _CaseError(f"the check has not read the runs of block {block}: {why}")

    def _read_or_tell(self, entry: Entry, interrupts: Interrupts) -> None:
        """The same after a failure, which it does not hide; a signal leaves it for later."""
        try:
            self._read_left(entry, interrupts)
        except (_CaseError, Stopped) as error:
            self.display.tell(f"{entry.name}: {error}; the next session reads them")

    def _beside(self) -> list[str]:
        """Notes on other runs on this host, each printed once; none if the checks run elsewhere."""
        others = [] if self.request.slurm else concurrent_runs(self.run)
        if not others:
            return []
        note = Note.BESIDE(run=", ".join(others))
        if not self.told_beside.issuperset(others):
            self.told_beside.update(others)
            self.display.tell(f"{note}; {Note.BESIDE.remedy}")
        return [note]

    def _tick(
        self,
        block_name: str,
        logs: Path,
        ended: NewSamples,
        samples: NewSamples,
        counter: RunCounter,
    ) -> Callable[[], None]:
        """Return what is done once a second during a block: runs that have `ended` are counted."""
        if self.slurm:
            self.slurm.next_block()

        def tick() -> None:
            require_folder(self.run)
            now_s = time.monotonic()
            for run in ended.new():
                counter.add(run, now_s)
            for sample in samples.new():
                self.display.tell_run(sample)
            if self.slurm:
                pending = self.slurm.pending
                counter.wait(pending.line if pending else "", now_s)
            self.display.show(block_name, counter, now_s)
            if self.slurm:
                # The conductor writes agents.log first.
                begun = (logs / "agents.log").exists()
                done = is_done(logs)
                read = is_read(logs)
                self.slurm.check(
                    now_s, begun=begun, finished=done and read, reading=done and not read
                )

        return tick

    def _end_jobs(self) -> None:
        """Cancel jobs that ReFrame may have left, or say that this is not possible."""
        if self.slurm:
            try:
                client.cancel(self.run)
            except MachineError as error:
                cancel = client.how_to_cancel(self.slurm.jobs)
                self.display.tell(f"{error}; jobs of this run may go on: {cancel}")

    def _state(self, entry: Entry) -> CaseState:
        treatments = self.request.treatments[entry.name]
        treated = [treatment.name for treatment in treatments if treatment.baseline is not None]
        return case_state(self.run, entry.name, treated, self.rule)

    @cached_property
    def rule(self) -> StoppingRule:
        """Return when a case has enough pairs."""
        from analysis.effects.estimate import StoppingRule

        pairs = self.campaign.pairs
        hypotheses = frozenset(
            (case.name, treatment.name)
            for case in self.campaign.cases
            for treatment in self.request.treatments[case.name]
        )
        return StoppingRule(
            pairs.floor, pairs.most, pairs.precision, self.campaign.margin, hypotheses
        )

    def least_s(self) -> float:
        """Expected time that the campaign needs at least, seconds."""
        return expected_total(map(self.expected, self._cases)).least_s

    def expected(self, entry: Entry) -> Expected:
        """How long a case is expected to take from now on."""
        now = self._state(entry)
        return Expected(0.0, 0.0) if now.done else self._expected_from(entry, now.pairs)

    def _expected_from(self, entry: Entry, complete: int) -> Expected:
        """The same after so many complete pairs, if they decide nothing."""
        pairs, treated = self.campaign.pairs, self.request.treatments[entry.name]
        sizes = block_sizes(pairs, complete)
        length_s = blocks_s(self.request, entry, treated, {*sizes})
        least_s = most_s = 0.0
        for size in sizes:
            least_s += length_s[size] if complete < pairs.floor else 0.0
            most_s += length_s[size]
            complete += size
        return Expected(least_s, most_s)
