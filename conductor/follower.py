"""What an origin does under a timetable.

A short write is a run of the program for so many messages, launched before it is due by the recent
set-up time; its end, bytes and rate are those of the program's last row. The conductor hands out
all of a run's before the first, and collects them after the last.

A program that always writes follows a timetable as it is let run and suspended. This is emulation:
a program that limits its own rate spaces its messages evenly; here they come at full rate for a
part of each period, and not at all for the rest. Reports come about once a second, and the full
rate changes from one to the next. What was written since the last is counted by the origin's
device; if that has other writers, too, or counts nothing, it follows from how long the process ran.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import median
from typing import IO

from conductor.injectors.base import (
    Arrived,
    Bursts,
    EndRole,
    Fault,
    Injector,
    LineParser,
    Row,
    Total,
    Writer,
)
from records import clock, processes, timetable
from records.text import Gist, failure
from records.timetable import FinishedWrite, PlannedWrite, Timetable

#: What a line of a program may mean, besides a fault.
Meaning = Row | Total | Arrived
#: Time between two attempts at a write whose target was not ready, seconds.
_RETRY_S = 0.02
#: Number of set-ups whose median gives the next start: few, since set-up times vary with the load
#: of an emulated machine, and more than two, so that one outlier has no effect.
_RECENT = 3


async def start_end(
    injector: Injector, writer: Writer, role: EndRole, stdout: int | IO[bytes]
) -> asyncio.subprocess.Process | str:
    """One end of a writer, which prints to `stdout`; why it could not be started, if it was not."""
    target = role == "target"
    command = injector.target_command(writer) if target else injector.origin_command(writer)
    assert command is not None, "a control has no passive side"
    cpus = writer.target_cpus if target else writer.origin_cpus
    environment = injector.environment(writer) | dict(writer.environment)
    both, node = asyncio.subprocess.STDOUT, writer.buffer_node
    try:
        return await processes.spawn(command, environment, cpus, stdout, both, node)
    except OSError as error:
        return f"{command[0]}: {error.strerror or error}"


async def read(
    process: asyncio.subprocess.Process,
    parser: LineParser,
    take: Callable[[Meaning], None],
    log: IO[bytes] | None = None,
) -> str:
    """Pass on what a process prints until it ends; returns why it did."""
    assert process.stdout is not None
    gist = Gist()
    async for raw in processes.lines(process.stdout):
        try:
            if log:
                log.write(raw)
        except OSError as error:
            return f"its log {log and log.name}: {error.strerror}"
        line = raw.decode(errors="replace")
        meaning = parser.parse(line)
        if isinstance(meaning, Fault):
            gist.fault(meaning.text)
        elif meaning is None:
            gist.add(line)
        else:
            take(meaning)
    return failure(await process.wait(), gist)


@dataclass(frozen=True)
class Part:
    """The short writes of one origin."""

    #: What all writes share: index, port of the first passive side, message size and count, device.
    writer: Writer
    #: Names and addresses of the targets, and how many passive sides each of them has.
    targets: list[tuple[str, str]]
    sides: int
    #: The plan's time 0 by the clock of this origin (Unix time).
    zero_s: float
    #: Expected set-up time of the first write, seconds.
    lead_s: float
    #: How late a write may still be started, seconds.
    patience_s: float
    writes: list[PlannedWrite]

    def writer_of(self, write: PlannedWrite) -> Writer:
        """The writer of one write. All targets are written to before any is again, and the passive
        sides of each take turns: while a write goes to one, others listen for the next.
        """
        name, address = self.targets[write.target]
        side = write.number // len(self.targets) % self.sides
        return replace(self.writer, target=name, address=address, port=self.writer.port + side)


class ShortWriter:
    """Makes the short writes of one origin when they are due."""

    def __init__(self, injector: Injector, part: Part, log: str) -> None:
        self._injector = injector
        self._part = part
        self._log = open(log, "ab")  # noqa: SIM115 (closed by finish)
        self._setups: deque[float] = deque([part.lead_s], _RECENT)
        self._tasks: set[asyncio.Task[None]] = set()
        self._clock = asyncio.create_task(self._start_all())
        #: The writes done so far; fault -> number of writes that failed with it.
        self.finished: list[FinishedWrite] = []
        self.faults: Counter[str] = Counter()

    async def finish(self, timeout_s: float) -> None:
        """Start no more writes, wait for those in progress, and stop the rest."""
        self._clock.cancel()
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=timeout_s)
            for task in left:
                task.cancel()
            if left:
                self.faults["was still running at the end"] += len(left)
            await asyncio.gather(*left, return_exceptions=True)
        with suppress(asyncio.CancelledError):
            await self._clock
        self._log.close()

    async def _start_all(self) -> None:
        for write in self._part.writes:
            launch_s = self._part.zero_s + write.start_s - median(self._setups)
            await asyncio.sleep(max(launch_s - clock.now_s(), 0.0))
            task = asyncio.create_task(self._make(write))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _make(self, write: PlannedWrite) -> None:
        """One write; retried while its target is not ready and it can still count."""
        writer = self._part.writer_of(write)
        until_s = self._part.zero_s + write.start_s + self._part.patience_s
        while True:
            launched_s = clock.now_s()
            total, end_s, fault = await self._client(writer)
            if total is not None:
                bytes_b = float(total.messages * writer.message_b)
                start_s = end_s - bytes_b / total.rate_b_s
                setup_s = max(start_s - launched_s, 0.0)
                self._setups.append(setup_s)
                self.finished.append(FinishedWrite(write.number, start_s, end_s, bytes_b, setup_s))
                return
            self._log.write(f"{write.number}: {fault}\n".encode())
            if clock.now_s() > until_s:
                self.faults[fault] += 1
                return
            await asyncio.sleep(_RETRY_S)

    async def _client(self, writer: Writer) -> tuple[Total | None, float, str]:
        """Run the writing side once: its last row, when it stopped writing, and why it ended."""
        total, end_s = None, 0.0

        def take(meaning: Meaning) -> None:
            nonlocal total, end_s
            if isinstance(meaning, Total) and meaning.rate_b_s > 0:
                total, end_s = meaning, clock.now_s() - meaning.after_s

        process = await start_end(self._injector, writer, "origin", asyncio.subprocess.PIPE)
        if isinstance(process, str):
            return None, 0.0, process
        try:
            why = await read(process, self._injector.parser(writer), take)
        finally:
            await processes.stop(process)
        return total, end_s, why


#: Time between a run and the next under a trace: a few messages over shared memory, and a part of a
#: second, so that rates change at the begin of one, seconds.
_TRACE_PERIOD_S = 0.05
#: The same at an even rate; longer if a few messages take longer, but at most the last value, so
#: that a reported interval of a second has several.
_PERIOD_S = 0.02
_PERIOD_MESSAGES = 4
_LONGEST_S = 0.2
#: Shortest run, seconds: the resolution of timers.
_SHORTEST_S = 0.0005
#: What it could not write in time is made up for if that takes no longer than this, seconds.
_DEBT_S = 0.5
#: A report corrects the rate only after so long a time of running, seconds.
_LEAST_RUN_S = 0.05
#: A timer may end so early, as a share of a period.
_EARLY = 0.02
#: Largest share of headers in what a device counts. A report that differs by more is of another
#: time than it seems: the writer was suspended after it had measured, and before it printed.
_HEADERS = 0.1
#: Messages that must be due between two looks at a writer for one to be seen.
_MESSAGES = 2
_NO_BURSTS = Bursts(0, 0.0, 0.0)


def throttled(writer: Writer) -> Timetable:
    """The timetable of a writer below full rate: in bursts as asked, or evenly.

    An even one has periods of some messages each.
    """
    assert writer.rate_b_s, "a writer at full rate follows no timetable"
    if writer.burst:
        return timetable.bursts(writer.rate_b_s, writer.burst)
    messages_s = _PERIOD_MESSAGES * writer.message_b / writer.full_b_s if writer.full_b_s else 0.0
    return timetable.even(writer.rate_b_s, min(max(_PERIOD_S, messages_s), _LONGEST_S))


class Follower:
    """Lets a process follow a timetable, from its begin each time that it runs."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        message_b: int,
        plan: Timetable,
        full_b_s: float,
        passed_b: Callable[[], float | None] = lambda: None,
    ) -> None:
        """`passed_b`: what its device has passed on so far; None if that is not known."""
        self._process = process
        self._message_b = message_b
        self._plan = plan
        self._period_s = plan.every_s if len(plan.rates_b_s) == 1 else _TRACE_PERIOD_S
        self._bursts = _NO_BURSTS
        #: Its rate while it runs; each report corrects it.
        self._full_b_s = full_b_s
        self._passed_b = passed_b
        self._begin()

    def _begin(self) -> None:
        self._from_s = clock.now_s()
        #: Bytes that it has reported, and how long it has run since then, seconds.
        self._reported_b = 0.0
        self._ran_s = 0.0
        self._since_s: float | None = None
        #: What its device had passed on then.
        self._passed_then_b = self._passed_b()

    def bursts(self) -> Bursts:
        """The bursts since the last call."""
        bursts, self._bursts = self._bursts, _NO_BURSTS
        return bursts

    def reported(self, bytes_b: float | None, over_s: float) -> None:
        """Take a report of what it wrote in the last `over_s`, which may begin before its start.

        `bytes_b`: None if it was held meanwhile, so that its report says nothing.
        """
        now_s = clock.now_s()
        before_s = max(self._from_s - (now_s - over_s), 0.0)  # when it was not suspended
        ran_s, self._ran_s = self._running_s(now_s), 0.0
        if self._since_s is not None:
            self._since_s = now_s
        counted_b = self._counted_b()
        if bytes_b is None:
            bytes_b = ran_s * self._full_b_s if counted_b is None else counted_b
        elif before_s:
            bytes_b *= ran_s / (before_s + ran_s)
        if counted_b is not None and abs(bytes_b - counted_b) > _HEADERS * counted_b:
            bytes_b = counted_b
        if ran_s >= _LEAST_RUN_S and bytes_b > 0:
            self._full_b_s = (self._full_b_s + bytes_b / ran_s) / 2
        self._reported_b += bytes_b
        self._passed_then_b = self._passed_b()

    def asks(self, start_s: float, end_s: float) -> bool:
        """Whether so much is due between two times that a look must show it."""
        start_b, end_b = (self._plan.due_b(at_s - self._from_s) for at_s in (start_s, end_s))
        return end_b - start_b >= _MESSAGES * self._message_b

    async def run(self) -> None:
        """Follow until the process ends or this is cancelled; the process is left running."""
        self._begin()
        try:
            while self._process.returncode is None:
                now_s = clock.now_s()
                periods = int((now_s - self._from_s) / self._period_s + _EARLY) + 1
                end_s = self._from_s + periods * self._period_s
                # What was written too little for its rate being lower than it was: once more.
                while (run_s := self._run_s(end_s)) >= _SHORTEST_S:
                    processes.resume(self._process)
                    self._since_s = clock.now_s()
                    await asyncio.sleep(run_s)
                    self._ran_s, self._since_s = self._running_s(clock.now_s()), None
                    if self._plan.pause_s:
                        break
                await self._pause(now_s, end_s)
        finally:
            processes.resume(self._process)

    async def _pause(self, began_s: float, end_s: float) -> None:
        """Suspend the process until the end of a period that began at a time."""
        paused_s = clock.now_s()
        if self._plan.pause_s:  # a burst that ended late, too, has a pause
            end_s = max(end_s, paused_s + self._plan.pause_s / 2)
        if pauses := paused_s < end_s:
            processes.suspend(self._process)
        await asyncio.sleep(max(end_s - paused_s, 0.0))
        number, writing_s, pausing_s = self._bursts
        pausing_s += clock.now_s() - paused_s
        self._bursts = Bursts(number + pauses, writing_s + paused_s - began_s, pausing_s)

    def _run_s(self, end_s: float) -> float:
        """How long to run for what is due at the end of a period, at most until then."""
        run_s = self._lacking_b(end_s) / self._full_b_s
        if pause_s := self._plan.pause_s:
            least_s, most_s = (self._period_s - pause_s) / 2, self._period_s - pause_s / 2
            return min(max(run_s, least_s), most_s)
        return min(run_s, end_s - clock.now_s())

    def _running_s(self, now_s: float) -> float:
        return self._ran_s + (now_s - self._since_s if self._since_s is not None else 0.0)

    def _lacking_b(self, end_s: float) -> float:
        """What is due at a time, and not yet written."""
        due_b = self._plan.due_b(end_s - self._from_s)
        lacking_b = due_b - self._reported_b - self._unreported_b()
        beyond_b = max(lacking_b - _DEBT_S * self._full_b_s, 0.0)
        self._reported_b += beyond_b  # too late to be made up for
        return lacking_b - beyond_b

    def _unreported_b(self) -> float:
        counted_b = self._counted_b()
        return self._ran_s * self._full_b_s if counted_b is None else counted_b

    def _counted_b(self) -> float | None:
        """What its device has passed on since the last report; None if that is not known."""
        passed_b, then_b = self._passed_b(), self._passed_then_b
        return None if passed_b is None or then_b is None else passed_b - then_b
