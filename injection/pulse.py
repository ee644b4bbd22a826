"""Whether this process ran all the time: a task that wakes up several times a second."""

from __future__ import annotations

import asyncio
import time

_PERIOD_S = 0.2


class Pulse:
    """Runs from `begin` to `end`."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._beat_s = 0.0
        self._longest_s = 0.0
        self._ahead_s = 0.0

    def begin(self) -> None:
        """Start to measure."""
        self._beat_s, self._longest_s = time.monotonic(), 0.0
        self._ahead_s = time.time() - self._beat_s
        self._task = asyncio.create_task(self._beat())

    def end(self) -> tuple[float, float]:
        """Longest time that the process did not run, and what the wall clock gained, seconds.

        Both are compared with the monotonic clock.
        """
        if self._task:
            self._task.cancel()
        self._measure()
        return self._longest_s, time.time() - time.monotonic() - self._ahead_s

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_PERIOD_S)
            self._measure()

    def _measure(self) -> None:
        now_s = time.monotonic()
        self._longest_s = max(self._longest_s, now_s - self._beat_s - _PERIOD_S)
        self._beat_s = now_s
