"""The rate that each writer reaches without an application, measured once a case on the same nodes.

It is stored in the logs of the block that measured it; later blocks of the case on these nodes only
start their writers, and hold them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from statistics import median

from conductor.agent.end_program import log_of
from conductor.block.allocation import Allocation
from conductor.block.hub import WriterState
from conductor.block.runs import BlockError, BlockRunner
from conductor.block.schedule import NotReadyError
from conductor.block.store import note, noted
from conductor.injectors import INJECTORS
from conductor.injectors.base import MOST_QUEUE_PAIRS, PASSES
from conductor.judge.rates import whole_rows
from conductor.judge.series import Series
from conductor.judge.series_figures import passed
from conductor.readings import COUNTED_S, RateRow
from records.last_words import quoted
from records.machine import devices
from records.treatment import Writes

#: Length of the rows, after the first, from which a writer's rate alone is computed, seconds.
_ROWS_S = 3.0
#: How often a program that may hang is started: where one start in six hangs, all do once in 1,300.
#: All but the last share the time that one start has.
_STARTS = 4
#: Queue pairs are added while they raise the rate by at least this share, and it is further than
#: that from the link's rate.
_GROWTH = 0.05
#: File in the logs of a block that measured.
_FILE = "alone.json"


@dataclass(frozen=True, kw_only=True)
class Alone:
    """The rates of the writers of one kind without an application."""

    targets: list[str]
    origins: list[str]
    writes: Writes
    #: Rate of each writer, bytes per second.
    rates_b_s: list[float]
    #: Target -> what its devices counted meanwhile, bytes per second.
    counted_b_s: dict[str, float]
    #: Time from one row to the next of the slowest writer, and what writers need between two runs
    #: at least, seconds.
    row_s: float
    needed_s: float
    #: Queue pairs of each writer.
    queue_pairs: int = 1


def interval_s(rows: Sequence[RateRow], row_s: float) -> float:
    """Time from one row to the next: as declared, or longer, since programs pause between them."""
    return max(row_s, median(later.end_s - row.end_s for row, later in pairwise(rows)))


class AloneRates:
    """Learns the rates of one block's writers, by measuring or from earlier blocks."""

    def __init__(self, runner: BlockRunner) -> None:
        """Raises MachineError for a damaged file of an earlier block."""
        self._runner = runner
        nodes, case_logs = runner.nodes, runner.plan.logs.parent
        self._stored = {
            rates.writes: rates
            for block in noted(case_logs, _FILE, list[Alone])
            for rates in block
            if Allocation(rates.targets, rates.origins) == nodes
        }
        #: The rates measured in this block, and the series recorded meanwhile.
        self.measured: dict[Writes, Alone] = {}
        self.series: dict[Writes, Series] = {}

    async def learn(self, writes: Writes) -> None:
        """Learn the rates of one kind of writes, at full rate first; its writers are held then.

        Raises BlockError if a writer cannot write.
        """
        runner = self._runner
        if writes in runner.writers.alone or writes.scheduled == 0:
            return
        if writes.scheduled is not None:
            await self._rehearse(writes)
            return
        if INJECTORS[writes.injector].row_s is None:  # no share of a core is required of a control
            runner.writers.alone[writes] = [0.0] * runner.assignment.number(writes)
            return
        if writes.throttled:
            await self.learn(writes.at_full_rate())
        measured = self._stored.get(writes)
        if measured is None:
            known = runner.writers.queue_pairs(writes) or not self._over_rdma(writes)
            measured = await (self._measure if known else self._add_queue_pairs)(writes)
            self.measured[writes] = measured
            note(runner.plan.logs, _FILE, [asdict(rates) for rates in self.measured.values()])
        else:
            await runner.writers.set_queue_pairs(writes, measured.queue_pairs)
            await self._start_again(writes)
        runner.writers.alone[writes] = measured.rates_b_s
        runner.writers.counted_alone_b_s[writes] = measured.counted_b_s
        runner.lead_in.expect(writes, measured.needed_s)
        runner.row_s = max(runner.row_s, measured.row_s)

    @staticmethod
    def _over_rdma(writes: Writes) -> bool:
        return bool(writes.devices) and all(map(devices.is_rdma, writes.devices))

    async def _add_queue_pairs(self, writes: Writes) -> Alone:
        """Measure with 1, 2, 4, ... queue pairs until they help no more; returns the last that did.

        One may carry half of a link or less, and `full` means the link's rate.
        """
        writers, nodes = self._runner.writers, self._runner.nodes
        link_b_s = (self._runner.plan.link_rate_b_s or math.inf) * len(nodes.targets)
        best, number = await self._measure(writes), 1
        series = self.series[writes]
        while number < MOST_QUEUE_PAIRS and sum(best.rates_b_s) < (1 - _GROWTH) * link_b_s:
            number *= 2
            await writers.set_queue_pairs(writes, number)
            try:
                wider = await self._measure(writes)
            except BlockError:  # a device may not have room for so many
                break
            if sum(wider.rates_b_s) < (1 + _GROWTH) * sum(best.rates_b_s):
                break
            best, series = wider, self.series[writes]
        self.series[writes] = series
        if number != best.queue_pairs:
            await writers.set_queue_pairs(writes, best.queue_pairs)
            await self._start_again(writes)
        return best

    async def _start_again(self, writes: Writes) -> None:
        """Start writers whose rate is known, and hold them, if they can be held."""
        writers = self._runner.writers
        if writers.holds(writes):
            states, _ = await self._start(writes)
            await writers.silence(writes, states)
            self._require(writes, states, 0)

    async def learn_anew(self, writes: Writes) -> None:
        """Measure the rates again, since a run has shown that they were disturbed."""
        self._stored.pop(writes, None)
        del self._runner.writers.alone[writes]
        await self.learn(writes)

    async def _rehearse(self, writes: Writes) -> None:
        runner, schedule = self._runner, self._runner.schedules[writes]
        try:
            await schedule.rehearse(runner.writers.next_turn())
        except NotReadyError as error:
            raise BlockError(
                "injector_never_ready", f"{writes.scheduled} writers at a time: {error}"
            ) from None
        # Between two runs, the first one's last write ends; then the second one's begin.
        runner.lead_in.expect(writes, schedule.length_s + schedule.start_up_s)

    async def _start(self, writes: Writes) -> tuple[list[WriterState], float]:
        """Start writers, and wait for a row of each; returns how long that took as well.

        The first row ramps up: it counts neither for the rate alone nor for the device count.
        """
        may_hang = INJECTORS[writes.injector].may_hang
        for left in reversed(range(_STARTS)):
            started_s = time.monotonic()
            states = await self._runner.writers.start(writes)
            restart = left > 0 and all(may_hang(state.writer) for state in states)
            timeout_s = self._timeout_s(states, 1) / (_STARTS - 1 if restart else 1)
            if await self._rows(states, 1, timeout_s) or not restart:
                break
            await self._runner.hub.stop(states)
        return states, time.monotonic() - started_s

    async def _rows(self, states: Sequence[WriterState], number: int, timeout_s: float) -> bool:
        """Wait for so many rows of each writer; returns whether all have them, or have ended."""
        return await self._runner.hub.wait_for(
            lambda: all(len(state.rows) >= number or state.ended for state in states), timeout_s
        )

    def _timeout_s(self, states: Sequence[WriterState], rows: int) -> float:
        return self._runner.plan.limits.ready_timeout_s + rows * states[0].series.row_s

    async def _measure(self, writes: Writes) -> Alone:
        runner, injector = self._runner, INJECTORS[writes.injector]
        assert injector.row_s, "a control is not measured"
        states, ramp_s = await self._start(writes)
        await runner.observer.begin([])
        # A slow node begins to count long after the first row: what came before shows no rate.
        before = [len(state.rows) for state in states]
        number = max(before) + math.ceil(_ROWS_S / injector.row_s)
        await self._rows(states, number, self._timeout_s(states, number))
        at_target = PASSES[injector.direction][1]
        observed, _ = await runner.observer.end()
        counts = {node.node: passed(node, at_target) for node in observed.nodes}
        held, ending_s = runner.writers.holds(writes), time.monotonic()
        await runner.writers.silence(writes, states)
        ended_s = time.monotonic() - ending_s
        self._require(writes, states, number)
        self._require_bytes(writes, states)
        series = [
            state.series.copy(first_row=ended - 1)
            for state, ended in zip(states, before, strict=True)
        ]
        self.series[writes] = replace(observed, writers=series)
        # Between two runs, the first one's writers stop; then the second's start, or go on, and
        # report what they must. A start has one row; of held writers the first does not count.
        ready_rows = runner.plan.limits.ready_rows
        needed_s = ramp_s + (ready_rows - 1) * injector.row_s
        if held:
            are_counted = all(state.series.counted_s and state.series.samples for state in states)
            by_count = ready_rows == 1 and are_counted
            needed_s = COUNTED_S if by_count else (1 + ready_rows) * injector.row_s
        return Alone(
            targets=runner.nodes.targets,
            origins=runner.nodes.origins,
            writes=writes,
            rates_b_s=[median(row.rate_b_s for row in whole_rows(writer)[1:]) for writer in series],
            counted_b_s={
                node: count.bytes_b / count.over_s
                for node, count in counts.items()
                if count and count.over_s
            },
            queue_pairs=runner.writers.queue_pairs(writes) or 1,
            row_s=max(interval_s(state.rows, injector.row_s) for state in states),
            needed_s=ended_s + needed_s,
        )

    def _require_bytes(self, writes: Writes, states: Sequence[WriterState]) -> None:
        """Raise BlockError if a writer reports that it writes nothing."""
        for state in states:
            if not any(row.rate_b_s for row in state.rows):
                writer, rows = _writer_words(writes, state), len(state.rows)
                reason = f"{writer} wrote nothing in its first rows ({rows} of 0 B/s)"
                raise BlockError("injector_never_ready", reason)

    def _require(self, writes: Writes, states: Sequence[WriterState], rows: int) -> None:
        """Raise BlockError if a writer has ended, or has not reported so many rows."""
        for state in states:
            writer = _writer_words(writes, state)
            if state.ended:
                raise BlockError("injector_never_ready", f"{writer}: {state.ended}")
            if len(state.rows) < rows:
                over_s = self._timeout_s(states, rows)
                log = log_of(self._runner.plan.logs, state.writer, "origin")
                words = quoted(log.read_text(errors="replace")) if log.is_file() else ""
                reason = f"{writer} reported no rate in {over_s:.0f} s{words and f': {words}'}"
                raise BlockError("injector_never_ready", reason)


def _writer_words(writes: Writes, state: WriterState) -> str:
    return f"writer {state.number} ({writes.injector}, {state.writer.origin})"
