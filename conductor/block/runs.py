"""Measures the runs of one block: starts writers and application, judges runs, makes samples.

A *rate row* is the rate that a writer reports for an interval. A *counter row* is one count of a
run, made by a tool or on a node. The *window* of a run is the time from the start to the end of the
application. The *lead-in* is the time from the end of one application to the start of the next; it
is the same before every run (`application.LeadIn`). The *rate alone* of a writer is its rate while
no application runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from math import fsum
from pathlib import Path
from statistics import fmean, median
from typing import Any

from conductor.block import application
from conductor.block.allocation import Allocation
from conductor.block.application import LeadIn, Run, RunFiles
from conductor.block.assignment import Assignment
from conductor.block.demands import Demands, is_control
from conductor.block.hub import Hub, WriterState
from conductor.block.observer import Observer, usual_hz
from conductor.block.readers import Readers, ToolError
from conductor.block.schedule import NotReadyError, ShortWriteSchedule
from conductor.block.writers import Writers
from conductor.counters import settling_s, slowest_period_s
from conductor.judge import length, series
from conductor.judge.judge import judge
from conductor.judge.rates import last_end_s
from conductor.judge.series import Series
from conductor.judge.short_writes import record_without_writers
from records import clock
from records.acceptance import DISTURBANCE_LIMITS, AcceptanceLimits
from records.block_plan import BlockPlan
from records.machine.node_counters import NodeCounter
from records.notes import Note
from records.run_folder import log_stem
from records.sample import (
    AVERAGED_UNITS,
    NODE_TOOL,
    ORIGIN_TOOL,
    TRAFFIC_CPU_TIMES,
    CounterRow,
    Level,
    NodeConditions,
    NodesRow,
    Sample,
)
from records.treatment import Writes
from records.units import plural

#: Length of a timetable, as a multiple of the block's longest run so far.
_TIMETABLE_RUNS = 10.0
#: Timeout for the rate rows that cover the end of the window, seconds. On an emulated processor, a
#: row of one second may come several seconds late.
_LAST_RATE_ROWS_TIMEOUT_S = 10.0
#: Up to this number of nodes, each node has counter rows of its own. With more nodes, these rows
#: would take more space than everything else that is stored about a run.
MAX_NODES_WITH_COUNTER_ROWS = 64


class BlockError(Exception):
    """The block cannot continue. The message is one line."""

    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


class BlockRunner:
    """Measures the runs of one block."""

    def __init__(
        self,
        plan: BlockPlan,
        allocation: Allocation,
        hub: Hub,
        provenance: str,
        readers: Readers,
    ) -> None:
        self.plan = plan
        self.allocation = allocation
        self.hub = hub
        self._readers = readers
        self._provenance = provenance
        #: The longest run so far, seconds.
        self.longest_s = 0.0
        self.lead_in = LeadIn(plan.rest_s)
        self.assignment = Assignment(plan, allocation)
        self._demands = Demands(plan, self.assignment)
        #: Time between two updates of the targets' byte counters, seconds; 0: they are always up to
        #: date. It is read on this host, which is one of the targets.
        self.count_period_s = slowest_period_s(self._demands.devices)
        self.writers = Writers(plan, self.assignment, hub, settling_s(self.count_period_s))
        self.schedules = {
            writes: ShortWriteSchedule(plan, writes, self.assignment, hub)
            for treatment in plan.treatments
            if (writes := treatment.writes) and writes.has_timetable and writes.scheduled != 0
        }
        self.observer = Observer(allocation, hub, self._demands.devices, plan.owner_pid)
        #: For each accepted run, the conditions at its targets.
        self._accepted_conditions: list[list[NodeConditions]] = []
        #: Writes whose rate alone must be measured again, since later rates show that it was
        #: disturbed.
        self.writes_to_remeasure: set[Writes] = set()
        #: Time from one rate row to the next of the slowest writer, seconds; 0 without rate rows.
        self.rate_row_interval_s = 0.0
        #: How many times the length of the check's runs has been doubled.
        self.doublings = 0
        #: Outcomes of the runs, in their order.
        self.outcomes: list[str] = []

    @property
    def shortest_count_s(self) -> float:
        """Return the least time over which the targets' devices count precisely enough, seconds."""
        return length.shortest_count_s(self.count_period_s, self.plan.limits.counter_share)

    def shortest_run(self) -> tuple[float, str]:
        """Return the least length of a run, seconds, and the reason for it in words."""
        rows_s = length.LEAST_ROWS * self.rate_row_interval_s
        count_s = self.shortest_count_s
        if count_s > rows_s:
            counter = f"a byte counter that is updated every {self.count_period_s:g} s"
            return count_s, f"{counter} needs {count_s:.2g} s"
        return rows_s, f"{length.LEAST_ROWS} rows of the writers take {rows_s:.2g} s"

    async def measure(self, run: Run) -> tuple[Sample, list[dict[str, Any]], list[Path]]:
        """Make one run.

        At its end its writers are suspended until their next run ('held'), or stopped. Returns its
        sample, its counter rows (JSON), and the output files to store.
        """
        writes = run.treatment.writes
        run.start_s = clock.now_s()
        self.writers.restarted = False
        if writes is None:
            complete_series = await self._run_without_writers(run)
        elif writes.has_timetable:
            complete_series = await self._run_under_timetable(run, writes)
        else:
            complete_series = await self._run_under_writers(run, writes)
        if not run.elapsed_s:
            # The application did not run. So the next lead-in is measured from now.
            self.lead_in.record_end(clock.now_s())
        self._judge(run, complete_series)
        # In a thread, since a tool may take seconds to gather its files.
        counter_rows = await asyncio.to_thread(self._tool_counter_rows, run)
        if self.doublings:
            times = 2**self.doublings
            run.notes.append(Note.LENGTHENED(variable=self.plan.lengthened_by, times=times))
        if run.accepted:
            self._accepted_conditions.append(run.conditions)
            counter_rows += node_counter_rows(self.allocation, run.node_counters)
            if summed := summed_nodes(self.allocation):
                run.notes.append(Note.COUNTERS_SUMMED(nodes=summed))
        sample, files = self._sample(run), self._run_files(run)
        if run.elapsed_s:
            series.save(complete_series, self.plan.limits, files.series)
        outputs = [files.series]
        # If the block does not read the application's output, the check stores it after the block.
        if self._readers.fom is not None:
            outputs = [files.out, files.series]
        existing_outputs = [path for path in outputs if path.exists()]
        return sample, [{"key": sample.key, **row} for row in counter_rows], existing_outputs

    def _judge(self, run: Run, complete_series: Series) -> None:
        """Record what each writer did, and reject the run if it does not count."""
        limits = self.plan.limits
        judgement = judge(complete_series, run.window_s, limits)
        run.conditions, run.writers = judgement.conditions, judgement.writers
        if run.accepted and judgement.reasons:
            run.fail("rejected", judgement.reasons[0])
        if run.treatment.writes and judgement.share_of_rate_alone > limits.max_share:
            self.writes_to_remeasure.add(run.treatment.writes)
        if run.accepted and judgement.unproven_note:
            run.notes.append(judgement.unproven_note)

    async def _run_without_writers(self, run: Run) -> Series:
        await self._await_lead_in()
        return self._complete_series(run, await self._run_application(run, []))

    async def _run_under_writers(self, run: Run, writes: Writes) -> Series:
        """Run the application while writers write, unless they do not reach their speed."""
        states = await self._start_writers(run, writes)
        observed = Series()
        if run.accepted:
            observed = await self._run_application(run, states)
            await self.await_last_rate_rows(run, states)
        # If these writers cannot be held now, they could not be held before the run either, since
        # the other held writers are the same. So this is also the reason why they were started for
        # this run.
        reason_not_held = await self.writers.hold_or_stop(writes, states)
        start_reason = self.writers.reason_ended_while_held or reason_not_held
        if self.writers.restarted and start_reason:
            run.notes.append(f"writers were started for this run: {start_reason}")
        # Copies, since reports that arrive later do not belong to this run.
        writers = [state.series.copy() for state in states]
        return replace(self._complete_series(run, observed), writers=writers)

    async def _run_under_timetable(self, run: Run, writes: Writes) -> Series:
        """Run the application under short writes; without writers if their number is 0."""
        assert self.plan.short
        if writes.scheduled == 0:
            run.timetable = record_without_writers(self.plan.short)
            n_targets = len(self.allocation.targets)
            run.notes.append(Note.WITHOUT_WRITERS(treatment=run.treatment.name, nodes=n_targets))
            return await self._run_without_writers(run)
        schedule = self.schedules[writes]
        if note := schedule.length_note():
            run.notes.append(note)
        planned_run_s = self.plan.limits.run_timeout_s
        if self.longest_s:
            planned_run_s = min(_TIMETABLE_RUNS * self.longest_s, planned_run_s)
        timetable_s = planned_run_s + self.lead_in.required_s
        try:
            run_name = f"{run.pair}/{run.treatment.name}"
            running = await schedule.begin(timetable_s, run_name)
        except NotReadyError as error:
            run.fail("injector_never_ready", str(error))
            return Series()
        await self._await_lead_in(writes)
        observed = await self._run_application(run, [])
        path = self._run_files(run).out.with_suffix(".writes.json")
        run.timetable, timetable_writers, fault = await schedule.end(running, run.window_s, path)
        await asyncio.sleep(self.writers.settling_s)
        return replace(
            self._complete_series(run, observed),
            claims=timetable_writers,
            off_plan=[fault] if fault else [],
        )

    def _complete_series(self, run: Run, observed: Series) -> Series:
        """Return the observed series with all that is judged, except the writers' series."""
        return replace(
            observed,
            nodes=[
                replace(target, usual_hz=usual_hz(target.node, self._accepted_conditions))
                for target in observed.nodes
            ],
            silent=self._demands.forbidden_directions(run.treatment),
            rails=self._demands.rails(run.treatment),
            alone_b_s=self._alone_b_s(),
        )

    def _alone_b_s(self) -> float:
        """Return the highest uncontended rate of a treatment, summed over its writers."""
        totals_b_s = [schedule.alone_b_s for schedule in self.schedules.values()]
        for writes, rates_b_s in self.writers.alone_b_s.items():
            if not is_control(writes):
                totals_b_s.append(sum(rates_b_s))
        return max(totals_b_s, default=0.0)

    async def _start_writers(self, run: Run, writes: Writes) -> list[WriterState]:
        """Start the writers, wait until they are at speed, then wait for the lead-in.

        The run fails if they do not reach their speed in time.
        """
        states = await self.writers.start(writes)
        in_time = await self.writers.reach_speed(states)
        for state in states:
            if state.end_reason:
                run.fail("injector_never_ready", f"writer {state.number}: {state.end_reason}")
        if not in_time:
            has_no_report = any(last_end_s(state.series) is None for state in states)
            run.fail(
                "injector_never_ready" if has_no_report else "rejected",
                f"not at speed within {self.plan.limits.ready_timeout_s:.0f} s",
            )
        if run.accepted:
            await self._await_lead_in(writes, states)
        return states

    async def _await_lead_in(
        self, writes: Writes | None = None, states: Sequence[WriterState] = ()
    ) -> None:
        """Wait as long as the run's lead-in requires, while the writers write.

        The wait ends early if a writer dies. The run then fails as if the writer had died later.
        """
        now_s = clock.now_s()
        if writes:
            # Writers that are held need longer if they had to be started. This time is not
            # recorded, since it would lengthen all later lead-ins.
            started_anew = self.writers.restarted and self.writers.are_held_between_runs(writes)
            if not started_anew:
                self.lead_in.record_ready(writes, now_s)
        wait_s = self.lead_in.wait_s(now_s)
        await self.hub.wait_for(lambda: any(state.end_reason for state in states), wait_s)

    async def _run_application(self, run: Run, states: list[WriterState]) -> Series:
        """Run the application, observe it, and read its output."""
        start, files = run.treatment.start_of(self.doublings), self._run_files(run)
        await self.observer.begin(start.cpus)
        await application.run_application(
            run,
            start,
            self.allocation,
            files,
            self.hub,
            states,
            timeout_s=self.plan.limits.run_timeout_s,
            folder=self.plan.folder,
        )
        observed, run.node_counters = await self.observer.end()
        run.lead_in_s = self.lead_in.length_s(run.start_s)
        _, end_s = run.window_s
        self.lead_in.record_end(end_s)
        self.longest_s = max(self.longest_s, run.elapsed_s)
        application.read_fom(run, start, files, self._readers)
        return observed

    async def await_last_rate_rows(self, run: Run, states: list[WriterState]) -> None:
        """Wait for the rate rows that cover the end of the window.

        The run fails if a writer has ended before it reported them.
        """
        _, end_s = run.window_s

        def is_covered(state: WriterState) -> bool:
            return (last_end_s(state.series) or 0.0) >= end_s

        if run.accepted:
            await self.hub.wait_for(
                lambda: all(state.end_reason or is_covered(state) for state in states),
                _LAST_RATE_ROWS_TIMEOUT_S,
            )
            for state in states:
                if state.end_reason and not is_covered(state):
                    run.fail("injector_died", f"writer {state.number}: {state.end_reason}")

    def _tool_counter_rows(self, run: Run) -> list[dict[str, Any]]:
        """Return what the treatment's tool counted. If its counters are missing, reject the run."""
        start = run.treatment.start
        if start.tool is None or not run.accepted:
            return []
        try:
            rows = self._readers.counters(
                start.tool, self._run_files(run).counters, start.ranks or 1
            )
        except ToolError as error:
            run.fail("rejected", f"{start.tool}: {error}")
            return []
        return [{"tool": start.tool, **asdict(row)} for row in rows]

    def _sample(self, run: Run) -> Sample:
        """Return the sample of a run that was made and judged."""
        plan = self.plan
        treatment = run.treatment
        fom = run.fom
        readers = self._readers
        return Sample(
            key=f"{plan.case}/{plan.block}/{run.pair}/{treatment.name}/{run.attempt}",
            case=plan.case,
            workload=plan.workload,
            arm=treatment.name,
            block=plan.block,
            pair=run.pair,
            position=run.position,
            attempt=run.attempt,
            warmup=run.warmup,
            outcome=run.outcome,
            reason=run.reason,
            start_s=run.start_s,
            elapsed_s=run.elapsed_s,
            fom=fom.value if fom else None,
            fom_unit=fom.unit if fom and fom.unit else readers.unit,
            fom_better=fom.better if fom and fom.better else readers.better,
            nodes=self.allocation.targets,
            origin_nodes=self.allocation.origins,
            provenance=self._provenance,
            seed=plan.seed,
            fom_extra=fom.extra if fom else {},
            writers=run.writers,
            timetable=run.timetable,
            notes=[
                *plan.notes,
                *treatment.notes,
                *run.notes,
                *unbound_notes(treatment.factors, run.conditions),
                *not_judged_notes(plan.limits),
            ],
            role=treatment.role,
            baseline=treatment.baseline,
            factors=treatment.factors,
            lead_in_s=run.lead_in_s,
            working_set_b=treatment.start.working_set_b,
            conditions=run.conditions,
        )

    def _run_files(self, run: Run) -> RunFiles:
        name = log_stem(run.pair, run.treatment.name, run.attempt)
        logs = self.plan.logs
        return RunFiles(
            out=logs / f"{name}.out",
            err=logs / f"{name}.err",
            counters=logs / "counters" / name,
            series=logs / f"{name}{series.ENDING}",
        )


