"""An agent's part of a timetable: passive sides that listen, and writes made when they are due.

The conductor hands out the whole part before the first write and collects the results after the
last. In between each origin follows its own clock. It starts a write's program earlier by the
recent set-up time, and takes the write's end, bytes and rate from the program's last row.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import median
from typing import IO

from conductor.injectors.base import EndRole, Fault, Injector, LineParser, Total, Writer
from conductor.short_writes.records import Done, Due
from records import clock, processes
from records.text import Gist, failure

#: Time between two attempts at a write whose target was not ready, and between two polls, seconds.
_RETRY_S = 0.02
#: Number of set-ups whose median gives the next start: few, since set-up times vary with the load
#: of an emulated machine, and more than two, so that one outlier has no effect.
_RECENT = 3
#: A passive side that ends sooner than this is not replaced at once, seconds.
_SHORT_LIFE_S = 0.05


@dataclass(frozen=True)
class Part:
    """The writes of one origin."""

    #: What all writes share: index, port of the first passive side, message size and count, device.
    writer: Writer
    #: Names and addresses of the targets.
    targets: list[tuple[str, str]]
    #: The plan's time 0 by the clock of this origin (Unix time).
    zero_s: float
    #: Expected set-up time of the first write, seconds.
    lead_s: float
    #: How late a write may still be started, seconds.
    patience_s: float
    due: list[Due]


async def start_end(
    injector: Injector, writer: Writer, role: EndRole, stdout: int | IO[bytes]
) -> asyncio.subprocess.Process | str:
    """One end of a writer, which prints to `stdout`; why it could not be started, if it was not."""
    target = role == "target"
    command = injector.target_command(writer) if target else injector.origin_command(writer)
    assert command is not None, "a control has no passive side"
    cpus = writer.target_cpus if target else writer.origin_cpus
    environment, merged = injector.environment(writer), asyncio.subprocess.STDOUT
    try:
        node = writer.buffer_node
        return await processes.spawn(command, environment, cpus, stdout, merged, node)
    except OSError as error:
        return f"{command[0]}: {error.strerror or error}"


async def stand_by(
    injector: Injector, writer: Writer, log: IO[bytes], listening: Callable[[], None]
) -> str:
    """Keep one passive side of short writes listening; replace it after each write.

    `listening` is called once, when the first one listens. Returns only if the first one fails,
    with the reason.
    """
    waited = False
    while True:
        began_s, began_b = time.monotonic(), os.fstat(log.fileno()).st_size
        process = await start_end(injector, writer, "target", log)
        if isinstance(process, str):
            return process
        try:
            while not waited and process.returncode is None:
                whose = processes.listener(writer.port, process.pid)
                if whose == "other":
                    return processes.TAKEN.format(port=writer.port)
                if waited := whose == "own":
                    listening()
                else:
                    await asyncio.sleep(_RETRY_S)
            code = await process.wait()
        finally:
            await processes.stop(process)
        if not waited:
            gist = _printed(log, began_b, injector.parser(writer))
            return f"passive side ended: {failure(code, gist)}"
        if time.monotonic() - began_s < _SHORT_LIFE_S:
            await asyncio.sleep(_SHORT_LIFE_S)


def _printed(log: IO[bytes], from_b: int, parser: LineParser) -> Gist:
    """The gist of what was printed to a log from a place on."""
    gist = Gist()
    with suppress(OSError), open(log.name, "rb") as file:
        file.seek(from_b)
        for line in file:
            text = line.decode(errors="replace")
            if isinstance(meaning := parser.parse(text), Fault):
                gist.fault(meaning.text)
            else:
                gist.add(text)
    return gist


class ScheduleWriter:
    """Makes the writes of one origin when they are due."""

    def __init__(self, injector: Injector, part: Part, log: str) -> None:
        self._injector = injector
        self._part = part
        self._log = open(log, "ab")  # noqa: SIM115 (closed by finish)
        self._setups: deque[float] = deque([part.lead_s], _RECENT)
        self._writes: set[asyncio.Task[None]] = set()
        self._clock = asyncio.create_task(self._start_all())
        #: The writes done so far; fault -> number of writes that failed with it.
        self.done: list[Done] = []
        self.faults: Counter[str] = Counter()

    async def finish(self, timeout_s: float) -> None:
        """Start no more writes, wait for those in progress, and stop the rest."""
        self._clock.cancel()
        if self._writes:
            _, left = await asyncio.wait(self._writes, timeout=timeout_s)
            for task in left:
                task.cancel()
            if left:
                self.faults["was still running at the end"] += len(left)
            await asyncio.gather(*left, return_exceptions=True)
        with suppress(asyncio.CancelledError):
            await self._clock
        self._log.close()

    async def _start_all(self) -> None:
        for due in self._part.due:
            moment_s = self._part.zero_s + due.start_s - median(self._setups)
            await asyncio.sleep(max(moment_s - clock.now_s(), 0.0))
            task = asyncio.create_task(self._write(due))
            self._writes.add(task)
            task.add_done_callback(self._writes.discard)

    async def _write(self, due: Due) -> None:
        """One write; retried while its target is not ready and it can still count."""
        name, address = self._part.targets[due.target]
        port = self._part.writer.port + due.side
        writer = replace(self._part.writer, target=name, address=address, port=port)
        until_s = self._part.zero_s + due.start_s + self._part.patience_s
        while True:
            launched_s = clock.now_s()
            total, end_s, fault = await self._client(writer)
            if total is not None:
                bytes_b = float(total.messages * writer.message_b)
                start_s = end_s - bytes_b / total.rate_b_s
                setup_s = max(start_s - launched_s, 0.0)
                self._setups.append(setup_s)
                self.done.append(Done(due.number, start_s, end_s, bytes_b, setup_s))
                return
            if clock.now_s() > until_s:
                self.faults[fault] += 1
                return
            await asyncio.sleep(_RETRY_S)

    async def _client(self, writer: Writer) -> tuple[Total | None, float, str]:
        """Run the writing side once: its last row, the time of that row, and the fault."""
        parser = self._injector.parser(writer)
        total, end_s, gist = None, 0.0, Gist()
        process = await start_end(self._injector, writer, "origin", asyncio.subprocess.PIPE)
        if isinstance(process, str):
            return None, 0.0, process
        assert process.stdout is not None
        try:
            async for raw in processes.lines(process.stdout):
                meaning = parser.parse(raw.decode(errors="replace"))
                if isinstance(meaning, Total) and meaning.rate_b_s > 0:
                    total, end_s = meaning, clock.now_s() - meaning.after_s
                elif isinstance(meaning, Fault):
                    gist.fault(meaning.text)
                    self._log.write(raw)
            code = await process.wait()
        finally:
            await processes.stop(process)
        return total, end_s, gist.reason() or f"exit status {code} without a last row"
