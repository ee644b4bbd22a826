"""The hub and an agent over loopback."""

import asyncio
import gc
import socket
import time
import warnings
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from dataclasses import replace

import pytest

from conductor import messages, wire
from conductor.agent.agent import Agent
from conductor.block.hub import AgentGoneError, Hub, min_count_times_s
from conductor.injectors import INJECTORS
from conductor.readings import CounterSample, MeterRecord, NodeSeries, Placement, RateRow
from records.errors import MachineError
from tests import made_writers
from tests.conductor.conftest import LOGS, RecordingWire

SECRET = wire.new_secret()


@asynccontextmanager
async def connected():
    """Yields a hub, the end of n7's agent of a connection to it, and the hub's port."""
    hub = Hub(SECRET)
    port = await hub.listen("127.0.0.1")
    agent = await wire.connect("127.0.0.1", port, SECRET, None)
    agent.send(messages.encode(messages.Hello("n7", {"which": 1})))
    while "n7" not in hub.facts:
        await asyncio.sleep(0.001)
    try:
        yield hub, agent, port
    finally:
        agent.close()
        hub.close()


@pytest.mark.parametrize(
    "message", [None, ["Dance"], ["WriterNews", {"writer": "soon"}], {"event": "row"}]
)
def test_an_agent_that_hangs_up_or_sends_an_unknown_message_is_gone(message):
    async def talk():
        async with connected() as (hub, agent, _):
            if message is None:
                agent.close()
            else:
                agent.send(message)
            await hub.wait_for(lambda: False, 10.0)

    why = "(unknown|malformed)" if message else "the connection closed"
    with pytest.raises(AgentGoneError, match=rf"the agent on n7 is gone: {why}"):
        asyncio.run(talk())


@pytest.mark.parametrize(
    ("injector", "origins", "counted"),
    [
        ("perftest", ["o", "p"], [True, True]),
        # The device of an origin counts the bytes of all writers of this origin together.
        ("perftest", ["o", "o", "p"], [False, False, True]),
        ("mpi_put", ["o", "o"], [True, True]),  # the target of each writer counts
        # Two writers stay on the target's host, and two share the other host's device.
        ("ucx", ["t", "t", "o", "o"], [False] * 4),
        ("spin", ["o", "o"], [True, True]),
    ],
)
def test_a_writer_that_shares_its_counter_is_not_counted(injector, origins, counted):
    writers = [
        made_writers.writer(index=i, origin=name, address="", port=1, message_b=64, device="d0")
        for i, name in enumerate(origins)
    ]
    counts = min_count_times_s(INJECTORS[injector], writers)
    assert [count is not None for count in counts] == counted


def test_a_count_is_a_rate_over_a_quarter_of_a_second_or_four_periods():
    one = made_writers.writer(address="", port=1, message_b=64, device="d0")
    # A period has four messages of 0.05 s each, so four periods are 0.8 s.
    paced = replace(one, origin="p", rate_b_s=1e9, message_b=10**8, full_b_s=2e9)
    assert min_count_times_s(INJECTORS["ucx"], [one, paced]) == pytest.approx([0.25, 0.8])


def test_a_crowd_of_silent_callers_keeps_no_agent_out_and_is_sent_away(monkeypatch):
    """Ten times as many callers connect as may wait.

    Once all agents are connected, no further connection is accepted.
    """
    for name, value in {
        "MOST_CALLERS": 16,
        "MOST_UNTIMED_CALLERS": 8,
        "CROWDED_PROOF_TIMEOUT_S": 0.05,
    }.items():
        monkeypatch.setattr(f"conductor.block.hub.{name}", value)
    caller_counts = []

    async def talk():
        hub = Hub(SECRET)
        port = await hub.listen("127.0.0.1")
        crowd = [await asyncio.open_connection("127.0.0.1", port) for _ in range(160)]
        agents = [
            asyncio.create_task(agent_that_answers(port, node, lambda *_: []))
            for node in ("n7", "n8")
        ]
        gathered = asyncio.create_task(hub.await_agents(["n7", "n8"], 60.0))
        while not gathered.done():
            caller_counts.append(len(hub.callers))
            await asyncio.sleep(0)
        await gathered
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        for reader, writer in crowd:
            with suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 60.0) == b""
            writer.close()
        hub.close()
        await asyncio.gather(*agents)

    asyncio.run(talk())
    assert max(caller_counts) <= 16


def collect_without_warning():
    """Collect what earlier tests left; warnings about it are not this test's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


@pytest.mark.filterwarnings("error::ResourceWarning")
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_caller_that_just_came_when_the_hub_closes_is_hung_up_on():
    """The hub's task for this caller has not begun."""

    async def talk():
        with closing(Hub(wire.new_secret())) as hub:
            port = await hub.listen("127.0.0.1")
            caller = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            while not hub.callers:
                await asyncio.sleep(0)
        caller.setblocking(False)
        return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(caller, 1), 10.0)

    collect_without_warning()
    with ExitStack() as stack:
        assert asyncio.run(talk()) == b""
    gc.collect()


