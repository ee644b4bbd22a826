"""The application of one run: start it, watch it, read its output."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from conductor.hub import Hub, WriterState
from conductor.readers import Fom, FomError, Readers, require_ranks
from records import clock, processes
from records.machine.node_counters import NodeCounter
from records.sample import NodeConditions, Outcome, TimetableRecord
from records.text import quoted
from records.treatment import Start

#: Placeholder in a command for the folder that a tool writes to.
_COUNTERS = "{counters}"


@dataclass
class RunResult:
    """State of a run so far."""

    outcome: Outcome = "kept"
    reason: str | None = None
    start_s: float = 0.0
    elapsed_s: float = 0.0
    #: See `records.sample.Sample`.
    lead_in_s: float | None = None
    fom: Fom | None = None
    timetable: TimetableRecord | None = None
    conditions: list[NodeConditions] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    #: Node -> name -> what its counters gained.
    node_counters: Mapping[str, Mapping[str, NodeCounter]] = field(default_factory=dict)

    def fail(self, outcome: Outcome, reason: str) -> None:
        """Record the first failure; later ones follow from it and are ignored."""
        if self.outcome == "kept":
            self.outcome, self.reason = outcome, reason

    @property
    def accepted(self) -> bool:
        """Whether nothing has failed yet."""
        return self.outcome == "kept"

    @property
    def window_s(self) -> tuple[float, float]:
        """When the application started and ended, Unix time."""
        return self.start_s, self.start_s + self.elapsed_s


class Files(NamedTuple):
    """Paths of one run's files: the application's outputs, a tool's folder, and the series."""

    out: Path
    err: Path
    counters: Path
    series: Path


def filled(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """A command with its placeholders replaced."""
    command = list(words)
    for name, value in values.items():
        command = [word.replace(name, value) for word in command]
    return command


async def run(
    start: Start,
    values: Mapping[str, str],
    files: Files,
    result: RunResult,
    hub: Hub,
    states: list[WriterState],
    timeout_s: float,
) -> None:
    """Run the application; stop it early if a writer dies, since the run is then rejected."""
    if start.tool:
        files.counters.mkdir(parents=True, exist_ok=True)
    values = {**values, _COUNTERS: str(files.counters)}
    command = filled(start.command, values)
    environment = {name: filled([text], values)[0] for name, text in start.environment.items()}
    with files.out.open("wb") as out, files.err.open("wb") as err:
        result.start_s, began_s = clock.now_s(), time.monotonic()
        try:
            process = await processes.spawn(command, environment, start.cpus, out, err)
        except OSError as error:
            result.fail("application_failed", f"{command[0]}: {error.strerror}")
            return
        await _until_end(process, hub, states, result, timeout_s)
        result.elapsed_s = time.monotonic() - began_s
        code = await processes.stop(process)
    if result.outcome == "kept" and code != 0:
        said = quoted(*(path.read_text(errors="replace") for path in (files.err, files.out)))
        result.fail("application_failed", f"exit status {code}: {said or 'it printed nothing'}")


async def _until_end(
    process: asyncio.subprocess.Process,
    hub: Hub,
    states: list[WriterState],
    result: RunResult,
    timeout_s: float,
) -> None:
    end = asyncio.ensure_future(process.wait())
    death = asyncio.ensure_future(
        hub.wait_for(lambda: any(state.ended for state in states), timeout_s)
    )
    waiting: set[asyncio.Future[int] | asyncio.Future[bool]] = {end, death}
    done, _ = await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    death.cancel()
    if end in done:
        return
    end.cancel()
    if death in done and death.exception() is not None:
        await death
    for state in states:
        if state.ended:
            result.fail("injector_died", f"writer {state.number}: {state.ended}")
    result.fail("application_hung", f"did not end within {timeout_s:g} s")


def read_fom(start: Start, files: Files, result: RunResult, readers: Readers) -> None:
    """The figure of merit of a run that succeeded, if the workload has a parser."""
    if result.outcome != "kept" or readers.fom is None:
        return
    try:
        fom = readers.fom(files.out.read_text(errors="replace"))
        result.fom = require_ranks(fom, start.ranks)
    except FomError as error:
        result.fail("no_fom", str(error))
