"""The application of one run: the time before it, its start and end, and what it printed."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from conductor.block.allocation import Allocation
from conductor.block.hub import Hub, WriterState
from conductor.block.readers import Fom, FomError, Readers, require_ranks
from conductor.judge.series import Window
from records import clock, processes
from records.last_words import cause_or_gist
from records.machine.node_counters import NodeCounter
from records.sample import NodeConditions, Outcome, TimetableRecord, WriterRecord
from records.slurm import steps
from records.treatment import Start, Treatment, Writes

#: The lead-in (`LeadIn`) as a multiple of the longest time needed, so that a slightly slower start
#: fits in.
_LEAD_IN_MARGIN = 1.05
#: The slowest start of a kind of writes was delayed if it took this many times as long as the
#: second slowest. One delayed start is ignored, since it would lengthen all later lead-ins of the
#: block.
_DELAY_FACTOR = 2.0


@dataclass(kw_only=True)
class Run:
    """One run: its identity and its results. `records.sample.Sample` explains most fields."""

    treatment: Treatment
    pair: int
    position: int
    attempt: int
    warmup: bool = False
    outcome: Outcome = "accepted"
    reason: str | None = None
    start_s: float = 0.0
    elapsed_s: float = 0.0
    lead_in_s: float | None = None
    fom: Fom | None = None
    writers: list[WriterRecord] = field(default_factory=list)
    timetable: TimetableRecord | None = None
    conditions: list[NodeConditions] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    #: Node -> name of a counter -> its increase during the run.
    node_counters: Mapping[str, Mapping[str, NodeCounter]] = field(default_factory=dict)

    def fail(self, outcome: Outcome, reason: str) -> None:
        """Record the first failure. Later ones are ignored, since they follow from it."""
        if self.accepted:
            self.outcome, self.reason = outcome, reason

    @property
    def accepted(self) -> bool:
        """Return whether nothing has failed yet."""
        return self.outcome == "accepted"

    @property
    def window_s(self) -> Window:
        """Return when the application started and ended, Unix time."""
        return self.start_s, self.start_s + self.elapsed_s


class RunFiles(NamedTuple):
    """Paths of one run's files: the application's outputs, a tool's folder, and the series."""

    out: Path
    err: Path
    counters: Path
    series: Path


def _filled(word: str, values: Mapping[str, str]) -> str:
    """Return a word of a command or environment with its placeholders replaced by `values`."""
    for placeholder, value in values.items():
        word = word.replace(placeholder, value)
    return word


async def run_application(
    run: Run,
    start: Start,
    allocation: Allocation,
    files: RunFiles,
    hub: Hub,
    states: list[WriterState],
    timeout_s: float,
    folder: str = "",
) -> None:
    """Run the application. If a writer dies, stop the application, since the run has failed."""
    if start.tool:
        files.counters.mkdir(parents=True, exist_ok=True)
    targets = allocation.targets
    values = {
        "{targets}": ",".join(targets),
        "{n_targets}": str(len(targets)),
        "{slots}": ",".join(f"{node}:{start.ranks_per_node}" for node in targets),
        "{counters}": str(files.counters),
    }
    command = [_filled(word, values) for word in start.command]
    environment = {name: _filled(value, values) for name, value in start.environment.items()}
    with files.out.open("wb") as out, files.err.open("wb") as err:
        run.start_s = clock.now_s()
        began_s = time.monotonic()
        try:
            process = await processes.spawn(
                command, environment, start.cpus, out, err, folder=folder or None
            )
        except OSError as error:
            no_folder = folder and not Path(folder).is_dir()
            subject = folder if no_folder else command[0]
            run.fail("application_failed", f"{subject}: {error.strerror}")
            return
        try:
            await _await_end(process, hub, states, run, timeout_s)
        finally:  # also if an agent is gone
            run.elapsed_s = time.monotonic() - began_s
            code = await steps.stop(process)
    if run.accepted and code != 0:
        outputs = (files.err.read_text(errors="replace"), files.out.read_text(errors="replace"))
        cause = cause_or_gist(*outputs) or "it printed nothing"
        run.fail("application_failed", f"{_status_words(code)}: {cause}")


