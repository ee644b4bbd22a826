"""Records what happens on an agent's node, from just before a run until just after it.

Recorded are the load, frequency and counters of the host, and the byte counters of devices. The
meters of writers are here as well; they report during the run.

A meter counts the bytes of one writer independently of the rows (reports) that the writer prints.
It reads the byte counter of the origin's device. If the target's process is a program of this
project, the meter uses the bytes that this process reports to have found in its memory. Over shared
memory, nothing else counts the bytes.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from statistics import fmean

from conductor import counters
from conductor.counters import TrafficDirection
from conductor.injectors.base import TRAFFIC, Injector, Writer
from conductor.messages import BeginWatch, WatchRecord
from conductor.readings import (
    SHORTEST_COUNT_S,
    CounterSample,
    DeviceSample,
    DeviceSeries,
    LoadSample,
    MeterRecord,
    NodeSeries,
)
from records import clock, kernel_text, processes
from records.machine import cpu_load, node_counters
from records.machine.node_counters import NodeCounter, NodeReader
from records.sample import WRITERS_TIME


class MeterError(Exception):
    """A writer's bytes cannot be counted. The message is one line."""


#: Time between two counts of a meter, seconds. A rate can be computed over this time.
METER_INTERVAL_S = SHORTEST_COUNT_S


def _device_counter(
    device: str | None, direction: TrafficDirection
) -> tuple[Callable[[], float], float]:
    """Return a function that reads the bytes of an origin's device, and the counter's period.

    This function and the returned one raise MeterError.
    """
    if device is None:
        raise MeterError("the machine's file names no device")
    last_reading = counters.read(device, direction)
    if last_reading is None:
        raise MeterError(f"device {device}: no byte counter")

    def read_b() -> float:
        nonlocal last_reading
        reading = counters.read(device, direction)
        total_b = reading.bytes_b if reading else None
        if total_b is None or counters.bytes_between(last_reading, reading) is None:
            raise MeterError(f"device {device}: its counter stopped or was set back")
        last_reading = reading
        return total_b

    return read_b, last_reading.period_s


def _processor_time(pid: int) -> Callable[[], float]:
    """Return a function that reads the processor time of a control, seconds.

    The function raises MeterError.
    """

    def read_s() -> float:
        used_s = processes.precise_cpu_s(pid)
        if used_s is None:
            raise MeterError("the process has ended")
        return used_s

    return read_s


