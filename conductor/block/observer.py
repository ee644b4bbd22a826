"""The conductor's side of the watches: what all agents record of a run, and what it must show."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from statistics import median

from conductor import messages
from conductor.agent.agent import node_name
from conductor.block import allocation
from conductor.block.allocation import Allocation
from conductor.block.hub import Hub
from conductor.counters import Passed
from conductor.injectors import INJECTORS
from conductor.injectors.base import PASSES
from conductor.judge.series import Rails, Series
from records.machine.node_counters import NodeCounter
from records.plan import BlockPlan
from records.sample import NodeConditions
from records.treatment import Treatment, Writes

#: Time between two beats, seconds.
_PERIOD_S = 0.2
#: What agents are asked to do.
_WATCH = "read its node's load"
#: Fewer accepted runs say nothing on the usual frequency.
_LEAST_RUNS = 3


class Observer:
    """Observes the runs of one block."""

    def __init__(self, plan: BlockPlan, nodes: Allocation, hub: Hub) -> None:
        self._nodes = nodes
        self._hub = hub
        self._devices = watched_devices(plan)
        self._roots = {node_name(): [os.getpid()]}
        self._exempt = {node_name(): [plan.owner_pid]} if plan.owner_pid else {}
        self._pulse: asyncio.Task[None] | None = None
        #: When this process last ran, the longest time that it did not, and by how much the wall
        #: clock was ahead of the monotonic one at first, seconds.
        self._beat_s = self._stood_still_s = self._ahead_s = 0.0

    async def begin(self, cpus: list[int]) -> None:
        """Begin to watch all nodes; `cpus` are those of the application, empty for all."""
        orders = {
            node: messages.BeginWatch(
                self._devices if node in self._nodes.targets else [],
                cpus,
                self._roots.get(node, []),
                self._exempt.get(node, []),
            )
            for node in self._nodes.nodes
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
        orders = dict.fromkeys(self._nodes.nodes, messages.EndWatch())
        answers = await self._hub.ask(orders, messages.Observed, _WATCH)
        series = Series(
            nodes=[answers[node].node for node in self._nodes.targets],
            ran=sorted({writer for answer in answers.values() for writer in answer.ran}),
            stood_still_s=self._stood_still_s,
            clock_moved_s=clock_moved_s,
        )
        return series, {node: answer.counters for node, answer in answers.items()}


# What a run must show, by the plan of its block.


def _writing(plan: BlockPlan) -> list[Writes]:
    """All kinds of writes of a block, without its control."""
    kinds = [treatment.writes for treatment in plan.treatments if treatment.writes]
    return [writes for writes in kinds if INJECTORS[writes.injector].writes]


def watched_devices(plan: BlockPlan) -> list[str]:
    """Devices of the targets whose bytes are counted; on one host writes pass none."""
    if plan.origin_policy == "same_host":
        return []
    named = dict.fromkeys(device for writes in _writing(plan) for device in writes.devices)
    return plan.rails or list(named)


def silent_directions(plan: BlockPlan, treatment: Treatment) -> list[Passed]:
    """The directions of the block's writes at the targets, if this treatment writes nothing."""
    writes = treatment.writes
    if writes and INJECTORS[writes.injector].writes and writes.scheduled != 0:
        return []
    at_targets = (PASSES[INJECTORS[other.injector].direction][1] for other in _writing(plan))
    return list(dict.fromkeys(at_targets))


def rails_of(plan: BlockPlan, treatment: Treatment, nodes: Allocation) -> Rails | None:
    """The devices that a treatment names; None if rails are not judged.

    An application on one node sends nothing over them, and one whose MPI chooses by itself may use
    any. Each writer takes the next device; a timetable uses the first.
    """
    if not plan.rails or plan.origin_policy == "same_host":
        return None
    writes, start = treatment.writes, treatment.start
    required = set[str]()
    if writes and writes.scheduled != 0:
        writers = 1 if writes.scheduled else allocation.writers_at_once(plan, writes, nodes)
        required |= set(writes.devices[:writers])
    between = len(nodes.targets) > 1 and bool(start.ranks)
    if between:
        required |= set(start.devices)
    allowed = set(plan.rails) if between and not start.devices else required
    return Rails(plan.rails, sorted(required), sorted(allowed))


def usual_hz(node: str, accepted: Sequence[Sequence[NodeConditions]]) -> float | None:
    """Median frequency of a node in the accepted runs of a block; None if they are too few."""
    frequencies_hz = [
        target.frequency_hz
        for run in accepted
        for target in run
        if target.node == node and target.frequency_hz
    ]
    return median(frequencies_hz) if len(frequencies_hz) >= _LEAST_RUNS else None
