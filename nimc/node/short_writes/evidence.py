"""Compares the writes that were made with the timetable.

The measure is time under writers during the application's run. A write that starts and ends
within the tolerance of its plan counts in full; of one further off, only the part at the planned
time. Missing writing and writing beyond the plan are shares of W writers through the whole run;
the sample is rejected if either exceeds its limit.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nimc.base.clock import Offset
from nimc.records.sample import TimetableRecord
from nimc.records.timetable import PlannedWrite, Timetable


@dataclass(frozen=True)
class Done:
    """One write as its origin's agent recorded it."""

    #: Number of the planned write.
    number: int
    #: When its bytes started and stopped flowing by the clock of the origin (Unix time).
    start_s: float
    end_s: float
    bytes_b: float
    #: How long its connection took to set up; not part of the write.
    setup_s: float = 0.0


@dataclass(frozen=True)
class Allowed:
    """How far the writes may be from the plan."""

    #: How late or early a write may start or end, seconds, without the clocks' errors.
    tolerance_s: float
    #: Largest share of the planned writing that may be missing, or written beyond the plan.
    share: float
    #: Lowest rate at which a write counts, bytes per second.
    rate_b_s: float = 0.0


@dataclass(frozen=True)
class _Aligned:
    """A planned write and the write that was made, in the plan's time; seconds."""

    plan: PlannedWrite
    real: Done
    start_s: float
    end_s: float
    #: Tolerance plus the error of its clock.
    near_s: float


def audit(
    plan: Timetable,
    done: Iterable[Done],
    zero_s: float,
    run_s: tuple[float, float],
    offsets: Mapping[str, Offset],
    allowed: Allowed,
    messages: int = 0,
) -> tuple[TimetableRecord, str | None]:
    """Compare writes, of so many messages each, with their plan.

    Returns the record for the sample, and why that is rejected, in one line (None if accepted).

    `zero_s` is when the plan's time 0 was, `run_s` when the application started and ended, both
    by the conductor's clock (Unix time). `offsets` says how far each origin's clock is ahead of
    it; an origin without an entry shares it. The error of a clock is added to the tolerance.
    """
    run = (run_s[0] - zero_s, run_s[1] - zero_s)
    due = sum(write.start_s < run[1] and write.end_s > run[0] for write in plan)
    first, again, unknown = _align(plan, done, zero_s, offsets, allowed)
    kept = [each for each in first if each.start_s < run[1] and each.end_s > run[0]]
    fast = [each for each in kept if _is_writing(each, allowed)]
    asked_s = plan.writers * (run[1] - run[0])
    written_s = sum(_as_planned_s(each, run) for each in fast)
    beyond_s = sum(_beyond_s(each, run) for each in kept)
    beyond_s += sum(_overlap(each.start_s, each.end_s, *run) for each in again)
    missing = 1 - written_s / asked_s if asked_s else 0.0
    excess = beyond_s / asked_s if asked_s else 0.0
    starts = [each.start_s - each.plan.start_s for each in kept]
    ends = [each.end_s - each.plan.end_s for each in kept]
    setups = [each.real.setup_s for each in kept]
    record = TimetableRecord(
        writers=plan.writers,
        length_s=plan.length_s,
        tolerance_s=allowed.tolerance_s,
        allowed_share=allowed.share,
        messages=messages,
        planned=due,
        done=len(kept),
        slow=len(kept) - len(fast),
        unplanned=len(again) + unknown,
        missing_share=missing,
        excess_share=excess,
        bytes_b=sum(each.real.bytes_b for each in kept),
        start_median_s=statistics.median(starts or [0.0]),
        start_worst_s=max(starts, key=abs, default=0.0),
        end_median_s=statistics.median(ends or [0.0]),
        end_worst_s=max(ends, key=abs, default=0.0),
        setup_median_s=statistics.median(setups or [0.0]),
        setup_worst_s=max(setups, default=0.0),
        clock_error_s=max((offset.error_s for offset in offsets.values()), default=0.0),
    )
    return record, _reason(due, kept, fast, unknown, missing, excess, allowed)


def _align(
    plan: Timetable,
    done: Iterable[Done],
    zero_s: float,
    offsets: Mapping[str, Offset],
    allowed: Allowed,
) -> tuple[list[_Aligned], list[_Aligned], int]:
    """Writes in the plan's time: the first of each number, repetitions, and how many unknown."""
    first, again, unknown = dict[int, _Aligned](), list[_Aligned](), 0
    for real in done:
        if not 0 <= real.number < len(plan):
            unknown += 1
            continue
        write = plan.write(real.number)
        offset = offsets.get(write.origin, _SAME_CLOCK)
        ahead_s = offset.offset_s + zero_s
        near_s = allowed.tolerance_s + offset.error_s
        aligned = _Aligned(write, real, real.start_s - ahead_s, real.end_s - ahead_s, near_s)
        if real.number in first:
            again.append(aligned)
        else:
            first[real.number] = aligned
    return list(first.values()), again, unknown


def _is_writing(each: _Aligned, allowed: Allowed) -> bool:
    bytes_b = each.real.bytes_b
    return bytes_b > 0 and bytes_b >= allowed.rate_b_s * (each.end_s - each.start_s)


def _as_planned_s(each: _Aligned, run: tuple[float, float]) -> float:
    """Time within the run that counts as written as planned."""
    plan = each.plan
    start_s = plan.start_s if each.start_s <= plan.start_s + each.near_s else each.start_s
    end_s = plan.end_s if each.end_s >= plan.end_s - each.near_s else each.end_s
    return _overlap(max(start_s, plan.start_s), min(end_s, plan.end_s), *run)


def _beyond_s(each: _Aligned, run: tuple[float, float]) -> float:
    """Time within the run that was written where it was not planned."""
    planned_s = _overlap(
        max(each.start_s, each.plan.start_s - each.near_s),
        min(each.end_s, each.plan.end_s + each.near_s),
        *run,
    )
    return _overlap(each.start_s, each.end_s, *run) - planned_s


_SAME_CLOCK = Offset(0.0, 0.0, 0.0)


def _overlap(start_s: float, end_s: float, first_s: float, last_s: float) -> float:
    return max(min(end_s, last_s) - max(start_s, first_s), 0.0)


def _reason(
    due: int,
    kept: list[_Aligned],
    fast: list[_Aligned],
    unknown: int,
    missing: float,
    excess: float,
    allowed: Allowed,
) -> str | None:
    if unknown:
        return f"{unknown} writes are not in the plan"
    # A part in 10^9 is rounding.
    if missing > allowed.share + 1e-9:
        return (
            f"{missing:.1%} of the planned writing is missing (allowed: {allowed.share:.1%}); "
            f"{len(kept)} of {due} writes done, {len(kept) - len(fast)} of them too slow"
        )
    if excess > allowed.share + 1e-9:
        return f"{excess:.1%} was written beyond the plan (allowed: {allowed.share:.1%})"
    return None
