"""Runs a campaign block by block, until every case is decided."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Any

from conductor.conductor import UNREAD
from nimc.campaign import layouts
from nimc.campaign.plan import (
    Request,
    block_plan,
    block_s,
    command,
    next_block,
    plan_file,
    run_length_s,
)
from nimc.run.folder import require_folder
from nimc.run.progress import NewSamples, PlainDisplay, RunCounter, run_line
from nimc.run.session import LostJobError, SilentError, SlurmWatch, run_session
from records import processes
from records.arms import arm_of
from records.campaign import Campaign, Entry, Pairs
from records.chain import walk_run
from records.errors import InputError, MachineError
from records.interrupts import Interrupts
from records.machine import slurm
from records.notes import Note
from records.run import PlainName

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
    next_block: int
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
        return min(next_block(self.pairs, requested, done=self.done), left)


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
        next_block=max([-1, *started, *frame["block"].unique().to_list()]) + 1,
        rejected=lost.n_unique(["block", "pair"]),
        last_reason=str(reasons[-1]) if len(reasons) else None,
        done=rule.asks_of(min(pairs_of.values())) and _is_done(run, case, rule),
    )


def _is_done(run: Path, case: str, rule: StoppingRule) -> bool:
    """Whether a case needs no more pairs, judged as in the report: with all that is measured."""
    from analysis.effects.estimate import results_of
    from analysis.samples.pairs import pair_table

    frame = _samples(sorted((run / "samples").glob("*.jsonl")))
    rows = [row for row in results_of(frame, pair_table(frame), rule) if row.case == case]
    effects = [row for row in rows if row.role == "effect"]
    return all(map(rule.is_done, effects or rows))


def _samples(files: Sequence[Path]) -> pl.DataFrame:
    from analysis.samples.columns import read_samples
    from analysis.samples.pairs import judged

    try:
        return judged(read_samples(files).frame)
    except InputError as error:
        raise InputError(
            f"{error}; to continue this run, remove that line from the file; to start a new one,"
            " give --fresh"
        ) from error


# Why a block failed, in one line: from the conductor, ReFrame and the disk.


#: A disk with less room than this cannot take another sample, bytes.
_FULL_B = 64 * 1024
#: Why ReFrame skips a case, a test or its file, or finds no place for it, in its log.
_SKIPPED = (
    r"(?:SKIP.*? \[|skipping test (?:file )?'[^']*': |(?=\b\w+ does not run on ))(.*?)\]?\s*$"
)
#: Longest reason that is printed, characters.
_LONGEST = 400


def why_failed(status: int, logs: Path) -> str | None:
    """None if the session with exit status `status` and the folder `logs` succeeded."""
    job = _read(logs / "job.json")
    if job.get("outcome", "done") != "done":
        return _line(f"{job['outcome']}: {job.get('reason') or 'no reason given'}")
    block = _read(logs / "block.json")
    if status == 0 and block.get("state", "done") == "done":
        return None if block else _skipped(logs)
    space = os.statvfs(logs)
    if space.f_bavail * space.f_frsize < _FULL_B:
        return f"{logs}: No space left on device"
    if block.get("state", "done") != "done":
        return _line(f"{block['state']}: {block.get('reason') or 'no reason given'}")
    cases = _cases(logs)
    failed = {
        case.get("fail_phase", "run")
        for case in cases
        if case.get("result") not in ("pass", "skip")
    }
    if block and failed and failed <= {"sanity", "performance"}:
        return None  # no pair of an arm, or slower than its reference: results, reported elsewhere
    for case in cases:
        if case.get("result") in ("fail", "abort") or case.get("fail_reason"):
            why = case.get("fail_reason") or "no reason given"
            return _line(f"ReFrame failed in '{case.get('fail_phase', 'run')}': {why}")
    how = f"ended with status {status}" if status >= 0 else f"was killed by {Signals(-status).name}"
    log, lines = logs / "reframe.log", list[str]()
    with suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    lines = list(filter(str.strip, lines))
    last = ([line for line in lines if "error" in line.lower()] or lines)[-1:]
    said = f"{last[0].strip()} ({log})" if last else f"it printed nothing to {log}"
    return _line(f"ReFrame {how}: {said}")


def is_done(logs: Path) -> bool:
    """Whether the conductor has finished the block, whatever ReFrame knows of it."""
    return bool(_read(logs / "block.json").get("state") == "done")


def is_read(logs: Path) -> bool:
    """Whether ReFrame has no output of a check of others left to read."""
    return not (logs / UNREAD).exists()


def _read(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        record = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(record, dict):
            return record
    return {}


def _cases(logs: Path) -> list[dict[str, str]]:
    """Test cases of ReFrame's report, without fields that are null; none of what is no report."""
    with suppress(KeyError, TypeError, AttributeError):
        return [
            {key: str(value) for key, value in case.items() if value is not None}
            for run in _read(logs / "reframe.json")["runs"]
            for case in run["testcases"]
        ]
    return []


