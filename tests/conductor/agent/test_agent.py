"""How an agent holds, resumes and watches ends of writers.

An end is one of the two processes of a writer, at its origin or its target. The processes here are
stand-ins.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest

from conductor import messages
from conductor.agent.agent import Agent
from conductor.agent.end import End
from conductor.agent.pacer import assumed_full_b_s
from conductor.injectors import INJECTORS
from conductor.injectors.base import Arrived, Row
from conductor.readings import Placement
from records import clock
from tests import made_writers
from tests.conductor.conftest import LOGS, RecordingWire

WRITER = made_writers.writer(index=1)


def end(role="origin", injector="ucx", ended=None, alone=None, sent=None, **changes):
    process = SimpleNamespace(pid=0, returncode=ended)
    send = (sent if sent is not None else []).append
    fields = replace(WRITER, **changes), role, INJECTORS[injector], process, send
    return End(*fields, alone) if alone else End(*fields)


@pytest.mark.parametrize(
    ("one", "row_printed_s", "readings"),
    [
        # The clock begins at 100 s. Each reading advances it by a quarter of a second.
        (end(), 0.0, 0),  # ucx may be held at any moment
        (end(injector="perftest", rate_b_s=1e6), 0.0, 0),  # perftest with a limit prints no rows
        (end(injector="perftest"), 99.75, 3),  # its last row is not older than 0.75 s
        (end(injector="perftest"), 99.5, 14),  # no row comes for the length of three rows
        (end(injector="perftest", ended=0), 0.0, 2),  # its process has ended
    ],
)
def test_perftest_is_held_shortly_after_a_row(monkeypatch, one, row_printed_s, readings):
    times_s = count(100.0, 0.25)
    monkeypatch.setattr(clock, "now_s", lambda: next(times_s))
    monkeypatch.setattr("conductor.agent.end.HOLD_INTERVAL_S", 0.0)
    one.row_printed_s = row_printed_s
    asyncio.run(one.wait_for_hold())
    assert next(times_s) == 100.0 + 0.25 * readings


@pytest.mark.parametrize(
    ("other", "passed_b"),
    [
        (None, 7.0),
        (end(index=2), None),  # two writers share the device
        (end(role="target", index=2), 7.0),
    ],
)
def test_a_device_shows_what_its_only_writer_has_written(other, passed_b):
    agent = Agent(RecordingWire(), LOGS)
    one = end(alone=agent.is_only_writing_origin)
    one.meter = SimpleNamespace(passed_b=lambda: 7.0)
    agent.ends = [one, *([other] if other else [])]
    assert one.passed_b() == passed_b
    if passed_b is None:
        other.held = True
        assert one.passed_b() == 7.0
    one.meter = None
    assert one.passed_b() is None


@pytest.mark.parametrize(
    ("known_b_s", "reported_b_s", "full_b_s"),
    [(300.0, 50.0, 300.0), (None, 250.0, 250.0), (None, 50.0, 100.0)],
)
def test_a_paced_writer_begins_with_the_rate_that_is_known(known_b_s, reported_b_s, full_b_s):
    one = end(rate_b_s=100.0, full_b_s=known_b_s)
    assert assumed_full_b_s(one.writer, reported_b_s) == full_b_s
    assert one.is_paced
    assert not end(role="target", rate_b_s=100.0).is_paced
    assert not end().is_paced
    assert not end(injector="perftest", rate_b_s=100.0).is_paced  # perftest limits its own rate


def test_a_throttled_writer_is_paced_from_its_first_row_on():
    async def is_paced_after_rows(*, held):
        one = end(ended=0, rate_b_s=100.0)  # its process has ended, so it gets no signals
        one.meter, one.held = None, held
        one.report_row(Row(250.0))
        return one.pacer is not None

    assert asyncio.run(is_paced_after_rows(held=False))
    assert not asyncio.run(is_paced_after_rows(held=True))


def test_origins_are_held_before_their_targets_and_continue_after_them(monkeypatch):
    done, wire = [], RecordingWire()

    def end_that_records(role, index=1):
        async def hold():
            done.append(("hold", role))

        async def wait_for_hold():
            done.append(("row", role))

        return SimpleNamespace(
            index=index,
            role=role,
            hold=hold,
            wait_for_hold=wait_for_hold,
            find_launched=lambda _: None,
            placement=lambda _: Placement(
                writer=index, role=role, own_binding="none", buffers_b={}
            ),
            resume=lambda: done.append(("resume", role)),
        )

    async def at_once(ends):
        done.append(("stopped", [side.role for side in ends]))

    monkeypatch.setattr("conductor.agent.agent.wait_until_suspended", at_once)
    agent = Agent(wire, LOGS)
    agent.ends = [
        end_that_records("target"),
        end_that_records("origin"),
        end_that_records("origin", 2),
    ]
    for order in ("hold", "resume"):
        asyncio.run(agent.execute(messages.ControlWriters(order, [1])))
    roles = ["origin", "target"]
    assert done == [
        ("row", "origin"),
        ("hold", "origin"),
        ("hold", "target"),
        ("stopped", roles),
        ("resume", "target"),
        ("resume", "origin"),
    ]
    placed = [Placement(writer=1, role=role, own_binding="none", buffers_b={}) for role in roles]
    # Only a hold is answered: the conductor does not wait for a resumption.
    assert wire.sent == [messages.WritersStopped(placed)]


def test_a_suspended_target_stays_so_and_a_transport_is_reported_once(monkeypatch):
    signals = []
    monkeypatch.setattr("records.processes.suspend", lambda _: signals.append("suspend"))
    monkeypatch.setattr("records.processes.resume", lambda _: signals.append("resume"))
    agent, sent = Agent(RecordingWire(), LOGS), []
    agent.ends = [origin, target, other] = [
        end(sent=sent),
        end(role="target"),
        end("target", index=2),
    ]
    arrived_b = []
    origin.meter = SimpleNamespace(start=lambda: None, take_arrival=arrived_b.append)
    other.meter = None
    asyncio.run(agent.execute(messages.ControlWriters("freeze", [1])))
    assert [side.frozen for side in agent.ends] == [False, True, False]
    for one in (target, origin, other):
        one.resume()
    assert signals == ["suspend", "resume", "resume"]
    for name in ("tcp", "tcp", "shared memory"):
        origin.report_arrival(Arrived(5, name))
    assert sent == [
        messages.WriterNews(writer=1, transport=name) for name in ("tcp", "shared memory")
    ]
    assert arrived_b == [5, 5, 5]


@pytest.mark.parametrize(
    ("options", "sockets", "listens"),
    [
        ((), None, False),
        ((), "own", True),
        (("-R",), None, True),  # it listens, but not on a TCP socket
        (("-R",), "other", False),  # a process of somebody else listens on its port
        (("--com_rdma_cm",), None, True),
    ],
)
def test_a_target_that_listens_unseen_is_given_time(monkeypatch, options, sockets, listens):
    monkeypatch.setattr("conductor.agent.end.ASSUME_LISTENING_S", 0.05)
    monkeypatch.setattr("conductor.agent.end.processes.listener", lambda *_: sockets)
    sent: list[messages.WriterNews] = []
    one = end(role="target", injector="perftest", sent=sent, options=options)
    began_s = clock.now_s()

    async def run() -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(one.watch_for_listener(), 0.3)

    asyncio.run(run())
    assert [news.listening for news in sent if news.why_ended is None] == [True] * listens
    assert one.listened == listens
    assert not (listens and sockets is None) or clock.now_s() - began_s > 0.05
