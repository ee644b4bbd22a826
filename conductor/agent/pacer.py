"""Paces a program that always writes, by letting it run and suspending it.

This is emulation: a program that limits its own rate spaces its messages evenly; here they come at
full rate for a part of each period, and not at all for the rest. Reports come about once a second,
and the full rate changes from one to the next. What was written since the last is counted by the
origin's device; if that has other writers, too, or counts nothing, it follows from how long the
process ran.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from conductor.injectors.base import Writer
from records import clock, processes

#: Shortest period of an even rate; longer if a few messages take longer, but at most the last
#: value, so that a reported interval of a second has several, seconds.
_PERIOD_S = 0.02
_PERIOD_MESSAGES = 4
_LONGEST_S = 0.2
#: Shortest run, seconds: the resolution of timers.
_SHORTEST_S = 0.0005
#: Writes missed in time are made up for if that takes no longer than this, seconds.
_DEBT_S = 0.5
#: A report corrects the rate only after so long a time of running, seconds.
_LEAST_RUN_S = 0.05
#: A timer may end so early, as a share of a period.
_EARLY = 0.02
#: Largest share of headers in what a device counts. A report that differs by more is of another
#: time than it seems: the writer was suspended after it had measured, and before it printed.
_HEADERS = 0.1


@dataclass(frozen=True)
class Pace:
    """A rate below full, and the period in which its bytes come, seconds."""

    rate_b_s: float
    period_s: float


def pace(writer: Writer) -> Pace:
    """The pace of a writer below full rate: in periods of some messages each."""
    assert writer.rate_b_s, "a writer at full rate is not paced"
    messages_s = _PERIOD_MESSAGES * writer.message_b / writer.full_b_s if writer.full_b_s else 0.0
    return Pace(writer.rate_b_s, min(max(_PERIOD_S, messages_s), _LONGEST_S))


def first_full_b_s(writer: Writer, reported_b_s: float) -> float:
    """Full rate that a writer is taken to have when its pacing begins, bytes per second.

    It is what the writer reached alone, if that is known, else what it has just reported without
    limit, `reported_b_s`, but at least the rate that it is to keep.
    """
    return writer.full_b_s or max(reported_b_s, writer.rate_b_s or 0.0)


class Pacer:
    """Keeps a process at a pace, from its begin each time that it runs."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        pace: Pace,
        full_b_s: float,
        passed_b: Callable[[], float | None] = lambda: None,
    ) -> None:
        """`passed_b`: what its device has passed on so far; None if that is not known."""
        self._process = process
        self._pace = pace
        #: Its rate while it runs; each report corrects it.
        self._full_b_s = full_b_s
        self._passed_b = passed_b
        self._begin()

    def _begin(self) -> None:
        self._from_s = clock.now_s()
        #: Bytes that it has reported, and how long it has run since then, seconds.
        self._reported_b = 0.0
        self._ran_s = 0.0
        self._since_s: float | None = None
        #: Bytes that its device had passed on then.
        self._passed_then_b = self._passed_b()

    @property
    def written_b(self) -> float:
        """Bytes since its begin: written, as far as is known, or too late to be made up for."""
        counted_b = self._counted_b()
        unreported_b = self._ran_s * self._full_b_s if counted_b is None else counted_b
        return self._reported_b + unreported_b

    def reported(self, bytes_b: float | None, over_s: float) -> None:
        """Take a report of what it wrote in the last `over_s`, which may begin before its start.

        `bytes_b`: None if it was held meanwhile, so that its report says nothing.
        """
        now_s = clock.now_s()
        before_s = max(self._from_s - (now_s - over_s), 0.0)  # when it was not suspended
        ran_s, self._ran_s = self._running_s(now_s), 0.0
        if self._since_s is not None:
            self._since_s = now_s
        counted_b = self._counted_b()
        if bytes_b is None:
            bytes_b = ran_s * self._full_b_s if counted_b is None else counted_b
        elif before_s:
            bytes_b *= ran_s / (before_s + ran_s)
        if counted_b is not None and abs(bytes_b - counted_b) > _HEADERS * counted_b:
            bytes_b = counted_b
        if ran_s >= _LEAST_RUN_S and bytes_b > 0:
            self._full_b_s = (self._full_b_s + bytes_b / ran_s) / 2
        self._reported_b += bytes_b
        self._passed_then_b = self._passed_b()

    async def run(self) -> None:
        """Pace it until the process ends or this is cancelled; the process is left running."""
        self._begin()
        try:
            while self._process.returncode is None:
                passed_s = clock.now_s() - self._from_s
                periods = int(passed_s / self._pace.period_s + _EARLY) + 1
                end_s = self._from_s + periods * self._pace.period_s
                # Bytes missed because its rate was lower than taken: once more.
                while (run_s := self._run_s(end_s)) >= _SHORTEST_S:
                    processes.resume(self._process)
                    self._since_s = clock.now_s()
                    await asyncio.sleep(run_s)
                    self._ran_s, self._since_s = self._running_s(clock.now_s()), None
                if (left_s := end_s - clock.now_s()) > 0:
                    processes.suspend(self._process)
                await asyncio.sleep(max(left_s, 0.0))
        finally:
            processes.resume(self._process)

    def _run_s(self, end_s: float) -> float:
        """Return how long to run for what is due at the end of a period, at most until then."""
        return min(self._lacking_b(end_s) / self._full_b_s, end_s - clock.now_s())

    def _running_s(self, now_s: float) -> float:
        return self._ran_s + (now_s - self._since_s if self._since_s is not None else 0.0)

    def _lacking_b(self, end_s: float) -> float:
        """Return what is due at the end of a period, and not yet written."""
        due_b = self._pace.rate_b_s * (end_s - self._from_s)
        lacking_b = due_b - self.written_b
        beyond_b = max(lacking_b - _DEBT_S * self._full_b_s, 0.0)
        self._reported_b += beyond_b  # too late to be made up for
        return lacking_b - beyond_b

    def _counted_b(self) -> float | None:
        """Return what its device has passed on since the last report; None if that is not known."""
        passed_b, then_b = self._passed_b(), self._passed_then_b
        return None if passed_b is None or then_b is None else passed_b - then_b
