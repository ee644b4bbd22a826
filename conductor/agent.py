"""The agent: one per node, started once per block. Starts, watches, paces and stops its writers.

It connects to the conductor and carries out its orders (`messages.py`). If the connection is lost,
it stops its writers and exits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import IO

from conductor import counters, messages, shared_memory, wire
from conductor.follower import Follower, Meaning, ShortWriter, read, start_end, throttled
from conductor.injectors import INJECTORS
from conductor.injectors.base import (
    PASSES,
    Arrived,
    EndRole,
    Injector,
    Row,
    Writer,
)
from conductor.series import Placed, RateRow
from conductor.watch import Meter, Watch
from records import clock, processes
from records.machine import host
from records.machine.node_counters import NodeReader

#: How often the byte counter of the origin's device is read if a writer prints no rows, seconds.
COUNT_S = 1.0
#: How often to check whether a passive side listens, seconds.
LISTEN_S = 0.02
#: A writer that may be held after a row only is held within this time after it printed one,
#: seconds, or at the latest after so many rows: perftest sleeps for 1 s, then measures the clock.
_SOON_S = 0.75
_ROWS_TO_HOLD = 3
#: How often to look whether a suspended process has stopped, seconds.
_STOP_S = 0.002
_PIPE = asyncio.subprocess.PIPE


def node_name() -> str:
    """Name of this node in Slurm, else the host name."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


@dataclass
class _End:
    """One running end of a writer."""

    writer: Writer
    role: EndRole
    process: asyncio.subprocess.Process
    injector: Injector
    #: Counts what an origin writes; None for a passive side.
    meter: Meter | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    pacing: asyncio.Task[None] | None = None
    #: What it follows, unless it writes at full rate or its program limits it.
    follower: Follower | None = None
    #: What its launcher has started, once known.
    ranks: list[int] = field(default_factory=list)
    #: Whether it is suspended between runs, and since when it is not any more.
    held: bool = False
    resumed_s: float = 0.0
    #: Whether it is a passive side that has listened; that stays suspended while its origin writes.
    listened: bool = False
    frozen: bool = False
    #: When its last row ended, reported or not, and when it came.
    last_row_s: float | None = None
    came_s: float = 0.0
    #: Whether it has reported a row since it was resumed or started.
    reported: bool = False
    #: What its bytes go over, as its program has found it.
    transport: str | None = None

    @property
    def index(self) -> int:
        """Index of the writer."""
        return self.writer.index

    @property
    def paced(self) -> bool:
        """Whether it is let run and suspended, so that it keeps a rate."""
        by_agent = self.injector.paced_by == "agent" and self.writer.rate_b_s is not None
        return by_agent and self.role == "origin"

    @property
    def pids(self) -> list[int]:
        """Its processes; of a launcher, those that it has started, once a row has come."""
        if self.injector.is_launched and not self.ranks and self.last_row_s is not None:
            self.ranks = processes.launched(self.process.pid)
        return self.ranks or [self.process.pid]

    def suspend(self) -> None:
        """Let it stand still; not a launcher, which ends with us, and what it has started then."""
        if self.injector.is_launched and self.process.returncode is None:
            processes.send(self.pids, signal.SIGSTOP)
        else:
            processes.suspend(self.process)

    def let_run(self) -> None:
        """End what `suspend` began."""
        if self.injector.is_launched and self.process.returncode is None:
            processes.send(self.pids, signal.SIGCONT)
        else:
            processes.resume(self.process)

    async def hold(self) -> None:
        """Suspend it until `resume`."""
        self.held = True
        if self.meter:
            await self.meter.stop()
        if self.pacing:
            self.pacing.cancel()  # first, since it resumes the process at its end
            await asyncio.gather(self.pacing, return_exceptions=True)
        self.suspend()

    def resume(self) -> None:
        """Let it continue."""
        self.held, self.reported, self.resumed_s = False, False, clock.now_s()
        if not self.frozen:
            self.let_run()
        if self.meter:
            self.meter.start()
        if self.follower:
            self.follow(self.follower)

    def follow(self, follower: Follower) -> None:
        """Begin to follow a timetable."""
        self.follower = follower
        self.pacing = asyncio.create_task(follower.run())
        self.tasks.append(self.pacing)

    async def after_a_row(self) -> None:
        """Wait until it may be held, if only shortly after a row; no longer than for a few rows."""
        printed = self.injector.row_source(self.writer) == "output"
        if self.injector.holds != "after a row" or not printed:
            return
        until_s = clock.now_s() + _ROWS_TO_HOLD * (self.injector.row_s or 0.0)
        while clock.now_s() < until_s and self.process.returncode is None:
            if clock.now_s() - self.came_s <= _SOON_S:
                return
            await asyncio.sleep(LISTEN_S)

    def placed(self) -> Placed:
        """Where its buffers are; unknown if the process has ended."""
        found: Counter[int] = Counter()
        for pid in (self.process.pid, *processes.descendants(self.process.pid)):
            found.update(processes.buffers_b(pid, self.writer.message_b))
        return Placed(
            writer=self.index,
            role=self.role,
            own_binding=self.injector.own_binding(),
            buffers_b={str(node): size_b for node, size_b in found.items()},
            pinned_b=processes.pinned_b(self.process.pid),
        )


