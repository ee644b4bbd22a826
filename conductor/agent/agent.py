"""The agent carries out the conductor's orders on one node. It is started once per block.

It runs and watches the ends of writers on its node (`end.py`), makes short writes
(`short_writer.py`), and records what happens on the node (`watch.py`). If the connection is lost,
it stops everything and exits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from pathlib import Path

from conductor import messages, shared_memory, wire
from conductor.agent.end import End, wait_until_suspended
from conductor.agent.end_program import log_of, start_writer_end
from conductor.agent.permitted import require_permitted
from conductor.agent.short_writer import ShortWriter
from conductor.agent.watch import Watch
from conductor.injectors import INJECTORS
from records import clock, processes
from records.errors import NimcError
from records.machine import host
from records.machine.node_counters import NodeReader
from records.slurm import steps


def node_name() -> str:
    """Return the name of this node in Slurm; outside Slurm the host name."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


class Agent:
    """Carries out orders on this node."""

    def __init__(self, connection: wire.Wire, logs: Path) -> None:
        self._wire = connection
        self._logs = logs
        #: The ends of writers on this node that were started and not stopped.
        self.ends: list[End] = []
        self._short_writer: ShortWriter | None = None
        self._watch: Watch | None = None
        self._node_reader = NodeReader()

    async def serve(self) -> None:
        """Carry out orders until the connection is closed.

        Raises WireError for an invalid order, such as one that is too long.
        """
        facts = {**host.detect().as_dict(), "absent_counters": self._node_reader.absent_counters}
        self._send(messages.Hello(node_name(), facts))
        try:
            while True:
                try:
                    data = await self._wire.receive()
                except wire.ClosedError:
                    return
                await self.execute(messages.decode_order(data))
        finally:
            await self.stop()

    def _send(self, report: messages.Report) -> None:
        self._wire.send(messages.encode(report))

    async def execute(self, order: messages.Order) -> None:
        """Carry out one order, and send the answer if the order has one.

        Raises WireError if the order is not permitted.
        """
        require_permitted(order)
        match order:
            case messages.StartWriterEnd():
                await self._start_end(order)
            case messages.ControlWriters():
                await self._control(order)
            case messages.MakeWrites():
                log = self._logs / f"writes-{node_name()}.log"
                self._short_writer = ShortWriter(order, log)
            case messages.FinishWrites():
                self._send(await self._finish_writes(order.timeout_s))
            case messages.BeginWatch():
                await self._begin_watch(order)
            case messages.EndWatch():
                await self._end_watch()
            case messages.Ping():
                self._send(messages.Pong(clock.now_s()))

    async def _start_end(self, order: messages.StartWriterEnd) -> None:
        """Start one end of a writer; report it as ended if it cannot be started.

        A passive side without a program of its own is reported as listening.
        """
        injector = INJECTORS[order.injector]
        writer = order.writer
        role = order.role
        if role == "target" and injector.target_command(writer) is None:
            self._send(messages.WriterNews(writer=writer.index, listening=True))
            return
        process = await start_writer_end(injector, writer, role, asyncio.subprocess.PIPE)
        if isinstance(process, str):
            self._send(
                messages.WriterNews(writer=writer.index, why_ended=f"{role} side ended: {process}")
            )
            return
        end = End(writer, role, injector, process, self._send, self.is_only_writing_origin)
        end.begin(log_of(self._logs, writer, role).open("ab", buffering=0))  # the end closes it
        self.ends.append(end)

    def is_only_writing_origin(self, end: End) -> bool:
        """Return whether `end` is the only origin on this node that is not held."""
        writing_ends = [other for other in self.ends if other.role == "origin" and not other.held]
        return writing_ends == [end]

    async def _control(self, order: messages.ControlWriters) -> None:
        """Stop, hold, freeze or resume ends. After a stop or hold, report their buffers."""
        ends = [end for end in self.ends if end.index in order.writers]
        origins = [end for end in ends if end.role == "origin"]
        targets = [end for end in ends if end.role == "target"]
        origins_first = origins + targets
        placements = []
        if order.action in ("stop", "hold"):
            live = processes.live_processes()  # once for all ends
            for end in origins_first:
                end.find_launched(live)
            # Buffers are read before the ends stop, since a process that ends frees them.
            placements = [end.placement(live) for end in origins_first]
        match order.action:
            case "freeze":
                for end in targets:
                    end.freeze()
                return
            case "resume":
                for end in targets + origins:
                    end.resume()
                return
            case "stop":
                await self._stop_ends(origins_first)
            case "hold":
                await asyncio.gather(*(end.wait_for_hold() for end in origins))
                for end in origins_first:
                    await end.hold()
                await wait_until_suspended(origins_first)
        self._send(messages.WritersStopped(placements))

    async def _begin_watch(self, order: messages.BeginWatch) -> None:
        """Suspend the held ends again, begin a watch, and report that it has begun."""
        if self._watch:
            await self._watch.cancel()
        held_ends = [end for end in self.ends if end.held]
        for end in held_ends:
            end.suspend()  # again, since another process may have resumed it
        await wait_until_suspended(held_ends)
        self._watch = Watch(
            node_name(),
            order,
            self._node_reader,
            writer_pids=[pid for end in self.ends if not end.writer.messages for pid in end.pids],
            held_pids=[(end.index, pid) for end in held_ends for pid in end.pids],
        )
        # Bytes are counted last, so that the counts cover little more than the time of the run.
        for end in self.ends:
            end.count()
        self._send(messages.WatchBegun())

    async def _end_watch(self) -> None:
        assert self._watch, "EndWatch without BeginWatch"
        for end in self.ends:
            end.count()
        for end in self.ends:
            end.report_meter()
        watch, self._watch = self._watch, None
        self._send(await watch.end())

    async def _finish_writes(self, timeout_s: float) -> messages.WritesMade:
        short_writer, self._short_writer = self._short_writer, None
        if short_writer is None:
            return messages.WritesMade([], {})
        await short_writer.finish(timeout_s)
        return messages.WritesMade(short_writer.finished, dict(short_writer.faults))

    async def stop(self) -> None:
        """Stop all ends, short writes and watching."""
        if self._watch:
            await self._watch.cancel()
        await self._finish_writes(0.0)
        await self._stop_ends(self.ends)

    async def _stop_ends(self, ends: list[End]) -> None:
        """Stop these ends: origins first, so that targets see their connections close."""
        self.ends = [end for end in self.ends if end not in ends]
        await asyncio.gather(*(end.prepare_stop() for end in ends))
        for role in ("origin", "target"):
            await steps.stop_all([end.process for end in ends if end.role == role])
        await asyncio.gather(*(end.end_tasks() for end in ends))
        await steps.stop_all([end.process for end in ends if end.writer.messages])


