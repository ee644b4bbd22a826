"""Makes the short writes of an origin under a timetable.

For a short write, the injector's program runs once, and writes a number of messages. It is started
before the planned time of the write, by the median of recent set-up times. End, bytes and rate of
the write follow from the last row (report) of the program. The conductor orders all writes of a run
at once, and collects their results at the end of the run.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextlib import suppress
from pathlib import Path
from statistics import median

from conductor.agent.end_program import ProgramReport, read_output, start_writer_end
from conductor.injectors import INJECTORS
from conductor.injectors.base import Total, Writer
from conductor.messages import MakeWrites
from conductor.readings import FinishedWrite
from records import clock, processes
from records.timetable import PlannedWrite

#: Pause before a failed write is tried again, seconds.
_RETRY_S = 0.02
#: Number of recent set-up times whose median is used. It is small, since set-up times vary with the
#: load of an emulated machine. It is more than two, so that one outlier has no effect.
_RECENT_SETUPS = 3


class ShortWriter:
    """Makes the short writes of one origin when they are due."""

    def __init__(self, order: MakeWrites, log: Path) -> None:
        """Start to make the writes. Faults are appended to the file `log`."""
        self._injector = INJECTORS[order.injector]
        self._order = order
        self._log = log.open("ab")  # `finish` closes it
        #: Recent set-up times, seconds.
        self._setups_s: deque[float] = deque([order.setup_s], _RECENT_SETUPS)
        #: Tasks of the writes in progress.
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting = asyncio.create_task(self._start_all())
        self.finished: list[FinishedWrite] = []
        #: Fault -> number of writes that failed with it.
        self.faults: Counter[str] = Counter()

    async def finish(self, timeout_s: float) -> None:
        """Start no more writes, wait for those in progress, and stop those that take too long."""
        self._starting.cancel()
        if self._tasks:
            _, unfinished = await asyncio.wait(self._tasks, timeout=timeout_s)
            for task in unfinished:
                task.cancel()
            if unfinished:
                self.faults["was still running at the end"] += len(unfinished)
            await asyncio.gather(*unfinished, return_exceptions=True)
        with suppress(asyncio.CancelledError):
            await self._starting
        self._log.close()

    async def _start_all(self) -> None:
        """Start each write when it is due."""
        for write in self._order.writes:
            launch_s = self._order.zero_s + write.start_s - median(self._setups_s)
            await asyncio.sleep(max(launch_s - clock.now_s(), 0.0))
            task = asyncio.create_task(self._make(write))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _make(self, write: PlannedWrite) -> None:
        """Make one write. If it fails, try again until `max_delay_s` after its planned start."""
        writer = self._order.writer_of(write)
        until_s = self._order.zero_s + write.start_s + self._order.max_delay_s
        while True:
            launched_s = clock.now_s()
            total, end_s, fault = await self._write_once(writer)
            if total is not None:
                bytes_b = float(total.messages * writer.message_b)
                start_s = end_s - bytes_b / total.rate_b_s
                setup_s = max(start_s - launched_s, 0.0)
                self._setups_s.append(setup_s)
                self.finished.append(FinishedWrite(write.number, start_s, end_s, bytes_b, setup_s))
                return
            self._log.write(f"{write.number}: {fault}\n".encode())
            if clock.now_s() > until_s:
                self.faults[fault] += 1
                return
            await asyncio.sleep(_RETRY_S)

    async def _write_once(self, writer: Writer) -> tuple[Total | None, float, str]:
        """Run the writing side once; return its last row, the end of its write, and its fault.

        If the write failed, the row is None. If it succeeded, the fault has no meaning.
        """
        total, end_s = None, 0.0

        def take(report: ProgramReport) -> None:
            nonlocal total, end_s
            if isinstance(report, Total) and report.rate_b_s > 0:
                total = report
                end_s = clock.now_s() - report.print_delay_s

        process = await start_writer_end(self._injector, writer, "origin", asyncio.subprocess.PIPE)
        if isinstance(process, str):
            return None, 0.0, process
        try:
            why = await read_output(process, self._injector.parser(writer), take)
        finally:
            await processes.stop(process)
        return total, end_s, why