def _status_words(code: int) -> str:
    """Return an exit status in words: the signal's name, if a signal ended the program."""
    if code >= 0:
        return f"exit status {code}"
    if code == -signal.SIGILL:
        return "illegal instruction, as if compiled for another processor (cflags in configs/)"
    return f"exit status {code} ({signal.strsignal(-code)})"


async def _await_end(
    process: asyncio.subprocess.Process,
    hub: Hub,
    states: list[WriterState],
    run: Run,
    timeout_s: float,
) -> None:
    """Wait until the application or a writer ends, or for the timeout.

    The run fails unless the application ends first.
    """
    end = asyncio.ensure_future(process.wait())
    writer_end = asyncio.ensure_future(
        hub.wait_for(lambda: any(state.end_reason for state in states), timeout_s)
    )
    waiting: set[asyncio.Future[int] | asyncio.Future[bool]] = {end, writer_end}
    done, _ = await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    writer_end.cancel()
    if end in done:
        return
    end.cancel()
    if writer_end in done and writer_end.exception() is not None:
        await writer_end
    for state in states:
        if state.end_reason:
            run.fail("injector_died", f"writer {state.number}: {state.end_reason}")
    run.fail("application_hung", f"did not end within {timeout_s:g} s")


def read_fom(run: Run, start: Start, files: RunFiles, readers: Readers) -> None:
    """Read the figure of merit of a run that succeeded, if the workload has a parser."""
    if not run.accepted or readers.fom is None:
        return
    try:
        fom = readers.fom(files.out.read_text(errors="replace"))
        run.fom = require_ranks(fom, start.ranks)
        run.notes.extend(fom.notes)
    except FomError as error:
        run.fail("no_fom", str(error))


class LeadIn:
    """The time from the end of one application to the start of the next, the same before every run.

    It is as long as the slowest kind of writes needs. Otherwise the processor would rest longer
    before runs with writers, which must start and stop, than before other runs. It is at least the
    rest that a campaign requests against carry-over. All points in time are Unix times
    (`clock.now_s`).
    """

    def __init__(self, rest_s: float = 0.0) -> None:
        self._rest_s = rest_s
        self._needed_s: dict[Writes, list[float]] = {}
        self._last_end_s: float | None = None

    @property
    def required_s(self) -> float:
        """Return the minimum lead-in of the next run."""
        needed_s = max(map(_longest_undelayed, self._needed_s.values()), default=0.0)
        return max(self._rest_s, _LEAD_IN_MARGIN * needed_s)

    def expect(self, writes: Writes, needed_s: float) -> None:
        """Record how long writers needed between two runs, or will need."""
        self._needed_s.setdefault(writes, []).append(needed_s)

    def record_ready(self, writes: Writes, now_s: float) -> None:
        """Record how long the writers, ready at `now_s`, took since the last run ended.

        Nothing is recorded before the first run, since nothing ended before it.
        """
        if self._last_end_s is not None:
            self.expect(writes, now_s - self._last_end_s)

    def wait_s(self, now_s: float) -> float:
        """Return how long a run that is ready at `now_s` must wait; 0 for the block's first."""
        if self._last_end_s is None:
            return 0.0
        return max(self.required_s - (now_s - self._last_end_s), 0.0)

    def length_s(self, start_s: float) -> float | None:
        """Return the lead-in of the application that started at `start_s`; None for the first."""
        return None if self._last_end_s is None else start_s - self._last_end_s

    def record_end(self, end_s: float) -> None:
        """Record the end of the application, or of a run whose application never started."""
        self._last_end_s = end_s


def _longest_undelayed(needed_s: Iterable[float]) -> float:
    """Return the longest time, or the second longest if the longest was delayed."""
    longest_s, *shorter_s = sorted(needed_s, reverse=True)
    if not shorter_s:
        return longest_s
    second_s = shorter_s[0]
    return second_s if 0.0 < _DELAY_FACTOR * second_s <= longest_s else longest_s
