"""Checks the short writes under a timetable against their plan, and makes their records.

All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import NamedTuple

from conductor.injectors.base import Injector, Writer
from conductor.judge.series import Window
from conductor.readings import FinishedWrite
from records.block_plan import ShortWrites
from records.sample import MANY_TARGETS, TimetableRecord, WriterRecord
from records.timetable import PlannedWrite, StaggeredWrites
from records.units import percentage

#: Tolerance for the rounding of shares.
_ROUNDING = 1e-9

#: Start and end of a time.
Interval = tuple[float, float]


def overlap_s(interval: Interval, other: Interval) -> float:
    """Return the length of the time that two intervals share, seconds."""
    start_s, end_s = interval
    other_start_s, other_end_s = other
    return max(min(end_s, other_end_s) - max(start_s, other_start_s), 0.0)


def record_without_writers(short: ShortWrites) -> TimetableRecord:
    """Return the record of an arm without writers."""
    return TimetableRecord(
        writers=0,
        length_s=short.length_s,
        tolerance_s=short.tolerance_s,
        allowed_share=short.allowed_share,
        missing_share=0.0,
        excess_share=0.0,
    )


class _CheckedWrite(NamedTuple):
    """A planned write that was made. Times are seconds after time 0 of the timetable."""

    planned: PlannedWrite
    finished: FinishedWrite
    #: Largest allowed deviation of its start and end from the plan, seconds.
    tolerance_s: float
    #: True if the write was fast enough to count.
    is_fast: bool

    def counted_interval(self) -> Interval:
        """Return the time that counts as written.

        It begins at the planned start if the write started in time, and otherwise at the actual
        start. The same applies to the end.
        """
        starts_in_time = self.finished.start_s <= self.planned.start_s + self.tolerance_s
        start_s = self.planned.start_s if starts_in_time else self.finished.start_s
        ends_in_time = self.finished.end_s >= self.planned.end_s - self.tolerance_s
        end_s = self.planned.end_s if ends_in_time else self.finished.end_s
        return start_s, end_s

    def allowed_interval(self) -> Interval:
        """Return the part of the write that lies within the plan and its tolerance."""
        start_s = max(self.finished.start_s, self.planned.start_s - self.tolerance_s)
        end_s = min(self.finished.end_s, self.planned.end_s + self.tolerance_s)
        return start_s, end_s


class _SortedWrites(NamedTuple):
    """Writes that were made, sorted by whether the timetable has them."""

    #: Number of a planned write -> the first write with this number.
    checked: dict[int, _CheckedWrite]
    #: Further writes with the number of a planned write.
    repeated: list[FinishedWrite]
    #: Count of the writes whose number is not in the timetable.
    n_unknown: int


def _sort_writes(
    timetable: StaggeredWrites,
    finished_writes: Iterable[FinishedWrite],
    zero_s: float,
    clock_errors_s: Mapping[str, float],
    tolerance_s: float,
    least_b_s: float,
) -> _SortedWrites:
    """Sort writes, and check whether the planned ones were fast enough.

    `tolerance_s` does not include errors of clocks. For the other arguments see `check_writes`.
    """
    checked: dict[int, _CheckedWrite] = {}
    repeated: list[FinishedWrite] = []
    n_unknown = 0
    for finished_write in finished_writes:
        write = finished_write.moved_earlier(zero_s)
        number = write.number
        if not 0 <= number < len(timetable):
            n_unknown += 1
        elif number in checked:
            repeated.append(write)
        else:
            least_b = least_b_s * (write.end_s - write.start_s)
            clock_error_s = clock_errors_s.get(timetable.origin(number), 0.0)
            checked[number] = _CheckedWrite(
                planned=timetable.write(number),
                finished=write,
                tolerance_s=tolerance_s + clock_error_s,
                is_fast=write.bytes_b > 0 and write.bytes_b >= least_b,
            )
    return _SortedWrites(checked, repeated, n_unknown)


def check_writes(
    timetable: StaggeredWrites,
    finished_writes: Iterable[FinishedWrite],
    zero_s: float,
    window_s: Window,
    clock_errors_s: Mapping[str, float],
    short: ShortWrites,
    least_b_s: float,
    messages: int = 0,
) -> tuple[TimetableRecord, str | None]:
    """Check short writes of `messages` messages each against their timetable.

    Return the record for the sample, and in one line why the sample is rejected (None if accepted).

    `zero_s` is time 0 of the timetable, and `window_s` is when the application started and ended,
    both by the clock of `finished_writes`. The error of an origin's clock is added to the
    tolerance. A write slower than `least_b_s` does not count.
    """
    start_s, end_s = (time_s - zero_s for time_s in window_s)
    window = (start_s, end_s)
    writes = _sort_writes(
        timetable, finished_writes, zero_s, clock_errors_s, short.tolerance_s, least_b_s
    )
    in_window = [
        checked for checked in writes.checked.values() if _touches(checked.finished, window)
    ]
    counted_s = sum(
        overlap_s(checked.counted_interval(), window) for checked in in_window if checked.is_fast
    )
    # The whole time of a repeated write is beyond the plan.
    all_writes = [*writes.repeated, *(checked.finished for checked in in_window)]
    written_s = sum(overlap_s((write.start_s, write.end_s), window) for write in all_writes)
    allowed_s = sum(overlap_s(checked.allowed_interval(), window) for checked in in_window)
    excess_s = written_s - allowed_s
    planned_s = timetable.writers * (end_s - start_s)
    starts_s = [checked.finished.start_s - checked.planned.start_s for checked in in_window]
    ends_s = [checked.finished.end_s - checked.planned.end_s for checked in in_window]
    setups_s = [checked.finished.setup_s for checked in in_window]
    record = TimetableRecord(
        writers=timetable.writers,
        length_s=timetable.length_s,
        tolerance_s=short.tolerance_s,
        allowed_share=short.allowed_share,
        messages=messages,
        planned=sum(_touches(write, window) for write in timetable),
        done=len(in_window),
        slow=sum(not checked.is_fast for checked in in_window),
        unplanned=len(writes.repeated) + writes.n_unknown,
        missing_share=1 - counted_s / planned_s if planned_s else 0.0,
        excess_share=excess_s / planned_s if planned_s else 0.0,
        bytes_b=sum(checked.finished.bytes_b for checked in in_window),
        start_median_s=median(starts_s or [0.0]),
        start_worst_s=max(starts_s, key=abs, default=0.0),
        end_median_s=median(ends_s or [0.0]),
        end_worst_s=max(ends_s, key=abs, default=0.0),
        setup_median_s=median(setups_s or [0.0]),
        setup_worst_s=max(setups_s, default=0.0),
        clock_error_s=max(clock_errors_s.values(), default=0.0),
    )
    return record, _fault(record, writes.n_unknown, short.allowed_share + _ROUNDING)


def _touches(write: PlannedWrite | FinishedWrite, window: Interval) -> bool:
    start_s, end_s = window
    return write.start_s < end_s and write.end_s > start_s


def _fault(record: TimetableRecord, n_unknown: int, allowed_share: float) -> str | None:
    """Return in one line why the sample is rejected; None if it is accepted."""
    missing, excess = record.missing_share or 0.0, record.excess_share or 0.0
    if n_unknown:
        return f"writes that are not in the plan: {n_unknown}"
    allowed = percentage(allowed_share, ".1f")
    if missing > allowed_share:
        return (
            f"{percentage(missing, '.1f')} of the planned writing is missing (allowed: {allowed}); "
            f"{record.done} of {record.planned} writes done, {record.slow} of them too slow"
        )
    if excess > allowed_share:
        return f"{percentage(excess, '.1f')} was written beyond the plan (allowed: {allowed})"
    return None


def timetable_records(
    timetable: StaggeredWrites,
    finished_writes: Iterable[FinishedWrite],
    window_s: Window,
    alone_b_s: float,
    writer: Writer,
    injector: Injector,
) -> list[WriterRecord]:
    """Return a record for each writer of a timetable, with the sum of its writes within a window.

    `window_s` is by the clock of the writes. If a write lies on the edge of the window, only its
    part inside the window counts. The rate is computed over the time that the writes took.
    """
    #: Slot -> rate of each write, and its length inside the window, seconds.
    writes_by_slot: list[list[tuple[float, float]]] = [[] for _ in range(timetable.writers)]
    for write in finished_writes:
        inside_s = overlap_s((write.start_s, write.end_s), window_s)
        if 0 <= write.number < len(timetable) and inside_s > 0:
            writes_by_slot[timetable.slot(write.number)].append((write.rate_b_s, inside_s))
    records = []
    for slot, writes in enumerate(writes_by_slot):
        bytes_b = sum(rate_b_s * inside_s for rate_b_s, inside_s in writes)
        written_s = sum(inside_s for _, inside_s in writes)
        records.append(
            WriterRecord(
                injector=injector.name,
                direction=injector.direction,
                origin=timetable.origin(slot),
                target=timetable.targets[0] if len(timetable.targets) == 1 else MANY_TARGETS,
                transport=injector.transport(writer),
                message_b=writer.message_b,
                footprint_b=injector.footprint_b(writer),
                asked_b_s=writer.rate_b_s,
                rate_alone_b_s=alone_b_s,
                rate_b_s=bytes_b / written_s if written_s else 0.0,
                rate_min_b_s=min((rate_b_s for rate_b_s, _ in writes), default=0.0),
                bytes_b=bytes_b,
                buffer_node=writer.buffer_node,
            )
        )
    return records
