"""Runs a campaign block by block, until every case is decided.

A *treatment* is the conditions of a run of the application, for example the rate of writes. A
*pair* is one run of each treatment. A *control* is a treatment in which a busy process replaces the
writers. A *block* is the pairs of one allocation. A *session* is one call of `nimc run`. In a
session, each block has a ReFrame session of its own. In the allocation, ReFrame starts the
conductor, which makes the runs. A *check* is the ReFrame test of a workload. It is a third-party
check if it is a user's file instead of one of this project.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Any

from conductor.block.agents import AGENTS_LOG
from nimc.campaign import layouts
from nimc.campaign.plan import (
    PLAN_FILE,
    READING_PLAN_FILE,
    Request,
    block_length_s,
    block_lengths_s,
    block_plan,
    block_sizes,
    logs_of,
    next_block_pairs,
    reframe_command,
    run_length_s,
    search_length_s,
)
from nimc.readiness.faults import remedy_of_block
from nimc.run.folder import require_folder
from nimc.run.progress import (
    Display,
    ExpectedTime,
    NewSamples,
    RunCounter,
    SessionPace,
    expected_total,
)
from nimc.run.session import concurrent_runs, end_jobs, run_session
from records import kernel_text, processes
from records.arms import arm_of
from records.block_plan import SKIPPED_FILE, UNREAD_FILE, BlockPlan
from records.calls import load_call
from records.campaign import Campaign, Entry, Pairs
from records.chain import walk_run
from records.errors import InputError
from records.files import read_written
from records.interrupts import Interrupts, Stopped
from records.notes import Note
from records.run import PlainName
from records.slurm import parse
from records.slurm.outages import LostJobError, SilentError, SlurmWatch

if TYPE_CHECKING:
    import polars as pl

    from analysis.effects.estimate import StoppingRule


# The progress of a case is read from the samples on disk.


@dataclass(frozen=True)
class CaseState:
    """Progress of a case."""

    #: Treatment -> number of its complete pairs. A pair may be complete for one treatment, but not
    #: for another.
    pairs_by_treatment: dict[str, int]
    #: Index of the next block. Indices are never reused.
    next_block_index: int
    #: Number of pairs in which all runs of at least one treatment were rejected.
    rejected_pairs: int = 0
    #: Why the last rejected run was rejected; None if no run was rejected.
    last_reason: str | None = None
    #: Whether more pairs would decide no further effect, and all effects are as precise as
    #: requested. It is False below the floor and at the cap of pairs, where it is not computed.
    done: bool = False

    @property
    def pairs(self) -> int:
        """Return the number of complete pairs of the treatment that has the fewest."""
        return min(self.pairs_by_treatment.values())

    @property
    def pairs_without_control(self) -> int:
        """Return the number of complete pairs of the treatment that has the fewest.

        Controls are left out, unless all treatments are controls.
        """
        pairs_of_others = [
            pairs
            for name, pairs in self.pairs_by_treatment.items()
            if arm_of(name).role != "control"
        ]
        return min(pairs_of_others, default=self.pairs)

    def pairs_to_measure(self, requested: Pairs, rejected_before: int = 0) -> int:
        """Return the number of pairs of the next block; 0 if the case gets no further block.

        A case gets no further block if it is done, or if `pairs.cap` pairs were rejected in this
        session. Without this limit, a campaign would never end on a machine on which every run is
        rejected. The `rejected_before` pairs that earlier sessions rejected do not count, so that
        each session tries again.
        """
        if self.rejected_pairs - rejected_before >= requested.maximum:
            return 0
        # If only a control lacks pairs, the other treatments are not measured beyond the cap.
        pairs_below_cap = max(0, requested.maximum - self.pairs_without_control)
        next_pairs = next_block_pairs(self.pairs, requested, is_done=self.done)
        return min(next_pairs, pairs_below_cap)


def case_state(
    run: Path, case: str, treatments: Sequence[str], stopping_rule: StoppingRule
) -> CaseState:
    """Return the progress of a case, from its samples and the folders of its blocks.

    `treatments` names the treatments of the case that have a baseline.
    """
    samples = _samples_of(run, case)
    next_block_index = _next_block_index(run, case, samples)
    if samples is None:
        return CaseState(dict.fromkeys(treatments, 0), next_block_index)

    import polars as pl

    from analysis.samples.pairs import pair_table

    pairs = pair_table(samples)
    pairs_by_treatment = {name: pairs.filter(pl.col("arm") == name).height for name in treatments}
    runs = samples.filter(pl.col("pair") >= 0).group_by("block", "pair", "arm")
    rejected = runs.agg(
        any_counts=(pl.col("status") == "counts").any(),
        any_rejected=(pl.col("outcome") == "rejected").any(),
    ).filter(~pl.col("any_counts") & pl.col("any_rejected"))
    reasons = samples.filter(status="rejected")["reason"].drop_nulls()
    return CaseState(
        pairs_by_treatment=pairs_by_treatment,
        next_block_index=next_block_index,
        rejected_pairs=rejected.n_unique(["block", "pair"]),
        last_reason=str(reasons[-1]) if len(reasons) else None,
        done=stopping_rule.depends_on_verdicts(min(pairs_by_treatment.values()))
        and case_is_done(run, case, stopping_rule),
    )


def _samples_of(run: Path, case: str) -> pl.DataFrame | None:
    """Return the samples of a case; None if it has none."""
    file = run / "samples" / f"{case}.jsonl"
    return _samples([file]) if file.exists() and file.stat().st_size else None


def _next_block_index(run: Path, case: str, samples: pl.DataFrame | None) -> int:
    """Return the index of the next block of a case, above those of its samples and folders."""
    folders = (run / "logs" / case).glob("[0-9]*")
    started_blocks = [int(folder.name) for folder in folders if folder.name.isdigit()]
    measured_blocks = [] if samples is None else samples["block"].unique().to_list()
    return max([*started_blocks, *measured_blocks], default=-1) + 1


def case_is_done(run: Path, case: str, stopping_rule: StoppingRule) -> bool:
    """Return whether a case needs no more pairs.

    All cases of the run are judged together, as in the report, since the number of questions
    influences every verdict.
    """
    from analysis.effects.estimate import results_of
    from analysis.samples.pairs import pair_table

    samples = _samples(sorted((run / "samples").glob("*.jsonl")))
    all_results = results_of(samples, pair_table(samples), stopping_rule)
    results = [row for row in all_results if row.case == case]
    effects = [row for row in results if row.role == "effect"]
    return all(map(stopping_rule.is_done, effects or results))


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


# Why a block failed. The reason is one line, from records of the conductor and of ReFrame, or from
# an attempt to write a file.


#: How the reason begins if Slurm refused the job.
_REFUSAL_PREFIX = "Slurm refuses the job"
#: Size of the file that shows whether there is room for more files, bytes.
_TRIED_FILE_B = 64 * 1024
#: Escape sequences with which ReFrame colours its output.
_COLOUR_SEQUENCE = re.compile(r"\x1b\[[\d;]*m")
#: Longest reason that is printed, characters.
_MAX_REASON_LENGTH = 400


def why_failed(status: int, logs: Path) -> str | None:
    """Return why a ReFrame session failed; None if it did not fail.

    `status` is its exit status, negative if a signal killed it. `logs` is its block's folder.
    """
    job, block = _read_record(logs / "job.json"), _read_record(logs / "block.json")
    if job.get("outcome", "done") != "done":
        return _short_line(f"{job['outcome']}: {job.get('reason') or 'no reason given'}")
    state = block.get("state", "done")
    if status == 0 and state == "done":
        return None if block else _skip_reason(logs)
    if error := _write_error(logs):
        return f"{logs}: {error}"
    if state != "done":
        return _short_line(f"{state}: {block.get('reason') or 'no reason given'}")
    failed = [case for case in reported_cases(logs) if case.get("result") not in ("pass", "skip")]
    phases = [case.get("fail_phase", "run") for case in failed]
    if block and failed and {"sanity", "performance"}.issuperset(phases):
        # An arm has no pair, or the check was slower than its reference. These are results, which
        # are reported elsewhere.
        return None
    if failed:
        why = failed[0].get("fail_reason") or "no reason given"
        if refusal := parse.refusal(why):
            return _short_line(f"{_REFUSAL_PREFIX}: {refusal}")
        return _short_line(f"ReFrame failed in '{phases[0]}': {why}")
    log = logs / "reframe.log"
    if status < 0:  # the last line of its output does not say why it was killed
        signal_name = Signals(-status).name
        return _short_line(
            f"ReFrame was killed by {signal_name}, perhaps for lack of memory ({log})"
        )
    return _short_line(f"ReFrame ended with status {status}: {_last_error(log)}")


def _write_error(folder: Path) -> str:
    """Return why no file can be written in a folder, such as a full disk or a quota.

    Returns an empty text if a file can be written.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_TRIED_FILE_B))
            file.flush()
            os.fsync(file.fileno())  # over a network, a quota may be noticed here first
    except OSError as error:
        return error.strerror or str(error)
    return ""


