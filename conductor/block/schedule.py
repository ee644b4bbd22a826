"""The schedule of short writes: rehearsed, handed out to origins, and collected from them."""

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

from conductor.block.assignment import MOST_SIDES, Assignment, first_port
from conductor.block.hub import Hub, WriterState
from conductor.injectors import INJECTORS
from conductor.injectors.base import Writer
from conductor.judge.short_writes import check, slot_records
from conductor.messages import Finish, Perform, Written
from records import clock
from records.block_plan import BlockPlan, ShortWrites
from records.clock import Offset
from records.errors import InputError
from records.files import replace_text
from records.notes import Note
from records.sample import TimetableRecord, WriterRecord
from records.timetable import Staggered, longest_rest_s, staggered
from records.treatment import Writes

#: Bytes of a write in the first rehearsal, when no rate is known yet.
_FIRST_B = 16 * 2**20
#: Most rehearsals; two are enough if writes last as long as requested to within `_NEAR`, a share.
_REHEARSALS = 4
_NEAR = 0.1
#: Rounds of writes in a rehearsal. The first rehearsal has one: the set-up time is not known yet,
#: so writes of a second round would collide.
_ROUNDS = 3
#: Assumed set-up time of a write before it was measured, seconds.
_LEAD_S = 0.1
#: Time between handing out and the first write, in addition to its set-up, seconds.
_AHEAD_S = 0.3
#: Margin for the last writes of a run, seconds.
_FINISH_S = 30.0
#: Fewest passive sides of a target; each needs a port. They have indices from here on, so that they
#: are no held writer's.
_LEAST_SIDES = 2
_FIRST_SIDE = 1_000_000


class NotReadyError(Exception):
    """Short writes cannot begin. The message is one line."""


class RunningTimetable(NamedTuple):
    """A timetable that agents are carrying out."""

    table: Staggered
    #: Its time 0, by the conductor's clock (Unix time).
    zero_s: float
    clocks: dict[str, Offset]


def messages_of(short: ShortWrites, rate_b_s: float, message_b: int) -> int:
    """Messages of a write: as requested, else as many as last `fill` times its length."""
    return short.messages or max(round(short.fill * short.length_s * rate_b_s / message_b), 1)


def sides(lead_s: float, table: Staggered) -> int:
    """Passive sides that a target needs so that one listens whenever a connection is set up.

    A side is in use from the set-up of a write to its end, and its replacement needs about one
    set-up time until it listens. The next write to the target starts after its rest.
    """
    taken_s = lead_s + table.length_s + lead_s
    needed = math.ceil(taken_s / (table.length_s + table.rest_s))
    return min(max(needed, _LEAST_SIDES), MOST_SIDES)


