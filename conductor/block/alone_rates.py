"""Measures the uncontended rate of each writer, which is also called its rate alone.

This is the rate that the writer reaches while no application runs. It is measured once for a case
on the same nodes, and stored in the logs of the block that measured it. Later blocks of the case on
these nodes only start their writers, and hold (suspend) them until they are needed. A *row* is a
report of a writer's rate in the last interval.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from statistics import median

from conductor.agent.end_program import log_of
from conductor.block.allocation import Allocation
from conductor.block.hub import WriterState
from conductor.block.runs import BlockError, BlockRunner
from conductor.block.schedule import NotReadyError
from conductor.block.store import read_notes, write_note
from conductor.injectors import INJECTORS
from conductor.injectors.base import MOST_QUEUE_PAIRS, TRAFFIC
from conductor.judge.rates import gapless_rows
from conductor.judge.series import Series
from conductor.judge.series_figures import counted_bytes
from conductor.readings import SHORTEST_COUNT_S, RateRow
from records.last_words import cause_or_gist
from records.machine import devices
from records.treatment import Writes

#: Minimum time that the rows after the first must cover, so that a writer's rate alone can be
#: computed from them, seconds.
_LEAST_LENGTH_S = 3.0
#: Number of times that a program that may hang is started. If one start in six hangs, all four hang
#: once in 1,300 times. All starts but the last share the time that one start may take.
_MAX_STARTS = 4
#: Queue pairs are added while they raise the rate by at least this share, and while the rate is
#: below the link's rate by at least this share.
_LEAST_GROWTH = 0.05
#: File in the logs of a block that measured rates alone.
_FILE = "alone.json"


@dataclass(frozen=True, kw_only=True)
class MeasuredRates:
    """The rates alone of all writers that make one kind of writes."""

    targets: list[str]
    origins: list[str]
    writes: Writes
    #: Rate of each writer, bytes per second.
    rates_b_s: list[float]
    #: Target -> bytes per second that its devices counted during the measurement.
    counted_b_s: dict[str, float]
    #: Longest time from one row to the next among the writers, seconds.
    row_s: float
    #: Minimum time that writers need between two runs, seconds.
    needed_s: float
    #: Queue pairs of each writer.
    queue_pairs: int = 1


def row_interval_s(rows: Sequence[RateRow], row_s: float) -> float:
    """Return the time from one row to the next, which exceeds `row_s` if the program pauses."""
    return max(row_s, median(later.end_s - row.end_s for row, later in pairwise(rows)))


class AloneRates:
    """Measures the rates alone of one block's writers, or reads the rates of earlier blocks."""

    def __init__(self, runner: BlockRunner) -> None:
        """Read the rates of earlier blocks. Raises MachineError if one of the files is damaged."""
        self._runner = runner
        case_logs = runner.plan.logs.parent
        self._stored = {
            rates.writes: rates
            for block in read_notes(case_logs, _FILE, list[MeasuredRates])
            for rates in block
            if Allocation(rates.targets, rates.origins) == runner.allocation
        }
        #: The rates measured in this block, and the series recorded while they were measured.
        self.measured_rates: dict[Writes, MeasuredRates] = {}
        self.series: dict[Writes, Series] = {}

    async def learn(self, writes: Writes) -> None:
        """Measure or read the rates of one kind of writes, and hold its writers.

        For throttled writes, the rates at full rate are learnt first. Raises BlockError if a
        writer cannot write.
        """
        runner = self._runner
        if writes in runner.writers.alone_b_s or writes.scheduled == 0:
            return
        if writes.has_timetable:
            await self._rehearse(writes)
            return
        if INJECTORS[writes.injector].row_s is None:  # a control, which has no required rate
            runner.writers.alone_b_s[writes] = [0.0] * runner.assignment.writer_count(writes)
            return
        if writes.throttled:
            self._require_counters(writes)
            await self.learn(writes.at_full_rate())
        rates = self._stored.get(writes)
        if rates is None:
            if runner.writers.queue_pairs(writes) or not self._over_rdma(writes):
                rates = await self._measure(writes, self._length_s)
            else:
                rates = await self._add_queue_pairs(writes)
            self.measured_rates[writes] = rates
            note = [asdict(measured) for measured in self.measured_rates.values()]
            write_note(runner.plan.logs, _FILE, note)
        else:
            await runner.writers.set_queue_pairs(writes, rates.queue_pairs)
            await self._start_and_hold(writes)
        runner.writers.alone_b_s[writes] = rates.rates_b_s
        runner.writers.counted_alone_b_s[writes] = rates.counted_b_s
        runner.lead_in.expect(writes, rates.needed_s)
        runner.rate_row_interval_s = max(runner.rate_row_interval_s, rates.row_s)

    @staticmethod
    def _over_rdma(writes: Writes) -> bool:
        """Return whether writes go over RDMA devices only."""
        return bool(writes.devices) and all(map(devices.is_rdma, writes.devices))

    @property
    def _length_s(self) -> float:
        """Return the length of the rows from which a rate alone is computed, seconds.

        It is longer if devices update their counters rarely.
        """
        return max(_LEAST_LENGTH_S, self._runner.shortest_count_s)

    def _require_counters(self, writes: Writes) -> None:
        """Raise BlockError if two writers would take their rows from the counter of one device.

        This counter has the bytes of both.
        """
        assignment = self._runner.assignment
        limited = replace(assignment.template(writes), rate_b_s=1.0)
        if INJECTORS[writes.injector].row_source(limited) != "counter":
            return
        routes = Counter((route.origin, route.device) for route in assignment.routes(writes))
        ((origin, device), n_writers) = routes.most_common(1)[0]
        if n_writers > 1:
            reason = (
                f"{n_writers} writers of {writes.injector} on {origin} with a limited rate use"
                f" {device}, whose counter cannot tell their rates apart: give each an origin or a"
                " device of its own, or use injector ucx"
            )
            raise BlockError("injector_never_ready", reason)

    async def _add_queue_pairs(self, writes: Writes) -> MeasuredRates:
        """Measure with 1, 2, 4, ... queue pairs while more raise the rate; return the best rates.

        `full` means the rate of the link, but one queue pair may carry half of a link or less.
        """
        writers = self._runner.writers
        routes = self._runner.assignment.routes(writes)
        n_links = len({(route.target, route.device) for route in routes})
        links_b_s = (self._runner.plan.link_rate_b_s or math.inf) * n_links
        best = await self._measure(writes, _LEAST_LENGTH_S)
        best_series = self.series[writes]
        queue_pairs = 1
        while (
            queue_pairs < MOST_QUEUE_PAIRS and sum(best.rates_b_s) < (1 - _LEAST_GROWTH) * links_b_s
        ):
            queue_pairs *= 2
            await writers.set_queue_pairs(writes, queue_pairs)
            try:
                rates = await self._measure(writes, _LEAST_LENGTH_S)
            except BlockError:  # the device may not have room for so many queue pairs
                break
            if sum(rates.rates_b_s) < (1 + _LEAST_GROWTH) * sum(best.rates_b_s):
                break
            best = rates
            best_series = self.series[writes]
        self.series[writes] = best_series
        best_is_earlier = queue_pairs != best.queue_pairs
        if best_is_earlier:
            await writers.set_queue_pairs(writes, best.queue_pairs)
        if self._length_s > _LEAST_LENGTH_S:  # in the shorter time, some devices miscount
            return await self._measure(writes, self._length_s)
        if best_is_earlier:
            await self._start_and_hold(writes)
        return best

    async def _start_and_hold(self, writes: Writes) -> None:
        """Start writers whose rate is known and hold them; do nothing if they cannot be held.

        Raises BlockError if a writer reports no row.
        """
        writers = self._runner.writers
        if writers.are_held_between_runs(writes):
            states, _ = await self._start(writes)
            await writers.hold_or_stop(writes, states)
            self._require_rows(writes, states, n_rows=1)

    async def measure_again(self, writes: Writes) -> None:
        """Measure the rates again, since a run has shown that they were disturbed."""
        self._stored.pop(writes, None)
        del self._runner.writers.alone_b_s[writes]
        await self.learn(writes)

    async def _rehearse(self, writes: Writes) -> None:
        """Rehearse short writes. Raises BlockError if they cannot begin."""
        runner = self._runner
        schedule = runner.schedules[writes]
        try:
            await schedule.rehearse()
        except NotReadyError as error:
            raise BlockError(
                "injector_never_ready", f"{writes.scheduled} writers at a time: {error}"
            ) from None
        await asyncio.sleep(runner.writers.settling_s)
        # Between two runs, the last write of the first run ends, and the counters settle. Then the
        # writes of the second begin.
        needed_s = schedule.length_s + schedule.start_up_s + runner.writers.settling_s
        runner.lead_in.expect(writes, needed_s)

    async def _start(self, writes: Writes) -> tuple[list[WriterState], float]:
        """Start writers and wait for a row of each; return also how long this took, seconds.

        The rate rises during the first row. So this row counts neither for the rate alone nor for
        the counts of devices.
        """
        may_hang = INJECTORS[writes.injector].may_hang
        for attempt in range(_MAX_STARTS):
            started_s = time.monotonic()
            states = await self._runner.writers.start(writes)
            is_last = attempt == _MAX_STARTS - 1
            may_restart = not is_last and all(may_hang(state.writer) for state in states)
            timeout_s = self._timeout_s(states, n_rows=1)
            if may_restart:
                timeout_s /= _MAX_STARTS - 1
            if await self._await_rows(states, 1, timeout_s) or not may_restart:
                break
            await self._runner.hub.stop(states)
        return states, time.monotonic() - started_s

    async def _await_rows(
        self, states: Sequence[WriterState], n_rows: int, timeout_s: float
    ) -> bool:
        """Wait for `n_rows` rows of each writer; return whether all have them, or have ended."""
        return await self._runner.hub.wait_for(
            lambda: all(len(state.rows) >= n_rows or state.end_reason for state in states),
            timeout_s,
        )

    def _timeout_s(self, states: Sequence[WriterState], n_rows: int) -> float:
        return self._runner.plan.limits.ready_timeout_s + n_rows * states[0].series.row_s

    async def _measure(self, writes: Writes, length_s: float) -> MeasuredRates:
        """Measure the rates alone, from rows that cover `length_s` seconds.

        Raises BlockError if a writer does not write.
        """
        runner = self._runner
        injector = INJECTORS[writes.injector]
        assert injector.row_s, "a control is not measured"
        states, ramp_s = await self._start(writes)
        try:
            self._require_rows(writes, states, n_rows=1)
        except BlockError:
            await runner.hub.stop(states)
            raise
        await runner.observer.begin([])
        # A slow node may begin to count long after the first row. Earlier rows are left out.
        n_uncounted_rows = [len(state.rows) for state in states]
        n_rows = max(n_uncounted_rows) + math.ceil(length_s / injector.row_s)
        await self._await_rows(states, n_rows, self._timeout_s(states, n_rows))
        at_target = TRAFFIC[injector.direction].at_target
        observed, _ = await runner.observer.end()
        counts = {target.node: counted_bytes(target, at_target) for target in observed.nodes}
        are_held = runner.writers.are_held_between_runs(writes)
        stopping_s = time.monotonic()
        await runner.writers.hold_or_stop(writes, states)
        stop_took_s = time.monotonic() - stopping_s
        self._require_rows(writes, states, n_rows)
        self._require_bytes(writes, states)
        series = [
            state.series.copy(first_row=n_uncounted - 1)
            for state, n_uncounted in zip(states, n_uncounted_rows, strict=True)
        ]
        self.series[writes] = replace(observed, writers=series)
        # Between two runs, the writers of the first run stop. Then the writers of the second run
        # start or are resumed, and report the required rows. `ramp_s` includes the first of these
        # rows if they start. If they are resumed, their first row does not count.
        ready_rows = runner.plan.limits.ready_rows
        needed_s = ramp_s + (ready_rows - 1) * injector.row_s
        if are_held:
            have_counts = all(state.series.counted_s and state.series.samples for state in states)
            needed_s = (1 + ready_rows) * injector.row_s
            if ready_rows == 1 and have_counts:
                # The first update may come at once. Only the next update shows the rate.
                needed_s = SHORTEST_COUNT_S + 2 * runner.count_period_s
        return MeasuredRates(
            targets=runner.allocation.targets,
            origins=runner.allocation.origins,
            writes=writes,
            rates_b_s=[
                median(row.rate_b_s for row in gapless_rows(writer)[1:]) for writer in series
            ],
            counted_b_s={
                node: count.bytes_b / count.over_s
                for node, count in counts.items()
                if count and count.over_s
            },
            queue_pairs=runner.writers.queue_pairs(writes) or 1,
            row_s=max(row_interval_s(state.rows, injector.row_s) for state in states),
            needed_s=stop_took_s + needed_s,
        )

    def _require_bytes(self, writes: Writes, states: Sequence[WriterState]) -> None:
        """Raise BlockError if a writer has reported only rows of 0 B/s."""
        for state in states:
            if not any(row.rate_b_s for row in state.rows):
                writer, n_rows = _writer_name(writes, state), len(state.rows)
                reason = f"{writer} wrote nothing in its first rows ({n_rows} of 0 B/s)"
                raise BlockError("injector_never_ready", reason)

    def _require_rows(self, writes: Writes, states: Sequence[WriterState], n_rows: int) -> None:
        """Raise BlockError if a writer has ended, or has reported fewer than `n_rows` rows."""
        for state in states:
            writer = _writer_name(writes, state)
            if state.end_reason:
                raise BlockError("injector_never_ready", f"{writer}: {state.end_reason}")
            if len(state.rows) < n_rows:
                timeout_s = self._timeout_s(states, n_rows)
                log = log_of(self._runner.plan.logs, state.writer, "origin")
                last_words = cause_or_gist(log.read_text(errors="replace")) if log.is_file() else ""
                reason = f"{writer} reported no rate in {timeout_s:.0f} s"
                if last_words:
                    reason += f": {last_words}"
                raise BlockError("injector_never_ready", reason)


def _writer_name(writes: Writes, state: WriterState) -> str:
    """Return the name of a writer in messages."""
    return f"writer {state.number} ({writes.injector}, {state.writer.origin})"