def is_done(logs: Path) -> bool:
    """Return whether the conductor has recorded that the block is done.

    ReFrame may not know this yet.
    """
    return bool(_read_record(logs / "block.json").get("state") == "done")


def is_read(logs: Path) -> bool:
    """Return whether no run of a third-party check is left whose output ReFrame must read."""
    return not (logs / UNREAD_FILE).exists()


def _read_record(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        record = json.loads(read_written(path))
        if isinstance(record, dict):
            return record
    return {}


def reported_cases(logs: Path) -> list[dict[str, str]]:
    """Return the test cases of ReFrame's report, without null fields.

    Returns an empty list if there is no report or no test case.
    """
    with suppress(KeyError, TypeError, AttributeError):
        return [
            {key: str(value) for key, value in case.items() if value is not None}
            for run in _read_record(logs / "reframe.json")["runs"]
            for case in run["testcases"]
        ]
    return []


def _last_error(log: Path) -> str:
    """Return the last line with 'error' in ReFrame's output, or else its last line."""
    lines = list(filter(str.strip, _COLOUR_SEQUENCE.sub("", kernel_text.read(log)).splitlines()))
    if not lines:
        return f"it printed nothing to {log}"
    errors = [line for line in lines if "error" in line.lower()]
    last_line = (errors or lines)[-1].strip()
    return f"{last_line} ({log})"


def _skip_reason(logs: Path) -> str | None:
    """Return why ReFrame skipped the check in every environment, or why it ran no check.

    Returns None if the check ran at least once.
    """
    results = {case.get("result") for case in reported_cases(logs)}
    if results - {"skip"}:
        return None
    reasons: list[str] = []
    with suppress(OSError, ValueError, RecursionError):
        reasons = [str(reason) for reason in json.loads((logs / SKIPPED_FILE).read_bytes())]
    if reasons:
        return _short_line(f"skipped: {'; '.join(dict.fromkeys(reasons))}")
    if results:
        return "skipped by ReFrame"
    log = logs / "reframe.log"
    return _short_line(f"ReFrame ran no check: {_last_error(log)}") if log.exists() else None


def _short_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_REASON_LENGTH else f"{line[: _MAX_REASON_LENGTH - 3]}..."


@dataclass(frozen=True)
class Failure:
    """A case that could not be measured."""

    case: PlainName
    #: Why it could not be measured, in one line.
    reason: str

    def __str__(self) -> str:
        return f"{self.case}: {self.reason}"


class _CaseError(Exception):
    """A case cannot be measured. The message says why, in one line."""


@dataclass(frozen=True, kw_only=True)
class CampaignRunner:
    """Runs the blocks of a campaign."""

    request: Request
    #: Folder of the run.
    run: Path
    #: Path of ReFrame's program.
    reframe: str
    #: Seed of the random order of runs within pairs.
    seed: int
    interrupts: Interrupts
    display: Display
    #: Case -> why it cannot run here (`Request.feasibility`).
    omission_reasons: Mapping[str, str] = field(default_factory=dict)
    #: Case -> number of pairs that were rejected before this session.
    rejected_before: dict[str, int] = field(default_factory=dict)
    #: Names of concurrent runs on this host about which a note was printed.
    announced_runs: set[str] = field(default_factory=set)
    #: The pace of the session at its start and after each of its blocks.
    paces: list[SessionPace] = field(default_factory=lambda: [SessionPace()])

    @property
    def campaign(self) -> Campaign:
        """Return the requested campaign."""
        return self.request.campaign

    @property
    def _cases(self) -> list[Entry]:
        """Return the cases that can run here."""
        return [case for case in self.campaign.cases if case.name not in self.omission_reasons]

    @cached_property
    def slurm_watch(self) -> SlurmWatch | None:
        """Return the watch over the run's jobs in Slurm; None if Slurm does not run them."""
        return SlurmWatch(self.run, self.display.tell) if self.request.uses_slurm else None

    def close(self) -> None:
        """Stop asking Slurm."""
        if self.slurm_watch:
            self.slurm_watch.close()

    def run_all(self) -> list[Failure]:
        """Measure every case and return the failures. Raises Stopped on a signal.

        A case that fails does not stop the others.
        """
        processes.become_subreaper()
        failures = dict(self.omission_reasons)
        for cases in self._rounds(failures):
            for index, entry in enumerate(cases, 1):
                try:
                    self._run_case(entry, expected_total(map(self.expected, cases[index:])))
                except _CaseError as error:
                    failures[entry.name] = str(error)
        return [Failure(name, reason) for name, reason in failures.items()]

    def _rounds(self, failed: Collection[str]) -> Iterator[list[Entry]]:
        """Yield all cases, then repeatedly the cases that need another block.

        A decided case may become undecided again, since the samples of other cases influence its
        verdicts.
        """
        yield self._cases
        while reopened := [case for case in self._cases if self._needs_block(case, failed)]:
            yield reopened

    def _needs_block(self, case: Entry, failed: Collection[str]) -> bool:
        """Return whether a case needs another block and has not failed in this session."""
        if case.name in failed:
            return False
        rejected_before = self.rejected_before[case.name]
        return self._state(case).pairs_to_measure(self.campaign.pairs, rejected_before) > 0

    def _run_case(self, entry: Entry, after_case: ExpectedTime) -> None:
        """Run blocks of a case until it is decided. Raises _CaseError.

        `after_case` is the expected time of the cases that follow it.
        """
        notes = []
        if layouts.is_to_be_chosen(entry):
            fastest = self._fastest_layout(entry, after_case)
            self.display.tell(f"{entry.name}: layout {fastest} is the fastest without writers")
            others = [layout for layout in self.request.layouts_of(entry) if layout != fastest]
            notes = [Note.LAYOUT(layout=fastest, others=", ".join(others))] if others else []
            entry = layouts.with_layout(entry, fastest)
        self._read_unread_blocks(entry, self.interrupts)
        state = self._state(entry)
        rejected_before = self.rejected_before.setdefault(entry.name, state.rejected_pairs)
        while pairs := state.pairs_to_measure(self.campaign.pairs, rejected_before):
            rest_of_case = self._expected_from(entry, state.pairs + pairs)
            after_block = expected_total([rest_of_case, after_case])
            self._run_block(entry, state.next_block_index, pairs, after_block, notes)
            previous, state = state, self._state(entry)
            if (state.pairs, state.rejected_pairs) == (previous.pairs, previous.rejected_pairs):
                logs = logs_of(self.run, entry, state.next_block_index - 1)
                reason = state.last_reason or f"no run was started; see {logs}"
                raise _CaseError(f"block {previous.next_block_index} added no pair: {reason}")
        if not state.pairs_without_control:
            raise _CaseError(
                f"no pair was accepted: {state.last_reason}; the same command tries as many again"
            )

    def _fastest_layout(self, entry: Entry, after_case: ExpectedTime) -> str:
        """Return the fastest layout of a case. Raises _CaseError.

        If a layout has too few accepted runs, all layouts of the case are measured first.
        """
        search = self.request.search(entry)
        (search_entry,) = search.campaign.cases
        treatments = search.treatments[search_entry.name]
        if layout := layouts.fastest(self.run, search_entry, treatments):
            return layout
        samples = _samples_of(self.run, search_entry.name)
        block = _next_block_index(self.run, search_entry.name, samples)
        after_search = self._expected_from(entry, self._state(entry).pairs)
        after_block = expected_total([after_search, after_case])
        try:
            with closing(replace(self, request=search)) as search_runner:
                search_runner._run_block(search_entry, block, layouts.RUNS_PER_LAYOUT, after_block)
        except _CaseError as error:
            raise _CaseError(f"{search_entry.name}: {error}") from None
        layout = layouts.fastest(self.run, search_entry, treatments)
        if layout is None:
            reasons = layouts.short_of_runs(self.run, search_entry, treatments)
            short = "; ".join(f"{name} ({reason})" for name, reason in reasons.items())
            few = f"fewer than {layouts.RUNS_PER_LAYOUT} accepted runs of the layouts {short}"
            raise _CaseError(f"{search_entry.name}: {few}; set a layout instead of 'auto'")
        return layout

    def _run_block(
        self,
        entry: Entry,
        block: int,
        pairs: int,
        after_block: ExpectedTime,
        notes: Sequence[str] = (),
    ) -> None:
        """Run a block, then have a third-party check read its runs. Raises _CaseError."""
        try:
            self._measure_block(entry, block, pairs, after_block, notes)
        except Stopped:
            with Interrupts() as reading_interrupts:
                self._try_to_read(entry, reading_interrupts)
            raise
        except (_CaseError, SilentError):
            self._try_to_read(entry, self.interrupts)
            raise
        self._read_unread_blocks(entry, self.interrupts)

    def _measure_block(
        self, entry: Entry, block: int, pairs: int, after_block: ExpectedTime, notes: Sequence[str]
    ) -> None:
        """Run the ReFrame session of a block. Raises _CaseError."""
        # If the user has renamed the run's folder, `mkdir` would make it again under its old name.
        require_folder(self.run)
        logs = logs_of(self.run, entry, block)
        logs.mkdir(parents=True, exist_ok=True)
        treatments = self.request.treatments[entry.name]
        plan = block_plan(self.request, entry, block, pairs, self.run, seed=self.seed)
        folder = load_call(self.run, self.campaign.name).folder
        notes = [*plan.notes, *notes, *self._concurrency_notes()]
        plan = replace(plan, notes=notes, folder=str(folder or ""))
        plan.save(logs / PLAN_FILE)
        samples = self.run / "samples" / f"{entry.name}.jsonl"
        # A run of a third-party check becomes a sample only after the check has read its figures.
        # So the progress of such a block counts the runs that are listed as unread.
        ended_runs = logs / UNREAD_FILE if self.request.check(entry).file else samples
        counter = RunCounter(
            after_block=after_block,
            block_runs=entry.warmups + pairs * len(treatments),
            block_s=block_length_s(self.request, entry, treatments, pairs),
            run_s=run_length_s(self.request, entry, treatments),
            started_s=time.monotonic(),
            earlier_pace=self.paces[-1],
        )
        tick = self._tick(
            f"{entry.name}, block {block}",
            logs,
            NewSamples(ended_runs),
            NewSamples(samples),
            counter,
        )
        tick()
        log = logs / "reframe.log"
        self.display.detail(f"{entry.name}, block {block}: ReFrame's output is in {log}")
        status = None
        try:
            session_command = self._session_command(entry, block, PLAN_FILE)
            status = run_session(session_command, self.run, log, self.interrupts, tick)
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
            if reason.startswith(_REFUSAL_PREFIX):
                remedy = parse.refusal_remedy(reason)
            else:
                remedy = remedy_of_block(
                    reason, self.request.machine, in_jobs=self.request.uses_slurm
                )
            raise _CaseError(f"{reason}: {remedy}" if remedy else reason)

    def _session_command(self, entry: Entry, block: int, plan_file: str) -> list[str]:
        """Return ReFrame's command for a block; `plan_file` is the block's plan in its folder."""
        _, *arguments = reframe_command(self.request, entry, block, str(self.run), plan_file)
        head = walk_run(self.run).head
        return [self.reframe, *arguments, f"--session-extras=nimc_head={head}"]

    # A third-party check reads the figures of its runs itself, after their block has ended.

    def _unread_blocks(self, entry: Entry) -> list[int]:
        """Return the indices of the blocks of which the check has not read all runs."""
        unread = (self.run / "logs" / entry.name).glob(f"*/{UNREAD_FILE}")
        return sorted(int(path.parent.name) for path in unread)

    def _read_unread_blocks(self, entry: Entry, interrupts: Interrupts) -> None:
        """Have the check read its unread runs.

        Raises _CaseError if the check cannot read them, and Stopped on a signal.
        """
        for block in self._unread_blocks(entry):
            logs = logs_of(self.run, entry, block)
            replace(BlockPlan.load(logs / PLAN_FILE), pairs=0).save(logs / READING_PLAN_FILE)
            log = logs / "reading.log"
            self.display.tell(f"{entry.name}, block {block}: the check reads its runs")
            session_command = self._session_command(entry, block, READING_PLAN_FILE)
            run_session(session_command, self.run, log, interrupts, lambda: None)
            if not is_read(logs):
                why = _last_error(log)
                raise _CaseError(f"the check has not read the runs of block {block}: {why}")

    def _try_to_read(self, entry: Entry, interrupts: Interrupts) -> None:
        """Have the check read its unread runs after a failure.

        If the check cannot read them, the reason is printed and no error is raised.
        """
        try:
            self._read_unread_blocks(entry, interrupts)
        except (_CaseError, Stopped) as error:
            self.display.tell(f"{entry.name}: {error}; the next session reads them")

    def _concurrency_notes(self) -> list[str]:
        """Return notes on other runs on this host, and print a note if it names a new run.

        Returns an empty list if Slurm runs the jobs.
        """
        runs = [] if self.request.uses_slurm else concurrent_runs(self.run)
        if not runs:
            return []
        note = Note.CONCURRENT_RUN(run=", ".join(runs))
        if not self.announced_runs.issuperset(runs):
            self.announced_runs.update(runs)
            self.display.tell(f"{note}; {Note.CONCURRENT_RUN.remedy}")
        return [note]

    def _tick(
        self,
        block_name: str,
        logs: Path,
        ended_runs: NewSamples,
        samples: NewSamples,
        counter: RunCounter,
    ) -> Callable[[], None]:
        """Return the function that is called once a second during a block.

        It counts runs, shows progress, and watches the jobs in Slurm.
        """
        if self.slurm_watch:
            self.slurm_watch.next_block()

        def tick() -> None:
            require_folder(self.run)
            now_s = time.monotonic()
            for run in ended_runs.new():
                counter.add(run, now_s)
            for sample in samples.new():
                self.display.tell_run(sample)
            if self.slurm_watch:
                pending = self.slurm_watch.pending
                counter.wait(pending.line if pending else "", now_s)
            self.display.show(block_name, counter, now_s)
            if self.slurm_watch:
                runs_done, figures_read = is_done(logs), is_read(logs)
                begun = (logs / AGENTS_LOG).exists()
                self.slurm_watch.check(
                    now_s,
                    begun=begun,
                    finished=runs_done and figures_read,
                    reading=runs_done and not figures_read,
                )

        return tick

    def _end_jobs(self) -> None:
        """Cancel jobs that ReFrame may have left."""
        if self.slurm_watch:
            end_jobs(self.run, self.slurm_watch.jobs, self.display.tell)

    def _state(self, entry: Entry) -> CaseState:
        names = [
            treatment.name
            for treatment in self.request.treatments[entry.name]
            if treatment.baseline is not None
        ]
        return case_state(self.run, entry.name, names, self.stopping_rule)

    @cached_property
    def stopping_rule(self) -> StoppingRule:
        """Return the rule that decides whether a case has enough pairs."""
        from analysis.effects.estimate import StoppingRule

        pairs = self.campaign.pairs
        hypotheses = frozenset(
            (case.name, treatment.name)
            for case in self.campaign.cases
            for treatment in self.request.treatments[case.name]
        )
        return StoppingRule(
            pairs.floor, pairs.maximum, pairs.precision, self.campaign.margin, hypotheses
        )

    def least_time_s(self) -> float:
        """Return the least time that the campaign is expected to take from now on, seconds."""
        return expected_total(map(self.expected, self._cases)).least_s

    def expected(self, entry: Entry) -> ExpectedTime:
        """Return how long a case is expected to take from now on."""
        state = self._state(entry)
        if state.done:
            return ExpectedTime(0.0, 0.0)
        search_s = search_length_s(self.request, entry) if self._needs_search(entry) else 0.0
        blocks = self._expected_from(entry, state.pairs)
        return ExpectedTime(search_s + blocks.least_s, search_s + blocks.most_s)

    def _needs_search(self, entry: Entry) -> bool:
        """Return whether the layouts of a case must be compared before the case is measured."""
        search = self.request.searches.get(entry.name)
        if search is None:
            return False
        (search_entry,) = search.campaign.cases
        treatments = search.treatments[search_entry.name]
        return layouts.fastest(self.run, search_entry, treatments) is None

    def _expected_from(self, entry: Entry, complete_pairs: int) -> ExpectedTime:
        """Return the expected time of the blocks after `complete_pairs` of an undecided case."""
        pairs, treatments = self.campaign.pairs, self.request.treatments[entry.name]
        sizes = block_sizes(pairs, complete_pairs)
        length_s_by_size = block_lengths_s(self.request, entry, treatments, {*sizes})
        least_s = most_s = 0.0
        for size in sizes:
            if complete_pairs < pairs.floor:
                least_s += length_s_by_size[size]
            most_s += length_s_by_size[size]
            complete_pairs += size
        return ExpectedTime(least_s, most_s)
