"""The conductor's side of the watches: what all agents record of a run."""

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

#: Time between two beats, seconds.
_PERIOD_S = 0.2
#: Orders to agents.
_WATCH = "read its node's load"
#: Fewer accepted runs say nothing on the usual frequency.
_LEAST_RUNS = 3


class Observer:
    """Observes the runs of one block."""

    def __init__(
        self, allocation: Allocation, hub: Hub, devices: Sequence[str], owner_pid: int | None
    ) -> None:
        """Observe the `devices` of targets; the process `owner_pid` of this host is none of ours,
        and disturbs nothing.
        """
        self._allocation = allocation
        self._hub = hub
        self._devices = list(devices)
        self._roots = {node_name(): [os.getpid()]}
        self._exempt = {node_name(): [owner_pid]} if owner_pid else {}
        self._pulse: asyncio.Task[None] | None = None
        #: When this process last ran, the longest time that it did not, and by how much the wall
        #: clock was ahead of the monotonic one at first, seconds.
        self._beat_s = self._stood_still_s = self._ahead_s = 0.0

    async def begin(self, cpus: list[int]) -> None:
        """Begin to watch all nodes; `cpus` are those of the application, empty for all."""
        orders = {
            node: messages.BeginWatch(
                self._devices if node in self._allocation.targets else [],
                cpus,
                self._roots.get(node, []),
                self._exempt.get(node, []),
            )
            for node in self._allocation.nodes
        }
        await self._hub.ask(orders, messages.Watching, _WATCH)
        self._beat_s, self._stood_still_s = time.monotonic(), 0.0
        self._ahead_s = time.time() - self._beat_s
        self._pulse = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        """Wake up again and again, which shows whether this process runs all the time."""
        while True:
            await asyncio.sleep(_PERIOD_S)
            self._ran()

    def _ran(self) -> None:
        now_s = time.monotonic()
        self._stood_still_s = max(self._stood_still_s, now_s - self._beat_s - _PERIOD_S)
        self._beat_s = now_s

    async def end(self) -> tuple[Series, dict[str, dict[str, NodeCounter]]]:
        """End the watch; what was recorded, and what the counters of each node gained, by name."""
        if self._pulse:
            self._pulse.cancel()
        self._ran()
        clock_moved_s = time.time() - time.monotonic() - self._ahead_s
        orders = dict.fromkeys(self._allocation.nodes, messages.EndWatch())
        answers = await self._hub.ask(orders, messages.Observed, _WATCH)
        series = Series(
            nodes=[answers[node].node for node in self._allocation.targets],
            ran=sorted({writer for answer in answers.values() for writer in answer.ran}),
            stood_still_s=self._stood_still_s,
            clock_moved_s=clock_moved_s,
        )
        return series, {node: answer.counters for node, answer in answers.items()}


def usual_hz(node: str, accepted: Sequence[Sequence[NodeConditions]]) -> float | None:
    """Median frequency of a node in the accepted runs of a block; None if they are too few."""
    frequencies_hz = [
        target.frequency_hz
        for run in accepted
        for target in run
        if target.node == node and target.frequency_hz
    ]
    return median(frequencies_hz) if len(frequencies_hz) >= _LEAST_RUNS else None
