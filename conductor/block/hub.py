"""The conductor's connections to the agents: accepts agents, orders them, keeps their reports."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from conductor import messages, wire
from conductor.agent.pacer import pace_of
from conductor.injectors.base import EndRole, Injector, Writer
from conductor.judge.series import WriterSeries
from conductor.messages import Action, Pong, WritersStopped
from conductor.readings import SHORTEST_COUNT_S, MeterRecord, RateRow
from records import clock
from records.clock import Exchange, Offset, offset_from
from records.errors import MachineError
from records.text import first_names

#: Maximum connections that the kernel keeps until they are accepted. With a lower maximum, agents
#: of many nodes would wait for seconds.
_BACKLOG = 4096
#: Maximum callers at a time. A caller has connected, and has not yet proved that it is an agent.
MOST_CALLERS = 256
#: With more callers than this, each has only `CROWDED_PROOF_TIMEOUT_S` to prove that it is one.
MOST_UNTIMED_CALLERS = 64
#: Time within which a caller must then prove that it is an agent, seconds.
CROWDED_PROOF_TIMEOUT_S = 1.0
#: Maximum files that the conductor has open in addition to one for each agent.
FILES_BESIDES_AGENTS = 2 * MOST_CALLERS
#: Maximum nodes without an agent, or without its answer, that an error names.
_MOST_NAMED = 8
#: Pause after a connection could not be accepted, seconds.
_RETRY_S = 0.1
#: Round trips for one measurement of a clock offset.
_PINGS = 8
#: Time over which a control's share of a core is counted, seconds.
_CONTROL_ROW_S = 0.5
#: Number of periods over which the rate of a paced writer is counted.
_COUNTED_PERIODS = 4
#: How long an agent may take to answer an order, such as to stop its writers, seconds. On a slow
#: host, soft-RoCE at full rate kept the agent of a virtual machine from answering for half a
#: minute.
_ANSWER_TIMEOUT_S = 60.0
_UNKNOWN_OFFSET = Offset(0.0, 0.0, 0.0)
_Answer = TypeVar("_Answer", bound=messages.Answer)


class AgentGoneError(MachineError):
    """An agent has closed its connection, since its process has ended."""

    outcome = "agent_failed"


class NodeGoneError(AgentGoneError):
    """The node of an agent no longer answers."""

    outcome = "node_failed"


@dataclass
class WriterState:
    """The state of one running writer, as its two agents have reported it."""

    series: WriterSeries
    #: True until the first row, if its passive side is suspended from then on.
    must_be_frozen: bool = False
    listening: bool = False
    #: Why its origin side or passive side has ended; None while both run.
    end_reason: str | None = None

    @property
    def writer(self) -> Writer:
        """Return the writer as it was planned."""
        return self.series.writer

    @property
    def number(self) -> int:
        """Return its number among the writers of one kind, for messages to people."""
        return self.series.number

    @property
    def rows(self) -> list[RateRow]:
        """Return the rows that it has reported since it was started or resumed."""
        return self.series.rows


@dataclass(kw_only=True)
class _Link:
    """The connection of one agent."""

    wire: wire.Wire
    node: str
    facts: dict[str, Any]
    #: The node's clock minus the conductor's.
    clock_offset: Offset = _UNKNOWN_OFFSET
    #: Type of answer -> the last answer; no entry while an answer of this type is awaited.
    answers: dict[type, Any] = field(default_factory=dict)
    #: When an answer was last requested, and when one last arrived, Unix time.
    requested_s: float = 0.0
    answered_s: float = 0.0


class Hub:
    """Accepts the agents of this job, sends them orders and keeps their reports.

    Other processes that connect are rejected, and do not delay the agents.
    """

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._listener: socket.socket | None = None
        self._accepting: list[asyncio.Task[None]] = []
        #: Task that admits a caller -> time of the connection, Unix time; the oldest comes first.
        self.callers: dict[asyncio.Task[None], float] = {}
        #: Tasks that receive the reports of one agent each.
        self._serving: list[asyncio.Task[None]] = []
        #: Node -> the connection of its agent.
        self._links: dict[str, _Link] = {}
        #: Index of a writer -> its state.
        self._states: dict[int, WriterState] = {}
        #: Notified when an agent connects, reports or is gone.
        self._changed = asyncio.Condition()
        #: Why an agent is gone; None while all are connected.
        self._agent_loss: MachineError | None = None

    async def listen(self, address: str) -> int:
        """Listen on one address only, until all agents are connected; return the port."""
        self._listener = socket.create_server((address, 0), backlog=_BACKLOG)
        self._listener.setblocking(False)
        self._accepting = [asyncio.create_task(self._accept(self._listener))]
        port: int = self._listener.getsockname()[1]
        return port

    async def _accept(self, listener: socket.socket) -> None:
        """Accept connections. Strangers can neither keep agents out nor use up all files."""
        loop = asyncio.get_running_loop()
        while True:
            await self._make_room()
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError:  # the caller has closed it, or no file can be opened
                await asyncio.sleep(_RETRY_S)
                continue
            caller = asyncio.create_task(self._admit(connection))
            self.callers[caller] = clock.now_s()
            caller.add_done_callback(partial(self._forget_caller, connection))
            await asyncio.sleep(0)  # earlier callers are answered first

    def _forget_caller(self, connection: socket.socket, caller: asyncio.Task[None]) -> None:
        self.callers.pop(caller, None)
        if caller.cancelled():  # maybe before it began
            connection.close()

    async def _make_room(self) -> None:
        """If there are too many callers, disconnect those that take too long."""
        while len(self.callers) > MOST_UNTIMED_CALLERS:
            oldest, since_s = next(iter(self.callers.items()))
            left_s = since_s + CROWDED_PROOF_TIMEOUT_S - clock.now_s()
            if left_s <= 0:
                oldest.cancel()
                self.callers.pop(oldest)
            elif len(self.callers) < MOST_CALLERS:
                return
            else:
                await asyncio.wait(
                    self.callers, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
                )

    def _close_port(self) -> None:
        """Accept no more connections, and disconnect all callers."""
        for task in (*self._accepting, *self.callers):
            task.cancel()
        if self._listener:
            self._listener.close()

    async def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until `condition()` is true; return False on timeout.

        Raises MachineError if an agent is gone.
        """
        with suppress(asyncio.TimeoutError):
            async with self._changed:
                waiting = self._changed.wait_for(
                    lambda: self._agent_loss is not None or condition()
                )
                await asyncio.wait_for(waiting, timeout_s)
        if self._agent_loss:
            raise self._agent_loss
        return condition()

    async def await_agents(self, nodes: list[str], timeout_s: float) -> None:
        """Wait until every node's agent is connected, and measure its clock.

        Raises MachineError if an agent does not connect in time, or is gone.
        """
        expected = [*nodes]

        def all_connected() -> bool:
            # A connected node is dropped, so that it is checked only once.
            while expected and expected[-1] in self._links:
                expected.pop()
            return not expected

        if not await self.wait_for(all_connected, timeout_s):
            missing = [node for node in nodes if node not in self._links]
            names = first_names(missing, _MOST_NAMED)
            raise MachineError(f"no agent from {names} after {timeout_s:.0f} s")
        self._close_port()
        await self.measure_clocks(nodes)

    @property
    def addresses(self) -> dict[str, str]:
        """Return node -> the address that its agent connected from."""
        return {node: link.wire.peer for node, link in self._links.items()}

    @property
    def facts(self) -> dict[str, Any]:
        """Return node -> facts of the host, as its agent detected them."""
        return {node: link.facts for node, link in self._links.items()}

    @property
    def clock_offsets_s(self) -> dict[str, float]:
        """Return node -> its clock minus the conductor's, seconds."""
        return {node: link.clock_offset.offset_s for node, link in self._links.items()}

    async def measure_clocks(self, nodes: list[str]) -> dict[str, Offset]:
        """Measure how far each node's clock is ahead of the conductor's; return node -> offset."""
        exchanges: dict[str, list[Exchange]] = {node: [] for node in nodes}
        for _ in range(_PINGS):
            orders = dict.fromkeys(nodes, messages.Ping())
            answers = await self.ask(orders, Pong, "tell its time")
            for node, pong in answers.items():
                link = self._links[node]
                exchanges[node].append(Exchange(link.requested_s, pong.now_s, link.answered_s))
        for node, round_trips in exchanges.items():
            self._links[node].clock_offset = offset_from(round_trips, node)
        return {node: self._links[node].clock_offset for node in nodes}

    def send(self, node: str, order: messages.Order) -> None:
        """Send a node's agent an order that needs no answer."""
        self._links[node].wire.send(messages.encode(order))

    async def start(
        self, injector: Injector, writers: list[Writer], timeout_s: float
    ) -> list[WriterState]:
        """Start writers: passive sides first, then, once they listen, the origins.

        If a passive side ends or does not listen in time, no origin is started.
        """
        states = await self.start_passive_sides(injector, writers, timeout_s)
        if not any(state.end_reason for state in states):
            self._start_ends("origin", injector, writers)
        return states

    async def start_passive_sides(
        self, injector: Injector, writers: list[Writer], timeout_s: float
    ) -> list[WriterState]:
        """Start passive sides, and wait until they listen.

        For short writes, the origins are started later, by the order `MakeWrites`.
        """
        min_times_s = min_count_times_s(injector, writers)
        states = [
            WriterState(
                WriterSeries(
                    number=number,
                    injector=injector.name,
                    writer=writer,
                    transport=injector.transport(writer),
                    row_s=injector.row_s or _CONTROL_ROW_S,
                    counted_s=min_times_s[number],
                    meter=MeterRecord(writer.index),
                ),
                must_be_frozen=injector.freezes_target(writer),
            )
            for number, writer in enumerate(writers)
        ]
        self._states |= {state.writer.index: state for state in states}
        self._start_ends("target", injector, writers)

        def listening() -> bool:
            return all(state.listening or state.end_reason for state in states)

        if not await self.wait_for(listening, timeout_s):
            for state in states:
                if not state.listening and not state.end_reason:
                    state.end_reason = f"its passive side did not listen within {timeout_s:.0f} s"
        return states

    def _start_ends(self, role: EndRole, injector: Injector, writers: list[Writer]) -> None:
        for writer in writers:
            node = writer.target if role == "target" else writer.origin
            self.send(node, messages.StartWriterEnd(role, injector.name, writer))

    async def stop(self, states: Sequence[WriterState]) -> None:
        """Stop these writers and wait until they have stopped."""
        for state in states:
            self._states.pop(state.writer.index, None)
        await self._stop_or_hold("stop", states)

    async def hold(self, states: Sequence[WriterState]) -> None:
        """Suspend these writers until `resume`, and wait until they are suspended."""
        await self._stop_or_hold("hold", states)

    async def _stop_or_hold(self, action: Action, states: Sequence[WriterState]) -> None:
        answers = await self.ask(
            _control_orders(action, states), WritersStopped, "stop its writers"
        )
        placements = [end for answer in answers.values() for end in answer.placements]
        for state in states:
            index = state.writer.index
            state.series.placed = [end for end in placements if end.writer == index]

    def resume(self, states: Sequence[WriterState]) -> None:
        """Let held writers continue, and drop what was recorded about them before."""
        for state in states:
            series = state.series
            series.rows = []
            series.samples = []
            series.placed = []
            series.meter = MeterRecord(state.writer.index)
        for node, order in _control_orders("resume", states).items():
            self.send(node, order)

    async def ask(
        self,
        orders: Mapping[str, messages.Order],
        answer_type: type[_Answer],
        action: str,
        timeout_s: float = _ANSWER_TIMEOUT_S,
    ) -> dict[str, _Answer]:
        """Send nodes their orders; return node -> its answer.

        Raises MachineError if an agent does not answer in time. The message says that it did not
        `action`, and names its node.
        """
        links = [self._links[node] for node in orders]
        for link in links:
            link.answers.pop(answer_type, None)
            link.requested_s = clock.now_s()
            self.send(link.node, orders[link.node])
        pending = [*links]

        def all_answered() -> bool:
            # This runs at each of thousands of answers. A link with an answer is checked only once.
            while pending and answer_type in pending[-1].answers:
                pending.pop()
            return not pending

        if not await self.wait_for(all_answered, timeout_s):
            silent = [link.node for link in links if answer_type not in link.answers]
            names = first_names(silent, _MOST_NAMED)
            raise MachineError(f"an agent did not {action} within {timeout_s:.0f} s: {names}")
        return {link.node: link.answers[answer_type] for link in links}

    def close(self) -> None:
        """Close all connections; an agent exits when its connection is closed."""
        self._close_port()
        for link in self._links.values():
            link.wire.close()

    async def _admit(self, connection: socket.socket) -> None:
        """Serve a caller that is an agent of this job; disconnect any other."""
        try:
            await wire.admit(connection, self._secret)
        except (wire.WireError, OSError):
            connection.close()
            return
        # In a task of its own, since the task of a caller may be cancelled.
        self._serving.append(asyncio.create_task(self._serve(connection)))

    async def _serve(self, connection: socket.socket) -> None:
        """Receive the reports of an agent until its connection is closed."""
        agent_wire = await wire.open_wire(connection)
        try:
            await self._receive_reports(agent_wire)
        finally:
            agent_wire.close()

    async def _receive_reports(self, agent_wire: wire.Wire) -> None:
        """Receive the greeting of an agent, then its reports until it is gone."""
        try:
            hello = messages.decode_report(await agent_wire.receive())
        except wire.WireError:
            return
        # Each node has one agent.
        if not isinstance(hello, messages.Hello) or hello.node in self._links:
            return
        link = self._links[hello.node] = _Link(wire=agent_wire, node=hello.node, facts=hello.facts)
        await self._notify_waiters()
        try:
            while True:
                self._take_report(link, messages.decode_report(await agent_wire.receive()))
                await self._notify_waiters()
        except wire.WireError as error:
            is_silent = isinstance(error, wire.SilentNodeError)
            error_type = NodeGoneError if is_silent else AgentGoneError
            self._agent_loss = error_type(f"the agent on {link.node} is gone: {error}")
        await self._notify_waiters()

    async def _notify_waiters(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _take_report(self, link: _Link, report: messages.Report) -> None:
        if isinstance(report, messages.WriterNews):
            if state := self._states.get(report.writer):
                self._take_news(state, report, link.clock_offset.offset_s)
        else:
            link.answers[type(report)] = report
            link.answered_s = clock.now_s()

    def _take_news(
        self, state: WriterState, news: messages.WriterNews, clock_offset_s: float
    ) -> None:
        """Record news of a writer; `clock_offset_s` is its agent's clock minus the conductor's."""
        series = state.series
        state.listening |= news.listening
        state.end_reason = state.end_reason or news.why_ended
        series.transport = news.transport or series.transport
        series.meter = news.meter or series.meter
        series.samples += [
            sample._replace(at_s=sample.at_s - clock_offset_s) for sample in news.samples
        ]
        if row := news.row:
            if state.must_be_frozen:
                state.must_be_frozen = False
                self.send(
                    state.writer.target, messages.ControlWriters("freeze", [state.writer.index])
                )
            start_s = row.start_s - clock_offset_s
            if series.rows:
                # A row does not start before the end of the previous row.
                start_s = max(start_s, series.rows[-1].end_s)
            series.rows.append(row._replace(start_s=start_s, end_s=row.end_s - clock_offset_s))


def _control_orders(
    action: Action, states: Sequence[WriterState]
) -> dict[str, messages.ControlWriters]:
    """Return node -> the order about the writers that have an end on it."""
    orders: dict[str, messages.ControlWriters] = {}
    for state in states:
        for node in dict.fromkeys((state.writer.target, state.writer.origin)):
            order = orders.setdefault(node, messages.ControlWriters(action, []))
            order.writers.append(state.writer.index)
    return orders


def min_count_times_s(injector: Injector, writers: Sequence[Writer]) -> list[float | None]:
    """Return the shortest time over which the rate of each writer is counted, seconds.

    None for a writer whose bytes are not counted separately. Such a writer shares its device with
    another writer, and its target does not report arrivals.
    """
    if not injector.writes:
        return [_CONTROL_ROW_S] * len(writers)
    writers_of_device = Counter((writer.origin, writer.device) for writer in writers)
    min_times_s: list[float | None] = []
    for writer in writers:
        is_shared = writers_of_device[writer.origin, writer.device] > 1
        if is_shared and not injector.reports_arrivals:
            min_times_s.append(None)
        elif injector.is_paced(writer):
            min_times_s.append(max(SHORTEST_COUNT_S, _COUNTED_PERIODS * pace_of(writer).period_s))
        else:
            min_times_s.append(SHORTEST_COUNT_S)
    return min_times_s
