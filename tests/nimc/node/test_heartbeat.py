"""A loop that is held up, and a clock that is set."""

import asyncio
import time

import pytest

from nimc.node.observation import Heartbeat


def test_the_longest_time_that_the_loop_did_not_run(monkeypatch):
    now = {"s": 100.0, "wall_s": 5000.0}
    monkeypatch.setattr(time, "monotonic", lambda: now["s"])
    monkeypatch.setattr(time, "time", lambda: now["wall_s"])

    async def stood_still():
        heartbeat = Heartbeat()
        heartbeat.begin()
        now["s"] += 10.2  # its next beat was due after 0.2 s
        now["wall_s"] += 14.2
        return heartbeat.end()

    longest_s, gained_s = asyncio.run(stood_still())
    assert longest_s == pytest.approx(10.0)
    assert gained_s == pytest.approx(4.0)


def test_each_run_is_measured_by_itself(monkeypatch):
    now = {"s": 100.0}
    monkeypatch.setattr(time, "monotonic", lambda: now["s"])

    async def twice():
        heartbeat = Heartbeat()
        heartbeat.begin()
        now["s"] += 30.0
        heartbeat.end()
        heartbeat.begin()
        return heartbeat.end()[0]

    assert asyncio.run(twice()) == 0.0