class Agent:
    """State of one agent."""

    def __init__(self, connection: wire.Wire) -> None:
        self._wire = connection
        self._ends: list[_End] = []
        self._schedule: ShortWriter | None = None
        self._watched: Watch | None = None
        self._node_reader = NodeReader()

    async def serve(self) -> None:
        """Carry out orders until the connection is lost. Raises WireError for an invalid order."""
        facts = {**host.detect().as_dict(), "absent_counters": self._node_reader.absent}
        self._send(messages.Hello(node_name(), facts))
        try:
            while (order := await self._receive()) is not None:
                await self._execute(order)
        finally:
            await self._stop()

    async def _receive(self) -> messages.Order | None:
        """The next order; None if the connection is lost."""
        try:
            data = await self._wire.receive()
        except wire.WireError:
            return None
        return messages.order(data)

    def _send(self, report: messages.Report) -> None:
        self._wire.send(messages.encode(report))

    async def _execute(self, order: messages.Order) -> None:
        match order:
            case messages.StartEnd():
                await self._start(order)
            case messages.Control():
                await self._control(order)
            case messages.Follow():
                await self._follow(order)
            case messages.Perform():
                injector = INJECTORS[order.injector]
                self._schedule = ShortWriter(injector, order.part, order.log)
            case messages.Finish():
                await self._finish(order.timeout_s)
            case messages.BeginWatch():
                await self._begin_watch(order)
            case messages.EndWatch():
                await self._end_watch()
            case messages.Ping():
                self._send(messages.Pong(clock.now_s()))

    async def _start(self, order: messages.StartEnd) -> None:
        injector, writer, role = INJECTORS[order.injector], order.writer, order.role
        if role == "target" and injector.target_command(writer) is None:
            self._send(messages.News(writer.index, listening=True))
            return
        process = await start_end(injector, writer, role, _PIPE)
        if isinstance(process, str):
            self._ended(writer.index, role, process)
            return
        log = open(order.log, "ab", buffering=0)  # noqa: SIM115 (closed by _watch)
        end = _End(writer, role, process, injector)
        end.tasks.append(asyncio.create_task(self._watch(end, log)))
        if role == "target":
            end.tasks.append(asyncio.create_task(self._listen(end, writer.port)))
        else:
            end.meter = self._meter(end)
        if not injector.writes and end.meter:
            end.meter.start()
        elif role == "origin" and injector.row_source(writer) == "counter":
            end.tasks.append(asyncio.create_task(self._count(end, PASSES[injector.direction][0])))
        self._ends.append(end)

    def _meter(self, end: _End) -> Meter:
        """The meter of an origin."""

        def noted() -> None:
            if not end.reported:  # until then there is nothing else to go by
                self._report_count(end)

        def asked(start_s: float, end_s: float) -> bool:
            return end.follower is None or end.paced or end.follower.asks(start_s, end_s)

        return Meter(end.writer, end.injector, end.process.pid, noted, asked)

    def _report_count(self, end: _End) -> None:
        if end.meter and (samples := end.meter.taken()):
            self._send(messages.News(end.index, samples=samples))

    def _ended(self, writer: int, role: EndRole, why: str) -> None:
        self._send(messages.News(writer, ended=f"{role} side ended: {why}"))

    def _report_rate(self, end: _End, row: Row) -> None:
        before_s, end.came_s = end.came_s, clock.now_s()
        ended_s, last_s, over_s = end.came_s - row.after_s, end.last_row_s, row.over_s
        if over_s is None:
            over_s = (end.injector.row_s or COUNT_S) if last_s is None else ended_s - last_s
        elif last_s is not None:  # a row begins when the one before it is printed, at the latest
            ended_s = min(ended_s, before_s + over_s)
        end.last_row_s = ended_s
        if end.meter and row.after_s:  # the program goes on to count now, for the length of a row
            end.meter.count()
            asyncio.get_running_loop().call_later(end.injector.row_s or 0.0, end.meter.count)
        held = end.held or ended_s - over_s < end.resumed_s
        if end.follower is None and end.paced and not end.held:  # it has set up
            end.follow(self._throttled(end, row.rate_b_s))
        elif end.follower:
            end.follower.reported(None if held else row.rate_b_s * over_s, over_s)
        if held:
            return  # the interval has a part in which it was held
        end.reported = True
        if end.meter:
            end.meter.start()
            self._report_count(end)
        bursts = end.follower.bursts() if end.follower and end.writer.burst else row.bursts
        reported = RateRow(ended_s - over_s, ended_s, row.rate_b_s, bursts)
        self._send(messages.News(end.index, row=reported))

    def _arrived(self, end: _End, seen: Arrived) -> None:
        if end.meter:
            end.meter.arrived(seen.bytes_b)
        if seen.transport != end.transport:
            end.transport = seen.transport
            self._send(messages.News(end.index, transport=seen.transport))

    async def _control(self, order: messages.Control) -> None:
        """Stop, suspend or resume ends; those that stop say where their buffers are."""
        chosen = [end for end in self._ends if end.index in order.writers]
        origins_first = sorted(chosen, key=lambda end: end.role)
        if order.do == "freeze":  # it spins although the writes no longer need it
            for end in chosen:
                if end.role == "target":
                    end.frozen = True
                    processes.suspend(end.process)
            return
        if order.do == "resume":
            for end in reversed(origins_first):
                end.resume()
            return
        placed = [end.placed() for end in origins_first]
        if order.do == "stop":
            await self._stop_ends(origins_first)
        else:
            await asyncio.gather(*(end.after_a_row() for end in chosen if end.role == "origin"))
            for end in origins_first:
                await end.hold()
            await _until_stopped(origins_first)
        self._send(messages.WritersStopped(placed))

    async def _follow(self, order: messages.Follow) -> None:
        """Let an origin follow a timetable in place of the one it follows; at full rate without."""
        for end in self._ends:
            if (end.index, end.role) != (order.writer, "origin"):
                continue
            if end.pacing:
                end.pacing.cancel()
                await asyncio.gather(end.pacing, return_exceptions=True)
            end.follower = end.pacing = None
            if order.plan:
                asked = end.writer.message_b, order.plan, order.full_b_s
                end.follow(Follower(end.process, *asked, partial(self._passed_b, end)))

    def _throttled(self, end: _End, reported_b_s: float) -> Follower:
        """Follows the rate of a writer; `reported_b_s`: what it has written without limit."""
        writer, passed_b = end.writer, partial(self._passed_b, end)
        full_b_s = writer.full_b_s or max(reported_b_s, writer.rate_b_s or 0.0)
        return Follower(end.process, writer.message_b, throttled(writer), full_b_s, passed_b)

    def _passed_b(self, end: _End) -> float | None:
        """What an origin's device has passed on, if the origin is the only one here that writes."""
        writing = [each for each in self._ends if each.role == "origin" and not each.held]
        return end.meter.passed_b() if end.meter and writing == [end] else None

    async def _watch(self, end: _End, log: IO[bytes]) -> None:
        """Read what one end prints until it ends; replace it if short writes need another."""
        with contextlib.closing(log):
            why = await self._read(end, log)
            while self._needs_another(end):
                began_s = clock.now_s()
                process = await start_end(end.injector, end.writer, end.role, _PIPE)
                if isinstance(process, str):
                    why = process
                    break
                end.process = process
                why = await self._read(end, log)
                # In case that each of them ends at once.
                await asyncio.sleep(max(began_s + LISTEN_S - clock.now_s(), 0.0))
        self._ended(end.index, end.role, why)

    def _needs_another(self, end: _End) -> bool:
        """Whether a passive side of short writes is to be replaced: it had listened, and ended."""
        is_over = end.listened and end.process.returncode is not None
        return is_over and end.writer.messages is not None and end in self._ends

    async def _read(self, end: _End, log: IO[bytes]) -> str:
        """Read what a process prints until it ends, and why it did."""

        def take(meaning: Meaning) -> None:
            if isinstance(meaning, Row) and end.role == "origin":
                self._report_rate(end, meaning)
            elif isinstance(meaning, Arrived):
                self._arrived(end, meaning)

        return await read(end.process, end.injector.parser(end.writer), take, log)

    async def _listen(self, end: _End, port: int) -> None:
        """Report when the passive side listens: its output may stay buffered for a long time."""
        while end.process.returncode is None:
            match processes.listener(port, end.process.pid):
                case "own":
                    end.listened = True
                    self._send(messages.News(end.index, listening=True))
                    return
                case "other":
                    self._ended(end.index, "target", processes.TAKEN.format(port=port))
                    return
            await asyncio.sleep(LISTEN_S)

    async def _count(self, end: _End, passed: counters.Passed) -> None:
        """Rows of a writer that prints none: the bytes that passed its origin's device."""
        device = end.writer.device
        then_s, then = clock.now_s(), counters.read(device, passed)
        if then is None:
            fault = f"device {device}: no byte counter; a writer that prints no rows needs one"
            self._ended(end.index, end.role, fault)
        while end.process.returncode is None and then is not None:
            await asyncio.sleep(COUNT_S)
            now_s, now = clock.now_s(), counters.read(device, passed)
            gone_b = counters.difference(then, now)
            if gone_b is not None:
                self._report_rate(end, Row(gone_b / (now_s - then_s)))
            then_s, then = now_s, now

    async def _begin_watch(self, order: messages.BeginWatch) -> None:
        if self._watched:
            await self._watched.cancel()
        held = [end for end in self._ends if end.held]
        for end in held:
            end.suspend()  # another process may have continued it
        await _until_stopped(held)
        meters = [end.meter for end in self._ends if end.meter and not end.held]
        self._watched = Watch(
            *(node_name(), order, meters, self._node_reader),
            [pid for end in self._ends if not end.writer.messages for pid in end.pids],
            [(end.index, pid) for end in held for pid in end.pids],
        )
        for meter in meters:  # as close to the run's beginning as possible, and to its end
            meter.count()
        self._send(messages.Watching())

    async def _end_watch(self) -> None:
        assert self._watched, "begun before"
        for end in self._ends:
            if end.meter:
                end.meter.count()
        for end in self._ends:
            self._report_count(end)
        watch, self._watched = self._watched, None
        self._send(await watch.end())

    async def _finish(self, timeout_s: float) -> None:
        written = messages.Written([], {})
        if self._schedule:
            await self._schedule.finish(timeout_s)
            written = messages.Written(self._schedule.finished, dict(self._schedule.faults))
            self._schedule = None
        self._send(written)

    async def _stop(self) -> None:
        """Stop everything."""
        if self._watched:
            await self._watched.cancel()
            self._watched = None
        if self._schedule:
            await self._schedule.finish(0.0)
            self._schedule = None
        await self._stop_ends(self._ends)

    async def _stop_ends(self, ends: list[_End]) -> None:
        """Stop these ends, origins first so that targets see them go."""
        self._ends = [end for end in self._ends if end not in ends]
        await asyncio.gather(*(end.meter.stop() for end in ends if end.meter))
        pacing = [end.pacing for end in ends if end.pacing]
        for task in pacing:
            task.cancel()  # first, so that it suspends nothing that is being stopped
        await asyncio.gather(*pacing, return_exceptions=True)
        for end in ends:
            end.let_run()  # what stands still does not end
        for role in ("origin", "target"):
            await asyncio.gather(*(processes.stop(end.process) for end in ends if end.role == role))
        tasks = [task for end in ends for task in end.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # A passive side may have been replaced meanwhile.
        sides = [end for end in ends if end.writer.messages]
        await asyncio.gather(*(processes.stop(end.process) for end in sides))


async def _until_stopped(ends: list[_End]) -> None:
    """A signal takes its time."""
    while not all(processes.is_stopped(pid) for end in ends for pid in end.pids):
        await asyncio.sleep(_STOP_S)


async def run() -> None:
    """Connect to the conductor named in the environment, and serve it."""
    host, _, port = os.environ.pop(wire.ADDRESS_VARIABLE).rpartition(":")
    secret = os.environ.pop(wire.SECRET_VARIABLE)
    interface = os.environ.get(wire.INTERFACE_VARIABLE)
    source = wire.interface_address(interface) if interface else None
    connection = await wire.connect(host, int(port), secret, source)
    await Agent(connection).serve()


def main() -> None:
    """Entry point: `python -m conductor.agent`."""
    processes.become_subreaper()
    signal.signal(signal.SIGTERM, lambda signum, _: sys.exit(128 + signum))  # leave nothing behind
    try:
        with shared_memory.folder():
            try:
                asyncio.run(run())
            finally:
                processes.kill_descendants()
    except (OSError, wire.WireError) as error:
        sys.exit(f"agent on {node_name()}: {error}")


if __name__ == "__main__":
    main()
