"""One run of the application under its treatment, and its sample."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from conductor import application, series
from conductor.allocation import Allocation
from conductor.application import Files, RunResult
from conductor.figures import bursts_of, conditions, unproven, writer_records
from conductor.hub import Hub, WriterState
from conductor.injectors import INJECTORS
from conductor.judge import faults, shows_disturbed_alone
from conductor.lead_in import LeadIn
from conductor.observer import Observation, Observer, rails_of, silent_directions, usual_hz
from conductor.rates import until_s
from conductor.readers import Readers, ToolError
from conductor.recorded import Run, node_rows, sample_of
from conductor.series import Series
from conductor.timetable import NotReadyError, ScheduleControl
from conductor.writers import Writers
from records import clock
from records.notes import Note
from records.plan import BlockPlan
from records.run_folder import stem_of
from records.sample import (
    NodeConditions,
    Sample,
    WriterRecord,
)
from records.timetable import without_writers
from records.treatment import Writes


class BlockError(Exception):
    """The block cannot continue. The message is one line."""

    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


@dataclass(frozen=True)
class MeasuredRun:
    """A sample, the rows (JSON) that were counted in its run, and the outputs that were read."""

    sample: Sample
    counters: list[dict[str, Any]]
    outputs: list[Path]


#: A timetable is planned for this many times the longest run of the block so far.
_ROOM = 10.0
#: Timeout for the rows that cover the end of the window, seconds: on an emulated processor a row
#: of one second may come several seconds late.
_LAST_ROWS_S = 10.0


class BlockRunner:
    """Measures the runs of one block."""

    def __init__(
        self,
        plan: BlockPlan,
        nodes: Allocation,
        hub: Hub,
        logs: Path,
        provenance: str,
        readers: Readers,
    ) -> None:
        self._plan = plan
        self._nodes = nodes
        self._hub = hub
        self._logs = logs
        self._readers = readers
        self._provenance = provenance
        self._longest_s = 0.0
        self.lead_in = LeadIn()
        self.writers = Writers(plan, nodes, hub, logs)
        self.schedules = {
            treatment.writes: ScheduleControl(plan, treatment.writes, nodes, hub)
            for treatment in plan.treatments
            if treatment.writes and treatment.writes.scheduled
        }
        self.observer = Observer(plan, nodes, hub)
        #: Conditions of the accepted runs.
        self._accepted: list[list[NodeConditions]] = []
        #: Whose rate alone was disturbed when it was measured, as their later rates show.
        self.disturbed_alone: set[Writes] = set()
        #: Time from one row to the next of the slowest writer; 0 if none reports rows.
        self.row_s = 0.0
        #: How often the length of the check's runs is doubled.
        self.doublings = 0
        #: How its runs ended, in their order.
        self.outcomes: list[str] = []

    async def measure(self, run: Run) -> MeasuredRun:
        """One run, until its application has ended and its writers are held or stopped."""
        writes, result = run.treatment.writes, RunResult(start_s=clock.now_s())
        self.writers.restarted = False
        if writes is None:
            recorded = await self._without_writers(run, result)
        elif writes.scheduled is not None:
            recorded = await self._under_timetable(run, writes, result)
        else:
            recorded = await self._under_writers(run, writes, result)
        if not result.elapsed_s:
            self.lead_in.ended(clock.now_s())
        records = self._judge(run, recorded, result)
        # In a thread, since a tool may take seconds to gather its files.
        counters = await asyncio.to_thread(self._counters, run, result)
        if self.doublings:
            longer = Note.LENGTHENED(variable=self._plan.lengthened_by, times=2**self.doublings)
            result.notes = [*result.notes, longer]
        if result.accepted:
            self._accepted.append(result.conditions)
        if result.elapsed_s:
            series.save(recorded, self._plan.demand, self._files(run).series)
        return self._recorded(run, result, records, counters)

    def _judge(self, run: Run, recorded: Series, result: RunResult) -> list[WriterRecord]:
        """What each writer did; the run is rejected if it does not count."""
        window_s, limits = result.window_s, self._plan.demand
        result.conditions = [conditions(node) for node in recorded.nodes]
        records = writer_records(recorded, window_s)
        result.timetable = result.timetable or bursts_of(recorded, window_s)
        if result.accepted and (reason := next(faults(recorded, window_s, limits), None)):
            result.fail("rejected", reason)
        if run.treatment.writes and shows_disturbed_alone(recorded, window_s, limits):
            self.disturbed_alone.add(run.treatment.writes)
        if result.accepted and (note := unproven(recorded, records)):
            result.notes = [*result.notes, note]
        return records

    async def _without_writers(self, run: Run, result: RunResult) -> Series:
        await self._lead_in()
        return self._series(run, await self._application(run, result, []))

    async def _under_writers(self, run: Run, writes: Writes, result: RunResult) -> Series:
        states = await self._writers_at_speed(writes, result)
        observed = Observation()
        if result.accepted:
            observed = await self._application(run, result, states)
            await self._last_rows(states, result)
        placed = await self.writers.silence(writes, states)
        writers = self.writers.series(writes, states, observed.meters, placed)
        return self._series(run, observed, writers=writers)

    async def _under_timetable(self, run: Run, writes: Writes, result: RunResult) -> Series:
        """The application under short writes; without writers if the number of writers is 0."""
        assert self._plan.short
        if not writes.scheduled:
            result.timetable = without_writers(self._plan.short)
            nodes = len(self._nodes.targets)
            result.notes = [Note.WITHOUT_WRITERS(treatment=run.treatment.name, nodes=nodes)]
            return await self._without_writers(run, result)
        schedule = self.schedules[writes]
        most_s = self._plan.demand.run_timeout_s
        run_s = min(_ROOM * self._longest_s or most_s, most_s) + self.lead_in.longest_s
        name, turn = f"{run.pair}/{run.treatment.name}", self.writers.next_turn()
        try:
            begun = await schedule.begin(run_s, name, turn, self._logs)
        except NotReadyError as error:
            result.fail("injector_never_ready", str(error))
            return Series()
        await self._lead_in(writes)
        observed = await self._application(run, result, [])
        path = self._files(run).out.with_suffix(".writes.json")
        result.timetable, claims, reason = await schedule.end(begun, result.window_s, path)
        return self._series(run, observed, claims=claims, off_plan=[reason] if reason else [])

    def _series(self, run: Run, observed: Observation, **of_writers: Any) -> Series:
        """What was recorded of a run, with what it is measured against."""
        return replace(
            observed.series,
            nodes=[
                replace(node, usual_hz=usual_hz(node.node, self._accepted))
                for node in observed.series.nodes
            ],
            silent=silent_directions(self._plan, run.treatment),
            alone_b_s=self._alone_b_s(),
            rails=rails_of(self._plan, run.treatment, self._nodes),
            **of_writers,
        )

    def _alone_b_s(self) -> float:
        """The highest rate of all writers of a treatment together, without an application."""
        writing = [
            rates
            for writes, rates in self.writers.alone.items()
            if INJECTORS[writes.injector].writes
        ]
        scheduled = [[schedule.alone_b_s] for schedule in self.schedules.values()]
        return max(map(sum, [*writing, *scheduled]), default=0.0)

    async def _writers_at_speed(self, writes: Writes, result: RunResult) -> list[WriterState]:
        timeout_s = self._plan.demand.ready_timeout_s
        states = await self.writers.start(writes)
        if self.writers.restarted and (why := self.writers.why_not_held(writes)):
            result.notes = [*result.notes, f"writers were started for this run: {why}"]
        in_time = await self._hub.wait_for(lambda: self.writers.at_speed(writes, states), timeout_s)
        for state in states:
            if state.ended:
                result.fail("injector_never_ready", f"writer {state.number}: {state.ended}")
        if not in_time:
            silent = any(until_s(state.series) is None for state in states)
            result.fail(
                "injector_never_ready" if silent else "rejected",
                f"not at speed within {timeout_s:.0f} s",
            )
        if result.accepted:
            await self._lead_in(writes, states)
        return states

    async def _lead_in(
        self, writes: Writes | None = None, states: Sequence[WriterState] = ()
    ) -> None:
        """Wait as long as the run's lead-in requires; writers write meanwhile.

        Ends early if one of them dies: the run then ends as it does if one dies later.
        """
        # A restart is no reason to wait for as long before all later runs.
        restarted = self.writers.restarted and writes and self.writers.holds(writes)
        left_s = self.lead_in.left_s(clock.now_s(), None if restarted else writes)
        await self._hub.wait_for(lambda: any(state.ended for state in states), left_s)

    async def _application(
        self, run: Run, result: RunResult, states: list[WriterState]
    ) -> Observation:
        """Run the application, observed, and read its output."""
        targets, start = self._nodes.targets, run.treatment.start_of(self.doublings)
        values = {
            "{targets}": ",".join(targets),
            "{n_targets}": str(len(targets)),
            "{slots}": ",".join(f"{node}:{start.ranks_per_node}" for node in targets),
        }
        timeout_s = self._plan.demand.run_timeout_s
        await self.observer.begin(start.cpus)
        await application.run(start, values, self._files(run), result, self._hub, states, timeout_s)
        observed = await self.observer.end()
        result.node_counters = observed.counters
        result.lead_in_s = self.lead_in.of(result.start_s)
        self.lead_in.ended(result.window_s[1])
        self._longest_s = max(self._longest_s, result.elapsed_s)
        application.read_fom(start, self._files(run), result, self._readers)
        return observed

    async def _last_rows(self, states: list[WriterState], result: RunResult) -> None:
        """Wait for the rows that cover the end of the window."""
        _, end_s = result.window_s

        def is_covered(state: WriterState) -> bool:
            return bool(state.ended or (until_s(state.series) or 0.0) >= end_s)

        if result.accepted:
            await self._hub.wait_for(lambda: all(map(is_covered, states)), _LAST_ROWS_S)
            for state in states:
                if state.ended and (until_s(state.series) or 0.0) < end_s:
                    result.fail("injector_died", f"writer {state.number}: {state.ended}")

    def _counters(self, run: Run, result: RunResult) -> list[dict[str, Any]]:
        """What the treatment's tool counted; the run is rejected if counters are missing."""
        start = run.treatment.start
        if start.tool is None or not result.accepted:
            return []
        try:
            rows = self._readers.counters(start.tool, self._files(run).counters, start.ranks or 1)
        except ToolError as error:
            result.fail("rejected", f"{start.tool}: {error}")
            return []
        return [{"tool": start.tool, **asdict(row)} for row in rows]

    def _recorded(
        self,
        run: Run,
        result: RunResult,
        writers: list[WriterRecord],
        counters: Sequence[dict[str, Any]],
    ) -> MeasuredRun:
        """The sample of a run, the counts of its tool and nodes with its key, and its outputs."""
        nodes, readers, files = self._nodes, self._readers, self._files(run)
        sample = sample_of(self._plan, nodes, run, result, writers, readers, self._provenance)
        if result.accepted:
            counters = [*counters, *node_rows(nodes, result.node_counters)]
        # What a check of others reads after the block is stored then.
        read_here = [files.out] if readers.fom is not None else []
        outputs = [path for path in (*read_here, files.series) if path.exists()]
        return MeasuredRun(sample, [{"key": sample.key, **row} for row in counters], outputs)

    def _files(self, run: Run) -> Files:
        name, logs = stem_of(run.pair, run.treatment.name, run.attempt), self._logs
        return Files(
            out=logs / f"{name}.out",
            err=logs / f"{name}.err",
            counters=logs / "counters" / name,
            series=logs / f"{name}{series.ENDING}",
        )
