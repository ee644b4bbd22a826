"""Pacing of a real process: how much of a core it gets, and that none is left suspended."""

import asyncio
import os
import sys
import time
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from nimc.base import processes
from nimc.node import agent, wire
from nimc.node.hub import Hub
from nimc.node.injectors import INJECTORS
from nimc.node.injectors.base import Writer
from nimc.node.replay.pacing import Follower, pace_period_s
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
    assert pace_period_s(asked) == pytest.approx(seconds)
    assert pace_period_s(replace(asked, burst=Burst(0.01, 0.09))) == pytest.approx(0.1)


def follower(process, rate_b_s):
    return Follower(process, 1, [rate_b_s], 100.0, period_s=0.02)


def test_a_paced_process_runs_for_its_share_and_is_never_left_suspended():
    async def run():
        process = await processes.spawn(BUSY, {}, [], -3, -3)
        task = asyncio.create_task(follower(process, 20.0).run())
        began_s = time.monotonic()
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


def test_a_suspended_process_hears_sigterm():
    async def run():
        process = await processes.spawn(BUSY, {}, [], -3, -3)
        processes.suspend(process)
        while state(process.pid) != "T":
            await asyncio.sleep(0.01)
        return await asyncio.wait_for(processes.stop(process), processes.GRACE_S)

    assert asyncio.run(run()) == -15


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
