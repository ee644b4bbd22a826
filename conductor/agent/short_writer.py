"""Makes the short writes of an origin under a timetable.

A short write is a run of the program for so many messages, launched before it is due by the recent
set-up time; its end, bytes and rate are those of the program's last row. The conductor hands out
all of a run's before the first, and collects them after the last.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextlib import suppress
from pathlib import Path
from statistics import median

from conductor.agent.end_program import Meaning, read, start_writer_end
from conductor.injectors import INJECTORS
from conductor.injectors.base import Total, Writer
from conductor.messages import MakeWrites
from conductor.readings import FinishedWrite
from records import clock, processes
from records.timetable import PlannedWrite

#: Time between two attempts at a write whose target was not ready, seconds.
_RETRY_S = 0.02
#: Number of set-ups whose median gives the next start: few, since set-up times vary with the load
#: of an emulated machine, and more than two, so that one outlier has no effect.
_RECENT = 3


class ShortWriter:
    """Makes the short writes of one origin when they are due."""

    def __init__(self, part: MakeWrites, log: Path) -> None:
        """`log`: the file that faults of its writes are appended to."""
        self._injector = INJECTORS[part.injector]
        self._part = part
        self._log = log.open("ab")  # `finish` closes it
        self._setups: deque[float] = deque([part.lead_s], _RECENT)
        self._tasks: set[asyncio.Task[None]] = set()
        self._clock = asyncio.create_task(self._start_all())
        #: The writes done so far; fault -> number of writes that failed with it.
        self.finished: list[FinishedWrite] = []
        self.faults: Counter[str] = Counter()

    async def finish(self, timeout_s: float) -> None:
        """Start no more writes, wait for those in progress, and stop the rest."""
        self._clock.cancel()
        if self._tasks:
            _, unfinished = await asyncio.wait(self._tasks, timeout=timeout_s)
            for task in unfinished:
                task.cancel()
            if unfinished:
                self.faults["was still running at the end"] += len(unfinished)
            await asyncio.gather(*unfinished, return_exceptions=True)
        with suppress(asyncio.CancelledError):
            await self._clock
        self._log.close()

    async def _start_all(self) -> None:
        for write in self._part.writes:
            launch_s = self._part.zero_s + write.start_s - median(self._setups)
            await asyncio.sleep(max(launch_s - clock.now_s(), 0.0))
            task = asyncio.create_task(self._make(write))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _make(self, write: PlannedWrite) -> None:
        """One write; retried while its target is not ready and it can still count."""
        writer = self._part.writer_of(write)
        until_s = self._part.zero_s + write.start_s + self._part.patience_s
        while True:
            launched_s = clock.now_s()
            total, end_s, fault = await self._write_once(writer)
            if total is not None:
                bytes_b = float(total.messages * writer.message_b)
                start_s = end_s - bytes_b / total.rate_b_s
                setup_s = max(start_s - launched_s, 0.0)
                self._setups.append(setup_s)
                self.finished.append(FinishedWrite(write.number, start_s, end_s, bytes_b, setup_s))
                return
            self._log.write(f"{write.number}: {fault}\n".encode())
            if clock.now_s() > until_s:
                self.faults[fault] += 1
                return
            await asyncio.sleep(_RETRY_S)

    async def _write_once(self, writer: Writer) -> tuple[Total | None, float, str]:
        """Run the writing side once: its last row, when it stopped writing, and why it ended."""
        total, end_s = None, 0.0

        def take(meaning: Meaning) -> None:
            nonlocal total, end_s
            if isinstance(meaning, Total) and meaning.rate_b_s > 0:
                total, end_s = meaning, clock.now_s() - meaning.after_s

        process = await start_writer_end(self._injector, writer, "origin", asyncio.subprocess.PIPE)
        if isinstance(process, str):
            return None, 0.0, process
        try:
            why = await read(process, self._injector.parser(writer), take)
        finally:
            await processes.stop(process)
        return total, end_s, why
