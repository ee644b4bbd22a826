"""The conductor's side of the agents: who is there, and what their writers report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from analysis.errors import MachineError
from injection import wire
from injection.agent import USAGE_S
from injection.clock import Exchange, Offset, measure
from injection.evidence.binding import Placed
from injection.evidence.counters import Passed, Reading
from injection.evidence.rates import Seen
from injection.evidence.schedule import Done
from injection.injectors.base import Injector, Writer
from injection.schedule.origin_side import Part

#: Round trips by which the offset between two nodes' clocks is found.
_PINGS = 8


class HubError(Exception):
    """The agents cannot do their work. One line for people."""


class AgentGoneError(HubError):
    """An agent that had called is gone: as a rule, its node is."""


@dataclass
class WriterState:
    """What is known of one writer at work."""

    writer: Writer
    row_s: float
    #: Whether its passive side is suspended at the first row.
    freezes: bool = False
    listening: bool = False
    rows: list[Seen] = field(default_factory=list)
    #: Why it ended, once either end of it has.
    ended: str | None = None


@dataclass(frozen=True)
class Written:
    """What an origin did of its part of a timetable, by its own clock."""

    done: list[Done]
    #: How often each fault kept a write from being done.
    faults: dict[str, int]


@dataclass
class _Link:
    """One agent."""

    wire: wire.Wire
    node: str
    facts: dict[str, Any]
    #: Messages by which its clock is measured, and what the last whole set of them said.
    exchanges: list[Exchange] = field(default_factory=list)
    clock: Offset | None = None
    stopped: bool = True
    #: What it last read of its device, and whether a reading is awaited.
    reading: Reading | None = None
    counting: bool = False
    #: Where the buffers of the ends lay that it stopped last.
    placed: list[Placed] = field(default_factory=list)
    #: What it says of its part of a timetable.
    written: Written | None = None

    @property
    def offset_s(self) -> float:
        """Agent's clock minus ours, seconds."""
        return self.clock.offset_s if self.clock else 0.0


