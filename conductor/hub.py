"""The conductor's side of the agents: which are connected, and what their writers report."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from conductor import messages, wire
from conductor.follower import throttled
from conductor.injectors.base import EndRole, Injector, Writer
from conductor.messages import Do, Observed, Watching, WritersStopped, Written
from conductor.rates import COUNTED_S, all_rows, filled, joined
from conductor.series import CounterSample, Placed, RateRow
from records import clock
from records.clock import Exchange, Offset, measure
from records.errors import MachineError

#: Connections that may be open before they said the secret, in addition to one of each node.
_MOST_STRANGERS = 64
#: Calls that the kernel keeps until they are accepted: with fewer, agents of many nodes would wait
#: for seconds.
_WAITING = 512
#: Round trips for one measurement of a clock offset.
_PINGS = 8
#: Time over which a control's share of a core is counted, seconds.
_CONTROL_S = 0.5
#: How many bursts of a paced writer make a rate.
_PERIODS = 4
#: How long an agent may take to read the processes of its node, and to stop its writers, seconds.
_WATCH_S = _STOP_S = 30.0
_Answer = TypeVar("_Answer", bound=messages.Answer)


class AgentGoneError(MachineError):
    """An agent has closed its connection: its process has ended."""

    outcome = "agent_failed"


class NodeGoneError(AgentGoneError):
    """The node of an agent does not answer any more."""

    outcome = "node_failed"


@dataclass
class WriterState:
    """What is known about one running writer."""

    writer: Writer
    row_s: float
    #: Its number among the writers of one kind, for people.
    number: int = 0
    #: Whether its passive side is suspended at the first row, unless it has been.
    freezes: bool = False
    listening: bool = False
    rows: list[RateRow] = field(default_factory=list)
    #: What was counted at its origin; of all writers that share its device.
    samples: list[CounterSample] = field(default_factory=list)
    #: Shortest time over which that is its rate, seconds; None if it shares the device.
    counted_s: float | None = None
    #: Why it ended, once either end has.
    ended: str | None = None
    #: What its bytes go over, if that was found out.
    transport: str | None = None

    @property
    def whole_rows(self) -> list[RateRow]:
        """Its rows, each with the time since the one before it if that was counted."""
        return self.rows if self.counted_s is None else joined(self.rows, self.samples)

    @property
    def all_rows(self) -> list[RateRow]:
        """These, and what was counted before and after them."""
        return all_rows(self.rows, self.samples, self.counted_s)

    @property
    def until_s(self) -> float | None:
        """The end of the last of them, which depends on no time between rows; None without any."""
        rows = self.rows[-1:]
        if self.counted_s is not None:
            rows = filled(rows, self.samples, self.counted_s)
        return rows[-1].end_s if rows else None


@dataclass
class _Link:
    """One agent."""

    wire: wire.Wire
    node: str
    facts: dict[str, Any]
    #: Round trips of the clock measurement in progress, and the result of the last one.
    exchanges: list[Exchange] = field(default_factory=list)
    clock: Offset | None = None
    #: The last answer of each kind; none while one is pending.
    answers: dict[type, Any] = field(default_factory=dict)

    @property
    def offset_s(self) -> float:
        """Agent's clock minus ours, seconds."""
        return self.clock.offset_s if self.clock else 0.0


