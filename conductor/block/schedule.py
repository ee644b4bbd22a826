"""The schedule of short writes: rehearses them, hands them out to origins, collects the results.

A *passive side* is the endpoint of a short write at its target: a program that listens for one
write. A *held* writer makes no short writes: it writes through whole runs, and is suspended between
them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import NamedTuple

from conductor.block.assignment import Assignment
from conductor.block.hub import Hub, WriterState
from conductor.injectors import INJECTORS
from conductor.injectors.base import Writer
from conductor.judge.series import Window
from conductor.judge.short_writes import check_writes, timetable_records
from conductor.messages import FinishWrites, MakeWrites, WritesMade
from records import clock
from records.block_plan import BlockPlan, ShortWrites
from records.clock import Offset
from records.errors import InputError
from records.files import replace_text
from records.notes import Note
from records.sample import TimetableRecord, WriterRecord
from records.timetable import StaggeredWrites, longest_rest_s, staggered_writes
from records.treatment import Writes

#: Size of a write in the first rehearsal, when no rate is known yet, bytes.
_FIRST_WRITE_B = 16 * 2**20
#: Maximum number of rehearsals. Two rehearsals are enough if the second confirms size and length of
#: a write.
_MOST_REHEARSALS = 4
#: Share by which size and length of a write may differ from size and length in the last rehearsal.
_LENGTH_TOLERANCE = 0.1
#: Rounds of writes in a rehearsal. The first rehearsal has only one round, since the set-up time is
#: not known yet, and writes of a second round would collide.
_REHEARSED_ROUNDS = 3
#: Assumed set-up time of a write until it is measured, seconds.
_ASSUMED_SETUP_S = 0.1
#: Time to hand out the timetable before the first write is set up: in any case, and for each write,
#: seconds. To encode a write took 6 microseconds on one host.
_HANDOUT_S = 0.3
_HANDOUT_S_OF_WRITE = 2e-5
#: Extra time for the last writes of a run, seconds.
_FINISH_MARGIN_S = 30.0
#: Minimum and maximum passive sides of a target under a timetable; each needs a port.
_LEAST_PASSIVE_SIDES, _MOST_PASSIVE_SIDES = 2, 4
#: Indices of passive sides begin here, so that no held writer has the same index.
_FIRST_SIDE_INDEX = 1_000_000


class NotReadyError(Exception):
    """Short writes cannot begin. The message is one line."""


class RunningTimetable(NamedTuple):
    """A timetable that agents are carrying out."""

    timetable: StaggeredWrites
    #: Time 0 of the timetable, by the conductor's clock (Unix time).
    zero_s: float
    #: Origin -> its clock minus the conductor's, as measured before time 0.
    offsets_before: dict[str, Offset]


def messages_per_write(short: ShortWrites, rate_b_s: float, message_b: int) -> int:
    """Return the number of messages of a write at a rate.

    Without a requested number, these are as many messages as can be written in the share `fill` of
    the requested length.
    """
    return short.messages or max(round(short.fill * short.length_s * rate_b_s / message_b), 1)


def passive_sides_needed(setup_s: float, timetable: StaggeredWrites) -> int:
    """Return how many passive sides a target needs, so that one of them always listens.

    A side is in use from the set-up of a write to its end. Its replacement needs about one set-up
    time, `setup_s`, until it listens. The next write to the target starts after a rest.
    """
    used_s = setup_s + timetable.length_s + setup_s
    needed = math.ceil(used_s / (timetable.length_s + timetable.rest_s))
    return min(max(needed, _LEAST_PASSIVE_SIDES), _MOST_PASSIVE_SIDES)


class ShortWriteSchedule:
    """Carries out timetables of short writes of one kind, one timetable at a time."""

    def __init__(self, plan: BlockPlan, writes: Writes, assignment: Assignment, hub: Hub) -> None:
        assert plan.short, "a plan with scheduled writes sets `short`"
        assert writes.scheduled is not None
        self._plan = plan
        self._short = plan.short
        self._writes = writes
        self._n_writers = writes.scheduled
        self._injector = INJECTORS[writes.injector]
        self._targets, self._origins = assignment.targets, assignment.origins
        self._new_ports = assignment.new_ports
        self._template = assignment.template(writes)
        self._hub = hub
        # Rehearsals measure the next four attributes, which then stay the same in the block.
        #: Messages of a write.
        self.messages = self._short.messages or max(_FIRST_WRITE_B // writes.message_b, 1)
        #: Length of a write, seconds.
        self.length_s = self._short.length_s
        #: Set-up time of a write, seconds.
        self.setup_s = _ASSUMED_SETUP_S
        #: Rate of one writer while all writers write and no application runs, bytes per second.
        self._writer_alone_b_s = 0.0
        self._passive_sides: list[WriterState] = []
        #: Longest time from `begin` until all writers were writing, seconds.
        self.start_up_s = 0.0

    @property
    def alone_b_s(self) -> float:
        """Return the rate of all writers together, without an application; 0 before a rehearsal."""
        return self._n_writers * self._writer_alone_b_s

    async def rehearse(self) -> None:
        """Measure rate and set-up time of the writes, once, and adapt messages or length.

        Raises NotReadyError if no write can be made.
        """
        if self.alone_b_s:
            return
        for attempt in range(_MOST_REHEARSALS):
            is_rate_known = self.alone_b_s > 0
            timetable_s = self.length_s * (_REHEARSED_ROUNDS if is_rate_known else 1)
            started_s = clock.now_s()
            run_name = f"rehearsal/{self._n_writers}/{attempt}"
            running = await self.begin(timetable_s, run_name)
            self.start_up_s = max(self.start_up_s, clock.now_s() - started_s)
            last_start_s = running.zero_s + running.timetable.start_s(len(running.timetable) - 1)
            await asyncio.sleep(max(last_start_s - clock.now_s(), 0.0))
            reports = await self._collect_reports()
            finished = [write for report in reports.values() for write in report.finished]
            if not finished:
                if fault := _most_frequent_fault(reports):
                    raise NotReadyError(f"no write was done: {fault}")
                continue  # the origins did not run when their writes were due
            self._writer_alone_b_s = median(write.rate_b_s for write in finished)
            self.setup_s = median(write.setup_s for write in finished)
            is_confirmed = self._resize()
            if is_rate_known and is_confirmed:
                break
        if not self.alone_b_s:
            raise NotReadyError(f"no write was begun in time in {_MOST_REHEARSALS} rehearsals")

    def _resize(self) -> bool:
        """Compute messages or length of a write from the measured rate.

        Returns whether both are about as before. They may differ by `_LENGTH_TOLERANCE`, and the
        number of messages by one.
        """
        previous_messages = self.messages
        previous_length_s = self.length_s
        message_b = self._writes.message_b
        self.messages = messages_per_write(self._short, self._writer_alone_b_s, message_b)
        if self._short.messages:
            self.length_s = self.messages * message_b / self._writer_alone_b_s
        allowed_messages = max(_LENGTH_TOLERANCE * self.messages, 1)
        return (
            abs(self.messages - previous_messages) <= allowed_messages
            and abs(self.length_s - previous_length_s) <= _LENGTH_TOLERANCE * self.length_s
        )

    def length_note(self) -> str | None:
        """Return a note if the requested messages last longer or shorter than expected, or None."""
        short = self._short
        if not short.messages or abs(self.length_s / short.length_s - 1) <= _LENGTH_TOLERANCE:
            return None
        return Note.WRITE_LENGTH(
            messages=short.messages, done_s=self.length_s, planned_s=short.length_s
        )

    async def begin(self, timetable_s: float, run_name: str) -> RunningTimetable:
        """Plan and hand out a timetable of `timetable_s` seconds, and wait until all writers write.

        The seed derives from `run_name`, so that each run of the block has different writes.
        Raises NotReadyError if such a timetable is not possible, or if a passive side does not
        listen.
        """
        try:
            timetable = self._plan_timetable(timetable_s, run_name)
        except InputError as error:
            raise NotReadyError(str(error)) from None
        n_sides = passive_sides_needed(self.setup_s, timetable)
        ports = self._new_ports(n_sides)
        template = self._writer_at_port(ports[0])
        side_specs = [
            replace(
                template,
                index=_FIRST_SIDE_INDEX + number,
                target=target,
                port=port,
            )
            for number, (target, port) in enumerate(product(timetable.targets, ports))
        ]
        timeout_s = self._plan.limits.ready_timeout_s
        self._passive_sides = await self._hub.start_passive_sides(
            self._injector, side_specs, timeout_s
        )
        ended_sides = [side for side in self._passive_sides if side.end_reason]
        if ended_sides:
            await self._hub.stop(self._passive_sides)
            raise NotReadyError(f"{ended_sides[0].writer.target}: {ended_sides[0].end_reason}")
        offsets_before = await self._hub.measure_clocks(self._origins)
        handout_s = _HANDOUT_S + len(timetable) * _HANDOUT_S_OF_WRITE
        zero_s = clock.now_s() + self.setup_s + handout_s
        for origin in timetable.origins:
            order = MakeWrites(
                injector=self._injector.name,
                writer=replace(template, origin=origin),
                targets=[(target, self._hub.addresses[target]) for target in timetable.targets],
                passive_sides=n_sides,
                zero_s=zero_s + offsets_before[origin].offset_s,
                setup_s=self.setup_s,
                max_delay_s=max(timetable.length_s, self._short.tolerance_s),
                writes=timetable.writes_of(origin),
            )
            self._hub.send(origin, order)
        await asyncio.sleep(max(zero_s + timetable.steady_from_s - clock.now_s(), 0.0))
        return RunningTimetable(timetable, zero_s, offsets_before)

    async def end(
        self, running: RunningTimetable, window_s: Window, path: Path
    ) -> tuple[TimetableRecord, list[WriterRecord], str | None]:
        """Collect the writes that were made, store them in `path`, and compare them with the plan.

        Returns the records for the sample, and why the sample is rejected (None if accepted).
        `window_s` is when the application started and ended, by the conductor's clock.
        """
        reports = await self._collect_reports()
        offsets_after = await self._hub.measure_clocks(self._origins)
        middle_s = sum(window_s) / 2
        offsets = {
            node: clock.interpolated_offset(running.offsets_before[node], offset_after, middle_s)
            for node, offset_after in offsets_after.items()
        }
        document = {
            "zero_s": running.zero_s,
            "timetable": running.timetable.as_dict(),
            "clocks": {node: asdict(offset) for node, offset in offsets.items()},
            "written": {
                node: {
                    "done": [write._asdict() for write in report.finished],
                    "faults": report.faults,
                }
                for node, report in reports.items()
            },
        }
        replace_text(path, json.dumps(document, separators=(",", ":")))
        finished = [
            write.moved_earlier(offsets[node].offset_s)
            for node, report in reports.items()
            for write in report.finished
        ]
        clock_errors_s = {node: offset.error_s for node, offset in offsets.items()}
        record, fault = check_writes(
            running.timetable,
            finished,
            zero_s=running.zero_s,
            window_s=window_s,
            clock_errors_s=clock_errors_s,
            short=self._short,
            least_b_s=self._plan.limits.min_share * self._writer_alone_b_s,
            messages=self.messages,
        )
        writers = timetable_records(
            running.timetable,
            finished,
            window_s,
            self._writer_alone_b_s,
            self._writer_at_port(0),  # the records do not contain the port
            self._injector,
        )
        if fault and (frequent := _most_frequent_fault(reports)):
            fault = f"{fault}; {frequent}"
        return record, writers, fault

    async def _collect_reports(self) -> dict[str, WritesMade]:
        """End the timetable at all origins, and stop the passive sides; return node -> report."""
        # A write in progress may take as long as the slowest write that counts, and a margin.
        longest_s = self.length_s / self._plan.limits.min_share
        finish_s = longest_s + _FINISH_MARGIN_S
        orders = dict.fromkeys(self._origins, FinishWrites(finish_s))
        # An origin waits `finish_s` for its writes, and stops writes that take longer. It then has
        # the same time again to answer.
        timeout_s = 2 * finish_s
        reports = await self._hub.ask(orders, WritesMade, "report what it wrote", timeout_s)
        await self._hub.stop(self._passive_sides)
        return reports

    def _plan_timetable(self, timetable_s: float, run_name: str) -> StaggeredWrites:
        plan = self._plan
        seed_text = f"{plan.seed}/{plan.case}/{plan.block}/{run_name}"
        digest = hashlib.sha256(seed_text.encode()).digest()
        return staggered_writes(
            self._targets,
            self._origins,
            self._n_writers,
            self.length_s,
            timetable_s,
            int.from_bytes(digest[:8], "big"),
            rest_s=longest_rest_s(len(self._targets), self._n_writers, self.length_s),
        )

    def _writer_at_port(self, port: int) -> Writer:
        return replace(self._template, port=port, messages=self.messages)


def _most_frequent_fault(reports: Mapping[str, WritesMade]) -> str:
    """Return the most frequent fault of all reports, and how often it occurred.

    The text is empty if there are no faults.
    """
    faults: Counter[str] = Counter()
    for report in reports.values():
        faults.update(report.faults)
    if not faults:
        return ""
    fault, count = faults.most_common(1)[0]
    return f"{count} x {fault}"
