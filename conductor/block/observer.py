"""The conductor's observation of a run: what all agents record of their nodes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from statistics import median

from conductor import messages
from conductor.agent.agent import node_name
from conductor.block.allocation import Allocation
from conductor.block.hub import Hub
from conductor.judge.series import Series
from records.machine.node_counters import NodeCounter
from records.sample import NodeConditions

#: Time between two looks at this process's own clock, seconds.
_PERIOD_S = 0.2
#: What an agent did not do if it does not answer; part of the message of the failure.
_ACTION = "read its node's load"
#: Minimum accepted runs for a usual frequency.
_LEAST_RUNS = 3


class Observer:
    """Observes the runs of one block."""

    def __init__(
        self, allocation: Allocation, hub: Hub, devices: Sequence[str], owner_pid: int | None
    ) -> None:
        """Observe the `devices` of targets.

        The process `owner_pid` of this host does not belong to the block, but is no disturbance.
        """
        self._allocation = allocation
        self._hub = hub
        self._devices = list(devices)
        #: Node -> PIDs of processes that are no disturbance: with, and without, their descendants.
        self._root_pids = {node_name(): [os.getpid()]}
        self._exempt_pids = {node_name(): [owner_pid]} if owner_pid else {}
        self._pulse: asyncio.Task[None] | None = None
        #: Time of the last beat, and the longest delay of a beat, seconds.
        self._beat_s = self._stood_still_s = 0.0
        #: Wall clock minus monotonic clock at the beginning, seconds.
        self._clock_difference_s = 0.0

    async def begin(self, cpus: list[int]) -> None:
        """Begin to watch all nodes; `cpus` are the application's, empty for all."""
        orders = {
            node: messages.BeginWatch(
                self._devices if node in self._allocation.targets else [],
                cpus,
                self._root_pids.get(node, []),
                self._exempt_pids.get(node, []),
            )
            for node in self._allocation.nodes
        }
        await self._hub.ask(orders, messages.WatchBegun, _ACTION)
        self._beat_s, self._stood_still_s = time.monotonic(), 0.0
        self._clock_difference_s = time.time() - self._beat_s
        self._pulse = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        """Wake up regularly: a late beat shows that this process did not run."""
        while True:
            await asyncio.sleep(_PERIOD_S)
            self._record_beat()

    def _record_beat(self) -> None:
        now_s = time.monotonic()
        self._stood_still_s = max(self._stood_still_s, now_s - self._beat_s - _PERIOD_S)
        self._beat_s = now_s

    async def end(self) -> tuple[Series, dict[str, dict[str, NodeCounter]]]:
        """End the watch; return the run's series, and how much counters have increased.

        The increases are node -> name of a counter -> increase.
        """
        if self._pulse:
            self._pulse.cancel()
        self._record_beat()
        clock_moved_s = time.time() - time.monotonic() - self._clock_difference_s
        orders = dict.fromkeys(self._allocation.nodes, messages.EndWatch())
        answers = await self._hub.ask(orders, messages.WatchRecord, _ACTION)
        series = Series(
            nodes=[answers[node].node for node in self._allocation.targets],
            ran=sorted({writer for answer in answers.values() for writer in answer.ran}),
            stood_still_s=self._stood_still_s,
            clock_moved_s=clock_moved_s,
        )
        return series, {node: answer.counters for node, answer in answers.items()}


def usual_hz(node: str, accepted: Sequence[Sequence[NodeConditions]]) -> float | None:
    """Return the median frequency of a node in accepted runs of a block; None for too few runs."""
    frequencies_hz = [
        target.frequency_hz
        for run in accepted
        for target in run
        if target.node == node and target.frequency_hz
    ]
    return median(frequencies_hz) if len(frequencies_hz) >= _LEAST_RUNS else None
