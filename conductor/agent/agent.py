"""The agent: one per node, started once per block. Carries out the conductor's orders.

It runs and watches its ends of writers (`end.py`), makes short writes (`short_writer.py`), and
records what happens on its node (`watch.py`). If the connection is lost, it stops everything and
exits.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

from conductor import messages, shared_memory, wire
from conductor.agent.end import End, until_stopped
from conductor.agent.permitted import require_permitted
from conductor.agent.programs import start_end
from conductor.agent.short_writer import ShortWriter
from conductor.agent.watch import Watch
from conductor.injectors import INJECTORS
from records import clock, processes
from records.machine import host
from records.machine.node_counters import NodeReader


def node_name() -> str:
    """Name of this node in Slurm, else the host name."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


class Agent:
    """State of one agent."""

    def __init__(self, connection: wire.Wire, logs: Path) -> None:
        self._wire = connection
        self._logs = logs
        self._ends: list[End] = []
        self._schedule: ShortWriter | None = None
        self._watched: Watch | None = None
        self._node_reader = NodeReader()

    async def serve(self) -> None:
        """Carry out orders until the connection is lost. Raises WireError for an invalid order."""
        facts = {**host.detect().as_dict(), "absent_counters": self._node_reader.absent}
        self._send(messages.Hello(node_name(), facts))
        try:
            while True:
                try:
                    data = await self._wire.receive()
                except wire.WireError:
                    return
                await self._execute(messages.order(data))
        finally:
            await self._stop()

    def _send(self, report: messages.Report) -> None:
        self._wire.send(messages.encode(report))

    async def _execute(self, order: messages.Order) -> None:
        require_permitted(order, self._logs)
        match order:
            case messages.StartEnd():
                await self._start(order)
            case messages.Control():
                await self._control(order)
            case messages.Perform():
                self._schedule = ShortWriter(order)
            case messages.Finish():
                self._send(await self._finish(order.timeout_s))
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
        process = await start_end(injector, writer, role, asyncio.subprocess.PIPE)
        if isinstance(process, str):
            self._send(messages.News(writer.index, ended=f"{role} side ended: {process}"))
            return
        end = End(writer, role, injector, process, self._send, self._writes_alone)
        end.begin(open(order.log, "ab", buffering=0))  # noqa: SIM115 (closed by the end)
        self._ends.append(end)

    def _writes_alone(self, end: End) -> bool:
        return [other for other in self._ends if other.role == "origin" and not other.held] == [end]

    async def _control(self, order: messages.Control) -> None:
        """Stop, suspend or resume ends; those that stop say where their buffers are."""
        chosen = [end for end in self._ends if end.index in order.writers]
        origins_first = sorted(chosen, key=lambda end: end.role)
        placed = [end.placed() for end in origins_first] if order.do in ("stop", "hold") else []
        match order.do:
            case "freeze":
                for end in chosen:
                    end.freeze()
                return
            case "resume":
                for end in reversed(origins_first):
                    end.resume()
                return
            case "stop":
                await self._stop_ends(origins_first)
            case "hold":
                await asyncio.gather(*(end.after_a_row() for end in chosen if end.role == "origin"))
                for end in origins_first:
                    await end.hold()
                await until_stopped(origins_first)
        self._send(messages.WritersStopped(placed))

    async def _begin_watch(self, order: messages.BeginWatch) -> None:
        if self._watched:
            await self._watched.cancel()
        held = [end for end in self._ends if end.held]
        for end in held:
            end.suspend()  # another process may have continued it
        await until_stopped(held)
        self._watched = Watch(
            *(node_name(), order, self._node_reader),
            [pid for end in self._ends if not end.writer.messages for pid in end.pids],
            [(end.index, pid) for end in held for pid in end.pids],
        )
        for end in self._ends:  # as close to the run's beginning as possible, and to its end
            end.count()
        self._send(messages.Watching())

    async def _end_watch(self) -> None:
        assert self._watched, "begun before"
        for end in self._ends:
            end.count()
        for end in self._ends:
            end.report_meter()
        watch, self._watched = self._watched, None
        self._send(await watch.end())

    async def _finish(self, timeout_s: float) -> messages.Written:
        schedule, self._schedule = self._schedule, None
        if schedule is None:
            return messages.Written([], {})
        await schedule.finish(timeout_s)
        return messages.Written(schedule.finished, dict(schedule.faults))

    async def _stop(self) -> None:
        """Stop everything."""
        if self._watched:
            await self._watched.cancel()
        await self._finish(0.0)
        await self._stop_ends(self._ends)

    async def _stop_ends(self, ends: list[End]) -> None:
        """Stop these ends, origins first so that targets see them go."""
        self._ends = [end for end in self._ends if end not in ends]
        await asyncio.gather(*(end.quieten() for end in ends))
        for role in ("origin", "target"):
            await asyncio.gather(*(end.stop() for end in ends if end.role == role))
        await asyncio.gather(*(end.forget() for end in ends))


async def run() -> None:
    """Connect to the conductor named in the environment, and serve it."""
    asyncio.get_running_loop().set_exception_handler(wire.in_one_line)
    host, _, port = os.environ.pop(wire.ADDRESS_VARIABLE).rpartition(":")
    secret = os.environ.pop(wire.SECRET_VARIABLE)
    interface = os.environ.get(wire.INTERFACE_VARIABLE)
    source = wire.interface_address(interface) if interface else None
    connection = await wire.connect(host, int(port), secret, source)
    await Agent(connection, Path(os.environ[wire.LOGS_VARIABLE])).serve()


def main() -> None:
    """Entry point: `python -m conductor.agent.agent`."""
    processes.become_subreaper()
    signal.signal(signal.SIGTERM, lambda signum, _: sys.exit(128 + signum))  # leave nothing behind
    try:
        with shared_memory.folder():
            try:
                asyncio.run(run())
            finally:
                processes.end_descendants()
    except (OSError, wire.WireError) as error:
        sys.exit(f"agent on {node_name()}: {error}")


if __name__ == "__main__":
    main()
