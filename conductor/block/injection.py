"""Runs writers without a check, beside a command of the user or for a given time.

    python -m conductor.block.injection REQUEST.json

`nimc inject` starts it on the host of the command, or on the first node of its job. It measures the
writers' rates alone (without the command), and starts the writers and then the command. At regular
times it checks the writers in the same way as the writers of a run. Each check is a *reading*. At
the end it writes the record (`records.injected`).
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

from conductor.block import conductor, trial
from conductor.block.agents import connected_hub
from conductor.block.allocation import Allocation, block_allocation
from conductor.block.alone_rates import AloneRates
from conductor.block.hub import Hub, WriterState
from conductor.block.runs import BlockError, BlockRunner
from conductor.judge import length
from conductor.judge.judge import judge
from conductor.judge.rates import gapless_rows, last_end_s
from conductor.judge.series import Series, Window
from records import clock, injected, processes
from records.block_plan import BlockPlan
from records.checkout import environment_of_user
from records.errors import MachineError
from records.files import refresh, replace_text
from records.injected import EndedBy, InjectionSummary, Reading, WrittenRow
from records.machine import transport_notes
from records.machine.cpu_load import BLOCK_VARIABLE
from records.notes import Note
from records.treatment import Writes

#: The longest time between two readings, seconds.
PERIOD_S = 10.0
#: Time between two checks of the command and for a request to stop, seconds.
_POLL_S = 0.1
#: Timeout for the rows that cover the end of a reading, seconds.
_LAST_RATE_ROWS_TIMEOUT_S = 10.0
#: A requested rate counts as reached from this share on, since limiters are imprecise.
_REACHED_SHARE = 0.9
#: Rows are dropped if they ended this long before the end of the last reading, seconds.
_OLD_ROWS_S = 5.0
#: File in the logs whose existence is the request to stop.
STOP_FILE = "stop"
#: Files in the logs that have the command's outputs if there are no `streams`.
OUTPUT_FILE, ERROR_FILE = "command.out", "command.err"


@dataclass(frozen=True, kw_only=True)
class InjectionRequest:
    """A request to inject writes, and what to start beside them."""

    #: Plan with one treatment, which has the writes.
    block: BlockPlan
    #: The summary of the record, as far as it is known before the writes. It has the command.
    summary: InjectionSummary
    #: Target nodes and origin nodes; empty: the nodes that the block's policy chooses.
    targets: list[str]
    origins: list[str]
    #: Path at which the record is written.
    record_file: str
    #: Folder in which the command starts.
    command_folder: str
    #: How long the writers write, seconds; None: until the command ends or a stop is requested.
    length_s: float | None = None
    #: Descriptors of this process, standard output and error, to which the command prints; empty:
    #: files in the logs.
    streams: list[int] = field(default_factory=list)
    #: The terminal's foreground process group, which the command joins; None: a group of its own.
    foreground_group: int | None = None
    #: The process of this host that removes the run's folder; None if it is on another host.
    owner_pid: int | None = None

    @staticmethod
    def load(path: Path) -> InjectionRequest:
        """Read what `save` wrote."""
        from pydantic import TypeAdapter  # only here, as for plans

        return TypeAdapter(InjectionRequest).validate_json(path.read_bytes())

    def save(self, path: Path) -> None:
        """Write the request as JSON."""
        replace_text(path, json.dumps(asdict(self), indent=1))


class Command:
    """The command beside the writes, if there is one."""

    def __init__(self, request: InjectionRequest) -> None:
        self._request = request
        self._logs = request.block.logs
        self._end_task: asyncio.Task[None] | None = None
        self._interrupted = False
        self.process: asyncio.subprocess.Process | None = None
        self.start_s: float | None = None
        self.end_s: float | None = None
        self.status: int | None = None

    @property
    def is_running(self) -> bool:
        """Return whether the command has begun and not ended."""
        return self.start_s is not None and self.end_s is None

    async def start(self) -> None:
        """Start the command, if there is one. Raises MachineError if it cannot be started."""
        words = self._request.summary.command
        if not words:
            return
        with ExitStack() as files:
            streams = self._request.streams
            if not streams:
                paths = [self._logs / name for name in (OUTPUT_FILE, ERROR_FILE)]
                streams = [files.enter_context(path.open("wb")).fileno() for path in paths]
            out, err = streams
            self.start_s = clock.now_s()
            try:
                self.process = await processes.spawn_in_terminal(
                    words,
                    self._environment(),
                    self._request.command_folder,
                    stdin=None if self._request.streams else asyncio.subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    group=self._request.foreground_group,
                )
            except OSError as error:
                self.start_s = None
                raise MachineError(f"{words[0]}: {error.strerror}") from None
        self._end_task = asyncio.create_task(self._await_end(self.process))

    @staticmethod
    def _environment() -> dict[str, str]:
        """Return this process's environment without its own entries and the block's mark."""
        environment = environment_of_user(os.environ)
        environment.pop(BLOCK_VARIABLE, None)
        return environment

    async def _await_end(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        self.end_s = clock.now_s()
        self.status = code if code >= 0 else 128 - code  # as a shell reports a signal

    def interrupt(self) -> None:
        """Send the command SIGINT, once."""
        if self.process and self.is_running and not self._interrupted:
            self._interrupted = True
            self._signal(signal.SIGINT)

    def _signal(self, signum: signal.Signals) -> None:
        """Send a signal to the command's process group.

        If the command is in the terminal's group, only the command itself gets the signal.
        """
        if self.process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            if self._request.foreground_group is None:
                os.killpg(self.process.pid, signum)
            else:
                self.process.send_signal(signum)

    async def wait(self) -> None:
        """Wait for the end of the command; a request to stop interrupts it."""
        while self.is_running:
            if _is_stop_requested(self._logs):
                self.interrupt()
            await asyncio.sleep(_POLL_S)

    async def stop(self) -> None:
        """End the command; its child processes end with this process."""
        if self._end_task and self.is_running:
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)
            await asyncio.wait([self._end_task], timeout=processes.GRACE_S)


class InjectionConductor:
    """Runs the writers from start to end, and records what they write."""

    def __init__(self, request: InjectionRequest) -> None:
        self._request = request
        self._plan = request.block
        self._logs = request.block.logs
        self.command = Command(request)
        self._summary = request.summary
        #: Start of the current reading, Unix time.
        self._reading_start_s = 0.0
        #: True if the record already says that a rate alone was disturbed.
        self._noted_disturbed_alone = False

    async def write(self) -> None:
        """Write until something ends the writes. Raises BlockError or MachineError."""
        agent_nodes, nodes = self._nodes()
        self._update_summary(targets=nodes.targets, origins=nodes.origins)
        writes = self._plan.treatments[0].writes
        assert writes, "the only treatment writes"
        async with connected_hub(self._plan, agent_nodes) as hub:
            clock.require_close_clocks(nodes.targets[0], hub.clock_offsets_s)
            runner = trial.writer_runner(self._plan, nodes, hub)
            rates = AloneRates(runner)
            await self._measure_alone(rates, writes)
            states = await self.start_writers(runner, rates, writes)
            try:
                self._save_trial(rates, writes)
                self.note_rate_not_reached(states)
                await self._check(runner, states)
            finally:
                await hub.stop(states)

    async def _measure_alone(self, rates: AloneRates, writes: Writes) -> None:
        """Measure the rates alone. Raises BlockError if a writer cannot write."""
        result = await trial.try_writes(self._plan.treatments[0], writes, rates, self._plan.limits)
        transports = [record.transport for record in result.writers]
        self._update_summary(notes=[*self._plan.notes, *transport_notes.caveats(transports)])
        if result.failure:
            trial.save([result], self._logs)
            raise BlockError("injector_never_ready", result.failure)

    def _save_trial(self, rates: AloneRates, writes: Writes) -> None:
        """Save the last measurement of the rates alone."""
        name = self._plan.treatments[0].name
        trial.save([trial.judged_trial(name, writes, rates, self._plan.limits)], self._logs)

    async def start_writers(
        self, runner: BlockRunner, rates: AloneRates, writes: Writes
    ) -> list[WriterState]:
        """Start the writers. If they show that a rate alone was disturbed, measure it again."""
        for _ in range(self._plan.limits.retries):
            states = await self._start_at_speed(runner, writes)
            if not await self._exceeds_rates_alone(runner, states):
                return states
            await runner.writers.hold_or_stop(writes, states)
            await rates.measure_again(writes)
        return await self._start_at_speed(runner, writes)

    async def _start_at_speed(self, runner: BlockRunner, writes: Writes) -> list[WriterState]:
        """Start the writers and wait until they are at speed. Raises BlockError if they fail to."""
        states = await runner.writers.start(writes)
        at_speed = await runner.writers.reach_speed(states)
        reason = _why_ended(states)
        if reason is None and not at_speed:
            timeout_s = self._plan.limits.ready_timeout_s
            reason = f"writers not at speed within {timeout_s:.0f} s"
        if reason:
            await runner.hub.stop(states)
            raise BlockError("injector_never_ready", reason)
        return states

    async def _exceeds_rates_alone(self, runner: BlockRunner, states: list[WriterState]) -> bool:
        """Return whether a writer exceeds its rate alone by too much while no command runs."""
        start_s = clock.now_s()
        covered_s = start_s + length.LEAST_ROWS * runner.rate_row_interval_s
        await _wait_until(runner.hub, states, covered_s)
        end_s = clock.now_s()
        await _await_covering_rows(runner.hub, states, end_s)
        series = Series(writers=[state.series.copy() for state in states])
        limits = self._plan.limits
        return judge(series, (start_s, end_s), limits).share_of_rate_alone > limits.max_share

    def note_rate_not_reached(self, states: Sequence[WriterState]) -> None:
        """Add a note if a rate alone is too far below the requested rate.

        The note is on the rate that is furthest below.
        """
        rates_b_s = [
            (state.series.alone_b_s, state.writer.rate_b_s)
            for state in states
            if state.writer.rate_b_s
        ]
        if not rates_b_s:
            return
        reached_b_s, requested_b_s = min(rates_b_s, key=_reached_share)
        if reached_b_s < _REACHED_SHARE * requested_b_s:
            self._add_note(
                Note.RATE_NOT_REACHED(rate=self._summary.rate, reached_gb_s=reached_b_s / 1e9)
            )

    def _nodes(self) -> tuple[Allocation, Allocation]:
        """Return the nodes that get an agent, and the targets and origins among them.

        Raises MachineError if a requested node is not in the job.
        """
        chosen = Allocation(self._request.targets, self._request.origins)
        if chosen.nodes and self._plan.origin_policy == "same_job":
            return chosen, chosen
        job_allocation = block_allocation(self._plan)
        if not chosen.nodes:
            return job_allocation, job_allocation
        foreign = sorted(set(chosen.nodes) - set(job_allocation.nodes))
        if foreign:
            raise MachineError(f"{', '.join(foreign)}: not in the job")
        return job_allocation, chosen

    async def _check(self, runner: BlockRunner, states: list[WriterState]) -> None:
        """Start the command, and check the writers until something ends them."""
        await runner.observer.begin([])
        self._reading_start_s = clock.now_s()
        # `nimc inject` leaves Ctrl-C to the command as soon as it reads this. So this is written
        # before the command starts.
        self._update_summary(start_s=self._reading_start_s, end_s=self._reading_start_s)
        await self.command.start()
        self._update_summary(command_start_s=self.command.start_s)
        stop_s = self._reading_start_s + (self._request.length_s or math.inf)
        shortest_s, _ = runner.shortest_run()
        ended_by: EndedBy | None = None
        while ended_by is None:
            await self._wait(runner.hub, states, min(self._reading_start_s + PERIOD_S, stop_s))
            ended_by = self._ended_by(states, stop_s)
            if ended_by:  # a shorter reading might have no row or no count
                await _wait_until(runner.hub, states, self._reading_start_s + shortest_s)
            end_s = clock.now_s()
            observed, _ = await runner.observer.end()
            if ended_by is None:
                await runner.observer.begin([])
            await _await_covering_rows(runner.hub, states, end_s)
            self.record_window(observed, states, (self._reading_start_s, end_s))
        self._update_summary(ended_by=ended_by)

    async def _wait(self, hub: Hub, states: list[WriterState], end_s: float) -> None:
        """Wait until a time, or until something ends the writes."""
        while (now_s := clock.now_s()) < end_s and not self._ended_by(states, math.inf):
            await hub.wait_for(lambda: bool(_why_ended(states)), min(end_s - now_s, _POLL_S))

    def _ended_by(self, states: Sequence[WriterState], stop_s: float) -> EndedBy | None:
        """Return what has ended the writes; None if they go on.

        A request to stop interrupts the command if it is running. The end of the command then ends
        the writes.
        """
        if _why_ended(states):
            return "failure"
        if self.command.end_s is not None:
            return "command"
        if clock.now_s() >= stop_s:
            return "time"
        if _is_stop_requested(self._logs):
            if not self.command.is_running:
                return "stop"
            self.command.interrupt()
        return None

    def record_window(
        self, observed: Series, states: Sequence[WriterState], window_s: Window
    ) -> None:
        """Judge the writers in a window as in a run, and record what they wrote in it.

        If a rate alone was disturbed, only a note is added, since this does not refute any writes.
        """
        series = replace(observed, writers=[state.series.copy() for state in states])
        limits = replace(self._plan.limits, max_share=math.inf)
        judgement = judge(series, window_s, limits, others_may_send=True)
        self._note_disturbed_alone(judgement.share_of_rate_alone)
        first_reason = next(iter(judgement.reasons), None)
        reason = _why_ended(states) or first_reason or judgement.unproven_note
        start_s, end_s = window_s
        rows = [
            WrittenRow(index, row.start_s, row.end_s, row.bytes_b)
            for index, writer in enumerate(series.writers)
            for row in gapless_rows(writer)
            if start_s < row.end_s <= end_s
        ]
        self._append(
            Reading(
                start_s=start_s,
                end_s=end_s,
                proven=reason is None,
                reason=reason,
                writers=judgement.writers,
                rows=rows,
            )
        )
        for state in states:
            _drop_reports(state, end_s - _OLD_ROWS_S)

    def _note_disturbed_alone(self, share: float) -> None:
        """Add a note, only once, if writers reach too large a `share` of their rates alone."""
        if share > self._plan.limits.max_share and not self._noted_disturbed_alone:
            self._noted_disturbed_alone = True
            self._add_note(Note.RATE_ALONE_DISTURBED(share=share))

    def _append(self, reading: Reading) -> None:
        injected.add_reading(self._logs, reading)
        self._reading_start_s = reading.end_s
        summary = self._summary
        proven_s = reading.end_s - reading.start_s if reading.proven else 0.0
        self._update_summary(
            end_s=reading.end_s,
            bytes_b=summary.bytes_b + sum(record.bytes_b for record in reading.writers),
            proven=reading.proven and summary.reason is None,
            reason=summary.reason or reading.reason,
            proven_s=summary.proven_s + proven_s,
        )

    def fail(self, reason: str, ended_by: EndedBy = "failure") -> None:
        """Record what ended the writes, unless they had ended before.

        A last reading is added, which is not proven. What cannot be written, for example to a full
        disk, is left to `close`.
        """
        if self._summary.ended_by:
            return
        reading = Reading(
            start_s=self._reading_start_s, end_s=clock.now_s(), proven=False, reason=reason
        )
        with suppress(OSError):
            if self._summary.start_s is not None:
                self._append(reading)
        with suppress(OSError):
            reason = self._summary.reason or reason
            self._update_summary(ended_by=ended_by, proven=False, reason=reason)

    def close(self) -> None:
        """Write the record."""
        command = self.command
        self._update_summary(command_end_s=command.end_s, exit_status=command.status)
        injected.save_record(self._logs, Path(self._request.record_file))

    def _add_note(self, note: str) -> None:
        self._update_summary(notes=[*self._summary.notes, note])

    def _update_summary(self, **changes: object) -> None:
        self._summary = replace(self._summary, **changes)  # type: ignore[arg-type]
        injected.save_summary(self._logs, self._summary)


def _is_stop_requested(logs: Path) -> bool:
    """Return whether somebody requests to stop, perhaps on another host."""
    refresh(logs)
    return (logs / STOP_FILE).exists()


def _reached_share(rates_b_s: tuple[float, float]) -> float:
    reached_b_s, requested_b_s = rates_b_s
    return reached_b_s / requested_b_s


def _why_ended(states: Sequence[WriterState]) -> str | None:
    """Return why a writer has ended; None while all write."""
    reasons = (f"writer {state.number}: {state.end_reason}" for state in states if state.end_reason)
    return next(reasons, None)


async def _wait_until(hub: Hub, states: Sequence[WriterState], end_s: float) -> None:
    """Wait until a time, or until a writer ends."""
    await hub.wait_for(lambda: bool(_why_ended(states)), max(end_s - clock.now_s(), 0.0))


async def _await_covering_rows(hub: Hub, states: Sequence[WriterState], end_s: float) -> None:
    """Wait for the rows that cover the end of a window."""

    def is_covered() -> bool:
        return all(
            state.end_reason or (last_end_s(state.series) or 0.0) >= end_s for state in states
        )

    await hub.wait_for(is_covered, _LAST_RATE_ROWS_TIMEOUT_S)


def _drop_reports(state: WriterState, before_s: float) -> None:
    """Drop what a writer reported before a time, but keep its last two rows and samples."""
    series = state.series
    old_rows = sum(row.end_s < before_s for row in series.rows[:-2])
    del series.rows[:old_rows]
    old_samples = sum(sample.at_s < before_s for sample in series.samples[:-2])
    del series.samples[:old_samples]


async def conduct(request: InjectionRequest) -> None:
    """Inject writes. If the writers or the files fail, a running command still runs to its own end.

    Raises BlockError or MachineError if writers cannot be started, and OSError if the record cannot
    be written.
    """
    logs = request.block.logs
    logs.mkdir(parents=True, exist_ok=True)
    injected.begin(logs)
    injection = InjectionConductor(request)
    try:
        try:
            await injection.write()
        except (BlockError, MachineError, OSError) as error:
            injection.fail(str(error))
            if injection.command.start_s is None:
                raise
        await injection.command.wait()
    except asyncio.CancelledError:
        injection.fail("stopped by a signal before the last writes were checked", "stop")
        raise
    finally:
        await injection.command.stop()
        injection.close()


def main() -> None:
    """Inject as requested, and exit with the status of `conductor.block.conductor.main`."""
    request = InjectionRequest.load(Path(sys.argv[1]))
    try:
        conductor.main(request.block, partial(conduct, request))
    finally:
        owner_has_ended = request.owner_pid is not None and os.getppid() != request.owner_pid
        if owner_has_ended:  # then only this process can remove the folder
            shutil.rmtree(request.block.nimc_dir, ignore_errors=True)


if __name__ == "__main__":
    main()
