"""A loop that is held up, and a clock that is set."""

import asyncio
import time

import pytest

from nimc.node.observation import Heartbeat


def test_the_longest_time_that_the_loop_did_not_run_is_of_each_run(monkeypatch):
    now = {"s": 100.0, "wall_s": 5000.0}
    monkeypatch.setattr(time, "monotonic", lambda: now["s"])
    monkeypatch.setattr(time, "time", lambda: now["wall_s"])

    async def twice():
        heartbeat = Heartbeat()
        heartbeat.begin()
        now["s"] += 10.2  # its next beat was due after 0.2 s
        now["wall_s"] += 14.2
        first = heartbeat.end()
        heartbeat.begin()
        return first, heartbeat.end()

    first, second = asyncio.run(twice())
    assert first == pytest.approx((10.0, 4.0))
    assert second == (0.0, 0.0)
