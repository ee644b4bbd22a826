"""One run of the application under its treatment, and its sample."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from conductor import allocation, application
from conductor.allocation import Allocation
from conductor.application import Files, RunResult
from conductor.evidence import claims, disturbance
from conductor.evidence.claims import Count, Looked, Placed
from conductor.evidence.rates import (
    OF_CONTROL,
    Judgement,
    achieved,
    at_speed,
    expected,
    judge,
    most_of,
    rate_before,
)
from conductor.hub import Hub, WriterState
from conductor.injectors import INJECTORS
from conductor.injectors.base import PASSES, Injector
from conductor.observation import Observation, Observer
from conductor.readers import Readers, ToolError
from conductor.timetable import ANYTHING, Follows, ScheduleControl
from records import clock
from records.machine.node_counters import NodeCounter
from records.notes import Note
from records.plan import BlockPlan
from records.run_folder import stem_of
from records.sample import (
    NODE,
    ORIGIN,
    PROCESSING,
    CounterRow,
    Level,
    NodeConditions,
    Sample,
    WriterRecord,
)
from records.timetable import without_writers
from records.treatment import Treatment, Writes

#: The lead-in as a multiple of the longest time needed, so that a slightly slower start-up fits.
_LEAD_IN_MARGIN = 1.05
#: A start that takes this many times as long as the next slowest of the same writes was delayed. It
#: counts if there is another: one delay must not lengthen all later runs of the block.
_DELAYED = 2.0


class LeadIn:
    """The time from the end of one application to the start of the next, the same before every run.

    It is the longest that any kind of writes needs: without waiting, the processor would rest
    longer before runs with writers, which start and stop, than before others. Times are those of
    `clock.now_s`.
    """

    def __init__(self) -> None:
        self._needed_s: dict[Writes, list[float]] = {}
        self._ended_s: float | None = None

    @property
    def longest_s(self) -> float:
        """The lead-in of the next run, at least."""
        return _LEAD_IN_MARGIN * max(map(_usual, self._needed_s.values()), default=0.0)

    def expect(self, writes: Writes, needed_s: float) -> None:
        """Note what writers needed, or will need."""
        self._needed_s.setdefault(writes, []).append(needed_s)

    def left_s(self, now_s: float, writes: Writes | None = None) -> float:
        """How long a run that is ready at `now_s` must wait; 0 for the first of the block."""
        if self._ended_s is None:
            return 0.0
        needed_s = now_s - self._ended_s
        if writes is not None:
            self.expect(writes, needed_s)
        return max(self.longest_s - needed_s, 0.0)

    def of(self, start_s: float) -> float | None:
        """The lead-in of an application that started at `start_s`; None for the block's first."""
        return None if self._ended_s is None else start_s - self._ended_s

    def ended(self, at_s: float) -> None:
        """The application has ended, or the run has, if its application never started."""
        self._ended_s = at_s


def _usual(needed_s: Iterable[float]) -> float:
    """The longest, or the second longest if the longest was delayed."""
    *_, second_s, longest_s = (0.0, *sorted(needed_s))
    return second_s if 0.0 < _DELAYED * second_s <= longest_s else longest_s


@dataclass(frozen=True)
class Run:
    """The run to make; see `records.sample.Sample` for the fields."""

    treatment: Treatment
    pair: int
    position: int
    attempt: int
    warmup: bool = False


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


def writer_record(
    injector: Injector,
    state: WriterState,
    alone_b_s: float,
    seen: Judgement,
    window_s: tuple[float, float],
) -> WriterRecord:
    """What one writer did in the window; `alone_b_s` is its rate without an application."""
    writer, factor = state.writer, 1.0 if injector.writes else 0.0
    limiter = "agent" if injector.paced_by == "agent" else writer.limiter
    return WriterRecord(
        injector=injector.name,
        direction=injector.direction,
        origin=writer.origin,
        target=writer.target,
        transport=state.transport or injector.transport(writer),
        message_b=writer.message_b if injector.writes else 0,
        asked_b_s=writer.rate_b_s,
        limited_by=None if writer.rate_b_s is None else limiter,
        rate_alone_b_s=factor * alone_b_s,
        rate_b_s=factor * seen.rate_b_s,
        rate_min_b_s=factor * seen.rate_min_b_s,
        bytes_b=factor * seen.bytes_b,
        buffer_node=writer.buffer_node,
        observed_share=seen.observed_share,
        unobserved_s=seen.unobserved_s,
        cpu_share=None if injector.writes else seen.rate_b_s,
        rate_before_b_s=rate_before(state.seen, window_s[0]) if injector.writes else None,
        burst=achieved(writer.burst, state.seen, *window_s) if writer.burst else None,
    )