class ScheduleControl:
    """Carries out the timetables of short writes of one kind, one at a time."""

    def __init__(self, plan: BlockPlan, writes: Writes, assignment: Assignment, hub: Hub) -> None:
        assert plan.short, "a plan with scheduled writes sets `short`"
        assert writes.scheduled is not None
        self._plan = plan
        self._short = plan.short
        self._writes = writes
        self._writers = writes.scheduled
        self._injector = INJECTORS[writes.injector]
        self._targets, self._origins = assignment.targets, assignment.origins
        self._shared = assignment.shared(writes)
        self._hub = hub
        #: Messages, length and set-up time of a write, seconds, and the rate of a writer while all
        #: write and no application runs, bytes per second: found in rehearsals, the same in every
        #: run of the block.
        self.messages = self._short.messages or max(_FIRST_B // writes.message_b, 1)
        self.length_s = self._short.length_s
        self.lead_s = _LEAD_S
        self._rate_alone_b_s = 0.0
        self._sides: list[WriterState] = []
        #: Time from its beginning until all writers were writing, the longest seen, seconds.
        self.start_up_s = 0.0

    @property
    def alone_b_s(self) -> float:
        """Rate of all its writers together, without an application; 0 before the rehearsal."""
        return self._writers * self._rate_alone_b_s

    async def rehearse(self, turn: int) -> None:
        """Find the size of a write of the requested length, once. Raises NotReadyError."""
        for attempt in range(0 if self.alone_b_s else _REHEARSALS):
            known = bool(self.alone_b_s)
            run_s = self.length_s * (_ROUNDS if known else 1)
            started_s = clock.now_s()
            begun = await self.begin(run_s, f"rehearsal/{self._writers}/{attempt}", turn)
            self.start_up_s = max(self.start_up_s, clock.now_s() - started_s)
            last_s = begun.zero_s + begun.table.start_s(len(begun.table) - 1)
            await asyncio.sleep(max(last_s - clock.now_s(), 0.0))
            reports = await self._end()
            finished = [write for written in reports.values() for write in written.finished]
            if not finished:
                if fault := _most_frequent(reports):
                    raise NotReadyError(f"no write was done: {fault}")
                continue  # the origins stood still when their writes were due
            self._rate_alone_b_s = median(write.rate_b_s for write in finished)
            self.lead_s = median(write.setup_s for write in finished)
            if self._is_sized() and known:
                break
        if not self.alone_b_s:
            raise NotReadyError(f"no write was begun in time in {_REHEARSALS} rehearsals")

    def _is_sized(self) -> bool:
        """Size a write by the rate that was found; whether it was of that size before, nearly."""
        before, before_s, message_b = self.messages, self.length_s, self._writes.message_b
        self.messages = messages_of(self._short, self._rate_alone_b_s, message_b)
        if self._short.messages:
            self.length_s = self.messages * message_b / self._rate_alone_b_s
        same = abs(self.messages - before) <= max(_NEAR * self.messages, 1)
        return same and abs(self.length_s - before_s) <= _NEAR * self.length_s

    def other_length(self) -> str | None:
        """A note if counted messages do not last as long as was planned; None if they do."""
        short = self._short
        if not short.messages or abs(self.length_s / short.length_s - 1) <= _NEAR:
            return None
        return Note.WRITE_LENGTH(
            messages=short.messages, done_s=self.length_s, planned_s=short.length_s
        )

    async def begin(self, run_s: float, name: str, turn: int) -> RunningTimetable:
        """Plan for a run of at most `run_s`, hand out, and wait until all writers are writing.

        The seed derives from `name`. Raises NotReadyError.
        """
        try:
            table = self._table(run_s, name)
        except InputError as error:
            raise NotReadyError(str(error)) from None
        writes = {origin: table.writes_of(origin) for origin in table.origins}
        template = self._writer(first_port(turn))
        n_sides = sides(self.lead_s, table)
        passive = [
            replace(template, index=_FIRST_SIDE + number, target=target, port=template.port + side)
            for number, (target, side) in enumerate(product(table.targets, range(n_sides)))
        ]
        timeout_s = self._plan.limits.ready_timeout_s
        self._sides = await self._hub.stand_by(self._injector, passive, timeout_s)
        if ended := [side for side in self._sides if side.ended]:
            await self._hub.stop(self._sides)
            raise NotReadyError(f"{ended[0].writer.target}: {ended[0].ended}")
        clocks = await self._hub.clocks(self._origins)
        zero_s = clock.now_s() + self.lead_s + _AHEAD_S
        for origin in table.origins:
            order = Perform(
                injector=self._injector.name,
                writer=replace(template, origin=origin),
                targets=[(name, self._hub.addresses[name]) for name in table.targets],
                sides=n_sides,
                zero_s=zero_s + clocks[origin].offset_s,
                lead_s=self.lead_s,
                patience_s=max(table.length_s, self._short.tolerance_s),
                writes=writes[origin],
            )
            self._hub.send(origin, order)
        await asyncio.sleep(max(zero_s + table.steady_from_s - clock.now_s(), 0.0))
        return RunningTimetable(table, zero_s, clocks)

    async def end(
        self, begun: RunningTimetable, window_s: tuple[float, float], path: Path
    ) -> tuple[TimetableRecord, list[WriterRecord], str | None]:
        """Collect the writes that were made, store them in `path`, compare them with the plan.

        Returns the records for the sample, and why that is rejected (None if accepted).
        `window_s` is when the application started and ended, by the conductor's clock.
        """
        reports = await self._end()
        after = await self._hub.clocks(self._origins)
        middle_s = sum(window_s) / 2
        offsets = {n: clock.interpolated(begun.clocks[n], after[n], middle_s) for n in after}
        document = {
            "zero_s": begun.zero_s,
            "timetable": begun.table.as_dict(),
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
            write.earlier(offsets[node].offset_s)
            for node, written in reports.items()
            for write in written.finished
        ]
        table, alone_b_s = begun.table, self._rate_alone_b_s
        errors_s = {node: offset.error_s for node, offset in offsets.items()}
        least_b_s = self._plan.limits.min_share * alone_b_s
        record, fault = check(
            table,
            finished,
            zero_s=begun.zero_s,
            run_s=window_s,
            clock_errors_s=errors_s,
            allowed=self._short,
            least_b_s=least_b_s,
            messages=self.messages,
        )
        writers = slot_records(
            table, finished, window_s, alone_b_s, self._writer(0), self._injector
        )
        return record, writers, fault and "; ".join(filter(None, [fault, _most_frequent(reports)]))

    async def _end(self) -> dict[str, Written]:
        # A write in progress may take as long as the slowest one that counts, and a margin.
        longest_s = self.length_s / self._plan.limits.min_share
        timeout_s = longest_s + _FINISH_S
        orders = dict.fromkeys(self._origins, Finish(timeout_s))
        reports = await self._hub.ask(orders, Written, "report what it wrote", 2 * timeout_s)
        await self._hub.stop(self._sides)
        return reports

    def _table(self, run_s: float, name: str) -> Staggered:
        plan, length_s, targets = self._plan, self.length_s, self._targets
        digest = hashlib.sha256(f"{plan.seed}/{plan.case}/{plan.block}/{name}".encode()).digest()
        return staggered(
            targets,
            self._origins,
            self._writers,
            length_s,
            run_s,
            int.from_bytes(digest[:8], "big"),
            rest_s=longest_rest_s(len(targets), self._writers, length_s),
        )

    def _writer(self, port: int) -> Writer:
        return replace(self._shared, port=port, messages=self.messages)


def _most_frequent(reports: Mapping[str, Written]) -> str:
    """The most frequent fault, in words; empty if there are none."""
    faults: Counter[str] = Counter()
    for written in reports.values():
        faults.update(written.faults)
    return next((f"{times} times: {fault}" for fault, times in faults.most_common(1)), "")
