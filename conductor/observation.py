"""The conductor's side of the watches: what all agents saw during one run, and its judgement."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass

from conductor import allocation, messages
from conductor.agent import node_name
from conductor.allocation import Allocation
from conductor.evidence import claims, counters, disturbance
from conductor.evidence.claims import Count, Looked
from conductor.evidence.counters import DIRECTIONS, Passed
from conductor.hub import Hub
from conductor.injectors import INJECTORS
from conductor.injectors.base import PASSES
from conductor.messages import Observed
from records.machine.node_counters import NodeCounter
from records.plan import BlockPlan
from records.sample import NodeConditions
from records.treatment import Treatment
from records.units import plural

# Whether this process ran all the time: a task that wakes up several times a second.


_PERIOD_S = 0.2


class Heartbeat:
    """Runs from `begin` to `end`."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._beat_s = 0.0
        self._longest_s = 0.0
        self._ahead_s = 0.0

    def begin(self) -> None:
        """Start to measure."""
        self._beat_s, self._longest_s = time.monotonic(), 0.0
        self._ahead_s = time.time() - self._beat_s
        self._task = asyncio.create_task(self._beat())

    def end(self) -> tuple[float, float]:
        """Longest time that the process did not run, and what the wall clock gained, seconds.

        Both are compared with the monotonic clock.
        """
        if self._task:
            self._task.cancel()
        self._measure()
        return self._longest_s, time.time() - time.monotonic() - self._ahead_s

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_PERIOD_S)
            self._measure()

    def _measure(self) -> None:
        now_s = time.monotonic()
        self._longest_s = max(self._longest_s, now_s - self._beat_s - _PERIOD_S)
        self._beat_s = now_s


@dataclass(frozen=True)
class Observation:
    """What was seen from just before a run until just after it."""

    #: Target -> bytes that passed its devices.
    counts: dict[Passed, dict[str, Count]]
    #: One for each target, and its busiest foreign program.
    conditions: list[NodeConditions]
    busiest: dict[str, str]
    #: Index of the writer -> looks at it.
    looked: dict[int, Looked]
    #: Node -> name -> what its counters gained.
    counters: dict[str, dict[str, NodeCounter]]
    #: Held writers that ran.
    ran: list[int]
    #: Why the conductor's own times cannot be trusted; None if they can.
    paused: str | None


class Observer:
    """Observes the runs of one block."""

    def __init__(self, plan: BlockPlan, nodes: Allocation, hub: Hub) -> None:
        self._demand = plan.demand
        self._nodes = nodes
        self._hub = hub
        self._writing = [
            each.writes
            for each in plan.treatments
            if each.writes and INJECTORS[each.writes.injector].writes
        ]
        # Writes on a shared host pass no device.
        shared = plan.origin_policy == "same_host"
        named = dict.fromkeys(device for writes in self._writing for device in writes.devices)
        self._devices = [] if shared else plan.rails or list(named)
        self._rails = [] if shared else plan.rails
        self._writers = allocation.writers_at_once(plan, nodes)
        self._roots = {node_name(): [os.getpid()]}
        self._exempt = {node_name(): [plan.owner_pid]} if plan.owner_pid else {}
        self._before: dict[str, Observed] = {}
        self._pulse = Heartbeat()
        #: Conditions of the accepted runs.
        self.accepted: list[list[NodeConditions]] = []

    async def begin(self, cpus: list[int]) -> None:
        """Begin to watch all nodes; `cpus` are those of the application, empty for all."""
        self._before = await self._hub.watch(
            {
                node: messages.BeginWatch(
                    self._devices if node in self._nodes.targets else [],
                    cpus,
                    self._roots.get(node, []),
                    self._exempt.get(node, []),
                )
                for node in self._nodes.nodes
            }
        )
        self._pulse.begin()

    async def end(self) -> Observation:
        """End the watch."""
        paused = disturbance.paused(*self._pulse.end(), self._demand)
        after = await self._hub.watch(dict.fromkeys(self._nodes.nodes, messages.EndWatch()))
        targets = {node: after[node] for node in self._nodes.targets}
        return Observation(
            counts={
                passed: claims.passed(
                    {node: getattr(self._before[node], passed) for node in targets},
                    {node: getattr(seen, passed) for node, seen in targets.items()},
                )
                for passed in DIRECTIONS
            },
            conditions=[each.conditions for each in targets.values() if each.conditions],
            busiest={node: each.busiest for node, each in targets.items()},
            looked={looked.writer: looked for each in after.values() for looked in each.looked},
            counters={node: each.counters for node, each in after.items()},
            ran=sorted({writer for each in after.values() for writer in each.ran}),
            paused=paused,
        )

    def fault(self, seen: Observation, treatment: Treatment, alone_b_s: float) -> str | None:
        """Why a run is rejected, in one line; None if it was not disturbed or misrouted.

        `alone_b_s` is the rate of all writers without an application.
        """
        reasons = [
            seen.paused,
            disturbance.disturbed(seen.conditions, seen.busiest, self.accepted, self._demand),
            f"{plural(len(seen.ran), 'held writer')} ran within the run" if seen.ran else None,
        ]
        writes = treatment.writes
        silent = writes is None or not INJECTORS[writes.injector].writes or writes.scheduled == 0
        if silent and alone_b_s > 0:
            at_targets = (PASSES[INJECTORS[each.injector].direction][1] for each in self._writing)
            reasons += [
                disturbance.foreign_bytes(seen.conditions, passed, alone_b_s, self._demand)
                for passed in dict.fromkeys(at_targets)
            ]
        if self._rails:
            names = counters.named(treatment, self._rails, len(self._nodes.targets), self._writers)
            share = self._demand.rail_share
            reasons.append(counters.misrouted(seen.conditions, names, self._rails, share))
        return next((reason for reason in reasons if reason), None)