@pytest.mark.filterwarnings("error::ResourceWarning")
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_an_agent_that_has_not_said_its_node_when_the_hub_closes_is_hung_up_on():
    async def talk():
        with closing(Hub(SECRET)) as hub:
            port = await hub.listen("127.0.0.1")
            agent = await wire.connect("127.0.0.1", port, SECRET, None)
            while hub.callers:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.1)  # the hub now waits for the agent's first message
        agent.close()

    collect_without_warning()
    asyncio.run(talk())
    gc.collect()


async def agent_that_answers(port, node, answer, ahead_s=0.0):
    """Run an agent whose clock is ahead by `ahead_s`.

    It answers a ping with a pong, and any other order with the reports of `answer(node, order)`.
    """
    agent = await wire.connect("127.0.0.1", port, SECRET, None)
    agent.send(messages.encode(messages.Hello(node, {})))
    with closing(agent), suppress(wire.WireError):
        while True:
            order = messages.decode_order(await agent.receive())
            if isinstance(order, messages.Ping):
                agent.send(messages.encode(messages.Pong(time.time() + ahead_s)))
            for report in answer(node, order):
                agent.send(messages.encode(report))


def with_agents(nodes, answer, talk, ahead_s=0.0):
    """Return the result of `talk(hub)`, which runs while agents of these nodes are connected."""

    async def run():
        hub = Hub(SECRET)
        port = await hub.listen("127.0.0.1")
        agents = [
            asyncio.create_task(agent_that_answers(port, node, answer, ahead_s)) for node in nodes
        ]
        try:
            await hub.await_agents(nodes, 10.0)
            return await talk(hub)
        finally:
            hub.close()
            await asyncio.gather(*agents)

    return asyncio.run(run())


def test_rows_of_an_agent_whose_clock_is_ahead_are_converted_to_the_conductors_time():
    def answer(_, order):
        if not isinstance(order, messages.StartWriterEnd):
            return []
        if order.role == "target":
            return [messages.WriterNews(writer=order.writer.index, listening=True)]
        now_s = time.time() + 100.0
        counted = [CounterSample(now_s - 0.5, 7.0), CounterSample(now_s, 9.0)]
        row = RateRow(now_s - 1, now_s, 5.0)
        return [messages.WriterNews(writer=order.writer.index, row=row, samples=counted)]

    async def talk(hub):
        before_s = time.time()
        writer = made_writers.writer(origin="n7", target="n7")
        (state,) = await hub.start(INJECTORS["ucx"], [writer], 10.0)
        assert await hub.wait_for(lambda: bool(state.rows), 10.0)
        clocks = await hub.measure_clocks(["n7"])
        return before_s, time.time(), state, hub.clock_offsets_s["n7"], clocks["n7"]

    before_s, after_s, state, offset_s, clock = with_agents(["n7"], answer, talk, ahead_s=100.0)
    (row,), (earlier, later) = state.rows, state.series.samples
    # The times of counter samples are converted as well.
    assert later == (row.end_s, 9.0)
    assert later.at_s - earlier.at_s == pytest.approx(0.5, abs=0.01)
    # A message between two processes of one host takes less than 5 s.
    assert before_s - 5 < row.end_s < after_s + 5
    assert row.end_s - row.start_s == pytest.approx(1.0)
    assert offset_s == pytest.approx(100.0, abs=5)
    assert clock.offset_s == pytest.approx(100.0, abs=5)


PERFTEST = INJECTORS["perftest"]
COUNTED = MeterRecord(0, "sent by mlx5_0")
ONE = made_writers.writer(origin="o1", target="n7")


@pytest.mark.parametrize(
    ("reports", "ended", "allowed_s"),
    [
        ([lambda index: messages.WriterNews(writer=index, why_ended="no port")], "no port", 60.0),
        ([], "passive side did not listen within 0 s", 0.1),
        ([lambda index: messages.WriterNews(writer=index, listening=True)], None, 60.0),
    ],
)
def test_origins_start_once_all_passive_sides_listen(reports, ended, allowed_s):
    starts = []

    def answer(node, order):
        if not isinstance(order, messages.StartWriterEnd):
            return []
        starts.append((node, order.role, order.writer.index))
        return [report(order.writer.index) for report in reports]

    async def talk(hub):
        (state,) = await hub.start(PERFTEST, [ONE], allowed_s)
        sides = [
            replace(ONE, index=10 + number, target=("n7", "o1")[number]) for number in range(2)
        ]
        return [state, *await hub.start_passive_sides(PERFTEST, sides, allowed_s)]

    states = with_agents(["o1", "n7"], answer, talk)
    assert sorted(starts) == sorted(
        [("n7", "target", ONE.index), ("n7", "target", 10), ("o1", "target", 11)]
        + ([] if ended else [("o1", "origin", ONE.index)])
    )
    for state in states:
        assert state.end_reason is None if ended is None else state.end_reason.endswith(ended)