class Hub:
    """Accepts the agents of this job, sends them orders and keeps their reports.

    Other processes that connect are rejected and do not delay them.
    """

    def __init__(self, secret: str, nodes: int = 1) -> None:
        self._secret = secret
        #: Connections that have not said the secret yet, and how many there may be.
        self._strangers = 0
        self._most_strangers = nodes + _MOST_STRANGERS
        self._server: asyncio.Server | None = None
        self._links: dict[str, _Link] = {}
        self._states: dict[int, WriterState] = {}
        self._changed = asyncio.Condition()
        self._lost: MachineError | None = None

    async def listen(self, address: str) -> int:
        """Listen on one address only; returns the port."""
        self._server = await asyncio.start_server(
            self._join, address, 0, limit=wire.LIMIT_B, backlog=_WAITING
        )
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def wait_for(self, what: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until `what()` is true; False on timeout. MachineError if an agent is lost."""

        with suppress(asyncio.TimeoutError):
            async with self._changed:
                waiting = self._changed.wait_for(lambda: self._lost is not None or what())
                await asyncio.wait_for(waiting, timeout_s)
        if self._lost:
            raise self._lost
        return what()

    async def gather(self, nodes: list[str], timeout_s: float) -> None:
        """Wait until every node's agent is connected and its clock is measured."""

        def missing() -> list[str]:
            links = self._links
            return [n for n in nodes if n not in links or links[n].clock is None]

        if not await self.wait_for(lambda: not missing(), timeout_s):
            raise MachineError(f"no agent from {', '.join(missing())} after {timeout_s:.0f} s")

    @property
    def addresses(self) -> dict[str, str]:
        """Node -> the address that its agent connected from."""
        return {node: link.wire.peer for node, link in self._links.items()}

    @property
    def facts(self) -> dict[str, Any]:
        """Node -> facts of the host, as its agent detected them."""
        return {node: link.facts for node, link in self._links.items()}

    @property
    def clock_offsets_s(self) -> dict[str, float]:
        """Node -> its clock minus the conductor's, seconds."""
        return {node: link.offset_s for node, link in self._links.items()}

    async def clocks(self, nodes: list[str], timeout_s: float) -> dict[str, Offset]:
        """Measure clocks again. Node -> how far its clock is ahead of ours, with its error."""
        links = [self._links[node] for node in nodes]
        for link in links:
            link.clock = None
            self.send(link.node, messages.Ping(clock.now_s()))
        if not await self.wait_for(lambda: all(link.clock for link in links), timeout_s):
            raise MachineError(f"an agent's clock was not measured within {timeout_s:.0f} s")
        return {link.node: link.clock for link in links if link.clock}

    async def stand_by(
        self, injector: Injector, writers: list[Writer], logs: Path, timeout_s: float
    ) -> list[WriterState]:
        """Start passive sides of short writes, and wait until they listen."""
        states = [WriterState(writer, 0.0) for writer in writers]
        await self._listen(injector, states, logs, timeout_s)
        return states

    def send(self, node: str, order: messages.Order) -> None:
        """Send a node's agent an order that it does not answer."""
        self._links[node].wire.send(messages.encode(order))

    async def finish(self, nodes: list[str], timeout_s: float) -> dict[str, Written]:
        """Let origins finish the writes in progress and start no more. Node -> what it wrote."""
        orders = dict.fromkeys(nodes, messages.Finish(timeout_s))
        return await self._ask(orders, Written, timeout_s + 30.0, "report what it wrote")

    async def start(
        self, injector: Injector, writers: list[Writer], logs: Path, timeout_s: float
    ) -> list[WriterState]:
        """Start writers: passive sides first, then, once they listen, the origins."""
        row_s = injector.row_s or _CONTROL_S
        counted_s = _counted_s(injector, writers)
        states = [
            WriterState(writer, row_s, number, injector.freezes_target(writer), counted_s=each_s)
            for number, (writer, each_s) in enumerate(zip(writers, counted_s, strict=True))
        ]
        await self._listen(injector, states, logs, timeout_s)
        if not any(state.ended for state in states):
            self._start("origin", injector, writers, logs)
        return states

    async def _listen(
        self, injector: Injector, states: Sequence[WriterState], logs: Path, timeout_s: float
    ) -> None:
        self._states |= {state.writer.index: state for state in states}
        self._start("target", injector, [state.writer for state in states], logs)

        def listening() -> bool:
            return all(state.listening or state.ended for state in states)

        if not await self.wait_for(listening, timeout_s):
            for state in states:
                if not state.listening:
                    state.ended = f"its passive side did not listen within {timeout_s:.0f} s"

    def _start(self, role: EndRole, injector: Injector, writers: list[Writer], logs: Path) -> None:
        for writer in writers:
            log = _log(logs, writer, role)
            node = writer.target if role == "target" else writer.origin
            self.send(node, messages.StartEnd(role, injector.name, writer, log))

    async def stop(self, states: Sequence[WriterState]) -> list[Placed]:
        """Stop these writers and wait for it; returns the placement of their buffers."""
        for state in states:
            self._states.pop(state.writer.index, None)
        return await self._silence(_controls("stop", states))

    async def hold(self, states: Sequence[WriterState]) -> list[Placed]:
        """Suspend these writers until `resume`; returns the placement of their buffers."""
        return await self._silence(_controls("hold", states))

    def resume(self, states: Sequence[WriterState]) -> None:
        """Let held writers continue; what they reported before is forgotten."""
        for state in states:
            state.rows, state.samples = [], []
        for node, order in _controls("resume", states).items():
            self.send(node, order)

    async def _silence(self, orders: Mapping[str, messages.Order]) -> list[Placed]:
        answers = await self._ask(orders, WritersStopped, _STOP_S, "stop its writers")
        return [end for answer in answers.values() for end in answer.placed]

    async def begin_watch(self, orders: Mapping[str, messages.Order]) -> None:
        """Begin a watch: node -> its order."""
        await self._ask(orders, Watching, _WATCH_S, "read its node's load")

    async def end_watch(self, nodes: Iterable[str]) -> dict[str, Observed]:
        """End the watches of nodes. Node -> what it recorded."""
        orders = dict.fromkeys(nodes, messages.EndWatch())
        return await self._ask(orders, Observed, _WATCH_S, "read its node's load")

    async def _ask(
        self, orders: Mapping[str, messages.Order], kind: type[_Answer], timeout_s: float, what: str
    ) -> dict[str, _Answer]:
        """Send nodes their orders. Node -> its answer, or MachineError if one did not do `what`."""
        links = [self._links[node] for node in orders]
        for link in links:
            link.answers.pop(kind, None)
            self.send(link.node, orders[link.node])
        if not await self.wait_for(lambda: all(kind in link.answers for link in links), timeout_s):
            raise MachineError(f"an agent did not {what} within {timeout_s:.0f} s")
        return {link.node: link.answers[kind] for link in links}

    def close(self) -> None:
        """Close all connections; agents exit when theirs is closed."""
        if self._server:
            self._server.close()
        for link in self._links.values():
            link.wire.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection; one that does not say the secret is closed without an answer."""
        if self._strangers >= self._most_strangers:
            writer.transport.abort()
            return
        self._strangers += 1
        try:
            connection = await wire.accept(reader, writer, self._secret)
        except (wire.WireError, OSError):
            writer.transport.abort()
            return
        finally:
            self._strangers -= 1
        hello = None
        with suppress(wire.WireError, OSError):
            hello = messages.report(await connection.receive())
        if isinstance(hello, messages.Hello):
            await self._joined(connection, hello)
        else:
            connection.close()

    async def _joined(self, connection: wire.Wire, hello: messages.Hello) -> None:
        """Serve one agent until its connection is lost."""
        link = _Link(connection, hello.node, hello.facts)
        if link.node in self._links:  # one agent per node: a second would replace the first
            connection.close()
            return
        self._links[link.node] = link
        self.send(link.node, messages.Ping(clock.now_s()))
        try:
            while True:
                self._reported(link, messages.report(await connection.receive()))
                async with self._changed:
                    self._changed.notify_all()
        except wire.WireError as error:
            lost = NodeGoneError if isinstance(error, wire.SilentNodeError) else AgentGoneError
            self._lost = lost(f"the agent on {link.node} is gone: {error}")
        async with self._changed:
            self._changed.notify_all()

    def _reported(self, link: _Link, report: messages.Report) -> None:
        match report:
            case messages.Pong():
                self._pong(link, report)
            case WritersStopped() | Watching() | Observed() | Written():
                link.answers[type(report)] = report
            case messages.Hello():
                pass  # it has joined
            case _:
                if (state := self._states.get(report.writer)) is not None:
                    self._writer_reported(state, link, report)

    def _writer_reported(
        self, state: WriterState, link: _Link, report: messages.ReportOfWriter
    ) -> None:
        match report:
            case messages.Listening():
                state.listening = True
            case messages.RateReport():
                if state.freezes:
                    state.freezes = False
                    self.send(state.writer.target, messages.FreezeTarget(state.writer.index))
                # In our time; it does not start before the end of the previous row.
                end_s = report.time_s - link.offset_s
                start_s = state.rows[-1].end_s if state.rows else end_s - state.row_s
                if report.over_s is not None:
                    start_s = max(end_s - report.over_s, start_s)
                state.rows.append(RateRow(start_s, end_s, report.rate_b_s, report.bursts))
            case messages.Counted():
                state.samples += [
                    sample._replace(at_s=sample.at_s - link.offset_s) for sample in report.samples
                ]
            case messages.Transport():
                state.transport = report.name
            case messages.Ended():
                state.ended = state.ended or f"{report.role} side ended: {report.why}"

    def _pong(self, link: _Link, pong: messages.Pong) -> None:
        link.exchanges.append(Exchange(pong.sent_s, pong.now_s, pong.now_s, clock.now_s()))
        if len(link.exchanges) < _PINGS:
            self.send(link.node, messages.Ping(clock.now_s()))
        else:
            exchanges, link.exchanges = link.exchanges, []
            try:
                link.clock = measure(exchanges, link.node)
            except MachineError as error:
                self._lost = error


def _controls(do: Do, states: Sequence[WriterState]) -> dict[str, messages.Control]:
    """Node -> the order for the writers of which it has an end."""
    found: dict[str, messages.Control] = {}
    for state in states:
        for node in dict.fromkeys((state.writer.target, state.writer.origin)):
            order = found.setdefault(node, messages.Control(do, []))
            order.writers.append(state.writer.index)
    return found


def _counted_s(injector: Injector, writers: Sequence[Writer]) -> list[float | None]:
    """Shortest time over which each writer's count is its rate, seconds; None if it has none."""
    if not injector.writes:
        return [_CONTROL_S] * len(writers)
    sharing = Counter((writer.origin, writer.device) for writer in writers)

    def paced_s(writer: Writer) -> float:
        paced = injector.paced_by == "agent" and writer.rate_b_s is not None
        return throttled(writer).every_s if writer.burst or paced else 0.0

    return [
        max(COUNTED_S, _PERIODS * paced_s(writer))
        if sharing[writer.origin, writer.device] == 1 or injector.reports_arrivals
        else None
        for writer in writers
    ]


def _log(logs: Path, writer: Writer, role: EndRole) -> str:
    return str(logs / f"writer-{writer.index}-{role}.log")
