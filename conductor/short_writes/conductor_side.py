"""The conductor's side of a timetable: rehearse, hand out once, collect, compare with the plan."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from statistics import median

from conductor import allocation
from conductor.allocation import Allocation
from conductor.hub import FIRST_SIDE, Hub
from conductor.injectors import INJECTORS
from conductor.injectors.base import Writer
from conductor.messages import Perform, Written
from conductor.short_writes import records
from conductor.short_writes.origin_side import Part
from conductor.short_writes.records import Done, audit
from records import clock, timetable
from records.clock import Offset
from records.errors import InputError
from records.files import replace_text
from records.plan import BlockPlan
from records.sample import TimetableRecord, WriterRecord
from records.timetable import Timetable
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
_CLOCKS_S = 30.0


@dataclass(frozen=True)
class WriteShape:
    """Size and set-up time of a write: found in rehearsals, the same in every run of the block."""

    messages: int
    #: Rate of a writer while all of them write and no application runs, bytes per second.
    rate_alone_b_s: float
    #: Set-up time, seconds.
    lead_s: float


@dataclass(frozen=True)
class RunningTimetable:
    """A timetable that agents are carrying out."""

    table: Timetable
    write: WriteShape
    #: Its time 0, and when all writers are writing, by the conductor's clock (Unix time).
    zero_s: float
    steady_s: float
    clocks: dict[str, Offset]


class ScheduleControl:
    """Carries out the timetables of one kind of writes, one at a time."""

    def __init__(self, plan: BlockPlan, writes: Writes, nodes: Allocation, hub: Hub) -> None:
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
        self._shape: WriteShape | None = None
        #: Time from its beginning until all writers were writing, the longest seen, seconds.
        self.start_up_s = 0.0

    @property
    def alone_b_s(self) -> float:
        """Rate of all its writers together, without an application; 0 before the rehearsal."""
        return self._writers * self._shape.rate_alone_b_s if self._shape else 0.0

    async def rehearse(self, turn: int, logs: Path) -> str | None:
        """Find the size of a write of the requested length. Returns why that failed, else None."""
        if self._shape:
            return None
        message_b = self._writes.message_b
        first = self._short.messages or max(_FIRST_B // message_b, 1)
        write = WriteShape(first, 0.0, _LEAD_S)
        for attempt in range(_REHEARSALS):
            rounds = _ROUNDS if attempt else 1
            name = f"rehearsal/{self._writers}/{attempt}"
            run_s = rounds * self._short.length_s
            started_s = clock.now_s()
            begun = await self._begin(write, run_s, name, turn, logs)
            if isinstance(begun, str):
                return begun
            self.start_up_s = max(self.start_up_s, begun.steady_s - started_s)
            end_s = begun.zero_s + begun.table.start_s(len(begun.table) - 1)
            await asyncio.sleep(max(end_s - clock.now_s(), 0.0))
            done, faults = _all_done(await self._end())
            if not done:
                return f"no write was done: {_most_frequent(faults)}"
            rate_b_s = median(each.bytes_b / (each.end_s - each.start_s) for each in done)
            fit = records.messages_of(self._short, rate_b_s, message_b)
            near = abs(fit - write.messages) <= max(_NEAR * fit, 1)
            write = WriteShape(fit, rate_b_s, median(each.setup_s for each in done))
            if near and attempt:
                break
        self._shape = write
        return None

    async def begin(self, run_s: float, name: str, turn: int, logs: Path) -> RunningTimetable | str:
        """Plan for a run of at most `run_s`, hand out, and wait until all writers are writing.

        The seed derives from `name`. Returns the reason as text on failure.
        """
        assert self._shape, "rehearsed before"
        begun = await self._begin(self._shape, run_s, name, turn, logs)
        if not isinstance(begun, str):
            await asyncio.sleep(max(begun.steady_s - clock.now_s(), 0.0))
        return begun

    async def end(
        self, begun: RunningTimetable, window_s: tuple[float, float], path: Path
    ) -> tuple[TimetableRecord, list[WriterRecord], str | None]:
        """Collect the writes that were made, store them in `path`, compare them with the plan.

        Returns the records for the sample, and why that is rejected (None if accepted).
        `window_s` is when the application started and ended, by the conductor's clock.
        """
        reports = await self._end()
        after = await self._hub.clocks(self._origins, _CLOCKS_S)
        middle_s = sum(window_s) / 2
        offsets = {n: clock.between(begun.clocks[n], after[n], middle_s) for n in after}
        done, faults = _all_done(reports)
        _keep(path, begun, offsets, reports)
        least_b_s = self._plan.demand.min_share * begun.write.rate_alone_b_s
        record, reason = audit(
            *(begun.table, done, begun.zero_s, window_s, offsets),
            *(self._short, least_b_s, begun.write.messages),
        )
        ours = [
            each._replace(start_s=each.start_s - ahead_s, end_s=each.end_s - ahead_s)
            for node, written in reports.items()
            for ahead_s in [offsets[node].offset_s]
            for each in written.done
        ]
        alone_b_s, writer = begun.write.rate_alone_b_s, self._writer(0, begun.write)
        writers = records.slot_records(
            begun.table, ours, window_s, alone_b_s, writer, self._injector
        )
        return record, writers, f"{reason}{_most_frequent(faults, '; ')}" if reason else None

    async def _begin(
        self, write: WriteShape, run_s: float, name: str, turn: int, logs: Path
    ) -> RunningTimetable | str:
        clocks = await self._hub.clocks(self._origins, _CLOCKS_S)
        try:
            table = self._table(write, run_s, name)
        except InputError as error:
            return str(error)
        template = self._writer(allocation.first_port(turn), write)
        sides = records.sides(write.lead_s, table)
        passive = [
            replace(template, index=FIRST_SIDE + number, target=target, port=template.port + side)
            for number, (target, side) in enumerate(product(table.targets, range(sides)))
        ]
        timeout_s = self._plan.demand.ready_timeout_s
        if fault := await self._hub.stand_by(self._injector, passive, logs, timeout_s):
            return fault
        zero_s = clock.now_s() + write.lead_s + _AHEAD_S
        addresses = [(name, self._hub.addresses[name]) for name in table.targets]
        for origin, due in records.due(table, sides).items():
            zero_there_s = zero_s + clocks[origin].offset_s
            part = Part(
                writer=replace(template, origin=origin),
                targets=addresses,
                zero_s=zero_there_s,
                lead_s=write.lead_s,
                patience_s=max(table.length_s, self._short.tolerance_s),
                due=due,
            )
            log = str(logs / f"writes-{origin}.log")
            self._hub.send(origin, Perform(self._injector.name, part, log))
        return RunningTimetable(table, write, zero_s, zero_s + table.steady_from_s, clocks)

    async def _end(self) -> dict[str, Written]:
        # A write in progress may take as long as the slowest one that counts, and a margin.
        longest_s = self._short.length_s / self._plan.demand.min_share
        reports = await self._hub.finish(self._origins, longest_s + _CLOCKS_S)
        await self._hub.end_schedule()
        return reports

    def _table(self, write: WriteShape, run_s: float, name: str) -> Timetable:
        plan, short, targets = self._plan, self._short, self._nodes.targets
        writers, rate_b_s = self._writers, write.rate_alone_b_s or 1.0
        room: int | None = None
        if short.link_b_s is not None:
            room = timetable.writers_of_link(short.link_b_s, short.link_share, rate_b_s)
        digest = hashlib.sha256(f"{plan.seed}/{plan.case}/{plan.block}/{name}".encode()).digest()
        return timetable.plan(
            targets,
            self._origins,
            writers,
            short.length_s,
            run_s,
            int.from_bytes(digest[:8], "big"),
            policy=short.policy,
            setup_s=records.rest_s(len(targets), writers, short.length_s),
            room=room,
        )

    def _writer(self, port: int, write: WriteShape) -> Writer:
        plan, writes = self._plan, self._writes
        return Writer(
            index=0,
            origin=self._origins[0],
            target=self._nodes.targets[0],
            address="",
            port=port,
            message_b=writes.message_b,
            rate_b_s=writes.rate_b_s,
            messages=write.messages,
            device=next(iter(writes.devices), None),
            buffer_node=writes.buffer_node,
            origin_cpus=plan.origin_cpus,
            target_cpus=plan.origin_cpus,
        )


def _all_done(reports: Mapping[str, Written]) -> tuple[list[Done], Counter[str]]:
    faults: Counter[str] = Counter()
    for written in reports.values():
        faults.update(written.faults)
    return [each for written in reports.values() for each in written.done], faults


def _most_frequent(faults: Counter[str], before: str = "") -> str:
    """The most frequent fault, in words; empty if there are none."""
    if not faults:
        return ""
    (fault, times), *_ = faults.most_common(1)
    return f"{before}{times} times: {fault}"


def _keep(
    path: Path,
    begun: RunningTimetable,
    offsets: Mapping[str, Offset],
    reports: Mapping[str, Written],
) -> None:
    """Store the plan and every write in full; the sample has only a summary."""
    document = {
        "zero_s": begun.zero_s,
        "timetable": begun.table.as_dict(),
        "clocks": {node: asdict(offset) for node, offset in offsets.items()},
        "written": {
            node: {"done": [each._asdict() for each in written.done], "faults": written.faults}
            for node, written in reports.items()
        },
    }
    replace_text(path, json.dumps(document, separators=(",", ":")))
