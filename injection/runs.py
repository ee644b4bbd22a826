"""One run of the application with its arm's writers, and the sample that comes of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from analysis.sample import Outcome, Sample, TimetableRecord, WriterRecord
from injection import allocation, processes
from injection.allocation import Allocation
from injection.evidence import binding, claims
from injection.evidence.claims import Count
from injection.evidence.rates import at_speed, judge
from injection.fom import Fom, FomError, require_ranks
from injection.hub import Hub, WriterState
from injection.injectors import INJECTORS
from injection.injectors.base import PASSES, Injector
from injection.plan import BlockPlan
from injection.schedule import short_writes
from injection.schedule.conductor_side import ScheduleControl
from reframe_tests.workloads import WORKLOADS

#: A timetable is made for a run so many times as long as the longest of the block so far.
_ROOM = 10.0
#: How long the rows that cover the end of the window are waited for, seconds: an emulated
#: processor may print a row of one second several seconds late.
_LAST_ROWS_S = 10.0
#: How much of a program's error output is quoted, characters.
_QUOTE = 200


@dataclass(frozen=True)
class Run:
    """What is to be run; see `analysis.sample.Sample` for the words."""

    arm: str
    pair: int
    position: int
    attempt: int
    warmup: bool = False

    def again(self, attempt: int) -> Run:
        """The same run, repeated."""
        return replace(self, attempt=attempt)


@dataclass
class _Result:
    """What became of the run so far."""

    outcome: Outcome = "kept"
    reason: str | None = None
    start_s: float = 0.0
    elapsed_s: float = 0.0
    fom: Fom | None = None
    timetable: TimetableRecord | None = None
    notes: list[str] = field(default_factory=list)

    def fail(self, outcome: Outcome, reason: str) -> None:
        """Record the first failure; what follows from it is not told."""
        if self.outcome == "kept":
            self.outcome, self.reason = outcome, reason


class BlockRunner:
    """Measures runs of one block."""

    def __init__(
        self, plan: BlockPlan, nodes: Allocation, hub: Hub, logs: Path, provenance: str
    ) -> None:
        self._plan = plan
        self._nodes = nodes
        self._hub = hub
        self._logs = logs
        self._provenance = provenance
        self._workload = WORKLOADS[plan.workload]
        self._turn = 0
        self._longest_s = 0.0
        self.timed = ScheduleControl(plan, plan.short, nodes, hub) if plan.short else None
        #: Arm -> rate alone of each of its writers, bytes per second (a control: share of a core).
        self.alone: dict[str, list[float]] = {}
        #: Arm -> target -> what its device counted meanwhile.
        self.counted_alone: dict[str, dict[str, Count]] = {}

    def next_turn(self) -> int:
        """Running number of the starts of writers."""
        self._turn += 1
        return self._turn

    async def measure(self, run: Run) -> Sample:
        """One run, from the start of its writers to the end of all."""
        name = self._plan.injector_of(run.arm)
        result = _Result(start_s=time.time())
        records: list[WriterRecord] = []
        if (count := self._plan.timed_writers(run.arm)) is not None:
            records = await self._under_timetable(run, count, result)
        elif name is None:
            await self._application(run, result, [])
        else:
            injector = INJECTORS[name]
            states = await self._writers_at_speed(run, injector, result)
            counts: dict[str, Count] = {}
            if result.outcome == "kept":
                before = await self.count(run.arm)
                await self._application(run, result, states)
                counts = claims.passed(before, await self.count(run.arm))
                await self._last_rows(states, result)
            ends = await self._hub.stop()
            records = claims.attach(
                self._judge(run, injector, states, result), counts, self.counted_alone.get(run.arm)
            )
            self._hold_against_counts(records, result)
            records = binding.attach(records, ends)
            if fault := binding.astray(records):
                result.fail("rejected", fault)
        return self._sample(run, result, records)

    async def _under_timetable(self, run: Run, count: int, result: _Result) -> list[WriterRecord]:
        """The application under short writes; where none are at work at a time, under nothing."""
        assert self.timed
        assert self._plan.short
        if count == 0:
            result.timetable = short_writes.nothing(self._plan.short)
            nodes = len(self._nodes.targets)
            result.notes = [
                f"{run.arm}: no writer at work at a time on {nodes} nodes; ran with none"
            ]
            await self._application(run, result, [])
            return []
        most_s = self._plan.demand.run_timeout_s
        run_s = min(_ROOM * self._longest_s or most_s, most_s)
        name = f"{run.pair}/{run.arm}"
        begun = await self.timed.begin(count, run_s, name, self.next_turn(), self._logs)
        if isinstance(begun, str):
            await self._hub.stop()
            result.fail("injector_never_ready", begun)
            return []
        before = await self.count(run.arm)
        await self._application(run, result, [])
        counts = claims.passed(before, await self.count(run.arm))
        window_s = (result.start_s, result.start_s + result.elapsed_s)
        path = self._logs / f"{run.pair}-{run.arm}-{run.attempt}.writes.json"
        seen = await self.timed.end(begun, window_s, path)
        result.timetable = seen.record
        if seen.reason:
            result.fail("rejected", seen.reason)
        records = claims.attach(seen.writers, claims.together(counts, self._nodes.targets))
        self._hold_against_counts(records, result)
        return records

    async def _writers_at_speed(
        self, run: Run, injector: Injector, result: _Result
    ) -> list[WriterState]:
        demand = self._plan.demand
        writers = allocation.assign(self._plan, self._nodes, self._hub.addresses, self.next_turn())
        states = await self._hub.start(injector, writers, self._logs, demand.ready_timeout_s)
        alone = self.alone[run.arm]

        def ready() -> bool:
            return any(state.ended for state in states) or all(
                at_speed(state.rows, rate, demand.min_share)
                for state, rate in zip(states, alone, strict=True)
            )

        in_time = await self._hub.wait_for(ready, demand.ready_timeout_s)
        for state in states:
            if state.ended:
                result.fail("injector_never_ready", f"writer {state.writer.index}: {state.ended}")
        if not in_time:
            silent = not all(state.rows for state in states)
            result.fail(
                "injector_never_ready" if silent else "rejected",
                f"not at speed within {demand.ready_timeout_s:.0f} s",
            )
        return states

    async def _application(self, run: Run, result: _Result, states: list[WriterState]) -> None:
        """Run the application; end it early when a writer dies, since it cannot count any more."""
        stem = self._logs / f"{run.pair}-{run.arm}-{run.attempt}"
        with stem.with_suffix(".out").open("wb") as out, stem.with_suffix(".err").open("wb") as err:
            result.start_s, began_s = time.time(), time.monotonic()
            try:
                process = await processes.spawn(
                    self._command(), self._plan.environment, self._plan.app_cpus, out, err
                )
            except OSError as error:
                result.fail("application_failed", f"{self._command()[0]}: {error.strerror}")
                return
            await self._until_end(process, states, result)
            result.elapsed_s = time.monotonic() - began_s
            self._longest_s = max(self._longest_s, result.elapsed_s)
            code = await processes.stop(process)
        if result.outcome == "kept" and code != 0:
            text = stem.with_suffix(".err").read_text(errors="replace").strip()
            result.fail(
                "application_failed", f"exit status {code}: {' '.join(text.split())[-_QUOTE:]}"
            )
        if result.outcome == "kept":
            try:
                told = self._workload.parse(stem.with_suffix(".out").read_text(errors="replace"))
                result.fom = require_ranks(told, self._plan.ranks)
            except FomError as error:
                result.fail("no_fom", str(error))

    async def _until_end(
        self, process: asyncio.subprocess.Process, states: list[WriterState], result: _Result
    ) -> None:
        timeout_s = self._plan.demand.run_timeout_s
        end = asyncio.ensure_future(process.wait())
        death = asyncio.ensure_future(
            self._hub.wait_for(lambda: any(state.ended for state in states), timeout_s)
        )
        waiting: set[asyncio.Future[int] | asyncio.Future[bool]] = {end, death}
        done, _ = await asyncio.wait(
            waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
        )
        death.cancel()
        if end in done:
            return
        end.cancel()
        if death in done and death.exception() is not None:
            await death
        for state in states:
            if state.ended:
                result.fail("injector_died", f"writer {state.writer.index}: {state.ended}")
        result.fail("application_hung", f"no end within {timeout_s:g} s")

    async def _last_rows(self, states: list[WriterState], result: _Result) -> None:
        """Wait for the rows that cover the end of the window."""
        end_s = result.start_s + result.elapsed_s

        def covered() -> bool:
            return all(
                state.ended or (state.rows and state.rows[-1].end_s >= end_s) for state in states
            )

        if result.outcome == "kept":
            await self._hub.wait_for(covered, _LAST_ROWS_S)
            for state in states:
                if state.ended and state.rows[-1].end_s < end_s:
                    result.fail("injector_died", f"writer {state.writer.index}: {state.ended}")

    def _judge(
        self, run: Run, injector: Injector, states: list[WriterState], result: _Result
    ) -> list[WriterRecord]:
        """What each writer did in the window; the first that fell short rejects the run."""
        records = []
        demand = self._plan.demand
        end_s = result.start_s + result.elapsed_s
        for state, alone in zip(states, self.alone[run.arm], strict=True):
            seen = judge(
                state.rows,
                result.start_s,
                end_s,
                alone,
                demand.min_share,
                state.row_s,
                demand.late_rows,
            )
            if seen.reason:
                result.fail("rejected", f"writer {state.writer.index} {seen.reason}")
            writes = 1.0 if injector.writes else 0.0
            records.append(
                WriterRecord(
                    injector=injector.name,
                    direction=injector.direction,
                    origin=state.writer.origin,
                    target=state.writer.target,
                    transport=injector.transport(state.writer),
                    message_b=state.writer.message_b if injector.writes else 0,
                    asked_b_s=state.writer.rate_b_s,
                    rate_alone_b_s=writes * alone,
                    rate_b_s=writes * seen.rate_b_s,
                    rate_min_b_s=writes * seen.rate_min_b_s,
                    bytes_b=writes * seen.bytes_b,
                    buffer_node=state.writer.buffer_node,
                )
            )
        return records

    async def count(self, arm: str) -> claims.Readings:
        """What has passed the targets' devices so far; nothing where none is written over."""
        name = self._plan.injector_of(arm)
        if name is None or self._plan.device is None or self._plan.origin_policy == "same_host":
            return {}
        passed = PASSES[INJECTORS[name].direction][1]
        return await self._hub.count(self._nodes.targets, self._plan.device, passed)

    def _hold_against_counts(self, records: list[WriterRecord], result: _Result) -> None:
        if self._plan.origin_policy == "same_host":
            return
        if result.outcome == "kept" and (note := claims.unproven(records)):
            result.notes = [*result.notes, note]
        share = self._plan.demand.counter_share
        alone = len(self._nodes.targets) == 1
        if fault := claims.disagreement(records, share, alone):
            result.fail("rejected", fault)

    def _command(self) -> list[str]:
        targets = self._nodes.targets
        values = {
            "{targets}": ",".join(targets),
            "{n_targets}": str(len(targets)),
            "{slots}": ",".join(f"{node}:{self._plan.ranks_per_node}" for node in targets),
        }
        command = []
        for word in self._plan.command:
            for name, value in values.items():
                word = word.replace(name, value)
            command.append(word)
        return command

    def _sample(self, run: Run, result: _Result, records: list[WriterRecord]) -> Sample:
        plan = self._plan
        fom = result.fom
        return Sample(
            key=f"{plan.case}/{plan.block}/{run.pair}/{run.arm}/{run.attempt}",
            case=plan.case,
            workload=plan.workload,
            arm=run.arm,
            block=plan.block,
            pair=run.pair,
            position=run.position,
            attempt=run.attempt,
            warmup=run.warmup,
            outcome=result.outcome,
            reason=result.reason,
            start_s=result.start_s,
            elapsed_s=result.elapsed_s,
            fom=fom.value if fom else None,
            fom_unit=self._workload.unit,
            fom_better=self._workload.better,
            nodes=self._nodes.targets,
            origin_nodes=self._nodes.origins,
            provenance=self._provenance,
            seed=plan.seed,
            fom_extra=fom.extra if fom else {},
            writers=records,
            timetable=result.timetable,
            notes=[*plan.notes, *result.notes],
        )