class Meter:
    """Counts one writer's bytes from `start` to `stop`, several times a second."""

    def __init__(
        self, writer: Writer, injector: Injector, pid: int, on_count: Callable[[], None]
    ) -> None:
        """`pid` is the PID of the writer's process; `on_count` is called after each count."""
        self._writer = writer
        self._injector = injector
        self._pid = pid
        self._on_count = on_count
        self._samples: list[CounterSample] = []
        #: The bytes that the target's process had found in its memory at its last report.
        self._arrived_b = 0.0
        #: What counts the bytes (`MeterRecord.source`).
        self._source = ""
        #: Reads the total counted so far; None if the target's process reports it.
        self._read_total: Callable[[], float] | None = None
        #: Time between two updates of the counter, seconds; 0: it is always up to date.
        self._period_s = 0.0
        #: The last count, unless counting has just started.
        self._last_sample: CounterSample | None = None
        #: Why nothing is counted; None while bytes are counted.
        self._fault: str | None = None
        self._task: asyncio.Task[None] | None = None
        #: Repeats the last report if no other report arrives within three times `METER_INTERVAL_S`,
        #: since a target that shares its core with the origin may miss a report.
        self._repeat_timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start counting, unless the meter counts already."""
        if self._task is None:
            self._samples, self._last_sample, self._fault = [], None, None
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop counting."""
        task, self._task = self._task, None
        if self._repeat_timer:
            self._repeat_timer.cancel()
        if task:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def take_arrival(self, bytes_b: float) -> None:
        """Take a report that the target's process has found `bytes_b` bytes in its memory."""
        self._arrived_b = bytes_b
        if self._task:
            self._add(bytes_b)
            self._on_count()
            self._restart_timer()

    def _restart_timer(self) -> None:
        """Start `_repeat_timer` again. It runs out only if no report arrives."""
        if self._repeat_timer:
            self._repeat_timer.cancel()
        loop = asyncio.get_running_loop()
        self._repeat_timer = loop.call_later(
            3 * METER_INTERVAL_S, lambda: self.take_arrival(self._arrived_b)
        )

    def count(self) -> None:
        """Count now, in addition to the regular counts."""
        if self._task and self._read_total and not self._fault:
            with suppress(MeterError):  # the next regular count has the same error
                self._add(self._read_total())

    async def _run(self) -> None:
        try:
            self._choose_counter()
            if self._read_total is None:
                self._restart_timer()
            while self._read_total:
                self._add(self._read_total())
                self._on_count()
                await asyncio.sleep(METER_INTERVAL_S)
        except MeterError as error:
            self._fault = str(error)

    def _choose_counter(self) -> None:
        """Choose the counter of this writer's bytes. Raises MeterError if there is none."""
        writer, injector = self._writer, self._injector
        if not injector.writes:
            self._source, self._read_total = "a processor", _processor_time(self._pid)
        elif injector.reports_arrivals:
            self._source = "the target's memory"
        elif injector.transport(writer) != "shared memory":
            direction = TRAFFIC[injector.direction].at_origin
            self._read_total, self._period_s = _device_counter(writer.device, direction)
            self._source = f"{direction} by {writer.device}"
        else:
            raise MeterError("nothing counts what passes over shared memory")

    def _add(self, total: float) -> None:
        """Add a count, unless it repeats the last one and the counter was not due for an update."""
        sample, last = CounterSample(clock.now_s(), total), self._last_sample
        is_repeated = last is not None and last.total == total
        if last and is_repeated and counters.may_be_old(self._period_s, sample.at_s - last.at_s):
            return
        self._last_sample = sample
        self._samples.append(sample)

    def take_samples(self) -> list[CounterSample]:
        """Return the counts since the last call, and forget them."""
        samples, self._samples = self._samples, []
        return samples

    def passed_b(self) -> float | None:
        """Return the bytes that the origin's device has counted up to now; None if unknown."""
        has_current_bytes = self._injector.writes and not self._fault and not self._period_s
        if self._read_total and has_current_bytes:
            with suppress(MeterError):  # the next regular count has the same error
                return self._read_total()
        return None

    def record(self) -> MeterRecord:
        """Return how bytes are counted, or why they are not counted."""
        counted_by_target = self._injector.reports_arrivals and bool(self._source)
        return MeterRecord(self._writer.index, self._source, counted_by_target, self._fault)


#: Time until the first reading of the frequency, seconds.
FIRST_FREQUENCY_S = 0.25
#: Shortest time between two readings of load and frequency, seconds. It is short, since the time
#: that a foreign process uses after its last reading is lost when the process ends.
LOAD_INTERVAL_S = 1.0
#: Largest share of a hardware thread's time that reading the load may take.
_READING_SHARE = 0.003


