"""Pacing of a real process: how much of a core it gets, and that none is left suspended."""

import asyncio
import os
import sys
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from nimc.base import processes
from nimc.node import agent, wire
from nimc.node.hub import Hub
from nimc.node.injectors import INJECTORS
from nimc.node.injectors.base import Writer
from nimc.records.treatment import Burst

UCX = pytest.mark.skipif(
    INJECTORS["ucx"].missing() is not None, reason=f"ucx: {INJECTORS['ucx'].missing()}"
)
BUSY = [sys.executable, "-S", "-c", "while True: pass"]


def writer(rate_b_s, full_b_s=100.0, message_b=1):
    return Writer(0, "o", "o", "127.0.0.1", 20000, message_b, rate_b_s, full_b_s)


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize(
    ("message_b", "full_b_s", "seconds"),
    [
        (65536, 10e9, 0.02),
        (1 << 26, None, 0.02),
        (100_000_000, 10e9, 0.04),  # four messages of 10 ms
        (1 << 30, 5e9, 0.2),  # a message alone takes longer
    ],
)
def test_a_period_holds_several_messages_where_it_can(message_b, full_b_s, seconds):
    asked = writer(1.0, full_b_s, message_b)
    assert agent.period_s(asked) == pytest.approx(seconds)
    assert agent.period_s(replace(asked, burst=Burst(0.01, 0.09))) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("duty", "reported_b_s", "expected"),
    [
        (0.4, 100.0, 0.4),  # as asked
        (0.4, 200.0, 0.2462),  # twice too fast: 0.4 * 2**-0.7
        (0.4, 50.0, 0.6498),
        (0.4, 1e6, 0.2),  # at most by a factor of two
        (0.4, 0.0, 0.8),
        (0.8, 25.0, 1.0),  # no more than all of the time
        (0.006, 1e6, 0.005),
    ],
)
def test_the_duty_follows_the_reported_rate(duty, reported_b_s, expected):
    assert agent.corrected(duty, 100.0, reported_b_s) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("burst_s", "duty", "expected_s"),
    [
        (0.005, 0.25, 0.015),  # on time: a period of 20 ms
        (0.010, 0.10, 0.090),  # five times as long as meant, and so is the pause
        (0.030, 0.10, 0.170),  # 0.3 s would be too long a silence
        (0.250, 0.50, 0.0),
    ],
)
def test_the_pause_is_in_proportion_to_the_burst_that_was(burst_s, duty, expected_s):
    assert agent.pause_s(burst_s, duty) == pytest.approx(expected_s)


def test_a_paced_process_runs_for_its_share_and_is_never_left_suspended():
    async def run():
        process = await processes.spawn(BUSY, {}, [], -3, -3)
        pacer = agent.Pacer(process, writer(20.0))
        task = asyncio.create_task(pacer.run())
        began_s = time.monotonic()
        pacer.correct(20.0)
        while processes.cpu_s(process.pid) < 0.2:
            await asyncio.sleep(0.005)
        took_s = time.monotonic() - began_s
        while state(process.pid) != "T":
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        until_s = time.monotonic() + 20
        while processes.cpu_s(process.pid) < 0.4 and time.monotonic() < until_s:
            await asyncio.sleep(0.01)
        used_s = processes.cpu_s(process.pid)
        await processes.stop(process)
        return took_s, used_s

    took_s, used_s = asyncio.run(run())
    assert took_s > 0.6  # at a fifth of a core 0.2 s of it take 1 s, on a busy host longer
    assert used_s >= 0.4  # it goes on when it is no longer paced


