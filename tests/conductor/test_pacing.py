"""Pacing of a real process: how much of a core it gets, and that none is left suspended."""

import asyncio
import sys
import time
from dataclasses import replace

import pytest

from conductor.injectors.base import Writer
from conductor.replay.pacing import Follower, pace_period_s
from records import processes
from records.treatment import Burst
from tests.conductor.conftest import lasting, needs, state_of

BUSY = [sys.executable, "-S", "-c", "while True: pass"]


def writer(rate_b_s, full_b_s=100.0, message_b=1):
    return Writer(0, "o", "o", "127.0.0.1", 20000, message_b, rate_b_s, full_b_s)


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
        while processes.cpu_s(process.pid) < 0.5:
            await asyncio.sleep(0.005)
        took_s = time.monotonic() - began_s
        while state_of(process.pid) != "T":
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        until_s = time.monotonic() + 20
        while processes.cpu_s(process.pid) < 0.7 and time.monotonic() < until_s:
            await asyncio.sleep(0.01)
        used_s = processes.cpu_s(process.pid)
        await processes.stop(process)
        return took_s, used_s

    took_s, used_s = asyncio.run(run())
    # At a fifth of a core 0.5 s of it take 2.5 s; a host that wakes the pacer 0.3 s late lets the
    # process have them after 1 s.
    assert took_s > 1.0
    assert used_s >= 0.7  # it goes on when it is no longer paced


def test_a_suspended_process_hears_sigterm():
    async def run():
        process = await processes.spawn(BUSY, {}, [], -3, -3)
        processes.suspend(process)
        while state_of(process.pid) != "T":
            await asyncio.sleep(0.01)
        return await asyncio.wait_for(processes.stop(process), processes.GRACE_S)

    assert asyncio.run(run()) == -15


@needs("ucx")
@pytest.mark.slow
@pytest.mark.parametrize(("name", "burst"), [("ucx_read", None), ("ucx", Burst(0.03, 0.09))])
def test_an_agent_holds_ucx_at_a_quarter_of_its_rate(block, name, burst):
    """Over shared memory; within a factor of two, since hosts of tests have other work as well."""
    writes = {"injector": name, "message_b": 65536, "rate_share": 0.25, "burst": burst}
    run = block(arms=["off", "on"], command=lasting(3), writes=writes)
    (writer,) = run.done().sample()["writers"]
    assert 0.5 < writer["rate_b_s"] / writer["asked_b_s"] < 2.0
    if burst:
        found = writer["burst"]
        assert found["length_s"] + found["pause_s"] == pytest.approx(0.12, rel=0.2)