def node_counter_rows(
    allocation: Allocation, counters: Mapping[str, Mapping[str, NodeCounter]]
) -> list[dict[str, Any]]:
    """Return the counts of nodes as JSON, one row per node and counter; `rank` is a node's index.

    With more than MAX_NODES_WITH_COUNTER_ROWS nodes there is one row per counter for all nodes
    (`NodesRow`). Origins that are not targets have only rows of TRAFFIC_CPU_TIMES.
    """
    targets, origins = allocation.targets, allocation.origins
    target_counters = {index: counters.get(node, {}) for index, node in enumerate(targets)}
    origin_counters = {
        index: _cpu_times_of_traffic(counters.get(node, {}))
        for index, node in enumerate(origins)
        if node not in targets
    }
    return [
        *_rows_of_tool(NODE_TOOL, target_counters, len(targets)),
        *_rows_of_tool(ORIGIN_TOOL, origin_counters, len(origins)),
    ]


def summed_nodes(allocation: Allocation) -> str:
    """Return the nodes without counter rows of their own, such as '70 targets'; empty if none."""
    numbers = {"target": len(allocation.targets), "origin": len(allocation.origins)}
    return " and ".join(
        plural(number, role)
        for role, number in numbers.items()
        if number > MAX_NODES_WITH_COUNTER_ROWS
    )


