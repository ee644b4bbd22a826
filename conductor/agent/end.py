"""One end of a writer: reads, paces, holds and stops its program on the agent's node.

A writer has two ends: the program on its origin, and the passive side on its target. An end is
*held* while it is suspended between two runs. The agent *paces* an origin, which means that it
suspends and resumes it in turn, so that it keeps a rate. A *row* is the program's report of its
rate in the last interval. A *short write* is a planned write of a fixed number of messages, after
which the programs of both ends exit.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import IO

from conductor import counters
from conductor.agent.end_program import ProgramReport, read_output, start_writer_end
from conductor.agent.pacer import Pacer, assumed_full_b_s, pace_of
from conductor.agent.watch import Meter
from conductor.injectors.base import TRAFFIC, Arrived, EndRole, Injector, Row, Writer
from conductor.messages import WriterNews
from conductor.readings import Placement, RateRow
from records import clock, processes
from records.kernel_text import ProcessStat

#: Time between two readings of the origin's byte counter if a writer prints no rows, seconds.
COUNT_INTERVAL_S = 1.0
#: Time between two checks of whether a passive side listens, seconds.
LISTEN_INTERVAL_S = 0.02
#: Time after which a passive side is assumed to listen if no socket can show it, seconds. Its
#: origin tries to connect several times.
ASSUME_LISTENING_S = 2.0
#: Time between two checks of whether an origin is still trying to connect, seconds.
CONNECT_INTERVAL_S = 1.0
#: How long an origin's attempt to connect may stay without an answer, seconds. TCP tries four times
#: within this time.
UNANSWERED_S = 10.0
#: Time between two checks of whether a writer may be held, seconds.
HOLD_INTERVAL_S = 0.02
#: If the injector is `suspendable` only "after a row", its writers are held within this time after
#: a row, seconds. After a row, perftest sleeps for 1 s. Then it measures the frequency of the CPU,
#: and a pause would falsify the next row.
_HOLD_WITHIN_S = 0.75
#: Number of row lengths after which such a writer is held even if it has printed no row.
_ROWS_TO_HOLD = 3
#: Time between two checks of whether a process is suspended, seconds.
_SUSPEND_INTERVAL_S = 0.002
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
        is_only_writing_origin: Callable[[End], bool] = lambda _: False,
    ) -> None:
        """`is_only_writing_origin`: whether an end is the only origin on its node that writes."""
        self.writer = writer
        self.role = role
        self.injector = injector
        self.process = process
        self._send = send
        self._is_only_writing_origin = is_only_writing_origin
        #: Counts the bytes of an origin; None for a passive side.
        self.meter: Meter | None = None
        if role == "origin":
            self.meter = Meter(writer, injector, process.pid, self._on_count)
        #: Limits the rate; None if there is no limit, if the program limits itself, or before the
        #: first row.
        self.pacer: Pacer | None = None
        #: The task of the pacer while it paces.
        self._pacing: asyncio.Task[None] | None = None
        #: All tasks of this end, including tasks that are done.
        self._tasks: list[asyncio.Task[None]] = []
        #: PIDs of the processes that its launcher has started; empty until they are known.
        self._launched_pids: list[int] = []
        #: True while it is suspended between runs.
        self.held = False
        #: When it was last resumed, Unix time; 0 if never.
        self._resumed_s = 0.0
        #: True for a passive side that has listened.
        self.listened = False
        #: True for a passive side that stays suspended while its origin writes.
        self.frozen = False
        #: True once it is being stopped. From then on, no other process is started in its place.
        #: The agent ends one that is just being started.
        self._stopping = False
        #: End of the last row's interval, Unix time; None before the first row.
        self._last_row_end_s: float | None = None
        #: When the last row was printed, Unix time; 0 before the first row.
        self.row_printed_s = 0.0
        #: True if it has reported a row since it was started or last resumed.
        self._has_reported = False
        #: The transport that its program reported last.
        self._transport: str | None = None

    def begin(self, log: IO[bytes]) -> None:
        """Start to read its output, and to watch its connection or count its bytes."""
        self._start_task(self._watch(log))
        if self.role == "target":
            self._start_task(self.watch_for_listener())
        elif self.meter and not self.injector.writes:  # a control has no connection
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
    def is_paced(self) -> bool:
        """Return whether the agent suspends and resumes it in turn to keep a rate."""
        return self.role == "origin" and self.injector.is_paced(self.writer)

    @property
    def pids(self) -> list[int]:
        """PID of its process; if that is a launcher, the PIDs of the processes that it has started.

        The latter are known only after the first row. Before, it is the PID of the launcher.
        """
        self.find_launched()
        return self._launched_pids or [self.process.pid]

    def find_launched(self, live: Mapping[int, ProcessStat] | None = None) -> None:
        """After the first row, find the processes that its launcher has started, if it is one.

        `live` is as in `processes.descendants`.
        """
        has_row = self._last_row_end_s is not None
        if self.injector.is_launched and has_row and not self._launched_pids:
            self._launched_pids = processes.launched_pids(self.process.pid, live)

    # Hold it between runs.

    def suspend(self) -> None:
        """Suspend its process; if that is a launcher, suspend only the processes that it started.

        If the agent ends, the launcher can then end as well, and with it these processes.
        """
        if self.injector.is_launched and self.process.returncode is None:
            processes.send_signal(self.pids, signal.SIGSTOP)
        else:
            processes.suspend(self.process)

    def _let_run(self) -> None:
        """Resume the processes that `suspend` has suspended."""
        if self.injector.is_launched and self.process.returncode is None:
            processes.send_signal(self.pids, signal.SIGCONT)
        else:
            processes.resume(self.process)

    def freeze(self) -> None:
        """Suspend a passive side until it is stopped.

        The writes do not need it, and it would spin on a core.
        """
        if self.role == "target":
            self.frozen = True
            self.suspend()

    async def hold(self) -> None:
        """Suspend it, and stop counting and pacing, until `resume`."""
        self.held = True
        if self.meter:
            await self.meter.stop()
        await self._stop_pacing()
        self.suspend()

    def resume(self) -> None:
        """Let it continue, unless it is frozen, and continue to count and pace it."""
        self.held = False
        self._has_reported = False
        self._resumed_s = clock.now_s()
        if not self.frozen:
            self._let_run()
        if self.meter:
            self.meter.start()
        if self.pacer:
            self._pace(self.pacer)

    async def wait_for_hold(self) -> None:
        """Wait until it may be held, at most for the length of `_ROWS_TO_HOLD` rows."""
        prints_rows = self.injector.row_source(self.writer) == "output"
        if self.injector.suspendable != "after a row" or not prints_rows:
            return
        until_s = clock.now_s() + _ROWS_TO_HOLD * (self.injector.row_s or 0.0)
        while clock.now_s() < until_s and self.process.returncode is None:
            if clock.now_s() - self.row_printed_s <= _HOLD_WITHIN_S:
                return
            await asyncio.sleep(HOLD_INTERVAL_S)

    def placement(self, live: Mapping[int, ProcessStat]) -> Placement:
        """Return the placement of its buffers, which is unknown if the process has ended.

        `live` is as in `processes.descendants`.
        """
        buffers_b: Counter[int] = Counter()
        pids = (self.process.pid, *processes.descendants(self.process.pid, live))
        for pid in pids:
            buffers_b.update(processes.buffers_b(pid, self.writer.message_b))
        huge_sizes_b = [processes.huge_b(pid) for pid in pids]
        known_sizes_b = [size_b for size_b in huge_sizes_b if size_b is not None]
        return Placement(
            writer=self.index,
            role=self.role,
            own_binding=self.injector.own_binding(),
            buffers_b={str(node): size_b for node, size_b in buffers_b.items()},
            pinned_b=processes.pinned_b(self.process.pid),
            huge_b=sum(known_sizes_b) if known_sizes_b else None,
            options=self.injector.options(self.writer),
        )

    # Pace it.

    def _pace(self, pacer: Pacer) -> None:
        self.pacer = pacer
        self._pacing = self._start_task(pacer.run())

    async def _stop_pacing(self) -> None:
        """Stop pacing it. Call this before `suspend`, since a pacer that ends resumes it."""
        if self._pacing:
            self._pacing.cancel()
            await asyncio.gather(self._pacing, return_exceptions=True)
            self._pacing = None

    def passed_b(self) -> float | None:
        """Return the bytes that its device has counted; None if unknown.

        They are unknown while another origin on this node writes.
        """
        return self.meter.passed_b() if self.meter and self._is_only_writing_origin(self) else None

    # Report on it.

    def _on_count(self) -> None:
        if not self._has_reported:  # later its rows report the counts
            self.report_count()

    def count(self) -> None:
        """Count its bytes now, in addition to the meter's regular counts."""
        if self.meter:
            self.meter.count()

    def report_count(self) -> None:
        """Report the counts of its bytes since the last report."""
        if self.meter and (samples := self.meter.take_samples()):
            self._send(WriterNews(writer=self.index, samples=samples))

    def report_meter(self) -> None:
        """Report the counts of an origin that is not held, and how they were counted."""
        if self.meter and not self.held:
            samples, record = self.meter.take_samples(), self.meter.record()
            self._send(WriterNews(writer=self.index, samples=samples, meter=record))

    def report_row(self, row: Row) -> None:
        """Report a row that was just printed, unless the writer was held during a part of it."""
        previous_printed_s, self.row_printed_s = self.row_printed_s, clock.now_s()
        end_s = self.row_printed_s - row.print_delay_s
        previous_end_s = self._last_row_end_s
        interval_s = row.over_s
        if interval_s is None:
            interval_s = self.injector.row_s or COUNT_INTERVAL_S
            if previous_end_s is not None:
                interval_s = end_s - previous_end_s
        elif previous_end_s is not None:
            # A row's interval begins at the latest when the previous row is printed.
            end_s = min(end_s, previous_printed_s + interval_s)
        self._last_row_end_s = end_s
        if self.meter and row.print_delay_s:  # the interval of the next row begins now
            self.count()
            asyncio.get_running_loop().call_later(self.injector.row_s or 0.0, self.count)
        start_s = end_s - interval_s
        partly_held = self.held or start_s < self._resumed_s
        if self.pacer:
            reported_b = None if partly_held else row.rate_b_s * interval_s
            self.pacer.take_report(reported_b, interval_s)
        elif self.is_paced and not self.held:  # the first row shows that its set-up is complete
            full_b_s = assumed_full_b_s(self.writer, row.rate_b_s)
            self._pace(Pacer(self.process, pace_of(self.writer), full_b_s, self.passed_b))
        if partly_held:
            return
        self._has_reported = True
        if self.meter:
            self.meter.start()
            self.report_count()
        self._send(WriterNews(writer=self.index, row=RateRow(start_s, end_s, row.rate_b_s)))

    def report_arrival(self, arrived: Arrived) -> None:
        """Count the bytes that have arrived, and report their transport if it has changed."""
        if self.meter:
            self.meter.take_arrival(arrived.bytes_b)
        if arrived.transport != self._transport:
            self._transport = arrived.transport
            self._send(WriterNews(writer=self.index, transport=arrived.transport))

    def _report_end(self, why: str) -> None:
        self._send(WriterNews(writer=self.index, why_ended=f"{self.role} side ended: {why}"))

    async def _watch(self, log: IO[bytes]) -> None:
        """Read its output until it ends; start a new passive side after each short write."""
        with contextlib.closing(log):
            why = await self._read(log)
            # Once a passive side has listened, each exit of its program ends a short write.
            while self.listened and self.writer.messages is not None and not self._stopping:
                began_s = clock.now_s()
                process = await start_writer_end(self.injector, self.writer, self.role, _PIPE)
                if isinstance(process, str):
                    why = process
                    break
                self.process = process
                why = await self._read(log)
                # If each process ends at once, start at most one in `LISTEN_INTERVAL_S`.
                await asyncio.sleep(max(began_s + LISTEN_INTERVAL_S - clock.now_s(), 0.0))
        self._report_end(why)

    async def _read(self, log: IO[bytes]) -> str:
        """Read the process's output until it ends; return why it ended."""

        def take(report: ProgramReport) -> None:
            if isinstance(report, Row) and self.role == "origin":
                self.report_row(report)
            elif isinstance(report, Arrived):
                self.report_arrival(report)

        return await read_output(self.process, self.injector.parser(self.writer), take, log)

    async def watch_for_listener(self) -> None:
        """Wait until the passive side listens, and report this, or that its port is taken.

        This is read from the node's sockets, since the program's output may stay buffered for a
        long time.
        """
        port, began_s = self.writer.port, clock.now_s()
        over_tcp = self.injector.listens_over_tcp(self.writer)
        while self.process.returncode is None:
            listener = processes.listener(port, self.process.pid)
            if listener == "other":
                self._report_end(processes.PORT_TAKEN.format(port=port))
                return
            if listener == "own" or (not over_tcp and clock.now_s() - began_s > ASSUME_LISTENING_S):
                self.listened = True
                self._send(WriterNews(writer=self.index, listening=True))
                return
            await asyncio.sleep(LISTEN_INTERVAL_S)

    async def _watch_for_answer(self) -> None:
        """Report if the passive side does not answer, since the origin may wait for minutes."""
        port, last_not_connecting_s = self.writer.port, clock.now_s()
        while self.process.returncode is None and self._last_row_end_s is None:
            if not processes.is_connecting(port, self.process.pid):
                last_not_connecting_s = clock.now_s()
            elif clock.now_s() - last_not_connecting_s > UNANSWERED_S:
                self._report_end(
                    processes.PORT_UNANSWERED.format(port=port, address=self.writer.address)
                )
                return
            await asyncio.sleep(CONNECT_INTERVAL_S)

    async def _report_counted_rows(self) -> None:
        """Report rows of a writer that prints none, from the byte counter of its device."""
        device, direction = self.writer.device, TRAFFIC[self.injector.direction].at_origin
        last_s, last_reading = clock.now_s(), counters.read(device, direction)
        if last_reading is None:
            why = f"device {device}: no byte counter; a writer that prints no rows needs one"
            self._report_end(why)
        while self.process.returncode is None and last_reading is not None:
            await asyncio.sleep(COUNT_INTERVAL_S)
            now_s, reading = clock.now_s(), counters.read(device, direction)
            bytes_b = counters.bytes_between(last_reading, reading)
            if bytes_b == 0 and counters.may_be_old(last_reading.period_s, now_s - last_s):
                continue
            if bytes_b is not None:
                self.report_row(Row(bytes_b / (now_s - last_s)))
            last_s, last_reading = now_s, reading

    # Stop it.

    async def prepare_stop(self) -> None:
        """Stop counting and pacing it, and resume it, since a suspended process does not end."""
        self._stopping = True
        if self.meter:
            await self.meter.stop()
        await self._stop_pacing()
        self._let_run()

    async def end_tasks(self) -> None:
        """End its tasks. For short writes, another process may have replaced the stopped one."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def wait_until_suspended(ends: list[End]) -> None:
    """Wait until the ends that were suspended stand still, since signals take some time."""
    while not all(processes.is_stopped(pid) for end in ends for pid in end.pids):
        await asyncio.sleep(_SUSPEND_INTERVAL_S)