def _skipped(logs: Path) -> str | None:
    """Why ReFrame skipped the check everywhere; only its log says so."""
    results = {case.get("result") for case in _cases(logs)}
    if results - {"skip"}:
        return None
    with suppress(OSError):
        log = (logs / "reframe.log").read_text(encoding="utf-8", errors="replace")
        if reasons := re.findall(_SKIPPED, log, re.MULTILINE):
            return _line(f"skipped: {'; '.join(dict.fromkeys(reasons))}")
    return "skipped by ReFrame" if results else None


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


@dataclass(frozen=True)
class CampaignRunner:
    """Runs the blocks of a campaign; holds what is the same for all of them."""

    request: Request
    #: Folder of the run, and path of ReFrame.
    run: Path
    reframe: str
    #: Of the order of runs.
    seed: int
    interrupts: Interrupts
    display: PlainDisplay
    #: Case -> why it cannot run here (`nimc.cluster.possible`).
    cannot: Mapping[str, str] = field(default_factory=dict)
    #: Lengths of all runs of this session's blocks, as expected and as measured, seconds.
    lengths_s: list[tuple[float, float]] = field(default_factory=list)
    #: Case that leaves its layout open -> the one that was chosen.
    layouts: dict[str, str] = field(default_factory=dict)
    #: Case -> pairs that were rejected before this session.
    rejected_before: dict[str, int] = field(default_factory=dict)

    @property
    def campaign(self) -> Campaign:
        """What is requested."""
        return self.request.campaign

    @property
    def _cases(self) -> list[Entry]:
        """Those that can run."""
        return [case for case in self.campaign.cases if case.name not in self.cannot]

    @cached_property
    def slurm(self) -> SlurmWatch | None:
        """None where Slurm does not run the jobs."""
        return SlurmWatch(self.run, self.display.tell) if self.request.slurm else None

    def run_all(self) -> list[Failure]:
        """Measure every case, also after one that failed. Raises Stopped on a signal."""
        processes.become_subreaper()
        failures = {name: Failure(name, reason) for name, reason in self.cannot.items()}
        left = {entry.name: entry for entry in self._cases}
        for entry in self._order(failures):
            left.pop(entry.name, None)
            later_s = sum(map(self._case_least_s, left.values()))
            if reason := self._run_case(entry, later_s):
                failures[entry.name] = Failure(entry.name, reason)
        return list(failures.values())

    def _order(self, failed: Collection[str]) -> Iterator[Entry]:
        """The cases in order, then those that a later one opens again: all are judged together."""
        cases = self._cases
        yield from cases
        while reopened := [
            case for case in cases if case.name not in failed and self._missing(case)
        ]:
            yield from reopened

    def _missing(self, entry: Entry) -> int:
        """Pairs that a case of this session still needs in its next block."""
        before = self.rejected_before.get(entry.name)
        if before is None:
            return 0
        return self._state(entry).missing(self.campaign.pairs, before)

    def _run_case(self, entry: Entry, later_s: float) -> str | None:
        """Run blocks of a case until it is decided. Returns why it failed, None if it did not."""
        if layouts.is_open(entry):
            if reason := self._find_layout(entry, later_s):
                return reason
            entry = layouts.at(entry, self.layouts[entry.name])
        now = self._state(entry)
        rejected_before = self.rejected_before.setdefault(entry.name, now.rejected)
        while pairs := now.missing(self.campaign.pairs, rejected_before):
            reason = self._run_block(entry, now.next_block, pairs, later_s)
            before, now = now, self._state(entry)
            if reason is None and (now.pairs, now.rejected) == (before.pairs, before.rejected):
                logs = self._logs(entry, now.next_block - 1)
                why = now.last_reason or f"no run was started; see {logs}"
                reason = f"block {before.next_block} added no pair: {why}"
            if reason:
                return reason
        if now.pairs_without_control:
            return None
        return f"no pair was accepted: {now.last_reason}; 'nimc run' again makes as many more"

    def _find_layout(self, entry: Entry, later_s: float) -> str | None:
        """Have the fastest layout of a case in `layouts`. Returns why there is none, else None."""
        search = layouts.search(self.request, entry)
        (compared,) = search.campaign.cases
        found = layouts.fastest(self.run, search)
        if found is None:
            block = len(list((self.run / "logs" / compared.name).glob("[0-9]*")))
            runner = replace(self, request=search)
            if reason := runner._run_block(compared, block, layouts.RUNS, later_s):
                return f"{compared.name}: {reason}"
            found = layouts.fastest(self.run, search)
        if found is None:
            return f"{compared.name}: a layout has fewer than {layouts.RUNS} accepted runs"
        if entry.name not in self.layouts:
            self.display.tell(f"{entry.name}: layout {found} is the fastest without writers")
        self.layouts[entry.name] = found
        return None

    def _of_layout(self, entry: Entry) -> list[str]:
        """What samples say of a layout that was chosen from several."""
        chosen = self.layouts[entry.name]
        others = [each for each in layouts.candidates(self.request, entry) if each != chosen]
        return [Note.LAYOUT(layout=chosen, others=", ".join(others))] if others else []

    def _run_block(self, entry: Entry, block: int, pairs: int, later_s: float) -> str | None:
        """Run one ReFrame session. Returns why it failed, None if it did not."""
        require_folder(self.run)  # one that was renamed is not made again
        logs = self._logs(entry, block)
        logs.mkdir(parents=True, exist_ok=True)
        treated = self.request.treatments[entry.name]
        expected_s = block_s(self.request, entry, treated, pairs)
        _, *arguments = command(self.request, entry, block, str(self.run))
        plan = block_plan(self.request, entry, block, pairs, self.run, seed=self.seed)
        if entry.name in self.layouts:
            plan = replace(plan, notes=[*plan.notes, *self._of_layout(entry)])
        plan.save(plan_file(self.run, entry, block))
        arguments.append(f"--session-extras=nimc_head={walk_run(self.run).head}")
        samples = NewSamples(self.run / "samples" / f"{entry.name}.jsonl")
        counter = RunCounter(
            later_s=later_s,
            block_runs=entry.warmups + pairs * len(treated),
            block_s=expected_s,
            started_s=time.monotonic(),
            run_s=run_length_s(self.request, entry, treated),
            before=self.lengths_s[-1] if self.lengths_s else (0.0, 0.0),
        )

        def tick() -> None:
            require_folder(self.run)
            now_s = time.monotonic()
            for sample in samples.new():
                counter.add(sample, now_s)
                self.display.detail(run_line(sample))
            if self.slurm:
                counter.wait(self.slurm.waits, now_s)
            self.display.show(f"{entry.name}, block {block}", counter, now_s)
            if self.slurm:
                # The conductor writes agents.log first.
                done, read = is_done(logs), is_read(logs)
                finished, reading = done and read, done and not read
                self.slurm.look(
                    now_s, begun=(logs / "agents.log").exists(), finished=finished, reading=reading
                )

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
            self.lengths_s.append(counter.lengths_s)
            if status != 0:
                self._end_jobs()
        require_folder(self.run)
        return why_failed(status, logs)

    def _end_jobs(self) -> None:
        """Cancel jobs that ReFrame may have left, or say that this is not possible."""
        if self.slurm:
            try:
                slurm.cancel(self.run)
            except MachineError as error:
                ids = " ".join(self.slurm.jobs) or "JOB (squeue --me lists them)"
                self.display.tell(f"{error}; jobs of this run may go on: scancel {ids}")

    def _state(self, entry: Entry) -> CaseState:
        treatments = self.request.treatments[entry.name]
        treated = [treatment.name for treatment in treatments if treatment.baseline is not None]
        return case_state(self.run, entry.name, treated, self.rule)

    @cached_property
    def rule(self) -> StoppingRule:
        """When a case has enough pairs."""
        from analysis.effects.estimate import StoppingRule

        pairs = self.campaign.pairs
        asked = frozenset(
            (case.name, treatment.name)
            for case in self.campaign.cases
            for treatment in self.request.treatments[case.name]
        )
        return StoppingRule(pairs.floor, pairs.most, pairs.precision, self.campaign.margin, asked)

    def _logs(self, entry: Entry, block: int) -> Path:
        return self.run / "logs" / entry.name / str(block)

    def least_s(self) -> float:
        """Expected time that the campaign needs at least, seconds."""
        return sum(map(self._case_least_s, self._cases))

    def _case_least_s(self, entry: Entry) -> float:
        missing = self.campaign.pairs.floor - self._state(entry).pairs
        treated = self.request.treatments[entry.name]
        return block_s(self.request, entry, treated, missing) if missing > 0 else 0.0
