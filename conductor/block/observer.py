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

#: Time from one beat of this process to the next, seconds. A late beat shows that the process did
#: not run.
_BEAT_PERIOD_S = 0.2
#: Completes the message about an agent that does not answer: 'did not ...'.
_ACTION = "read its node's load"
#: Minimum number of accepted runs from which a usual frequency is computed.
_LEAST_RUNS = 3


class Observer:
    """Observes the runs of one block."""

    def __init__(
        self, allocation: Allocation, hub: Hub, devices: Sequence[str], owner_pid: int | None
    ) -> None:
        """Observe the `devices` of targets.

        `owner_pid` is the process of this host whose end stops the block, such as ReFrame. It does
        not belong to the block, but is no disturbance.
        """
        self._allocation = allocation
        self._hub = hub
        self._devices = list(devices)
        #: Node -> PIDs of processes that, with all their descendants, are no disturbance.
        self._root_pids = {node_name(): [os.getpid()]}
        #: Node -> PIDs of processes that are no disturbance, although their descendants may be.
        self._exempt_pids = {node_name(): [owner_pid]} if owner_pid else {}
        self._pulse: asyncio.Task[None] | None = None
        #: Time of the last beat, and the longest delay of a beat, seconds.
        self._beat_s = self._stood_still_s = 0.0
        #: Wall clock minus monotonic clock at the beginning, seconds.
        self._clock_difference_s = 0.0

    async def begin(self, cpus: list[int]) -> None:
        """Begin to watch all nodes; `cpus` are the application's CPUs, empty for all CPUs."""
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
        while True:
            await asyncio.sleep(_BEAT_PERIOD_S)
            self._record_beat()

    def _record_beat(self) -> None:
        now_s = time.monotonic()
        self._stood_still_s = max(self._stood_still_s, now_s - self._beat_s - _BEAT_PERIOD_S)
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
        held_but_ran = {writer for answer in answers.values() for writer in answer.held_but_ran}
        series = Series(
            nodes=[answers[target].node for target in self._allocation.targets],
            ran=sorted(held_but_ran),
            stood_still_s=self._stood_still_s,
            clock_moved_s=clock_moved_s,
        )
        return series, {node: answer.counters for node, answer in answers.items()}


def usual_hz(node: str, accepted_conditions: Sequence[Sequence[NodeConditions]]) -> float | None:
    """Return the median frequency of a node in accepted runs of a block; None for too few runs.

    `accepted_conditions` has the conditions at all targets, for each accepted run.
    """
    frequencies_hz = [
        conditions.frequency_hz
        for conditions_of_run in accepted_conditions
        for conditions in conditions_of_run
        if conditions.node == node and conditions.frequency_hz
    ]
    return median(frequencies_hz) if len(frequencies_hz) >= _LEAST_RUNS else None