def test_a_passive_side_that_has_ended_keeps_its_reason_while_another_is_waited_for():
    def answer(node, order):
        if isinstance(order, messages.StartWriterEnd) and node == "n7":
            return [messages.WriterNews(writer=order.writer.index, why_ended="no port")]
        return []

    async def talk(hub):
        sides = [ONE, replace(ONE, index=1, target="o1")]
        return await hub.start_passive_sides(PERFTEST, sides, 0.1)

    ended, silent = with_agents(["o1", "n7"], answer, talk)
    assert ended.end_reason == "no port"
    assert silent.end_reason.endswith("did not listen within 0 s")


def test_what_a_writer_reports_and_is_told(monkeypatch):
    monkeypatch.setattr(type(PERFTEST), "freezes_target", lambda *_: True)
    orders, begun_s = [], 1000.0

    def answer(node, order):
        if not isinstance(order, messages.Ping):
            orders.append((node, order))
        match order:
            case messages.StartWriterEnd("target"):
                return [messages.WriterNews(writer=0, listening=True)]
            case messages.StartWriterEnd():
                # The first two rows begin at the same time.
                spans_s = [(-1, 0, 5.0), (-1, 2, 6.0), (4, 5, 7.0)]
                rows = [RateRow(begun_s + start, begun_s + to, rate) for start, to, rate in spans_s]
                return [
                    messages.WriterNews(writer=1, row=rows[0], transport="tcp"),
                    *(messages.WriterNews(writer=0, row=row, transport="RoCE") for row in rows),
                    messages.WriterNews(writer=0, meter=COUNTED),
                    messages.WriterNews(writer=0, why_ended="first"),
                    messages.WriterNews(writer=0, why_ended="second"),
                ]
            case messages.ControlWriters(action) if action != "resume":
                return [
                    messages.WritersStopped(
                        [Placement(writer=0, role="target", own_binding=node, buffers_b={})]
                    )
                ]
        return []

    async def talk(hub):
        states = await hub.start(PERFTEST, [ONE], 10.0)
        (state,) = states
        assert await hub.wait_for(lambda: bool(state.end_reason), 10.0)
        rows, meter = list(state.rows), state.series.meter
        await hub.hold(states)
        placed = state.series.placed
        hub.resume(states)
        assert (state.rows, state.series.samples, state.series.placed) == ([], [], [])
        assert state.series.meter == MeterRecord(0)
        await hub.stop(states)
        assert state.series.placed == placed
        return state, rows, placed, meter

    state, rows, placed, meter = with_agents(["o1", "n7"], answer, talk)
    assert [row.end_s - row.start_s for row in rows] == pytest.approx([1, 2, 1])
    assert [row.rate_b_s for row in rows] == [5.0, 6.0, 7.0]
    assert (state.end_reason, state.series.transport, meter) == ("first", "RoCE", COUNTED)
    assert sorted(end.own_binding for end in placed) == ["n7", "o1"]
    node_orders = {name: [order for node, order in orders if node == name] for name in ("o1", "n7")}
    controls = [messages.ControlWriters(action, [0]) for action in ("hold", "resume", "stop")]
    assert node_orders["o1"][1:] == controls
    assert node_orders["n7"][1:] == [messages.ControlWriters("freeze", [0]), *controls]  # once


ACTION = "read its node's load"


def test_an_agent_that_does_not_answer_is_named_with_what_it_did_not_do():
    async def talk(hub):
        with pytest.raises(MachineError, match="no agent from n8, n9 after 0 s"):
            await hub.await_agents(["n8", "n7", "n9"], 0.1)
        orders = dict.fromkeys(["n6", "n7"], messages.EndWatch())
        with pytest.raises(MachineError, match=r"did not read its node's load within 0 s: n7$"):
            await hub.ask(orders, messages.WatchRecord, ACTION, 0.1)

    def answer(node, order):
        watched = isinstance(order, messages.EndWatch) and node == "n6"
        return [messages.WatchRecord(NodeSeries(node=node))] if watched else []

    with_agents(["n6", "n7"], answer, talk)


def test_an_agent_that_gets_a_message_that_is_no_order_ends_with_the_reason():
    class Conductor(RecordingWire):
        async def receive(self):
            return ["Dance", {}]

    with pytest.raises(wire.WireError, match="unknown message 'Dance'"):
        asyncio.run(Agent(conductor := Conductor(), LOGS).serve())
    assert [type(message) for message in conductor.sent] == [messages.Hello]


def test_a_second_agent_of_a_node_is_hung_up_on():
    async def talk():
        async with connected() as (hub, first, port):
            second = await wire.connect("127.0.0.1", port, SECRET, None)
            second.send(messages.encode(messages.Hello("n7", {"which": 2})))
            with pytest.raises(wire.WireError):
                await asyncio.wait_for(second.receive(), 60.0)
            second.close()
            first.send(messages.encode(messages.WritesMade([], {})))
            orders = {"n7": messages.FinishWrites(60.0)}
            return hub.facts, list(await hub.ask(orders, messages.WritesMade, "finish", 60.0))

    assert asyncio.run(talk()) == ({"n7": {"which": 1}}, ["n7"])
