"""The writes under a timetable: whether they are as planned, and their records. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import NamedTuple

from conductor.injectors.base import Injector, Writer
from conductor.readings import FinishedWrite
from records.block_plan import ShortWrites
from records.sample import MANY_TARGETS, TimetableRecord, WriterRecord
from records.timetable import PlannedWrite, StaggeredWrites

#: Rounding of shares.
_ROUNDING = 1e-9

Span = tuple[float, float]


def overlap_s(one: Span, other: Span) -> float:
    """Return how long two spans of time have in common, seconds."""
    return max(min(one[1], other[1]) - max(one[0], other[0]), 0.0)


def record_without_writers(short: ShortWrites) -> TimetableRecord:
    """The record of an arm whose number of writers is 0."""
    return TimetableRecord(
        writers=0,
        length_s=short.length_s,
        tolerance_s=short.tolerance_s,
        allowed_share=short.allowed_share,
        missing_share=0.0,
        excess_share=0.0,
    )


class _Done(NamedTuple):
    """A write that was planned; times after the timetable's begin."""

    planned: PlannedWrite
    finished: FinishedWrite
    #: How far start and end may be off, seconds; and whether it was fast enough.
    near_s: float
    is_fast: bool

    def as_planned(self) -> Span:
        """The part that counts: all of it if it starts and ends near its plan."""
        begins_in_time = self.finished.start_s <= self.planned.start_s + self.near_s
        lasts_long_enough = self.finished.end_s >= self.planned.end_s - self.near_s
        start_s = self.planned.start_s if begins_in_time else self.finished.start_s
        return start_s, self.planned.end_s if lasts_long_enough else self.finished.end_s

    def within(self) -> Span:
        """The part that was planned, more or less."""
        first_s = max(self.finished.start_s, self.planned.start_s - self.near_s)
        return first_s, min(self.finished.end_s, self.planned.end_s + self.near_s)


def check_writes(
    plan: StaggeredWrites,
    finished: Iterable[FinishedWrite],
    zero_s: float,
    run_s: Span,
    clock_errors_s: Mapping[str, float],
    allowed: ShortWrites,
    least_b_s: float,
    messages: int = 0,
) -> tuple[TimetableRecord, str | None]:
    """Short writes, of so many messages each, against their plan.

    Returns the record for the sample, and why that is rejected, in one line (None if accepted).

    `zero_s` is when the plan's time 0 was, `run_s` when the application started and ended, both by
    the clock of `finished`. The error of an origin's clock is added to the tolerance. A write below
    `least_b_s` does not count.
    """
    run = (run_s[0] - zero_s, run_s[1] - zero_s)
    first, repeated, strange = dict[int, _Done](), list[FinishedWrite](), 0
    for report in finished:
        write, number = report.moved_earlier(zero_s), report.number
        if not 0 <= number < len(plan):
            strange += 1
        elif number in first:
            repeated.append(write)  # nothing of it was planned
        else:
            is_fast = 0 < write.bytes_b >= least_b_s * (write.end_s - write.start_s)
            near_s = allowed.tolerance_s + clock_errors_s.get(plan.origin(number), 0.0)
            first[number] = _Done(plan.write(number), write, near_s, is_fast)
    in_run = [checked for checked in first.values() if _touches(checked.finished, run)]
    right_s = sum(overlap_s(checked.as_planned(), run) for checked in in_run if checked.is_fast)
    written = [*repeated, *(checked.finished for checked in in_run)]
    beyond_s = sum(overlap_s((write.start_s, write.end_s), run) for write in written)
    beyond_s -= sum(overlap_s(checked.within(), run) for checked in in_run)
    planned_s = plan.writers * (run[1] - run[0])
    starts_s = [checked.finished.start_s - checked.planned.start_s for checked in in_run]
    ends_s = [checked.finished.end_s - checked.planned.end_s for checked in in_run]
    setups_s = [checked.finished.setup_s for checked in in_run]
    record = TimetableRecord(
        writers=plan.writers,
        length_s=plan.length_s,
        tolerance_s=allowed.tolerance_s,
        allowed_share=allowed.allowed_share,
        messages=messages,
        planned=sum(_touches(write, run) for write in plan),
        done=len(in_run),
        slow=sum(not checked.is_fast for checked in in_run),
        unplanned=len(repeated) + strange,
        missing_share=1 - right_s / planned_s if planned_s else 0.0,
        excess_share=beyond_s / planned_s if planned_s else 0.0,
        bytes_b=sum(checked.finished.bytes_b for checked in in_run),
        start_median_s=median(starts_s or [0.0]),
        start_worst_s=max(starts_s, key=abs, default=0.0),
        end_median_s=median(ends_s or [0.0]),
        end_worst_s=max(ends_s, key=abs, default=0.0),
        setup_median_s=median(setups_s or [0.0]),
        setup_worst_s=max(setups_s, default=0.0),
        clock_error_s=max(clock_errors_s.values(), default=0.0),
    )
    return record, _fault(record, strange, allowed.allowed_share + _ROUNDING)


def _touches(write: PlannedWrite | FinishedWrite, run: Span) -> bool:
    return write.start_s < run[1] and write.end_s > run[0]


def _fault(record: TimetableRecord, strange: int, most: float) -> str | None:
    missing, excess = record.missing_share or 0.0, record.excess_share or 0.0
    if strange:
        return f"{strange} writes are not in the plan"
    if missing > most:
        return (
            f"{missing:.1%} of the planned writing is missing (allowed: {most:.1%}); "
            f"{record.done} of {record.planned} writes done, {record.slow} of them too slow"
        )
    if excess > most:
        return f"{excess:.1%} was written beyond the plan (allowed: {most:.1%})"
    return None


def slot_records(
    table: StaggeredWrites,
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
    writes_by_slot: list[list[tuple[float, float]]] = [[] for _ in range(table.writers)]
    for write in finished:
        inside_s = overlap_s((write.start_s, write.end_s), window_s)
        if 0 <= write.number < len(table) and inside_s > 0:
            writes_by_slot[table.slot(write.number)].append((write.rate_b_s, inside_s))
    records = []
    for slot, parts in enumerate(writes_by_slot):
        bytes_b = sum(rate_b_s * inside_s for rate_b_s, inside_s in parts)
        written_s = sum(inside_s for _, inside_s in parts)
        records.append(
            WriterRecord(
                injector=injector.name,
                direction=injector.direction,
                origin=table.origin(slot),
                target=table.targets[0] if len(table.targets) == 1 else MANY_TARGETS,
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
