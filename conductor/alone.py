"""The rate that each writer reaches without an application, measured once a case on the same nodes.

It is stored in the logs of the block that measured it; later blocks of the case on these nodes only
start their writers, and hold them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path

from conductor import allocation, length
from conductor.allocation import Allocation
from conductor.figures import passed
from conductor.hub import Hub, WriterState
from conductor.injectors import INJECTORS
from conductor.injectors.base import PASSES
from conductor.rates import COUNTED_S, rate_alone, whole_rows
from conductor.runs import BlockError, BlockRunner
from conductor.timetable import NotReadyError
from records.files import replace_text
from records.plan import BlockPlan
from records.treatment import Writes

#: Length of the rows, after the first, from which a writer's rate alone is computed, seconds.
_ROWS_S = 3.0
#: File in the logs of a block that measured.
_FILE = "alone.json"


@dataclass(frozen=True)
class Alone:
    """What the writers of one kind did without an application."""

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


def store(logs: Path, measured: Alone) -> None:
    """Add to a block's logs what it measured, for the case's next blocks."""
    records = [*_read(logs / _FILE), measured]
    replace_text(logs / _FILE, json.dumps([asdict(rates) for rates in records], indent=1))


def stored(case_logs: Path, nodes: Allocation) -> list[Alone]:
    """What earlier blocks of the case measured on these nodes.

    Raises MachineError for a file that `store` did not write.
    """
    measured = [rates for path in sorted(case_logs.glob(f"*/{_FILE}")) for rates in _read(path)]
    return [rates for rates in measured if Allocation(rates.targets, rates.origins) == nodes]


def _read(path: Path) -> list[Alone]:
    measured: list[Alone] = length.read_record(path, list[Alone]) if path.exists() else []
    return measured


@dataclass
class AloneRates:
    """Learns the rates of one block's writers, by measuring or from earlier blocks."""

    plan: BlockPlan
    nodes: Allocation
    hub: Hub
    runner: BlockRunner
    logs: Path

    def __post_init__(self) -> None:
        """Raises MachineError for a damaged file of an earlier block."""
        self._stored = {rates.writes: rates for rates in stored(self.logs.parent, self.nodes)}

    async def learn(self, writes: Writes) -> None:
        """Learn the rates of one kind of writes, at full rate first; its writers are held then.

        Raises BlockError if a writer cannot write.
        """
        runner = self.runner
        if writes in runner.writers.alone or writes.scheduled == 0:
            return
        if writes.scheduled is not None:
            await self._rehearse(writes)
            return
        if INJECTORS[writes.injector].row_s is None:  # no share of a core is required of a control
            count = allocation.writers_at_once(self.plan, writes, self.nodes)
            runner.writers.alone[writes] = [0.0] * count
            return
        if writes.throttled:
            await self.learn(writes.at_full_rate())
        measured = self._stored.get(writes)
        if measured is None:
            measured = await self._measure(writes)
            store(self.logs, measured)
        elif runner.writers.holds(writes):
            states, _ = await self._start(writes)
            await runner.writers.silence(writes, states)
            self._require(writes, states, 0)
        runner.writers.alone[writes] = measured.rates_b_s
        runner.writers.counted_alone_b_s[writes] = measured.counted_b_s
        runner.lead_in.expect(writes, measured.needed_s)
        runner.row_s = max(runner.row_s, measured.row_s)

    async def learn_anew(self, writes: Writes) -> None:
        """Measure the rates again, since a run has shown that they were disturbed."""
        self._stored.pop(writes, None)
        del self.runner.writers.alone[writes]
        await self.learn(writes)

    async def _rehearse(self, writes: Writes) -> None:
        runner, schedule = self.runner, self.runner.schedules[writes]
        try:
            await schedule.rehearse(runner.writers.next_turn(), self.logs)
        except NotReadyError as error:
            raise BlockError(
                "injector_never_ready", f"{writes.scheduled} writers at a time: {error}"
            ) from None
        assert self.plan.short, "a timetable has short writes"
        # Between two runs, the first one's last write ends; then the second one's begin.
        runner.lead_in.expect(writes, self.plan.short.length_s + schedule.start_up_s)

    async def _start(self, writes: Writes) -> tuple[list[WriterState], float]:
        """Start writers, and wait for a row of each; returns how long that took as well.

        The first row ramps up: it counts neither for the rate alone nor for the device count.
        """
        started_s = time.monotonic()
        states = await self.runner.writers.start(writes)
        await self._rows(states, 1)
        return states, time.monotonic() - started_s

    async def _rows(self, states: Sequence[WriterState], number: int) -> None:
        row_s = states[0].series.row_s
        await self.hub.wait_for(
            lambda: all(len(state.rows) >= number or state.ended for state in states),
            self.plan.demand.ready_timeout_s + number * row_s,
        )

    async def _measure(self, writes: Writes) -> Alone:
        runner, injector = self.runner, INJECTORS[writes.injector]
        assert injector.row_s, "a control is not measured"
        number = 1 + ceil(_ROWS_S / injector.row_s)
        states, ramp_s = await self._start(writes)
        await runner.observer.begin([])
        await self._rows(states, number)
        at_target = PASSES[injector.direction][1]
        nodes = (await runner.observer.end()).series.nodes
        counts = {node.node: passed(node, at_target) for node in nodes}
        held, ending_s = runner.writers.holds(writes), time.monotonic()
        await runner.writers.silence(writes, states)
        ended_s = time.monotonic() - ending_s
        self._require(writes, states, number)
        # Between two runs, the first one's writers stop; then the second's start, or go on, and
        # report what they must. A start has one row; of held writers the first does not count.
        ready_rows = self.plan.demand.ready_rows
        needed_s = ramp_s + (ready_rows - 1) * injector.row_s
        if held:
            are_counted = all(state.series.counted_s and state.series.samples for state in states)
            by_count = ready_rows == 1 and are_counted
            needed_s = COUNTED_S if by_count else (1 + ready_rows) * injector.row_s
        return Alone(
            targets=self.nodes.targets,
            origins=self.nodes.origins,
            writes=writes,
            rates_b_s=[rate_alone(whole_rows(state.series)) for state in states],
            counted_b_s={
                node: count.bytes_b / count.over_s
                for node, count in counts.items()
                if count and count.over_s
            },
            row_s=max(length.interval_s(state.rows, injector.row_s) for state in states),
            needed_s=ended_s + needed_s,
        )

    def _require(self, writes: Writes, states: Sequence[WriterState], rows: int) -> None:
        """Raise BlockError if a writer has ended, or has not reported so many rows."""
        for state in states:
            who = f"writer {state.number} ({writes.injector}, {state.writer.origin})"
            if state.ended:
                raise BlockError("injector_never_ready", f"{who}: {state.ended}")
            if len(state.rows) < rows:
                timeout_s = self.plan.demand.ready_timeout_s + rows * state.series.row_s
                raise BlockError(
                    "injector_never_ready", f"{who} reported no rate in {timeout_s:.0f} s"
                )
