"""What an agent records on its node from just before a run until just after it.

Load, frequency and counters of the host, byte counters of devices, and the meters of its writers.

A meter counts at its origin what one writer writes, while it writes, by other means than its rows:
by the bytes that the origin's device has passed on, or by what the target's end of the writer, if
it is a program of ours, reports to have found in its memory. Nothing else counts what passes over
shared memory.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from statistics import fmean

from conductor import counters
from conductor.counters import DIRECTIONS, Passed
from conductor.injectors.base import PASSES, Injector, Writer
from conductor.messages import BeginWatch, Observed
from conductor.rates import COUNTED_S
from conductor.series import (
    CounterSample,
    DeviceSample,
    DeviceSeries,
    LoadSample,
    Metered,
    NodeSeries,
)
from records import clock, processes
from records.machine import load, node_counters
from records.machine.node_counters import NodeCounter, NodeReader
from records.sample import WRITERS


class LookError(Exception):
    """A writer cannot be looked at. The message is one line."""


#: Time between two looks at a writer, seconds: what is counted in it is of use as a rate.
LOOK_S = COUNTED_S


class _Source:
    """What a writer is counted by: a total since some beginning, bytes (of a control, seconds)."""

    def __init__(self, at: str, total: Callable[[], float]) -> None:
        """`at`: what is looked at, for people. `total` raises LookError if that is not known."""
        self.at, self.total = at, total

    def now(self) -> CounterSample:
        """The total, and when it was that. Raises LookError."""
        return CounterSample(clock.now_s(), self.total())

    async def after(self, then: CounterSample) -> CounterSample:
        """The total when it is time for another look. Raises LookError."""
        while (left_s := then.at_s + LOOK_S - clock.now_s()) > 0:
            await asyncio.sleep(left_s)
        return self.now()


class _Device(_Source):
    """The byte counter of an origin's device."""

    def __init__(self, device: str | None, passed: Passed) -> None:
        if device is None:
            raise LookError("the machine's file names no device")
        last = counters.read(device, passed)
        if last is None:
            raise LookError(f"device {device}: no byte counter")

        def total() -> float:
            nonlocal last
            now = counters.read(device, passed)
            if now is None or counters.difference(last, now) is None:
                raise LookError(f"device {device}: its counter stopped or was set back")
            last = now
            return now.bytes_b

        super().__init__(f"sent by {device}", total)


class _Arrivals(_Source):
    """What the target's process reports to have found in its memory."""

    def __init__(self) -> None:
        super().__init__("the target's memory", lambda: self._last.total)
        self._last = CounterSample(clock.now_s(), 0.0)
        self._reported: asyncio.Future[None] | None = None

    def report(self, bytes_b: float) -> None:
        """Take a report of the bytes that have arrived so far."""
        self._last = CounterSample(clock.now_s(), bytes_b)
        if self._reported and not self._reported.done():
            self._reported.set_result(None)

    def now(self) -> CounterSample:
        """The last report."""
        return self._last

    async def after(self, then: CounterSample) -> CounterSample:
        """The next report; without one in time, nothing has arrived since the last."""
        self._reported = asyncio.get_running_loop().create_future()
        # `wait_for` forgets that it was cancelled if a report comes at the same moment.
        done, _ = await asyncio.wait({self._reported}, timeout=2 * LOOK_S)
        return self._last if done else CounterSample(clock.now_s(), self._last.total)


def _used_s(pid: int) -> float:
    """The processor time of a control, seconds in place of bytes."""
    used_s = processes.ran_s(pid)
    if used_s is None:
        raise LookError("the process has ended")
    return used_s


