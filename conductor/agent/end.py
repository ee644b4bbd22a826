"""One end of a writer on its agent's node: started, read, paced, held and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import IO

from conductor import counters
from conductor.agent.end_program import Meaning, read, start_writer_end
from conductor.agent.pacer import Pacer, first_full_b_s, pace
from conductor.agent.watch import Meter
from conductor.injectors.base import TRAFFIC, Arrived, EndRole, Injector, Row, Writer
from conductor.messages import WriterNews
from conductor.readings import Placement, RateRow
from records import clock, processes

#: How often the byte counter of the origin's device is read if a writer prints no rows, seconds.
COUNT_S = 1.0
#: How often to check whether a passive side listens, seconds.
LISTEN_S = 0.02
#: A passive side whose listening nothing shows is taken to listen after this time, seconds. Its
#: origin tries again a few times.
UNSEEN_S = 2.0
#: How long an origin's call may be without an answer, seconds: TCP has called four times by then.
UNANSWERED_S = 10.0
#: A writer that may only be held right after a row is held within this time after it printed one,
#: seconds: perftest sleeps for 1 s, then measures the clock.
_SOON_S = 0.75
#: It is held anyway once so many rows could have come.
_ROWS_TO_HOLD = 3
#: How often to check whether a suspended process has stopped, seconds.
_STOP_S = 0.002
_PIPE = asyncio.subprocess.PIPE


class End:
    """One running end of a writer."""

    def __init__(
        self,
        writer: Writer,
        role: EndRole,
        injector: Injector,
        process: asyncio.subprocess.Process,
        send: Callable[[WriterNews], None],
        writes_alone: Callable[[End], bool] = lambda _: False,
    ) -> None:
        """`writes_alone`: whether an origin is the only one here that writes."""
        self.writer = writer
        self.role = role
        self.injector = injector
        self.process = process
        self._send = send
        self._writes_alone = writes_alone
        #: Counts what an origin writes; None for a passive side.
        self.meter: Meter | None = None
        if role == "origin":
            self.meter = Meter(writer, injector, process.pid, self._on_count)
        #: None if it writes at full rate or its program limits it, and until it has set up.
        self.pacer: Pacer | None = None
        #: The task of the pacer, while it paces.
        self._pacing: asyncio.Task[None] | None = None
        #: All its tasks, also those that are done.
        self._tasks: list[asyncio.Task[None]] = []
        #: The processes that its launcher has started, once known.
        self._ranks: list[int] = []
        #: True while it is suspended between runs.
        self.held = False
        #: Time when it was last resumed, seconds; 0 if it never was.
        self._resumed_s = 0.0
        #: True if it is a passive side that has listened.
        self.listened = False
        #: True if it is a passive side that stays suspended while its origin writes.
        self.frozen = False
        #: True if it is being stopped, and is not to be replaced.
        self._stopping = False
        #: Time when its last row ended, reported or not, seconds; None before the first.
        self._last_row_s: float | None = None
        #: Time when its last row came, seconds; 0 before the first.
        self.came_s = 0.0
        #: True if it has reported a row since it was resumed or started.
        self._reported = False
        #: The transport of its bytes, as its program has found it.
        self._transport: str | None = None

    def begin(self, log: IO[bytes]) -> None:
        """Start to read what it prints, and to count what it writes."""
        self._start_task(self._watch(log))
        if self.role == "target":
            self._start_task(self.listen())
        elif self.meter and not self.injector.writes:
            self.meter.start()
        else:
            self._start_task(self._watch_for_answer())
            if self.injector.row_source(self.writer) == "counter":
                self._start_task(self._report_counted_rows())

    def _start_task(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.append(task)
        return task

    @property
    def index(self) -> int:
        """Index of the writer."""
        return self.writer.index

    @property
    def paced(self) -> bool:
        """Return whether it is resumed and suspended in turn, so that it keeps a rate."""
        return self.role == "origin" and self.injector.is_paced(self.writer)

    @property
    def pids(self) -> list[int]:
        """Its process; of a launcher, those that it has started, once a row has come."""
        if self.injector.is_launched and not self._ranks and self._last_row_s is not None:
            self._ranks = processes.launched_pids(self.process.pid)
        return self._ranks or [self.process.pid]

    # Held between runs.

    def suspend(self) -> None:
        """Suspend it; of a launcher, only what it has started.

        A launcher ends with the agent, and then what it has started ends too.
        """
        if self.injector.is_launched and self.process.returncode is None:
            processes.send_signal(self.pids, signal.SIGSTOP)
        else:
            processes.suspend(self.process)

    def _let_run(self) -> None:
        """Resume what `suspend` has suspended."""
        if self.injector.is_launched and self.process.returncode is None:
            processes.send_signal(self.pids, signal.SIGCONT)
        else:
            processes.resume(self.process)

    def freeze(self) -> None:
        """Suspend a passive side that spins although the writes no longer need it."""
        if self.role == "target":
            self.frozen = True
            self.suspend()

    async def hold(self) -> None:
        """Suspend it until `resume`."""
        self.held = True
        if self.meter:
            await self.meter.stop()
        await self._stop_pacing()
        self.suspend()

    def resume(self) -> None:
        """Let it continue."""
        self.held = False
        self._reported = False
        self._resumed_s = clock.now_s()
        if not self.frozen:
            self._let_run()
        if self.meter:
            self.meter.start()
        if self.pacer:
            self._pace(self.pacer)

    async def after_a_row(self) -> None:
        """Wait until it may be held, for some only right after a row; for a few rows at most."""
        printed = self.injector.row_source(self.writer) == "output"
        if self.injector.holds != "after a row" or not printed:
            return
        until_s = clock.now_s() + _ROWS_TO_HOLD * (self.injector.row_s or 0.0)
        while clock.now_s() < until_s and self.process.returncode is None:
            if clock.now_s() - self.came_s <= _SOON_S:
                return
            await asyncio.sleep(LISTEN_S)

    def placed(self) -> Placement:
        """Return where its buffers are; unknown if the process has ended."""
        buffers_b: Counter[int] = Counter()
        pids = (self.process.pid, *processes.descendants(self.process.pid))
        for pid in pids:
            buffers_b.update(processes.buffers_b(pid, self.writer.message_b))
        huge_b = [size_b for pid in pids if (size_b := processes.huge_b(pid)) is not None]
        return Placement(
            writer=self.index,
            role=self.role,
            own_binding=self.injector.own_binding(),
            buffers_b={str(node): size_b for node, size_b in buffers_b.items()},
            pinned_b=processes.pinned_b(self.process.pid),
            huge_b=sum(huge_b) if huge_b else None,
            options=self.injector.options(self.writer),
        )

    # Paced.

    def _pace(self, pacer: Pacer) -> None:
        self.pacer = pacer
        self._pacing = self._start_task(pacer.run())

    async def _stop_pacing(self) -> None:
        """Stop pacing it.

        To be called before it is suspended, since a pacer that ends resumes it.
        """
        if self._pacing:
            self._pacing.cancel()
            await asyncio.gather(self._pacing, return_exceptions=True)
            self._pacing = None

    def passed_b(self) -> float | None:
        """Return what its device has passed on, if it is the only one here that writes."""
        return self.meter.passed_b() if self.meter and self._writes_alone(self) else None

    # Its reports.

    def _on_count(self) -> None:
        if not self._reported:  # until it reports a row, counts are all that is known of it
            self.report_count()

    def count(self) -> None:
        """Count now what it has written, in addition to the meter's regular counts."""
        if self.meter:
            self.meter.count()

    def report_count(self) -> None:
        """Report what was counted of it since the last report."""
        if self.meter and (samples := self.meter.take_samples()):
            self._send(WriterNews(writer=self.index, samples=samples))

    def report_meter(self) -> None:
        """Report what was counted of an origin that is not held, and by what."""
        if self.meter and not self.held:
            news = WriterNews(
                writer=self.index, samples=self.meter.take_samples(), meter=self.meter.metered()
            )
            self._send(news)

    def report_row(self, row: Row) -> None:
        """Report a row that has just come, unless it was held in a part of the row's interval."""
        before_s, self.came_s = self.came_s, clock.now_s()
        ended_s = self.came_s - row.after_s
        last_s = self._last_row_s
        over_s = row.over_s
        if over_s is None:
            over_s = (self.injector.row_s or COUNT_S) if last_s is None else ended_s - last_s
        elif last_s is not None:  # a row begins when the one before it is printed, at the latest
            ended_s = min(ended_s, before_s + over_s)
        self._last_row_s = ended_s
        if self.meter and row.after_s:  # the program goes on to count now, for a row's length
            self.count()
            asyncio.get_running_loop().call_later(self.injector.row_s or 0.0, self.count)
        partly_held = self.held or ended_s - over_s < self._resumed_s
        if self.pacer:
            self.pacer.reported(None if partly_held else row.rate_b_s * over_s, over_s)
        elif self.paced and not self.held:  # it has set up
            full_b_s = first_full_b_s(self.writer, row.rate_b_s)
            self._pace(Pacer(self.process, pace(self.writer), full_b_s, self.passed_b))
        if partly_held:
            return
        self._reported = True
        if self.meter:
            self.meter.start()
            self.report_count()
        self._send(
            WriterNews(writer=self.index, row=RateRow(ended_s - over_s, ended_s, row.rate_b_s))
        )

    def report_arrived(self, arrived: Arrived) -> None:
        """Count the bytes that have arrived, and report their transport if it is another one."""
        if self.meter:
            self.meter.arrived(arrived.bytes_b)
        if arrived.transport != self._transport:
            self._transport = arrived.transport
            self._send(WriterNews(writer=self.index, transport=arrived.transport))

    def _ended(self, why: str) -> None:
        self._send(WriterNews(writer=self.index, ended=f"{self.role} side ended: {why}"))

    async def _watch(self, log: IO[bytes]) -> None:
        """Read what it prints until it ends; start another passive side if short writes need it."""
        with contextlib.closing(log):
            why = await self._read(log)
            # A passive side of short writes had listened, and ended.
            while self.listened and self.writer.messages is not None and not self._stopping:
                began_s = clock.now_s()
                process = await start_writer_end(self.injector, self.writer, self.role, _PIPE)
                if isinstance(process, str):
                    why = process
                    break
                self.process = process
                why = await self._read(log)
                # Each may end at once: then start one every `LISTEN_S` at most.
                await asyncio.sleep(max(began_s + LISTEN_S - clock.now_s(), 0.0))
        self._ended(why)

    async def _read(self, log: IO[bytes]) -> str:
        """Read what the process prints until it ends; returns why it ended."""

        def take(meaning: Meaning) -> None:
            if isinstance(meaning, Row) and self.role == "origin":
                self.report_row(meaning)
            elif isinstance(meaning, Arrived):
                self.report_arrived(meaning)

        return await read(self.process, self.injector.parser(self.writer), take, log)

    async def listen(self) -> None:
        """Report that the passive side listens, once it does, or that another process has its port.

        Its sockets show which, since its output may stay buffered for a long time.
        """
        port, began_s = self.writer.port, clock.now_s()
        shown = self.injector.listens_over_tcp(self.writer)
        while self.process.returncode is None:
            state = processes.listener(port, self.process.pid)
            if state == "other":
                self._ended(processes.PORT_TAKEN.format(port=port))
                return
            if state == "own" or (not shown and clock.now_s() - began_s > UNSEEN_S):
                self.listened = True
                self._send(WriterNews(writer=self.index, listening=True))
                return
            await asyncio.sleep(LISTEN_S)

    async def _watch_for_answer(self) -> None:
        """Report if the passive side does not answer; the origin's program may wait for minutes."""
        port, answered_s = self.writer.port, clock.now_s()
        while self.process.returncode is None and self._last_row_s is None:
            if not processes.is_connecting(port, self.process.pid):
                answered_s = clock.now_s()
            elif clock.now_s() - answered_s > UNANSWERED_S:
                self._ended(
                    processes.PORT_UNANSWERED.format(port=port, address=self.writer.address)
                )
                return
            await asyncio.sleep(COUNT_S)

    async def _report_counted_rows(self) -> None:
        """Report rows of a writer that prints none, from the bytes that passed its device."""
        read_now = partial(counters.read, self.writer.device, TRAFFIC[self.injector.direction][0])
        then_s, then = clock.now_s(), read_now()
        if then is None:
            device = self.writer.device
            self._ended(f"device {device}: no byte counter; a writer that prints no rows needs one")
        while self.process.returncode is None and then is not None:
            await asyncio.sleep(COUNT_S)
            now_s, now = clock.now_s(), read_now()
            gone_b = counters.bytes_between(then, now)
            if gone_b is not None:
                self.report_row(Row(gone_b / (now_s - then_s)))
            then_s, then = now_s, now

    # Stopped.

    async def quieten(self) -> None:
        """Stop counting and pacing it, and resume it: a suspended process does not end."""
        self._stopping = True
        if self.meter:
            await self.meter.stop()
        await self._stop_pacing()
        self._let_run()

    async def stop(self) -> None:
        """Stop its process."""
        await processes.stop(self.process)

    async def forget(self) -> None:
        """End its tasks, and the process of short writes that may have replaced it meanwhile."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.writer.messages:
            await self.stop()


async def wait_until_stopped(ends: list[End]) -> None:
    """Wait until the processes of suspended ends have stopped: a signal takes its time."""
    while not all(processes.is_stopped(pid) for end in ends for pid in end.pids):
        await asyncio.sleep(_STOP_S)
