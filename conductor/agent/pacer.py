"""Limits the rate of a program that would write all the time, by resuming and suspending it.

A program that limits its own rate spaces its messages evenly. Under the pacer, messages come at
full rate for a part of each period, and not at all for the rest. The program reports about once a
second, and its full rate changes from one report to the next. The origin's device counts the bytes
since the last report. If other writers use the device as well, or if it counts nothing, the bytes
are estimated from the time for which the process ran.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from conductor.injectors.base import Writer
from records import clock, processes

#: Shortest period, seconds.
_SHORTEST_PERIOD_S = 0.02
#: A period lasts as long as this number of messages at full rate, within the limits of its length.
_PERIOD_MESSAGES = 4
#: Longest period, seconds. A reported interval of a second contains several such periods.
_LONGEST_PERIOD_S = 0.2
#: Shortest time for which the process is resumed, seconds. Timers are not more precise.
_SHORTEST_RUN_S = 0.0005
#: Limit of the late bytes that are made up for, given as the time that they take at full rate,
#: seconds. Further late bytes are dropped.
_LONGEST_DEBT_S = 0.5
#: A report corrects the full rate only if the process ran for at least this time, seconds.
_SHORTEST_CORRECTING_RUN_S = 0.05
#: A timer may end too early by this share of a period.
_EARLY_SHARE = 0.02
#: Largest share of headers in the bytes that a device counts. If a report differs from the count by
#: a larger share, the report is wrong: it is about an earlier time, since the writer was suspended
#: after it had measured and before it printed.
_HEADER_SHARE = 0.1


@dataclass(frozen=True)
class Pace:
    """A rate below full, and the period in which its bytes come, seconds."""

    rate_b_s: float
    period_s: float


def pace_of(writer: Writer) -> Pace:
    """Return the pace of a writer below full rate."""
    assert writer.rate_b_s, "a writer at full rate is not paced"
    messages_s = _PERIOD_MESSAGES * writer.message_b / writer.full_b_s if writer.full_b_s else 0.0
    return Pace(writer.rate_b_s, min(max(_SHORTEST_PERIOD_S, messages_s), _LONGEST_PERIOD_S))


def assumed_full_b_s(writer: Writer, reported_b_s: float) -> float:
    """Return the full rate that is assumed when the pacing of a writer begins, bytes per second.

    It is the writer's uncontended rate. If that is unknown, it is `reported_b_s`, which the writer
    has just reported without a limit, but at least the rate that the writer must keep.
    """
    return writer.full_b_s or max(reported_b_s, writer.rate_b_s or 0.0)


class Pacer:
    """Keeps a process at a pace. Each `run` starts from zero bytes."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        pace: Pace,
        full_b_s: float,
        read_device_total_b: Callable[[], float | None] = lambda: None,
    ) -> None:
        """`read_device_total_b`: bytes the origin's device has counted, None if unknown."""
        self._process = process
        self._pace = pace
        #: The process's rate while it runs; each report corrects it.
        self._full_b_s = full_b_s
        self._read_device_total_b = read_device_total_b
        self._begin()

    def _begin(self) -> None:
        self._began_s = clock.now_s()
        #: Bytes until the last report, as reported, counted or estimated, and bytes that were
        #: dropped since they were too late to be made up for.
        self._settled_b = 0.0
        #: How long the process has run since the last report, its present run excluded, seconds.
        self._ended_runs_s = 0.0
        #: When its present run began, Unix time; None while it is suspended.
        self._resumed_s: float | None = None
        #: All bytes that its device had counted at the last report.
        self._device_total_at_report_b = self._read_device_total_b()

    @property
    def accounted_b(self) -> float:
        """Return the bytes since `run` began: reported, counted, estimated or dropped."""
        counted_b = self._counted_b()
        unreported_b = self._ended_runs_s * self._full_b_s if counted_b is None else counted_b
        return self._settled_b + unreported_b

    def take_report(self, bytes_b: float | None, over_s: float) -> None:
        """Take a report of the bytes of the last `over_s` seconds, which may begin before `run`.

        `bytes_b` is None if the agent held the process (suspended it between runs) during a part of
        this time, so that its report is useless.
        """
        now_s = clock.now_s()
        # Before `run`, the process was not suspended.
        unpaced_s = max(self._began_s - (now_s - over_s), 0.0)
        ran_s, self._ended_runs_s = self._all_runs_s(now_s), 0.0
        if self._resumed_s is not None:
            self._resumed_s = now_s
        counted_b = self._counted_b()
        if bytes_b is None:
            bytes_b = ran_s * self._full_b_s if counted_b is None else counted_b
        elif unpaced_s:
            bytes_b *= ran_s / (unpaced_s + ran_s)
        if counted_b is not None and abs(bytes_b - counted_b) > _HEADER_SHARE * counted_b:
            bytes_b = counted_b
        if ran_s >= _SHORTEST_CORRECTING_RUN_S and bytes_b > 0:
            self._full_b_s = (self._full_b_s + bytes_b / ran_s) / 2
        self._settled_b += bytes_b
        self._device_total_at_report_b = self._read_device_total_b()

    async def run(self) -> None:
        """Pace the process until it ends or this is cancelled; it is left running."""
        self._begin()
        try:
            while self._process.returncode is None:
                elapsed_s = clock.now_s() - self._began_s
                periods = int(elapsed_s / self._pace.period_s + _EARLY_SHARE) + 1
                end_s = self._began_s + periods * self._pace.period_s
                # If the rate was lower than assumed, bytes are still due. Then the process runs
                # once more.
                while (run_s := self._next_run_s(end_s)) >= _SHORTEST_RUN_S:
                    processes.resume(self._process)
                    self._resumed_s = clock.now_s()
                    await asyncio.sleep(run_s)
                    self._ended_runs_s, self._resumed_s = self._all_runs_s(clock.now_s()), None
                rest_s = end_s - clock.now_s()
                if rest_s > 0:
                    processes.suspend(self._process)
                await asyncio.sleep(max(rest_s, 0.0))
        finally:
            processes.resume(self._process)

    def _next_run_s(self, end_s: float) -> float:
        """Return how long to run to write the bytes due by `end_s`, the end of a period, seconds.

        It is at most the time that is left until then.
        """
        return min(self._due_b(end_s) / self._full_b_s, end_s - clock.now_s())

    def _all_runs_s(self, now_s: float) -> float:
        """Return how long the process has run since the last report, its present run included."""
        present_run_s = 0.0 if self._resumed_s is None else now_s - self._resumed_s
        return self._ended_runs_s + present_run_s

    def _due_b(self, end_s: float) -> float:
        """Return the bytes that are due at the end of a period and not yet written.

        Bytes that are too late to be made up for are dropped.
        """
        planned_b = self._pace.rate_b_s * (end_s - self._began_s)
        due_b = planned_b - self.accounted_b
        dropped_b = max(due_b - _LONGEST_DEBT_S * self._full_b_s, 0.0)
        self._settled_b += dropped_b
        return due_b - dropped_b

    def _counted_b(self) -> float | None:
        """Return the bytes that its device has counted since the last report; None if unknown."""
        device_total_b = self._read_device_total_b()
        if device_total_b is None or self._device_total_at_report_b is None:
            return None
        return device_total_b - self._device_total_at_report_b