class Hub:
    """Listens for the agents of this job and relays orders and reports."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._links: dict[str, _Link] = {}
        self._states: dict[int, WriterState] = {}
        self._changed = asyncio.Condition()
        self._lost: HubError | None = None
        self._server: asyncio.Server | None = None

    async def listen(self, address: str) -> int:
        """Listen on one address only; returns the port."""
        self._server = await asyncio.start_server(self._join, address, 0, limit=wire.LIMIT_B)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def wait_for(self, what: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until `what()` holds; False when the time is up. HubError when an agent is lost."""

        def done() -> bool:
            return self._lost is not None or what()

        with suppress(asyncio.TimeoutError):
            async with self._changed:
                await asyncio.wait_for(self._changed.wait_for(done), timeout_s)
        if self._lost:
            raise self._lost
        return what()

    async def gather(self, nodes: list[str], timeout_s: float) -> None:
        """Wait until every node's agent has called and its clock is known."""

        def missing() -> list[str]:
            links = self._links
            return [n for n in nodes if n not in links or links[n].clock is None]

        if not await self.wait_for(lambda: not missing(), timeout_s):
            raise HubError(f"no agent from {', '.join(missing())} after {timeout_s:.0f} s")

    @property
    def addresses(self) -> dict[str, str]:
        """Node -> the address its agent called from."""
        return {node: link.wire.peer for node, link in self._links.items()}

    @property
    def facts(self) -> dict[str, Any]:
        """Node -> facts of the host, as its agent detected them, and its clock's offset."""
        return {node: link.facts for node, link in self._links.items()}

    @property
    def clock_offsets_s(self) -> dict[str, float]:
        """Node -> its clock minus the conductor's, seconds."""
        return {node: link.offset_s for node, link in self._links.items()}

    async def clocks(self, nodes: list[str], timeout_s: float) -> dict[str, Offset]:
        """Measure clocks anew. Node -> how far its clock is ahead of ours, at most so far wrong."""
        links = [self._links[node] for node in nodes]
        for link in links:
            link.clock = None
            self._ping(link)
        if not await self.wait_for(lambda: all(link.clock for link in links), timeout_s):
            raise HubError(f"a clock was not told within {timeout_s:.0f} s")
        return {link.node: link.clock for link in links if link.clock}

    async def stand_by(
        self, injector: Injector, writers: list[Writer], logs: Path, timeout_s: float
    ) -> str | None:
        """Keep a passive side for each of `writers`; returns why one cannot, None when all wait."""
        states = [WriterState(writer, 0.0) for writer in writers]
        self._states = {state.writer.index: state for state in states}
        self._order("target", injector, writers, logs, "stand_by")
        waiting = await self.wait_for(
            lambda: any(s.ended for s in states) or all(s.listening for s in states), timeout_s
        )
        for state in states:
            if state.ended:
                return f"{state.writer.target}: {state.ended}"
        return None if waiting else f"a passive side did not listen within {timeout_s:.0f} s"

    def perform(self, node: str, injector: Injector, part: Part, log: Path) -> None:
        """Hand one origin its part of a timetable."""
        link = self._links[node]
        link.stopped, link.written = False, None
        link.wire.send(
            {
                "do": "perform",
                "injector": injector.name,
                **vars(part),
                "writer": asdict(part.writer),
                "log": str(log),
            }
        )

    async def finish(self, nodes: list[str], timeout_s: float) -> dict[str, Written]:
        """Let origins end the writes at work and start no more. Node -> what it did."""
        links = [self._links[node] for node in nodes]
        for link in links:
            link.wire.send({"do": "finish", "timeout_s": timeout_s})
        if not await self.wait_for(lambda: all(link.written for link in links), timeout_s + 30.0):
            raise HubError("an agent did not tell what it wrote")
        return {link.node: link.written for link in links if link.written}

    async def start(
        self, injector: Injector, writers: list[Writer], logs: Path, timeout_s: float
    ) -> list[WriterState]:
        """Start writers: passive sides first, then, once they listen, the origins."""
        row_s = injector.row_s or USAGE_S
        states = [WriterState(writer, row_s, injector.freezes_target(writer)) for writer in writers]
        self._states = {state.writer.index: state for state in states}
        self._order("target", injector, writers, logs)

        def listening() -> bool:
            return all(state.listening or state.ended for state in states)

        if not await self.wait_for(listening, timeout_s):
            for state in states:
                if not state.listening:
                    state.ended = f"its passive side did not listen within {timeout_s:.0f} s"
        if not any(state.ended for state in states):
            self._order("origin", injector, writers, logs)
        return states

    def _order(
        self,
        role: str,
        injector: Injector,
        writers: list[Writer],
        logs: Path,
        do: Literal["start", "stand_by"] = "start",
    ) -> None:
        for writer in writers:
            link = self._links[writer.target if role == "target" else writer.origin]
            link.stopped = False
            link.wire.send(
                {
                    "do": do,
                    "role": role,
                    "injector": injector.name,
                    "writer": asdict(writer),
                    "log": str(logs / f"writer-{writer.index}-{role}.log"),
                }
            )

    async def stop(self) -> list[Placed]:
        """Stop every writer, and wait until the agents say that they have, and where they were."""
        self._states = {}
        busy = [link for link in self._links.values() if not link.stopped]
        for link in busy:
            link.wire.send({"do": "stop"})
        if not await self.wait_for(lambda: all(link.stopped for link in busy), 30.0):
            raise HubError("an agent did not stop its writers within 30 s")
        return [end for link in busy for end in link.placed]

    async def count(
        self, nodes: list[str], device: str, passed: Passed
    ) -> dict[str, Reading | None]:
        """Node -> bytes that its device has received or sent; None where it does not count."""
        links = [self._links[node] for node in nodes]
        for link in links:
            link.counting = True
            link.wire.send({"do": "count", "device": device, "passed": passed})
        if not await self.wait_for(lambda: not any(link.counting for link in links), 10.0):
            raise HubError("an agent did not read its device within 10 s")
        return {link.node: link.reading for link in links}

    def close(self) -> None:
        """Hang up; agents end when they are alone."""
        if self._server:
            self._server.close()
        for link in self._links.values():
            link.wire.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection; whoever cannot sign is dropped without a word."""
        try:
            connection = await wire.accept(reader, writer, self._secret)
            hello = await connection.receive()
        except (wire.WireError, OSError):
            writer.close()
            return
        link = _Link(connection, hello["node"], hello["facts"])
        if link.node in self._links:  # one agent a node: a second would take the first one's place
            connection.close()
            return
        self._links[link.node] = link
        self._ping(link)
        try:
            while True:
                self._hear(link, await connection.receive())
                async with self._changed:
                    self._changed.notify_all()
        except wire.WireError as error:
            self._lost = AgentGoneError(f"the agent on {link.node} is gone: {error}")
        async with self._changed:
            self._changed.notify_all()

    def _ping(self, link: _Link) -> None:
        link.wire.send({"do": "ping", "sent_s": time.time()})

    def _hear(self, link: _Link, message: dict[str, Any]) -> None:
        event = message["event"]
        if event == "pong":
            self._pong(link, message)
        elif event == "stopped":
            link.placed = [Placed(**end) for end in message["placed"]]
            link.stopped = True
        elif event == "counted":
            link.reading = Reading(**message["counter"]) if message["counter"] else None
            link.counting = False
        elif event == "written":
            done = [Done(*each) for each in message["done"]]
            link.written = Written(done, message["faults"])
        elif (state := self._states.get(message["writer"])) is not None:
            time_s = message["time_s"] - link.offset_s
            if event == "listening":
                state.listening = True
            elif event == "row":
                if state.freezes and not state.rows:
                    target = self._links[state.writer.target]
                    target.wire.send({"do": "freeze", "writer": state.writer.index})
                start_s = state.rows[-1].end_s if state.rows else time_s - state.row_s
                state.rows.append(Seen(start_s, time_s, message["rate_b_s"]))
            elif event == "exit" and state.ended is None:
                why = message.get("fault") or f"exit status {message['code']}"
                state.ended = f"{message['role']} side ended: {why}"

    def _pong(self, link: _Link, message: dict[str, Any]) -> None:
        there_s = message["now_s"]
        link.exchanges.append(Exchange(message["sent_s"], there_s, there_s, time.time()))
        if len(link.exchanges) < _PINGS:
            self._ping(link)
        else:
            exchanges, link.exchanges = link.exchanges, []
            try:
                link.clock = measure(exchanges, link.node)
            except MachineError as error:
                self._lost = HubError(str(error))