class Meter:
    """Counts one writer's bytes from `start` to `stop`, several times a second."""

    def __init__(
        self,
        writer: Writer,
        injector: Injector,
        pid: int,
        noted: Callable[[], None],
        asked: Callable[[float, float], bool] = lambda _start_s, _end_s: True,
    ) -> None:
        """`pid`: of its process; `noted` is called after each look.

        `asked`: whether so much was due between two times that it must be counted.
        """
        self._writer = writer
        self._injector = injector
        self._pid = pid
        self._noted = noted
        self._asked = asked
        self._samples: list[CounterSample] = []
        self._until_s = 0.0
        self._source: _Source | None = None
        self._arrivals = _Arrivals()
        #: Why nothing is counted; None while it is.
        self._fault: str | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Count from now on, unless it does."""
        if self._task is None:
            self._samples, self._fault = [], None
            self._task = asyncio.create_task(self._run())

    def arrived(self, bytes_b: float) -> None:
        """The target's process has found so much in its memory."""
        self._arrivals.report(bytes_b)

    async def stop(self) -> None:
        """Count no more."""
        task, self._task = self._task, None
        if task:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def count(self) -> None:
        """Count now, in addition to the looks."""
        if self._task and self._source and not self._fault:
            with suppress(LookError):  # the next look tells
                self._add(self._source.now())

    async def _run(self) -> None:
        try:
            self._source = self._open()
            await self._look(self._source)
        except LookError as error:
            self._fault = str(error)

    def _open(self) -> _Source:
        """What this writer can be counted by. Raises LookError if there is nothing."""
        writer = self._writer
        if not self._injector.writes:
            return _Source("a processor", partial(_used_s, self._pid))
        if self._injector.reports_arrivals:
            return self._arrivals
        if self._injector.transport(writer) != "shared memory":
            return _Device(writer.device, PASSES[self._injector.direction][0])
        raise LookError("nothing counts what passes over shared memory")

    async def _look(self, source: _Source) -> None:
        then = source.now() if source is not self._arrivals else await source.after(source.now())
        while True:
            self._add(then)
            self._noted()
            now = await source.after(then)
            then = now._replace(idle=not self._asked(then.at_s, now.at_s))

    def _add(self, sample: CounterSample) -> None:
        if sample.at_s > self._until_s:  # a report that came before the last look is known
            self._samples.append(sample)
            self._until_s = sample.at_s

    def taken(self) -> list[CounterSample]:
        """What was counted, and when, since the last call."""
        taken, self._samples = self._samples, []
        return taken

    def passed_b(self) -> float | None:
        """What the origin's device has passed on so far; None if it is not counted by that."""
        if isinstance(self._source, _Device) and not self._fault:
            with suppress(LookError):  # the next look tells
                return self._source.total()
        return None

    def metered(self) -> Metered:
        """What it counts by."""
        return Metered(
            writer=self._writer.index,
            at=self._source.at if self._source else "",
            memory=isinstance(self._source, _Arrivals),
            fault=self._fault,
        )


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
        #: Foreign program -> processor time, seconds.
        self._foreign_s: dict[str, float] = {}
        self._meters = meters
        self._reading = asyncio.create_task(self._read_load())
        self._first = self._last = load.read(self._block, self._roots, order.exempt)
        self._loads = [self._load_sample()]
        self._node_reader = node_reader
        self._ends = ends
        self._held = [(writer, pid, processes.ran_s(pid)) for writer, pid in held]
        self._counters = self._read_counters()
        #: Device -> name of its counter, and its readings; they come last, as close to the run as
        #: possible.
        self._counter_names = dict.fromkeys(order.devices, "")
        self._devices: dict[str, list[DeviceSample]] = {device: [] for device in order.devices}
        self._read_devices()

    async def end(self) -> Observed:
        """End the watch; what it has recorded."""
        self._read_devices()
        gained = node_counters.change(self._counters, self._read_counters())
        await self.cancel()
        self._add_load()
        if self._frequencies_hz:
            gained["frequency"] = NodeCounter(fmean(self._frequencies_hz), "Hz", "gauge")
        node = NodeSeries(
            node=self._node,
            devices=[
                DeviceSeries(device, self._counter_names[device], samples)
                for device, samples in self._devices.items()
            ],
            loads=self._loads,
            busiest=max(self._foreign_s, key=self._foreign_s.__getitem__, default=""),
            frequencies_hz=self._frequencies_hz,
            free_cpus=load.left_free(self._busy),
        )
        return Observed(node, [meter.metered() for meter in self._meters], gained, self._ran())

    def _ran(self) -> list[int]:
        """Held writers of which an end ran; one that has ended writes nothing."""
        now = [(writer, before_s, processes.ran_s(pid)) for writer, pid, before_s in self._held]
        return sorted({writer for writer, then_s, now_s in now if now_s not in (None, then_s)})

    async def cancel(self) -> None:
        """Watch no more."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    def _read_devices(self) -> None:
        """What each device has received and sent."""
        for device, samples in self._devices.items():
            readings = [counters.read(device, direction) for direction in DIRECTIONS]
            received_b, sent_b = map(counters.total_b, readings)
            samples.append(DeviceSample(time.monotonic(), received_b, sent_b))
            self._counter_names[device] = next((each.name for each in readings if each), "")

    def _read_counters(self) -> dict[str, NodeCounter]:
        used_s = sum(map(processes.cpu_s, self._ends))
        return {**self._node_reader.read(), WRITERS: NodeCounter(used_s, "s")}

    async def _read_load(self) -> None:
        await asyncio.sleep(_FIRST_S)
        cost_s = 0.0
        while True:
            if (frequency_hz := load.frequency_hz(self._order.cpus)) is not None:
                self._frequencies_hz.append(frequency_hz)
            await asyncio.sleep(max(_LOAD_S, cost_s / _LOAD_SHARE))
            began_s = time.thread_time()
            self._add_load()
            cost_s = time.thread_time() - began_s

    def _add_load(self) -> None:
        """Read the load again, and add up what foreign processes used since the last reading."""
        now = load.read(self._block, self._roots, self._order.exempt, self._last)
        for name, more_s in (load.foreign_s(self._last, now) or {}).items():
            self._foreign_s[name] = self._foreign_s.get(name, 0.0) + more_s
        self._last = now
        self._loads.append(self._load_sample())
        # The application's processes are the block's that were not there at the beginning.
        new = [pid for pid, started in now.ours.items() if self._first.ours.get(pid) != started]
        self._busy = load.busy_cpus(new, now.at_s - self._first.at_s) or self._busy

    def _load_sample(self) -> LoadSample:
        now = self._last
        foreign_s = None if now.foreign is None else sum(self._foreign_s.values())
        return LoadSample(now.at_s, foreign_s, now.stolen, now.total)
