"""The agent: one a node, started once a block; starts, watches and stops the writers there.

It calls the conductor and then does as it is told. Messages to it: `start` (one end of a writer),
`freeze` (a passive side that is not needed any more), `stop` (all of them), `ping`; for a timetable
`stand_by`, `perform` and `finish` (`performer.py`). Messages from it: `hello`, `listening`, `row`,
`exit`, `stopped`, `pong`, `written`. An agent that loses its conductor stops its writers and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import time
from dataclasses import asdict, dataclass
from typing import IO, Any

from injection import processes, wire
from injection.evidence import counters
from injection.injectors import INJECTORS
from injection.injectors.base import PASSES, Fault, LineParser, Row, Writer
from injection.machine import host, numa
from injection.schedule.origin_side import Due, Part, ScheduleWriter, stand_by

#: How often the CPU time of a control is looked at, seconds.
USAGE_S = 0.5
#: How often the byte counter of the origin's device is read where a writer prints no rows, seconds.
COUNT_S = 1.0
#: How often is looked whether a passive side listens, seconds.
LISTEN_S = 0.02


def node_name() -> str:
    """What this node is called: Slurm's name for it, else the host's."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


@dataclass
class _End:
    """One end of a writer at work."""

    writer: Writer
    role: str
    process: asyncio.subprocess.Process
    tasks: list[asyncio.Task[None]]
    #: What its program does about NUMA by itself.
    own_binding: str

    @property
    def index(self) -> int:
        """Of the writer."""
        return self.writer.index

    def placed(self) -> dict[str, Any]:
        """Where its buffers lie, as `hub.Placed`; of a process that is gone nobody can tell."""
        found = numa.buffers_b(self.process.pid, self.writer.message_b)
        return {
            "writer": self.index,
            "role": self.role,
            "own_binding": self.own_binding,
            "buffers_b": {str(node): size_b for node, size_b in found.items()},
            "pinned_b": numa.pinned_b(self.process.pid),
        }


