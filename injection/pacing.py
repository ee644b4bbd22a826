"""Throttles a writer below its full rate: its process runs in bursts with pauses in between.

This is emulation. A program that limits its own rate spaces its messages evenly; here they come at
full rate for a share of each period, the duty, and not at all for the rest. The duty starts at the
requested rate over the full rate, and each rate that the writer reports corrects it.
"""

from __future__ import annotations

import asyncio
import time

from injection import processes
from injection.injectors.base import Writer

#: Length of a burst and its pause, seconds; longer if a few messages take longer, but at most the
#: last value, so that a reported interval of a second has several.
_PERIOD_S = 0.02
_MESSAGES = 4
_LONGEST_S = 0.2
#: Shortest burst, seconds: the resolution of the agent's timers and the scheduler.
_SHORTEST_S = 0.0005
_LEAST_DUTY = 0.005
#: Exponent of requested / reported rate with which a report changes the duty, and the largest
#: factor. With 1 the noise of one report would return in full in the next.
_GAIN = 0.7
_MOST = 2.0


def period_s(message_b: int, full_b_s: float | None) -> float:
    """Length of a burst and its pause, seconds."""
    messages_s = _MESSAGES * message_b / full_b_s if full_b_s else 0.0
    return min(max(_PERIOD_S, messages_s), _LONGEST_S)


def corrected(duty: float, asked_b_s: float, reported_b_s: float) -> float:
    """The next duty: an integral controller on its logarithm, clamped.

    It does not need the full rate: the reported rate was reached at the present duty.
    """
    factor = (asked_b_s / reported_b_s) ** _GAIN if reported_b_s > 0 else _MOST
    return min(max(duty * min(max(factor, 1 / _MOST), _MOST), _LEAST_DUTY), 1.0)


def pause_s(burst_s: float, duty: float) -> float:
    """Length of the pause after a burst, seconds: in proportion, since bursts may end late.

    Burst and pause together last at most as long as the longest period, so that a writer is never
    silent for longer.
    """
    return max(min(burst_s / duty, _LONGEST_S) - burst_s, 0.0)


class Pacer:
    """Paces the process of one origin, from its first report on; before that it sets up."""

    def __init__(self, process: asyncio.subprocess.Process, writer: Writer) -> None:
        assert writer.rate_b_s, "a writer at full rate is not paced"
        self._process = process
        self._asked_b_s = writer.rate_b_s
        self._period_s = period_s(writer.message_b, writer.full_b_s)
        full_b_s = writer.full_b_s or writer.rate_b_s
        self._duty = min(max(writer.rate_b_s / full_b_s, _LEAST_DUTY), 1.0)
        self._paces = asyncio.Event()

    def correct(self, rate_b_s: float) -> None:
        """Correct the duty by a reported rate; the first report starts pacing."""
        if self._paces.is_set():
            self._duty = corrected(self._duty, self._asked_b_s, rate_b_s)
        self._paces.set()

    async def run(self) -> None:
        """Pace until the process ends or this is cancelled; the process is left running."""
        await self._paces.wait()
        owed_s = 0.0
        try:
            while self._process.returncode is None:
                began_s = time.monotonic()
                await asyncio.sleep(max(self._duty * self._period_s + owed_s, _SHORTEST_S))
                burst_s = time.monotonic() - began_s
                if self._duty < 1:
                    processes.suspend(self._process)
                    await asyncio.sleep(pause_s(burst_s, self._duty))
                    processes.resume(self._process)
                # A pause that ends late is made up for in the next burst, as far as possible.
                owed_s += self._duty * (time.monotonic() - began_s) - burst_s
                owed_s = min(max(owed_s, -self._period_s), self._period_s)
        finally:
            processes.resume(self._process)
