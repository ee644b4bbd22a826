"""The writers of a block. They are started once, and held (suspended) between runs if possible."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from conductor.block.assignment import BUFFERS_TOO_LARGE, Assignment
from conductor.block.hub import Hub, WriterState
from conductor.injectors import INJECTORS
from conductor.judge.rates import all_rows, expected_rate
from records.block_plan import BlockPlan
from records.treatment import Writes


class Writers:
    """Starts, holds and stops the writers of one block."""

    def __init__(
        self, plan: BlockPlan, assignment: Assignment, hub: Hub, settling_s: float
    ) -> None:
        """After `settling_s` seconds, the targets' counters show all bytes that were written."""
        self.settling_s = settling_s
        self._plan = plan
        self._assignment = assignment
        self._hub = hub
        #: Kind of writes -> its writers that are held.
        self._held: dict[Writes, list[WriterState]] = {}
        #: Kind of writes -> its index in the block.
        self._kind_indices: dict[Writes, int] = {}
        #: Kind of writes at full rate -> measured queue pairs of each writer, unless they are
        #: planned.
        self._queue_pairs: dict[Writes, int] = {}
        #: True if writers were started, not resumed, since this was set to False.
        self.restarted = False
        #: If writers were last started because a held writer had ended, which writer and why; None
        #: after any other start.
        self.reason_ended_while_held: str | None = None
        #: Kind of writes -> rate alone (uncontended rate) of each writer, bytes per second; 0 for a
        #: control, which has no required rate.
        self.alone_b_s: dict[Writes, list[float]] = {}
        #: Kind of writes -> target -> rate that its devices counted while the rates alone were
        #: measured, bytes per second.
        self.counted_alone_b_s: dict[Writes, dict[str, float]] = {}

    def queue_pairs(self, writes: Writes) -> int | None:
        """Return the planned or measured queue pairs of each writer; None if not yet measured."""
        return writes.queue_pairs or self._queue_pairs.get(writes.at_full_rate())

    async def set_queue_pairs(self, writes: Writes, queue_pairs: int) -> None:
        """Let later writers of this kind, throttled or not, start with these queue pairs."""
        differs = self._queue_pairs.get(writes.at_full_rate(), 1) != queue_pairs
        if differs and writes in self._held:
            await self._hub.stop(self._held.pop(writes))
        self._queue_pairs[writes.at_full_rate()] = queue_pairs

    async def start(self, writes: Writes) -> list[WriterState]:
        """Resume the writers of one kind of writes if they are held; start them if they are not."""
        states = self._held.pop(writes, None)
        ended_writer = next((state for state in states or () if state.end_reason), None)
        if states and not ended_writer:
            self._hub.resume(states)
        else:
            if states:
                await self._hub.stop(states)
            states = await self._start(writes)
            self.reason_ended_while_held = None
            if ended_writer:
                self.reason_ended_while_held = (
                    f"writer {ended_writer.number} ended while it was held"
                    f" ({ended_writer.end_reason})"
                )
        counted_b_s = self.counted_alone_b_s.get(writes, {})
        for state, alone_b_s in zip(states, self.alone_b_s.get(writes, ()), strict=False):
            state.series.alone_b_s = alone_b_s
            state.series.counted_alone_b_s = counted_b_s.get(state.writer.target)
        return states

    async def _start(self, writes: Writes) -> list[WriterState]:
        self.restarted = True
        writers = self._assignment.writers(
            writes,
            self._hub.addresses,
            full_b_s=self.alone_b_s.get(writes.at_full_rate()),
            kind_index=self._kind_indices.setdefault(writes, len(self._kind_indices)),
            queue_pairs=self.queue_pairs(writes) or 1,
        )
        timeout_s = self._plan.limits.ready_timeout_s
        return await self._hub.start(INJECTORS[writes.injector], writers, timeout_s)

    async def hold_or_stop(self, writes: Writes, states: list[WriterState]) -> str | None:
        """Hold the writers until their next run, or stop them; return why they cannot be held.

        Writers of several kinds are held at the same time if their buffers fit into memory
        together. Waits until the targets' counters have settled, since the next run may be a run
        without writers.
        """
        reason = self.why_not_held(writes)
        if reason or not self._has_runs(writes) or any(state.end_reason for state in states):
            await self._hub.stop(states)
        else:
            await self._hub.hold(states)
            self._held[writes] = states
        await asyncio.sleep(self.settling_s)
        return reason

    def are_held_between_runs(self, writes: Writes) -> bool:
        """Return whether the writers of one kind of writes are held between runs."""
        return self._has_runs(writes) and self.why_not_held(writes) is None

    def _has_runs(self, writes: Writes) -> bool:
        """Return whether a treatment of the block has these writes."""
        return writes in [treatment.writes for treatment in self._plan.treatments]

    def why_not_held(self, writes: Writes) -> str | None:
        """Return why writers cannot be held between runs, in a few words; None if they can."""
        on_one_host = self._assignment.origins == self._assignment.targets
        if not INJECTORS[writes.injector].can_be_held(on_one_host=on_one_host):
            return f"{writes.injector} cannot be held between runs"
        held_kinds = [
            replace(kind, queue_pairs=self.queue_pairs(kind) or 1) for kind in [*self._held, writes]
        ]
        fit = self._assignment.buffers_fit(held_kinds, self._hub.facts)
        return None if fit else BUFFERS_TOO_LARGE

    async def reach_speed(self, states: Sequence[WriterState]) -> bool:
        """Wait until all writers write as fast as a run requires, or a writer has ended.

        Returns False on timeout.
        """
        limits = self._plan.limits

        def is_slow(state: WriterState) -> bool:
            series = state.series
            # The bytes counted since a writer was resumed make one row, never several.
            counts_suffice = limits.ready_rows == 1 or not INJECTORS[series.injector].writes
            rows = all_rows(series) if counts_suffice else series.rows
            if not rows or len(rows) < limits.ready_rows:
                return True
            last_b_s = rows[-1].rate_b_s
            return last_b_s <= 0 or last_b_s < limits.min_share * expected_rate(series).rate_b_s

        return await self._hub.wait_for(
            lambda: any(state.end_reason for state in states) or not any(map(is_slow, states)),
            limits.ready_timeout_s,
        )