async def run() -> None:
    """Connect to the conductor named in the environment, and serve it."""
    asyncio.get_running_loop().set_exception_handler(wire.print_in_one_line)
    conductor_host, _, port = os.environ.pop(wire.ADDRESS_VARIABLE).rpartition(":")
    secret = os.environ.pop(wire.SECRET_VARIABLE)
    interface = os.environ.get(wire.INTERFACE_VARIABLE)
    source_address = wire.interface_address(interface) if interface else None
    connection = await wire.connect(conductor_host, int(port), secret, source_address)
    with contextlib.closing(connection):
        await Agent(connection, Path(os.environ[wire.LOGS_VARIABLE])).serve()


def main() -> None:
    """Entry point: `python -m conductor.agent.agent`."""
    processes.become_subreaper()
    processes.raise_file_limit()  # each end has a pipe and a log
    # SIGTERM raises SystemExit, so that the `finally` blocks end all processes and remove the
    # folder.
    signal.signal(signal.SIGTERM, lambda signum, _: sys.exit(128 + signum))
    try:
        with shared_memory.folder():
            try:
                asyncio.run(run())
            finally:
                processes.end_descendants()
    except (OSError, wire.WireError, NimcError) as error:
        sys.exit(f"agent on {node_name()}: {error}")


if __name__ == "__main__":
    main()
