"""What an agent watches on its node from just before a run until just after it.

Load, frequency and counters of the host, byte counters of devices, and the meters of its writers.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import replace

from nimc.base import processes
from nimc.machine import load, node_counters
from nimc.machine.node_counters import NodeCounter, NodeReader
from nimc.node.evidence import counters, disturbance
from nimc.node.evidence.counters import Reading
from nimc.node.messages import BeginWatch, Observed
from nimc.node.meter import Meter
from nimc.records.sample import WRITERS

#: Time until the first reading of load and frequency, and between two of them, seconds. What a
#: foreign process used since the last reading is not known if an adopting process waits for it.
_FIRST_S = 0.25
_LOAD_S = 1.0
#: Largest share of a hardware thread that reading the load may take.
_LOAD_SHARE = 0.005


class Watch:
    """One watch, of one run."""

    def __init__(
        self,
        node: str,
        order: BeginWatch,
        meters: Sequence[Meter],
        node_reader: NodeReader,
        ends: Sequence[int],
        held: Sequence[tuple[int, int]],
    ) -> None:
        """`ends`: PIDs of all ends of writers here; `held`: writer and PID of those held."""
        self._node, self._order = node, order
        self._block = os.environ.get(load.BLOCK_VARIABLE, "")
        self._roots = [os.getpid(), *order.roots]
        #: CPUs on which the application may run, by the last reading that found it.
        self._busy: set[int] = set()
        self._frequencies_hz: list[float] = []
        #: Foreign program -> processor time, seconds; and the first and the last reading.
        self._foreign_s: dict[str, float] = {}
        self._meters = meters
        for meter in meters:
            meter.begin()
        self._reading = asyncio.create_task(self._read_load())
        self._loads = [load.read(self._block, self._roots, order.exempt)]
        self._node_reader = node_reader
        self._ends = ends
        self._held = [(writer, pid, processes.ran_s(pid)) for writer, pid in held]
        self._counters = self._read_counters()
        #: Readings at the beginning; the devices come last, as close to the run as possible.
        self._rails = self._read_devices()
        self.before = counters.total_of_both(self._rails)

    async def end(self) -> Observed:
        """End the watch: what was seen, and where the devices' counters are."""
        each_after = self._read_devices()
        after = counters.total_of_both(each_after)
        gained = node_counters.change(self._counters, self._read_counters())
        await self.cancel()
        self._add_load()
        conditions, busiest = disturbance.conditions(
            self._node, self._loads, self._foreign_s, self._frequencies_hz, self.before, after
        )
        if conditions.frequency_hz:
            gained["frequency"] = NodeCounter(conditions.frequency_hz, "Hz", "gauge")
        passed = counters.passed(self._order.devices, self._rails, each_after)
        conditions = replace(conditions, devices=passed, free_cpus=load.left_free(self._busy))
        looked = [meter.looked() for meter in self._meters]
        return Observed(*after, conditions, busiest, looked, gained, self._ran())

    def _ran(self) -> list[int]:
        """Held writers of which an end ran; one that has ended writes nothing."""
        now = [(writer, before_s, processes.ran_s(pid)) for writer, pid, before_s in self._held]
        return sorted({writer for writer, then_s, now_s in now if now_s not in (None, then_s)})

    async def cancel(self) -> None:
        """Watch no more."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    def _read_devices(self) -> list[tuple[Reading | None, Reading | None]]:
        """What each device has received, and sent."""
        received, sent = counters.DIRECTIONS
        return [
            (counters.read(one, received), counters.read(one, sent)) for one in self._order.devices
        ]

    def _read_counters(self) -> dict[str, NodeCounter]:
        used_s = sum(map(processes.cpu_s, self._ends))
        return {**self._node_reader.read(), WRITERS: NodeCounter(used_s, "s")}

    async def _read_load(self) -> None:
        await asyncio.sleep(_FIRST_S)
        cost_s = 0.0
        while True:
            if (found := load.frequency_hz(self._order.cpus)) is not None:
                self._frequencies_hz.append(found)
            await asyncio.sleep(max(_LOAD_S, cost_s / _LOAD_SHARE))
            began_s = time.thread_time()
            self._add_load()
            cost_s = time.thread_time() - began_s

    def _add_load(self) -> None:
        """Read the load again, and add up what foreign processes used since the last reading."""
        now = load.read(self._block, self._roots, self._order.exempt, self._loads[-1])
        used_s = load.foreign_s(self._loads[-1], now)
        for name, more_s in (used_s or {}).items():
            self._foreign_s[name] = self._foreign_s.get(name, 0.0) + more_s
        self._loads[1:] = [now]
        # The application's processes are the block's that were not there at the beginning.
        new = [pid for pid, started in now.own.items() if self._loads[0].own.get(pid) != started]
        self._busy = load.busy_cpus(new, now.at_s - self._loads[0].at_s) or self._busy