class Watch:
    """Records the load, counters and devices of a node during one run."""

    def __init__(
        self,
        node: str,
        order: BeginWatch,
        node_reader: NodeReader,
        *,
        writer_pids: Sequence[int],
        held_pids: Sequence[tuple[int, int]],
    ) -> None:
        """Start the watch, as ordered.

        `writer_pids` are PIDs of both ends of writers on this node, without those of short writes.
        `held_pids` are pairs of the writer's index and a PID of a suspended end.
        """
        self._node, self._order = node, order
        self._block = os.environ.get(cpu_load.BLOCK_VARIABLE, "")
        #: PIDs of processes that belong to the block with all their descendants.
        self._roots = [os.getpid(), *order.roots]
        #: CPUs on which the application may run, by the last reading that showed the application.
        self._application_cpus: set[int] = set()
        self._frequencies_hz: list[float] = []
        #: Foreign program -> processor time, seconds.
        self._foreign_s: dict[str, float] = {}
        self._load_task = asyncio.create_task(self._keep_reading())
        self._first_load = self._last_load = cpu_load.read(self._block, self._roots, order.exempt)
        self._load_samples = [self._load_sample()]
        self._node_reader = node_reader
        self._writer_pids = writer_pids
        #: Writer, PID, and processor time when the watch began, of each process of a suspended end.
        self._held_processes = [
            (writer, pid, processes.precise_cpu_s(pid)) for writer, pid in held_pids
        ]
        self._first_counters = self._read_counters()
        self._first_counters_by_cpu = node_reader.by_cpu()
        #: Device -> name of its counter, as of the last reading.
        self._counter_names = dict.fromkeys(order.devices, "")
        #: Device -> its readings.
        self._device_samples: dict[str, list[DeviceSample]] = {
            device: [] for device in order.devices
        }
        self._read_devices()  # last, so that it is close to the run

    async def end(self) -> WatchRecord:
        """End the watch and return its record."""
        self._read_devices()
        increases = node_counters.increase(self._first_counters, self._read_counters())
        counters_by_cpu = self._node_reader.by_cpu()
        await self.cancel()
        self._add_load()
        free_cpus = cpu_load.free_cpus(self._application_cpus)
        if free_cpus:
            free_cpu_numbers = set(kernel_text.cpu_list(free_cpus))
            on_free_cpus = node_counters.increase_on_free_cpus(
                self._first_counters_by_cpu, counters_by_cpu, free_cpu_numbers
            )
            increases = on_free_cpus | increases
        if self._frequencies_hz:
            increases["frequency"] = NodeCounter(fmean(self._frequencies_hz), "Hz", "gauge")
        node = NodeSeries(
            node=self._node,
            devices=[
                DeviceSeries(device, self._counter_names[device], samples)
                for device, samples in self._device_samples.items()
            ],
            loads=self._load_samples,
            busiest_program=max(self._foreign_s, key=self._foreign_s.__getitem__, default=""),
            frequencies_hz=self._frequencies_hz,
            free_cpus=free_cpus,
        )
        # A suspended writer ran if it used processor time. A process that has ended (None) wrote
        # nothing.
        held_but_ran = {
            writer
            for writer, pid, before_s in self._held_processes
            if processes.precise_cpu_s(pid) not in (None, before_s)
        }
        return WatchRecord(node, increases, sorted(held_but_ran))

    async def cancel(self) -> None:
        """Stop reading the load."""
        self._load_task.cancel()
        await asyncio.gather(self._load_task, return_exceptions=True)

    def _read_devices(self) -> None:
        """Record the bytes that each device has received and sent."""
        for device, samples in self._device_samples.items():
            received = counters.read(device, "received")
            sent = counters.read(device, "sent")
            samples.append(
                DeviceSample(
                    at_s=time.monotonic(),
                    received_b=received.bytes_b if received else None,
                    sent_b=sent.bytes_b if sent else None,
                    written_b=counters.read_one_sided(device, "received"),
                    read_b=counters.read_one_sided(device, "sent"),
                )
            )
            reading = received or sent
            self._counter_names[device] = reading.name if reading else ""

    def _read_counters(self) -> dict[str, NodeCounter]:
        used_s = sum(map(processes.cpu_s, self._writer_pids))
        return {**self._node_reader.read(), WRITERS_TIME: NodeCounter(used_s, "s")}

    async def _keep_reading(self) -> None:
        """Read frequency and load regularly, until cancelled."""
        await asyncio.sleep(FIRST_FREQUENCY_S)
        cost_s = 0.0
        while True:
            if (frequency_hz := cpu_load.frequency_hz(self._order.cpus)) is not None:
                self._frequencies_hz.append(frequency_hz)
            await asyncio.sleep(max(LOAD_INTERVAL_S, cost_s / _READING_SHARE))
            began_s = time.thread_time()
            self._add_load()
            cost_s = time.thread_time() - began_s

    def _add_load(self) -> None:
        """Read the load, and add the time of foreign processes since the last reading."""
        load = cpu_load.read(self._block, self._roots, self._order.exempt, self._last_load)
        for name, used_s in (cpu_load.foreign_s(self._last_load, load) or {}).items():
            self._foreign_s[name] = self._foreign_s.get(name, 0.0) + used_s
        self._last_load = load
        self._load_samples.append(self._load_sample())
        # The block's processes that started during the watch are the application's.
        processes_at_first = self._first_load.block_processes
        application_pids = [
            pid
            for pid, start in load.block_processes.items()
            if processes_at_first.get(pid) != start
        ]
        over_s = load.at_s - self._first_load.at_s
        self._application_cpus = (
            cpu_load.busy_cpus(application_pids, over_s) or self._application_cpus
        )

    def _load_sample(self) -> LoadSample:
        """Return the last reading of the load as a sample."""
        load = self._last_load
        foreign_s = None if load.foreign is None else sum(self._foreign_s.values())
        return LoadSample(load.at_s, foreign_s, load.stolen_ticks, load.total_ticks)