def node_rows(
    nodes: Allocation, counters: Mapping[str, Mapping[str, NodeCounter]]
) -> list[dict[str, Any]]:
    """The counts of nodes as JSON, one row per node and counter; `rank` is the node's index.

    Of origins that are not targets, only the processor time that writing may take.
    """
    return [
        {"tool": tool, **asdict(CounterRow(index, name, counter.value, counter.unit))}
        for tool, names in ((NODE, nodes.targets), (ORIGIN, nodes.origins))
        for index, node in enumerate(names)
        if tool == NODE or node not in nodes.targets
        for name, counter in counters.get(node, {}).items()
        if tool == NODE or name in PROCESSING
    ]


def unreserved(factors: Mapping[str, Level], conditions: Sequence[NodeConditions]) -> Iterator[str]:
    """A note if cores were to be left free, and the application may run on all CPUs all the same.

    Launchers of other hosts than this one bind as they are configured.
    """
    full = [each.node for each in conditions if each.free_cpus == ""]
    if factors.get("reserved_cores") and full:
        yield Note.UNBOUND(nodes=", ".join(full))


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
        self._turn = 0
        self._longest_s = 0.0
        self.lead_in = LeadIn()
        self.schedules = {
            each.writes: ScheduleControl(plan, each.writes, nodes, hub)
            for each in plan.treatments
            if each.writes and each.writes.scheduled
        }
        self.observer = Observer(plan, nodes, hub)
        #: The writers that are held, and the number of each kind of writes.
        self._held: dict[Writes, list[WriterState]] = {}
        self._kinds: dict[Writes, int] = {}
        #: Whether the run's writers were started for it.
        self._restarted = False
        #: Rate alone of each writer, bytes per second (of a control 0: none is required).
        self.alone: dict[Writes, list[float]] = {}
        #: Whose rate alone was disturbed when it was measured, as their later rates show.
        self.disturbed_alone: set[Writes] = set()
        #: Target -> bytes that its device counted during that measurement.
        self.counted_alone: dict[Writes, dict[str, Count]] = {}
        #: Time from one row to the next of the slowest writer; 0 if none reports rows.
        self.row_s = 0.0
        #: How often the length of the check's runs is doubled.
        self.doublings = 0

    def next_turn(self) -> int:
        """Running number of the starts of writers."""
        self._turn += 1
        return self._turn

    async def start_writers(self, writes: Writes) -> list[WriterState]:
        """Resume the writers of one kind of writes if they are held, else start them."""
        states = self._held.pop(writes, None)
        if states and not any(state.ended for state in states):
            self._hub.resume(states)
            return states
        if states:
            await self._hub.stop(states)
        self._restarted = True
        full = self.alone.get(writes.at_full_rate())
        turn, addresses = self.next_turn(), self._hub.addresses
        kind = self._kinds.setdefault(writes, len(self._kinds))
        writers = allocation.assign(self._plan, writes, self._nodes, addresses, turn, full, kind)
        timeout_s = self._plan.demand.ready_timeout_s
        return await self._hub.start(INJECTORS[writes.injector], writers, self._logs, timeout_s)

    async def silence(self, writes: Writes, states: list[WriterState]) -> list[Placed]:
        """Hold the writers until their next run, or stop them; returns where their buffers are.

        Of several kinds of writes those are held whose buffers fit into memory together.
        """
        if any(state.ended for state in states) or not self.holds(writes):
            placed = await self._hub.stop(states)
        else:
            placed = await self._hub.hold(states)
            self._held[writes] = states
        return [replace(end, writer=_position(states, end.writer)) for end in placed]

    def holds(self, writes: Writes) -> bool:
        """Whether the writers of one kind of writes are held between runs."""
        planned = [each.writes for each in self._plan.treatments]
        return writes in planned and self._why_not_held(writes) is None

    def _why_not_held(self, writes: Writes) -> str | None:
        """Why writers cannot be held between runs, in a few words; None if they can."""
        if INJECTORS[writes.injector].holds == "never":
            return f"{writes.injector} cannot be held between runs"
        kinds = [*self._held, writes]
        fit = allocation.fit(self._plan, kinds, self._nodes, self._hub.facts)
        return None if fit else allocation.UNFIT

    async def measure(self, run: Run) -> MeasuredRun:
        """One run, until its application has ended and its writers are held or stopped."""
        writes, result = run.treatment.writes, RunResult(start_s=clock.now_s())
        self._restarted = False
        records: list[WriterRecord] = []
        if writes is None:
            await self._lead_in()
            await self._application(run, result, [])
        elif writes.scheduled is not None:
            records = await self._under_timetable(run, writes, result)
        else:
            records = await self._under_writers(run, writes, result)
        if not result.elapsed_s:
            self.lead_in.ended(clock.now_s())
        # In a thread, since a tool may take seconds to gather its files.
        counters = await asyncio.to_thread(self._counters, run, result)
        if self.doublings:
            longer = Note.LENGTHENED(variable=self._plan.lengthened_by, times=2**self.doublings)
            result.notes = [*result.notes, longer]
        if result.outcome == "kept":
            self.observer.accepted.append(result.conditions)
        return self._recorded(run, result, records, counters)

    async def _under_writers(
        self, run: Run, writes: Writes, result: RunResult
    ) -> list[WriterRecord]:
        states = await self._writers_at_speed(writes, result)
        counts: dict[str, Count] = {}
        looked: dict[int, Looked] = {}
        follows: Follows | None = None
        if result.outcome == "kept":
            if writes.replay:
                window = self._plan.windows[run.pair]
                alone, targets = self.alone[writes], self._nodes.targets
                follows = Follows(writes.replay, window, targets, self._hub, states, alone)
            seen = await self._application(run, result, states)
            counts, looked = self.counted(writes, seen), seen.looked
            if follows:
                follows.end()
                looked = {index: replace(each, silent_s=0.0) for index, each in looked.items()}
            await self._last_rows(states, result)
        ends = await self.silence(writes, states)
        looked = {_position(states, index): each for index, each in looked.items()}
        judged = self._judge(writes, states, result, follows)
        records = claims.attach(judged, counts, self.counted_alone.get(writes))
        records = self._prove(records, looked, result)
        records = claims.with_placement(records, ends)
        if fault := claims.misplaced(records):
            result.fail("rejected", fault)
        return records

    async def _under_timetable(
        self, run: Run, writes: Writes, result: RunResult
    ) -> list[WriterRecord]:
        """The application under short writes; without writers if the number of writers is 0."""
        assert self._plan.short
        if not writes.scheduled:
            result.timetable = without_writers(self._plan.short)
            nodes = len(self._nodes.targets)
            result.notes = [Note.WITHOUT_WRITERS(treatment=run.treatment.name, nodes=nodes)]
            await self._lead_in()
            await self._application(run, result, [])
            return []
        schedule = self.schedules[writes]
        most_s = self._plan.demand.run_timeout_s
        run_s = min(_ROOM * self._longest_s or most_s, most_s) + self.lead_in.longest_s
        name = f"{run.pair}/{run.treatment.name}"
        begun = await schedule.begin(run_s, name, self.next_turn(), self._logs)
        if isinstance(begun, str):
            result.fail("injector_never_ready", begun)
            return []
        await self._lead_in(writes)
        counts = self.counted(writes, await self._application(run, result, []))
        path = self._files(run).out.with_suffix(".writes.json")
        result.timetable, writers, reason = await schedule.end(begun, result.window_s, path)
        if reason:
            result.fail("rejected", reason)
        records = claims.attach(writers, claims.with_total(counts, self._nodes.targets))
        return self._prove(records, {}, result)

    async def _writers_at_speed(self, writes: Writes, result: RunResult) -> list[WriterState]:
        demand, alone = self._plan.demand, self.alone[writes]
        # What was counted since a held writer went on stands for one row, but not for several.
        counted = demand.ready_rows == 1 or not INJECTORS[writes.injector].writes
        states = await self.start_writers(writes)
        if self._restarted and (why := self._why_not_held(writes)):
            result.notes = [*result.notes, f"writers were started for this run: {why}"]

        def is_ready(state: WriterState, alone_b_s: float) -> bool:
            rows = state.seen if counted else state.rows
            needed_b_s = expected(alone_b_s, state.writer.rate_b_s).rate_b_s
            return len(rows) >= demand.ready_rows and at_speed(rows, needed_b_s, demand.min_share)

        def ready() -> bool:
            return any(state.ended for state in states) or all(map(is_ready, states, alone))

        in_time = await self._hub.wait_for(ready, demand.ready_timeout_s)
        for state in states:
            if state.ended:
                result.fail("injector_never_ready", f"writer {state.number}: {state.ended}")
        if not in_time:
            silent = any(state.until_s is None for state in states)
            result.fail(
                "injector_never_ready" if silent else "rejected",
                f"not at speed within {demand.ready_timeout_s:.0f} s",
            )
        if result.outcome == "kept":
            await self._lead_in(writes, states)
        return states

    async def _lead_in(
        self, writes: Writes | None = None, states: Sequence[WriterState] = ()
    ) -> None:
        """Wait as long as the run's lead-in requires; writers write meanwhile.

        Ends early if one of them dies: the run then ends as it does if one dies later.
        """
        # A restart is no reason to wait for as long before all later runs.
        usual = None if writes is None or (self._restarted and self.holds(writes)) else writes
        left_s = self.lead_in.left_s(clock.now_s(), usual)
        await self._hub.wait_for(lambda: any(state.ended for state in states), left_s)

    async def _application(
        self, run: Run, result: RunResult, states: list[WriterState]
    ) -> Observation:
        """Run the application, observed; the run is rejected if it was disturbed."""
        targets, start = self._nodes.targets, run.treatment.start_of(self.doublings)
        values = {
            "{targets}": ",".join(targets),
            "{n_targets}": str(len(targets)),
            "{slots}": ",".join(f"{node}:{start.ranks_per_node}" for node in targets),
        }
        timeout_s = self._plan.demand.run_timeout_s
        await self.observer.begin(start.cpus)
        await application.run(start, values, self._files(run), result, self._hub, states, timeout_s)
        seen = await self.observer.end()
        result.conditions, result.node_counters = seen.conditions, seen.counters
        result.lead_in_s = self.lead_in.of(result.start_s)
        self.lead_in.ended(result.window_s[1])
        self._longest_s = max(self._longest_s, result.elapsed_s)
        application.read_fom(start, self._files(run), result, self._readers)
        if fault := self.observer.fault(seen, run.treatment, self._alone_b_s()):
            result.fail("rejected", fault)
        return seen

    def _alone_b_s(self) -> float:
        """The highest rate of all writers of a treatment together, without an application."""
        writing = [
            rates for writes, rates in self.alone.items() if INJECTORS[writes.injector].writes
        ]
        scheduled = [[each.alone_b_s] for each in self.schedules.values()]
        return max(map(sum, [*writing, *scheduled]), default=0.0)

    def _counters(self, run: Run, result: RunResult) -> list[dict[str, Any]]:
        """What the treatment's tool counted; the run is rejected if counters are missing."""
        start = run.treatment.start
        if start.tool is None or result.outcome != "kept":
            return []
        try:
            found = self._readers.counters(start.tool, self._files(run).counters, start.ranks or 1)
        except ToolError as error:
            result.fail("rejected", f"{start.tool}: {error}")
            return []
        return [{"tool": start.tool, **asdict(row)} for row in found]

    async def _last_rows(self, states: list[WriterState], result: RunResult) -> None:
        """Wait for the rows that cover the end of the window."""
        _, end_s = result.window_s

        def is_covered(state: WriterState) -> bool:
            return bool(state.ended or (state.until_s or 0.0) >= end_s)

        if result.outcome in ("kept", "rejected"):
            await self._hub.wait_for(lambda: all(map(is_covered, states)), _LAST_ROWS_S)
            for state in states:
                if state.ended and (state.until_s or 0.0) < end_s:
                    result.fail("injector_died", f"writer {state.number}: {state.ended}")

    def _judge(
        self,
        writes: Writes,
        states: list[WriterState],
        result: RunResult,
        follows: Follows | None = None,
    ) -> list[WriterRecord]:
        """What each writer did in the window; the run is rejected if one did not keep its rate.

        One that follows traffic must do that instead.
        """
        demand, injector, records = self._plan.demand, INJECTORS[writes.injector], []
        for state, alone_b_s in zip(states, self.alone[writes], strict=True):
            writer, window_s = state.writer, result.window_s
            required = expected(alone_b_s, writer.rate_b_s) if injector.writes else OF_CONTROL
            limit = writer.rate_b_s if injector.writes and not follows else None
            seen = judge(
                state.seen,
                *window_s,
                ANYTHING if follows else required,
                demand.min_share,
                state.row_s,
                demand.late_rows,
                state.tallies,
                demand.max_share,
                most_of(limit, writer.message_b, window_s[1] - window_s[0], writer.burst),
            )
            if seen.reason:
                who = "writer" if injector.writes else "control"
                result.fail("rejected", f"{who} {state.number} {seen.reason}")
            if seen.beyond_alone:
                self.disturbed_alone.add(writes)
            record = writer_record(injector, state, alone_b_s, seen, window_s)
            if follows:
                replay, fault = follows.of(state, alone_b_s, window_s)
                record = replace(record, replay=replay)
                if fault:
                    result.fail("rejected", f"writer {state.number} {fault}")
            records.append(record)
        return records

    def counted(self, writes: Writes, seen: Observation) -> dict[str, Count]:
        """Target -> bytes that its devices counted; empty if the writes pass none."""
        return seen.counts[PASSES[INJECTORS[writes.injector].direction][1]]

    def _prove(
        self, records: list[WriterRecord], looked: dict[int, Looked], result: RunResult
    ) -> list[WriterRecord]:
        """The records with their proof; the run is rejected if something refutes them."""
        alone = len(self._nodes.targets) == 1
        if fault := claims.refuted(records, looked, self._plan.demand, alone):
            result.fail("rejected", fault)
        records = claims.with_proof(records, looked)
        if result.outcome == "kept" and (note := claims.unproven(records, looked)):
            result.notes = [*result.notes, note]
        return records

    def _recorded(
        self,
        run: Run,
        result: RunResult,
        writers: list[WriterRecord],
        counters: Sequence[dict[str, Any]],
    ) -> MeasuredRun:
        """The sample of a run, the counts of its tool and nodes with its key, and its output."""
        plan, fom, treatment = self._plan, result.fom, run.treatment
        if result.outcome == "kept":
            counters = [*counters, *node_rows(self._nodes, result.node_counters)]
        key = f"{plan.case}/{plan.block}/{run.pair}/{treatment.name}/{run.attempt}"
        # What a check of others reads after the block is kept then.
        output = self._files(run).out
        outputs = [output] if self._readers.fom is not None and output.exists() else []
        sample = Sample(
            key=key,
            case=plan.case,
            workload=plan.workload,
            arm=treatment.name,
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
            fom_unit=(fom and fom.unit) or self._readers.unit,
            fom_better=(fom and fom.better) or self._readers.better,
            nodes=self._nodes.targets,
            origin_nodes=self._nodes.origins,
            provenance=self._provenance,
            seed=plan.seed,
            fom_extra=fom.extra if fom else {},
            writers=writers,
            timetable=result.timetable,
            notes=[
                *plan.notes,
                *treatment.notes,
                *result.notes,
                *unreserved(treatment.factors, result.conditions),
                *filter(None, [disturbance.unjudged(plan.demand)]),
            ],
            role=treatment.role,
            baseline=treatment.baseline,
            factors=treatment.factors,
            lead_in_s=result.lead_in_s,
            conditions=result.conditions,
        )
        return MeasuredRun(sample, [{"key": key, **row} for row in counters], outputs)

    def _files(self, run: Run) -> Files:
        name, logs = stem_of(run.pair, run.treatment.name, run.attempt), self._logs
        return Files(logs / f"{name}.out", logs / f"{name}.err", logs / "counters" / name)


def _position(states: Sequence[WriterState], index: int) -> int:
    """Which of the writers of one kind has an index."""
    return index - states[0].writer.index