class Agent:
    """State of one agent."""

    def __init__(self, connection: wire.Wire) -> None:
        self._wire = connection
        self._ends: list[_End] = []
        self._sides: list[asyncio.Task[None]] = []
        self._performer: ScheduleWriter | None = None

    async def serve(self) -> None:
        """Do as told until the conductor hangs up."""
        self._wire.send({"event": "hello", "node": node_name(), "facts": host.detect().as_dict()})
        try:
            while True:
                await self._handle(await self._wire.receive())
        except wire.WireError:
            pass
        finally:
            await self._stop()

    async def _handle(self, message: dict[str, Any]) -> None:
        if message["do"] == "start":
            await self._start(message)
        elif message["do"] == "freeze":
            self._freeze(message["writer"])
        elif message["do"] == "stop":
            placed = [end.placed() for end in self._ends]
            await self._stop()
            self._wire.send({"event": "stopped", "placed": placed})
        elif message["do"] == "stand_by":
            self._sides.append(asyncio.create_task(self._stand_by(message)))
        elif message["do"] == "perform":
            self._perform(message)
        elif message["do"] == "finish":
            await self._finish(message["timeout_s"])
        elif message["do"] == "count":
            found = counters.read(message["device"], message["passed"])
            self._wire.send({"event": "counted", "counter": asdict(found) if found else None})
        elif message["do"] == "ping":
            self._wire.send({"event": "pong", "sent_s": message["sent_s"], "now_s": time.time()})

    async def _start(self, message: dict[str, Any]) -> None:
        injector = INJECTORS[message["injector"]]
        writer = Writer(**message["writer"])
        role = message["role"]
        command = (
            injector.target_command(writer) if role == "target" else injector.origin_command(writer)
        )
        if command is None:
            self._tell("listening", writer.index, role)
            return
        cpus = writer.target_cpus if role == "target" else writer.origin_cpus
        log = open(message["log"], "ab")  # noqa: SIM115 (closed by _watch)
        try:
            process = await processes.spawn(
                command,
                injector.environment(writer),
                cpus,
                asyncio.subprocess.PIPE,
                asyncio.subprocess.STDOUT,
                writer.buffer_node,
            )
        except OSError as error:
            log.close()
            fault = f"{command[0]}: {error.strerror or error}"
            self._tell("exit", writer.index, role, code=127, fault=fault)
            return
        end = _End(writer, role, process, [], injector.own_binding())
        parser = injector.parser(writer)
        end.tasks.append(asyncio.create_task(self._watch(end, parser, log)))
        if role == "target":
            end.tasks.append(asyncio.create_task(self._listen(end, writer.port)))
        elif injector.row_source(writer) == "cpu":
            end.tasks.append(asyncio.create_task(self._usage(end)))
        elif injector.row_source(writer) == "counter":
            end.tasks.append(asyncio.create_task(self._count(end, PASSES[injector.direction][0])))
        self._ends.append(end)

    def _tell(self, event: str, index: int, role: str, **more: Any) -> None:
        self._wire.send(
            {"event": event, "writer": index, "role": role, "time_s": time.time(), **more}
        )

    def _freeze(self, index: int) -> None:
        """Suspend a passive side that spins though it has no part in the writes any more."""
        for end in self._ends:
            if end.index == index and end.role == "target":
                processes.suspend(end.process)

    async def _watch(self, end: _End, parser: LineParser, log: IO[bytes]) -> None:
        """Read what one end prints until it ends."""
        assert end.process.stdout is not None
        fault = None
        with contextlib.closing(log):
            async for raw in end.process.stdout:
                log.write(raw)
                line = raw.decode(errors="replace")
                meaning = parser.parse(line)
                if isinstance(meaning, Row):
                    if end.role == "origin":
                        self._tell("row", end.index, end.role, rate_b_s=meaning.rate_b_s)
                elif isinstance(meaning, Fault):
                    fault = fault or meaning.text  # what follows the first is its consequence
        code = await end.process.wait()
        self._tell("exit", end.index, end.role, code=code, fault=fault)

    async def _listen(self, end: _End, port: int) -> None:
        """Tell when the passive side listens: what it prints may sit in its buffer for long."""
        while end.process.returncode is None:
            if processes.listens(port):
                self._tell("listening", end.index, end.role)
                return
            await asyncio.sleep(LISTEN_S)

    async def _usage(self, end: _End) -> None:
        """Rows of a control: the share of a core that it used, in place of a rate."""
        then_s, used_s = time.time(), processes.cpu_s(end.process.pid)
        while end.process.returncode is None:
            await asyncio.sleep(USAGE_S)
            now_s, now_used_s = time.time(), processes.cpu_s(end.process.pid)
            share = (now_used_s - used_s) / (now_s - then_s)
            self._tell("row", end.index, end.role, rate_b_s=share)
            then_s, used_s = now_s, now_used_s

    async def _count(self, end: _End, passed: counters.Passed) -> None:
        """Rows of a writer that prints none: what has passed its origin's device."""
        device = end.writer.device
        then_s, then = time.time(), counters.read(device, passed)
        if then is None:
            fault = (
                f"device {device}: has no byte counter, which a throttled writer's rows come from"
            )
            self._tell("exit", end.index, end.role, code=1, fault=fault)
        while end.process.returncode is None and then is not None:
            await asyncio.sleep(COUNT_S)
            now_s, now = time.time(), counters.read(device, passed)
            gone_b = counters.difference(then, now) if now else None
            if gone_b is not None:
                self._tell("row", end.index, end.role, rate_b_s=gone_b / (now_s - then_s))
            then_s, then = now_s, now

    async def _stand_by(self, message: dict[str, Any]) -> None:
        injector, writer = INJECTORS[message["injector"]], Writer(**message["writer"])

        def listening() -> None:
            self._tell("listening", writer.index, "target")

        with open(message["log"], "ab") as log:
            fault = await stand_by(injector, writer, log, listening)
        self._tell("exit", writer.index, "target", code=1, fault=fault)

    def _perform(self, message: dict[str, Any]) -> None:
        part = Part(
            writer=Writer(**message["writer"]),
            targets=[(name, address) for name, address in message["targets"]],
            zero_s=message["zero_s"],
            lead_s=message["lead_s"],
            patience_s=message["patience_s"],
            due=[Due(*due) for due in message["due"]],
        )
        self._performer = ScheduleWriter(INJECTORS[message["injector"]], part, message["log"])

    async def _finish(self, timeout_s: float) -> None:
        done, faults = [], {}
        if self._performer:
            await self._performer.finish(timeout_s)
            done = [list(asdict(each).values()) for each in self._performer.done]
            faults = dict(self._performer.faults)
            self._performer = None
        self._wire.send({"event": "written", "done": done, "faults": faults})

    async def _stop(self) -> None:
        """Stop every end, origins first so that targets see them go."""
        if self._performer:
            await self._performer.finish(0.0)
            self._performer = None
        sides, self._sides = self._sides, []
        for side in sides:
            side.cancel()
        await asyncio.gather(*sides, return_exceptions=True)
        ends, self._ends = self._ends, []
        for role in ("origin", "target"):
            chosen = [end for end in ends if end.role == role]
            await asyncio.gather(*(processes.stop(end.process) for end in chosen))
        for end in ends:
            for task in end.tasks:
                task.cancel()
        tasks = [task for end in ends for task in end.tasks]
        await asyncio.gather(*tasks, return_exceptions=True)


async def run() -> None:
    """Call the conductor named in the environment, and serve it."""
    host, _, port = os.environ.pop(wire.ADDRESS_VARIABLE).rpartition(":")
    secret = os.environ.pop(wire.SECRET_VARIABLE)
    interface = os.environ.get(wire.INTERFACE_VARIABLE)
    source = wire.interface_address(interface) if interface else None
    connection = await wire.connect(host, int(port), secret, source)
    await Agent(connection).serve()


def main() -> None:
    """Entry point: `python -m injection.agent`."""
    processes.become_subreaper()
    try:
        asyncio.run(run())
    except (OSError, wire.WireError) as error:
        sys.exit(f"agent on {node_name()}: {error}")
    finally:
        processes.kill_descendants()


if __name__ == "__main__":
    main()
