"""The writers of a block: started once, held between runs where they can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from conductor.block.assignment import UNFIT, Assignment
from conductor.block.hub import Hub, WriterState
from conductor.injectors import INJECTORS
from conductor.judge.rates import all_rows, expected
from records.block_plan import BlockPlan
from records.treatment import Writes


class Writers:
    """Starts, holds and stops the writers of one block; of each kind, those of its runs."""

    def __init__(self, plan: BlockPlan, assignment: Assignment, hub: Hub) -> None:
        self._plan = plan
        self._assignment = assignment
        self._hub = hub
        self._turn = 0
        #: The writers that are held, and the number of each kind of writes.
        self._held: dict[Writes, list[WriterState]] = {}
        self._kinds: dict[Writes, int] = {}
        #: Queue pairs of the writers of each kind at full rate that are to have as many as help.
        self._queue_pairs: dict[Writes, int] = {}
        #: True if writers were started, not resumed, since this was set to False.
        self.restarted = False
        #: Rate alone of each writer, bytes per second (of a control 0: none is required).
        self.alone: dict[Writes, list[float]] = {}
        #: Target -> what its devices then counted, bytes per second.
        self.counted_alone_b_s: dict[Writes, dict[str, float]] = {}

    def next_turn(self) -> int:
        """Running number of the starts of writers."""
        self._turn += 1
        return self._turn

    def queue_pairs(self, writes: Writes) -> int | None:
        """Queue pairs of each writer: as planned, or as were found to help; None: not yet known."""
        return writes.queue_pairs or self._queue_pairs.get(writes.at_full_rate())

    async def set_queue_pairs(self, writes: Writes, number: int) -> None:
        """Start the next writers of this kind, throttled or not, with so many queue pairs."""
        differs = self._queue_pairs.get(writes.at_full_rate(), 1) != number
        if differs and (states := self._held.pop(writes, None)):
            await self._hub.stop(states)
        self._queue_pairs[writes.at_full_rate()] = number

    async def start(self, writes: Writes) -> list[WriterState]:
        """Resume the writers of one kind of writes if they are held, else start them."""
        states = self._held.pop(writes, None)
        if states and not any(state.ended for state in states):
            self._hub.resume(states)
        else:
            if states:
                await self._hub.stop(states)
            states = await self._start(writes)
        counted_b_s = self.counted_alone_b_s.get(writes, {})
        for state, alone_b_s in zip(states, self.alone.get(writes, ()), strict=False):
            state.series.alone_b_s = alone_b_s
            state.series.counted_alone_b_s = counted_b_s.get(state.writer.target)
        return states

    async def _start(self, writes: Writes) -> list[WriterState]:
        self.restarted = True
        writers = self._assignment.writers(
            writes,
            self._hub.addresses,
            self.next_turn(),
            full_b_s=self.alone.get(writes.at_full_rate()),
            kind=self._kinds.setdefault(writes, len(self._kinds)),
            queue_pairs=self.queue_pairs(writes) or 1,
        )
        timeout_s = self._plan.limits.ready_timeout_s
        return await self._hub.start(INJECTORS[writes.injector], writers, timeout_s)

    async def silence(self, writes: Writes, states: list[WriterState]) -> str | None:
        """Hold the writers until their next run, or stop them; returns why they cannot be held.

        Of several kinds of writes those are held whose buffers fit into memory together.
        """
        has_runs, why = self._has_runs(writes), self.why_not_held(writes)
        if why or not has_runs or any(state.ended for state in states):
            await self._hub.stop(states)
        else:
            await self._hub.hold(states)
            self._held[writes] = states
        return why

    def holds(self, writes: Writes) -> bool:
        """Return whether the writers of one kind of writes are held between runs."""
        return self._has_runs(writes) and self.why_not_held(writes) is None

    def _has_runs(self, writes: Writes) -> bool:
        """Return whether a treatment of the block has such writes."""
        return writes in [treatment.writes for treatment in self._plan.treatments]

    def why_not_held(self, writes: Writes) -> str | None:
        """Return why writers cannot be held between runs, in a few words; None if they can."""
        holds = INJECTORS[writes.injector].holds
        on_one_host = self._assignment.origins == self._assignment.targets
        if holds == "never" or (holds == "on one host" and not on_one_host):
            return f"{writes.injector} cannot be held between runs"
        kinds = [
            replace(kind, queue_pairs=self.queue_pairs(kind) or 1) for kind in [*self._held, writes]
        ]
        return None if self._assignment.buffers_fit(kinds, self._hub.facts) else UNFIT

    async def reach_speed(self, states: Sequence[WriterState]) -> bool:
        """Wait until all write as fast as a run requires, or one has ended; False if in vain."""
        limits = self._plan.limits

        def is_slow(state: WriterState) -> bool:
            series = state.series
            # Bytes counted since a held writer went on stand for one row, but not for several.
            counted = limits.ready_rows == 1 or not INJECTORS[series.injector].writes
            rows = all_rows(series) if counted else series.rows
            last_b_s = rows[-1].rate_b_s if rows else 0.0
            return len(rows) < limits.ready_rows or not (
                0 < last_b_s >= limits.min_share * expected(series).rate_b_s
            )

        return await self._hub.wait_for(
            lambda: any(state.ended for state in states) or not any(map(is_slow, states)),
            limits.ready_timeout_s,
        )