def _cpu_times_of_traffic(counters: Mapping[str, NodeCounter]) -> dict[str, NodeCounter]:
    return {name: counter for name, counter in counters.items() if name in TRAFFIC_CPU_TIMES}


def _rows_of_tool(
    tool: str, counters_by_node: Mapping[int, Mapping[str, NodeCounter]], n_nodes: int
) -> list[dict[str, Any]]:
    rows: Iterable[CounterRow]
    if n_nodes > MAX_NODES_WITH_COUNTER_ROWS:
        rows = rows_over_nodes(counters_by_node)
    else:
        rows = rows_per_node(counters_by_node)
    return [{"tool": tool, **asdict(row)} for row in rows]


def rows_per_node(
    counters_by_node: Mapping[int, Mapping[str, NodeCounter]],
) -> Iterator[CounterRow]:
    """Yield a row per node and counter."""
    for index, counters in counters_by_node.items():
        for name, counter in counters.items():
            yield CounterRow(rank=index, event=name, value=counter.value, unit=counter.unit)


def rows_over_nodes(
    counters_by_node: Mapping[int, Mapping[str, NodeCounter]],
) -> Iterator[NodesRow]:
    """Yield a row per counter, with its sum or mean over all nodes that have it."""
    units: dict[str, str] = {}
    values_by_name: dict[str, dict[int, float]] = {}
    for index, counters in counters_by_node.items():
        for name, counter in counters.items():
            units.setdefault(name, counter.unit)
            values_by_name.setdefault(name, {})[index] = counter.value
    for name, values in values_by_name.items():
        unit = units[name]
        combine = fmean if unit in AVERAGED_UNITS else fsum
        least_node = min(values, key=values.__getitem__)
        most_node = max(values, key=values.__getitem__)
        yield NodesRow(
            rank=-1,
            event=name,
            value=combine(values.values()),
            unit=unit,
            nodes=len(values),
            median=median(values.values()),
            least=values[least_node],
            least_node=least_node,
            most=values[most_node],
            most_node=most_node,
        )


def unbound_notes(
    factors: Mapping[str, Level], conditions: Sequence[NodeConditions]
) -> Iterator[str]:
    """Yield a note if cores were to be left free, but the application may run on all CPUs.

    The launcher should bind the application, but it may be configured not to.
    """
    unbound = [condition.node for condition in conditions if condition.free_cpus == ""]
    if factors.get("reserved_cores") and unbound:
        yield Note.UNBOUND(nodes=", ".join(unbound))


def not_judged_notes(limits: AcceptanceLimits) -> Iterator[str]:
    """Yield a note on the conditions that are recorded but not judged, if there are any."""
    names = [name for name in DISTURBANCE_LIMITS if getattr(limits, name) is None]
    if names:
        yield Note.NOT_JUDGED(limits=", ".join(names))
