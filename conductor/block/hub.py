"""The conductor's side of the agents: which are connected, and what their writers report."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from conductor import messages, wire
from conductor.agent.pacer import pace
from conductor.injectors.base import EndRole, Injector, Writer
from conductor.judge.series import WriterSeries
from conductor.messages import Do, Pong, WritersStopped
from conductor.readings import COUNTED_S, Metered, RateRow
from records import clock
from records.clock import Exchange, Offset, measure
from records.errors import MachineError
from records.text import some

#: Calls that the kernel keeps until they are accepted: with fewer, agents of many nodes would wait
#: for seconds.
_WAITING = 4096
#: Most callers at a time that have not proved yet that they are agents; of more than so many, those
#: are sent away that have taken so long, seconds.
CALLERS, CROWD, PATIENCE_S = 256, 64, 1.0
#: Files that the conductor may have open besides one for each agent.
FILES = 2 * CALLERS
#: Nodes without an agent that are named.
_NAMED = 8
#: How long to wait before a call is accepted if that has failed, seconds.
_AGAIN_S = 0.1
#: Round trips for one measurement of a clock offset.
_PINGS = 8
#: Time over which a control's share of a core is counted, seconds.
_CONTROL_S = 0.5
#: How many periods of a paced writer make a rate.
_PERIODS = 4
#: How long an agent may take to read the processes of its node, to stop its writers, and to tell
#: its time, seconds.
_ANSWER_S = 30.0
_UNKNOWN = Offset(0.0, 0.0, 0.0)
_Answer = TypeVar("_Answer", bound=messages.Answer)


class AgentGoneError(MachineError):
    """An agent has closed its connection: its process has ended."""

    outcome = "agent_failed"


class NodeGoneError(AgentGoneError):
    """The node of an agent does not answer any more."""

    outcome = "node_failed"


@dataclass
class WriterState:
    """The state of one running writer, as far as it is known."""

    series: WriterSeries
    #: True if its passive side is suspended at the first row, unless it has been.
    freezes: bool = False
    listening: bool = False
    #: Why it ended, once either end has.
    ended: str | None = None

    @property
    def writer(self) -> Writer:
        """Return what was planned of it."""
        return self.series.writer

    @property
    def number(self) -> int:
        """Its number among the writers of one kind, for people."""
        return self.series.number

    @property
    def rows(self) -> list[RateRow]:
        """Return what it has reported since it was started or resumed."""
        return self.series.rows


@dataclass(kw_only=True)
class _Link:
    """One agent."""

    wire: wire.Wire
    node: str
    facts: dict[str, Any]
    #: Its clock minus ours.
    clock: Offset = _UNKNOWN
    #: The last answer of each kind, none while one is pending; when it was asked, and when it came.
    answers: dict[type, Any] = field(default_factory=dict)
    asked_s: float = 0.0
    answered_s: float = 0.0


class Hub:
    """Accepts the agents of this job, sends them orders and keeps their reports.

    Other processes that connect are rejected and do not delay them.
    """

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._listener: socket.socket | None = None
        self._accepting: list[asyncio.Task[None]] = []
        #: Those that greet a caller, and since when, the first first; those that serve an agent.
        self.callers: dict[asyncio.Task[None], float] = {}
        self._serving: list[asyncio.Task[None]] = []
        self._links: dict[str, _Link] = {}
        self._states: dict[int, WriterState] = {}
        self._changed = asyncio.Condition()
        self._lost: MachineError | None = None

    async def listen(self, address: str) -> int:
        """Listen on one address only, until all agents are connected; returns the port."""
        self._listener = socket.create_server((address, 0), backlog=_WAITING)
        self._listener.setblocking(False)
        self._accepting = [asyncio.create_task(self._accept(self._listener))]
        port: int = self._listener.getsockname()[1]
        return port

    async def _accept(self, listener: socket.socket) -> None:
        """Accept calls; strangers can neither keep agents out nor take all files."""
        loop = asyncio.get_running_loop()
        while True:
            await self._make_room()
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError:  # the caller has gone, or there is no file left
                await asyncio.sleep(_AGAIN_S)
                continue
            caller = asyncio.create_task(self._greet(connection))
            self.callers[caller] = clock.now_s()
            caller.add_done_callback(lambda ended: self.callers.pop(ended, None))
            await asyncio.sleep(0)  # those that wait for an answer get it first

    async def _make_room(self) -> None:
        """Send the slowest of too many callers away."""
        while len(self.callers) > CROWD:
            oldest, since_s = next(iter(self.callers.items()))
            left_s = since_s + PATIENCE_S - clock.now_s()
            if left_s <= 0:
                oldest.cancel()
                self.callers.pop(oldest)
            elif len(self.callers) < CALLERS:
                return
            else:
                some = asyncio.FIRST_COMPLETED
                await asyncio.wait(self.callers, timeout=left_s, return_when=some)

    def _close_port(self) -> None:
        """Accept no more calls, and send all callers away."""
        for task in (*self._accepting, *self.callers):
            task.cancel()
        if self._listener:
            self._listener.close()

    async def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until `condition()` is true; False on timeout. MachineError if an agent is lost."""

        with suppress(asyncio.TimeoutError):
            async with self._changed:
                waiting = self._changed.wait_for(lambda: self._lost is not None or condition())
                await asyncio.wait_for(waiting, timeout_s)
        if self._lost:
            raise self._lost
        return condition()

    async def gather(self, nodes: list[str], timeout_s: float) -> None:
        """Wait until every node's agent is connected, and measure its clock."""

        left = [*nodes]

        def are_here() -> bool:
            while left and left[-1] in self._links:
                left.pop()
            return not left

        if not await self.wait_for(are_here, timeout_s):
            missing = [node for node in nodes if node not in self._links]
            raise MachineError(f"no agent from {some(missing, _NAMED)} after {timeout_s:.0f} s")
        self._close_port()
        await self.clocks(nodes)

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
        return {node: link.clock.offset_s for node, link in self._links.items()}

    async def clocks(self, nodes: list[str]) -> dict[str, Offset]:
        """Measure clocks. Node -> how far its clock is ahead of ours, with its error."""
        exchanges: dict[str, list[Exchange]] = {node: [] for node in nodes}
        for _ in range(_PINGS):
            orders = dict.fromkeys(nodes, messages.Ping())
            for node, pong in (await self.ask(orders, Pong, "tell its time")).items():
                link = self._links[node]
                exchanges[node].append(Exchange(link.asked_s, pong.now_s, link.answered_s))
        for node, trips in exchanges.items():
            self._links[node].clock = measure(trips, node)
        return {node: self._links[node].clock for node in nodes}

    def send(self, node: str, order: messages.Order) -> None:
        """Send a node's agent an order that it does not answer."""
        self._links[node].wire.send(messages.encode(order))

    async def start(
        self, injector: Injector, writers: list[Writer], timeout_s: float
    ) -> list[WriterState]:
        """Start writers: passive sides first, then, once they listen, the origins."""
        states = await self.stand_by(injector, writers, timeout_s)
        if not any(state.ended for state in states):
            self._start("origin", injector, writers)
        return states

    async def stand_by(
        self, injector: Injector, writers: list[Writer], timeout_s: float
    ) -> list[WriterState]:
        """Start passive sides, of short writes these alone, and wait until they listen."""
        counted_s = shortest_counts_s(injector, writers)
        states = [
            WriterState(
                WriterSeries(
                    number=number,
                    injector=injector.name,
                    writer=writer,
                    transport=injector.transport(writer),
                    row_s=injector.row_s or _CONTROL_S,
                    counted_s=counted_s[number],
                    meter=Metered(writer.index),
                ),
                freezes=injector.freezes_target(writer),
            )
            for number, writer in enumerate(writers)
        ]
        self._states |= {state.writer.index: state for state in states}
        self._start("target", injector, writers)

        def listening() -> bool:
            return all(state.listening or state.ended for state in states)

        if not await self.wait_for(listening, timeout_s):
            for state in states:
                if not state.listening:
                    state.ended = f"its passive side did not listen within {timeout_s:.0f} s"
        return states

    def _start(self, role: EndRole, injector: Injector, writers: list[Writer]) -> None:
        for writer in writers:
            node = writer.target if role == "target" else writer.origin
            self.send(node, messages.StartEnd(role, injector.name, writer))

    async def stop(self, states: Sequence[WriterState]) -> None:
        """Stop these writers and wait for it."""
        for state in states:
            self._states.pop(state.writer.index, None)
        await self._silence("stop", states)

    async def hold(self, states: Sequence[WriterState]) -> None:
        """Suspend these writers until `resume`."""
        await self._silence("hold", states)

    async def _silence(self, do: Do, states: Sequence[WriterState]) -> None:
        answers = await self.ask(_controls(do, states), WritersStopped, "stop its writers")
        placed = [end for answer in answers.values() for end in answer.placed]
        for state in states:
            index = state.writer.index
            state.series.placed = [end for end in placed if end.writer == index]

    def resume(self, states: Sequence[WriterState]) -> None:
        """Let held writers continue; what was recorded of them before is forgotten."""
        for state in states:
            series = state.series
            series.rows = []
            series.samples = []
            series.placed = []
            series.meter = Metered(state.writer.index)
        for node, order in _controls("resume", states).items():
            self.send(node, order)

    async def ask(
        self,
        orders: Mapping[str, messages.Order],
        kind: type[_Answer],
        action: str,
        timeout_s: float = _ANSWER_S,
    ) -> dict[str, _Answer]:
        """Send nodes their orders. Node -> its answer; MachineError if one did not do `action`."""
        links = [self._links[node] for node in orders]
        for link in links:
            link.answers.pop(kind, None)
            link.asked_s = clock.now_s()
            self.send(link.node, orders[link.node])
        left = [*links]

        def answered() -> bool:
            """Each is looked at once, as of thousands each answer is one more question."""
            while left and kind in left[-1].answers:
                left.pop()
            return not left

        if not await self.wait_for(answered, timeout_s):
            raise MachineError(f"an agent did not {action} within {timeout_s:.0f} s")
        return {link.node: link.answers[kind] for link in links}

    def close(self) -> None:
        """Close all connections; agents exit when theirs is closed."""
        self._close_port()
        for link in self._links.values():
            link.wire.close()

    async def _greet(self, call: socket.socket) -> None:
        """Serve a caller that is an agent of this job; another one gets no answer."""
        try:
            await wire.admit(call, self._secret)
        except (wire.WireError, OSError):
            call.close()
            return
        except asyncio.CancelledError:
            call.close()
            raise
        # In another task, which nobody sends away.
        self._serving.append(asyncio.create_task(self._serve(call)))

    async def _serve(self, call: socket.socket) -> None:
        """Take what an agent reports until it is gone."""
        connection = await wire.wired(call)
        try:
            hello = messages.report(await connection.receive())
        except wire.WireError:
            hello = None
        if not isinstance(hello, messages.Hello) or hello.node in self._links:  # one for each node
            connection.close()
            return
        link = self._links[hello.node] = _Link(wire=connection, node=hello.node, facts=hello.facts)
        await self._tell()
        try:
            while True:
                self._reported(link, messages.report(await connection.receive()))
                await self._tell()
        except wire.WireError as error:
            lost = NodeGoneError if isinstance(error, wire.SilentNodeError) else AgentGoneError
            self._lost = lost(f"the agent on {link.node} is gone: {error}")
        await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _reported(self, link: _Link, report: messages.Report) -> None:
        if isinstance(report, messages.News):
            if state := self._states.get(report.writer):
                self._news(state, report, link.clock.offset_s)
        else:
            link.answers[type(report)], link.answered_s = report, clock.now_s()

    def _news(self, state: WriterState, news: messages.News, ahead_s: float) -> None:
        """Take what is new of a writer; `ahead_s`: its agent's clock minus ours."""
        series = state.series
        state.listening |= news.listening
        state.ended = state.ended or news.ended
        series.transport = news.transport or series.transport
        series.meter = news.meter or series.meter
        series.samples += [sample._replace(at_s=sample.at_s - ahead_s) for sample in news.samples]
        if row := news.row:
            if state.freezes:
                state.freezes = False
                self.send(state.writer.target, messages.Control("freeze", [state.writer.index]))
            # It does not start before the end of the previous row.
            start_s = max([row.start_s - ahead_s, *(last.end_s for last in series.rows[-1:])])
            series.rows.append(row._replace(start_s=start_s, end_s=row.end_s - ahead_s))


def _controls(do: Do, states: Sequence[WriterState]) -> dict[str, messages.Control]:
    """Node -> the order for the writers that have an end on it."""
    orders: dict[str, messages.Control] = {}
    for state in states:
        for node in dict.fromkeys((state.writer.target, state.writer.origin)):
            order = orders.setdefault(node, messages.Control(do, []))
            order.writers.append(state.writer.index)
    return orders


def shortest_counts_s(injector: Injector, writers: Sequence[Writer]) -> list[float | None]:
    """Shortest time over which the count of each writer is its rate, seconds.

    None for a writer without a count of its own: another one passes the same device.
    """
    if not injector.writes:
        return [_CONTROL_S] * len(writers)
    sharing = Counter((writer.origin, writer.device) for writer in writers)

    def paced_s(writer: Writer) -> float:
        return pace(writer).period_s if injector.is_paced(writer) else 0.0

    return [
        max(COUNTED_S, _PERIODS * paced_s(writer))
        if sharing[writer.origin, writer.device] == 1 or injector.reports_arrivals
        else None
        for writer in writers
    ]
