"""The conductor's side of timetables: rehearse, hand out, collect, compare with the plan."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import NamedTuple

from conductor.block import allocation
from conductor.block.allocation import Allocation
from conductor.block.hub import Hub, WriterState
from conductor.injectors import INJECTORS
from conductor.injectors.base import Injector, Writer
from conductor.messages import Finish, Perform, Written
from records import clock, timetable
from records.clock import Offset
from records.errors import InputError
from records.files import replace_text
from records.notes import Note
from records.plan import BlockPlan, ShortWrites
from records.sample import MANY, TimetableRecord, WriterRecord
from records.timetable import FinishedWrite, Staggered
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
    return min(max(needed, _LEAST_SIDES), allocation.MOST_SIDES)


class ScheduleControl:
    """Carries out the timetables of short writes of one kind, one at a time."""

    def __init__(
        self, plan: BlockPlan, writes: Writes, nodes: Allocation, hub: Hub, logs: Path
    ) -> None:
        assert plan.short, "a plan with scheduled writes sets `short`"
        assert writes.scheduled is not None
        self._plan = plan
        self._short = plan.short
        self._writes = writes
        self._writers = writes.scheduled
        self._injector = INJECTORS[writes.injector]
        self._nodes = nodes
        self._origins = nodes.origins[: plan.n_origins]
        self._hub = hub
        self._logs = logs
        #: Messages, length and set-up time of a write, seconds, and the rate of a writer while all
        #: write and no application runs, bytes per second: found in rehearsals, the same in every
        #: run of the block.
        self._messages = self._short.messages or max(_FIRST_B // writes.message_b, 1)
        self.length_s = self._short.length_s
        self._lead_s = _LEAD_S
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
            self._lead_s = median(write.setup_s for write in finished)
            if self._is_sized() and known:
                break
        if not self.alone_b_s:
            raise NotReadyError(f"no write was begun in time in {_REHEARSALS} rehearsals")

    def _is_sized(self) -> bool:
        """Size a write by the rate that was found; whether it was of that size before, nearly."""
        before, before_s, message_b = self._messages, self.length_s, self._writes.message_b
        self._messages = messages_of(self._short, self._rate_alone_b_s, message_b)
        if self._short.messages:
            self.length_s = self._messages * message_b / self._rate_alone_b_s
        same = abs(self._messages - before) <= max(_NEAR * self._messages, 1)
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
        clocks = await self._hub.clocks(self._origins)
        try:
            table = self._table(run_s, name)
        except InputError as error:
            raise NotReadyError(str(error)) from None
        template = self._writer(allocation.first_port(turn))
        n_sides = sides(self._lead_s, table)
        passive = [
            replace(template, index=_FIRST_SIDE + number, target=target, port=template.port + side)
            for number, (target, side) in enumerate(product(table.targets, range(n_sides)))
        ]
        timeout_s = self._plan.demand.ready_timeout_s
        self._sides = await self._hub.stand_by(self._injector, passive, self._logs, timeout_s)
        if ended := [side for side in self._sides if side.ended]:
            await self._hub.stop(self._sides)
            raise NotReadyError(f"{ended[0].writer.target}: {ended[0].ended}")
        zero_s = clock.now_s() + self._lead_s + _AHEAD_S
        for origin in table.origins:
            order = Perform(
                injector=self._injector.name,
                log=str(self._logs / f"writes-{origin}.log"),
                writer=replace(template, origin=origin),
                targets=[(name, self._hub.addresses[name]) for name in table.targets],
                sides=n_sides,
                zero_s=zero_s + clocks[origin].offset_s,
                lead_s=self._lead_s,
                patience_s=max(table.length_s, self._short.tolerance_s),
                writes=table.writes_of(origin),
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
        offsets = {n: clock.between(begun.clocks[n], after[n], middle_s) for n in after}
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
        least_b_s = self._plan.demand.min_share * alone_b_s
        record, fault = timetable.check(
            table,
            finished,
            zero_s=begun.zero_s,
            run_s=window_s,
            clock_errors_s=errors_s,
            allowed=self._short,
            least_b_s=least_b_s,
            messages=self._messages,
        )
        writers = slot_records(
            table, finished, window_s, alone_b_s, self._writer(0), self._injector
        )
        return record, writers, fault and "; ".join(filter(None, [fault, _most_frequent(reports)]))

    async def _end(self) -> dict[str, Written]:
        # A write in progress may take as long as the slowest one that counts, and a margin.
        longest_s = self.length_s / self._plan.demand.min_share
        timeout_s = longest_s + _FINISH_S
        orders = dict.fromkeys(self._origins, Finish(timeout_s))
        reports = await self._hub.ask(orders, Written, "report what it wrote", 2 * timeout_s)
        await self._hub.stop(self._sides)
        return reports

    def _table(self, run_s: float, name: str) -> Staggered:
        plan, length_s, targets = self._plan, self.length_s, self._nodes.targets
        digest = hashlib.sha256(f"{plan.seed}/{plan.case}/{plan.block}/{name}".encode()).digest()
        return timetable.staggered(
            targets,
            self._origins,
            self._writers,
            length_s,
            run_s,
            int.from_bytes(digest[:8], "big"),
            rest_s=timetable.longest_rest_s(len(targets), self._writers, length_s),
        )

    def _writer(self, port: int) -> Writer:
        plan, writes = self._plan, self._writes
        return Writer(
            index=0,
            origin=self._origins[0],
            target=self._nodes.targets[0],
            address="",
            port=port,
            message_b=writes.message_b,
            rate_b_s=writes.rate_b_s,
            messages=self._messages,
            device=next(iter(writes.devices), None),
            buffer_node=writes.buffer_node,
            origin_cpus=plan.origin_cpus,
            target_cpus=plan.origin_cpus,
        )


def slot_records(
    table: Staggered,
    finished: Iterable[FinishedWrite],
    window_s: tuple[float, float],
    alone_b_s: float,
    writer: Writer,
    injector: Injector,
) -> list[WriterRecord]:
    """One record for each of the W writers: the sum of its writes within a window.

    `window_s` is by the clock of the writes. A write at the window's edge counts with the part
    inside it; the rate is over the time that writes took.
    """
    of_slot: list[list[tuple[float, float]]] = [[] for _ in range(table.writers)]
    for write in finished:
        inside_s = timetable.overlap_s((write.start_s, write.end_s), window_s)
        if 0 <= write.number < len(table) and inside_s > 0:
            of_slot[table.slot(write.number)].append((write.rate_b_s, inside_s))
    records = []
    for slot, parts in enumerate(of_slot):
        bytes_b = sum(rate_b_s * inside_s for rate_b_s, inside_s in parts)
        written_s = sum(inside_s for _, inside_s in parts)
        records.append(
            WriterRecord(
                injector=injector.name,
                direction=injector.direction,
                origin=table.origin(slot),
                target=table.targets[0] if len(table.targets) == 1 else MANY,
                transport=injector.transport(writer),
                message_b=writer.message_b,
                footprint_b=injector.footprint_b(writer),
                asked_b_s=writer.rate_b_s,
                rate_alone_b_s=alone_b_s,
                rate_b_s=bytes_b / written_s if written_s else 0.0,
                rate_min_b_s=min((rate_b_s for rate_b_s, _ in parts), default=0.0),
                bytes_b=bytes_b,
                buffer_node=writer.buffer_node,
            )
        )
    return records


def _most_frequent(reports: Mapping[str, Written]) -> str:
    """The most frequent fault, in words; empty if there are none."""
    faults: Counter[str] = Counter()
    for written in reports.values():
        faults.update(written.faults)
    return next((f"{times} times: {fault}" for fault, times in faults.most_common(1)), "")