def test_a_pause_that_ends_late_is_made_up_for_in_later_bursts(monkeypatch):
    """At a duty of 1/4, bursts of 5 ms and pauses of 15 ms that end 4 ms late give 5/24 = 0.208."""
    clock = SimpleNamespace(now_s=0.0, ran_s=0.0, runs=True, periods=0)
    process = SimpleNamespace(returncode=None)

    async def sleep(asked_s):
        took_s = asked_s if clock.runs else asked_s + 0.004
        clock.now_s += took_s
        clock.ran_s += took_s if clock.runs else 0.0

    def resume(_):
        clock.runs = True
        clock.periods += 1
        process.returncode = 0 if clock.periods >= 1000 else None

    monkeypatch.setattr(agent, "asyncio", SimpleNamespace(sleep=sleep, Event=asyncio.Event))
    monkeypatch.setattr(agent, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    suspend = SimpleNamespace(suspend=lambda _: setattr(clock, "runs", False), resume=resume)
    monkeypatch.setattr(agent, "processes", suspend)
    pacer = agent.Pacer(process, writer(25.0))
    pacer.correct(25.0)
    asyncio.run(pacer.run())
    assert 0.235 < clock.ran_s / clock.now_s <= 0.25
    number, writing_s, pausing_s = pacer.done()
    assert (number, writing_s) == (1000, pytest.approx(clock.ran_s))
    assert writing_s + pausing_s == pytest.approx(clock.now_s)
    assert pacer.done() == (0, 0.0, 0.0)


def test_nothing_is_paced_before_the_first_report_and_a_suspended_process_hears_sigterm():
    async def run():
        process = await processes.spawn(BUSY, {}, [], -3, -3)
        task = asyncio.create_task(agent.Pacer(process, writer(1.0)).run())
        seen = set()
        for _ in range(30):
            seen.add(state(process.pid))
            await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        processes.suspend(process)
        while state(process.pid) != "T":
            await asyncio.sleep(0.01)
        return seen, await asyncio.wait_for(processes.stop(process), processes.GRACE_S)

    seen, status = asyncio.run(run())
    assert "T" not in seen
    assert status == -15


@UCX
@pytest.mark.slow
@pytest.mark.parametrize(("name", "burst"), [("ucx_read", None), ("ucx", Burst(0.03, 0.09))])
def test_an_agent_holds_ucx_at_a_quarter_of_its_rate(name, burst, tmp_path, monkeypatch):
    """Over shared memory; within a factor of two, since hosts of tests have other work as well."""

    async def run(rows):
        full_b_s = max(row.rate_b_s for row in await rows(INJECTORS[name]))
        asked = {"rate_b_s": 0.25 * full_b_s, "full_b_s": full_b_s, "burst": burst}
        return full_b_s, await rows(INJECTORS[name], **asked)

    full_b_s, seen = asyncio.run(with_agent(run, tmp_path, monkeypatch))
    assert 0.125 * full_b_s < seen[-1].rate_b_s < 0.5 * full_b_s
    if burst:
        number, writing_s, pausing_s = (
            sum(each) for each in zip(*(row.bursts for row in seen), strict=True)
        )
        assert (writing_s + pausing_s) / number == pytest.approx(0.12, rel=0.2)


async def with_agent(run, logs, monkeypatch):
    """`run` is given `rows`: those of a writer of this host after its first."""
    secret = wire.new_secret()
    hub = Hub(secret)
    monkeypatch.setenv(wire.ADDRESS_VARIABLE, f"127.0.0.1:{await hub.listen('127.0.0.1')}")
    monkeypatch.setenv(wire.SECRET_VARIABLE, secret)
    serving = asyncio.create_task(agent.run())
    await hub.gather([agent.node_name()], 10.0)
    ports = count(21000 + os.getpid() % 9000)

    async def rows(injector, **asked):
        node = agent.node_name()
        each = Writer(0, node, node, "127.0.0.1", next(ports), 65536, **asked)
        (seen,) = await hub.start(injector, [each], logs, 20.0)
        assert await hub.wait_for(lambda: len(seen.rows) > 3 or bool(seen.ended), 60.0)
        assert not seen.ended
        await hub.stop([seen])
        return seen.rows[1:]

    found = await run(rows)
    hub.close()
    await asyncio.wait_for(serving, 10.0)
    return found
