"""What a timetable of short writes needs, how it was met, and its records. Pure functions.

The measure is time under writers during the application's run. A write that starts and ends
within the tolerance of its plan counts in full; of one further off, only the part at the planned
time. Missing writing and writing beyond the plan are shares of W writers through the whole run;
the sample is rejected if either exceeds its limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import median
from typing import NamedTuple

from conductor.injectors.base import Injector, Writer
from records.clock import Offset
from records.errors import InputError
from records.plan import ShortWrites
from records.sample import MANY, TimetableRecord, WriterRecord
from records.timetable import PlannedWrite, Timetable, writers_of_link

#: Fewest and most passive sides of a target; each needs a port.
_LEAST_SIDES = 2
MOST_SIDES = 4
#: Longest rest of a target between two writes, until its next passive side listens, seconds.
_REST_S = 1.0
#: A part in 10^9 is rounding.
_ROUNDING = 1e-9


class Due(NamedTuple):
    """One write of an origin's part. A short list in JSON."""

    number: int
    #: Index of the target among the part's addresses, and of its passive side.
    target: int
    side: int
    #: Seconds after the plan's time 0.
    start_s: float


class Done(NamedTuple):
    """One write as its origin's agent recorded it. A short list in JSON."""

    #: Number of the planned write.
    number: int
    #: When its bytes started and stopped flowing by the clock of the origin (Unix time).
    start_s: float
    end_s: float
    bytes_b: float
    #: How long its connection took to set up; not part of the write.
    setup_s: float = 0.0


def messages_of(short: ShortWrites, rate_b_s: float, message_b: int) -> int:
    """Messages of a write: as requested, else as many as last `fill` times its length."""
    return short.messages or max(round(short.fill * short.length_s * rate_b_s / message_b), 1)


def origins_needed(writers: int, link_b_s: float, share: float, rate_b_s: float | None) -> int:
    """Number of origin nodes for `writers` at a time; at least one.

    `rate_b_s` is that of one writer; None is full rate, which takes an origin's whole share of its
    link. Raises InputError if an origin has no room for a single writer.
    """
    room = writers_of_link(link_b_s, share, rate_b_s or link_b_s * share)
    if room < 1:
        raise InputError(
            f"rate: one writer takes more than {share:.0%} of an origin's link; allowed: a lower"
            " rate, or a larger link_share"
        )
    return max(math.ceil(writers / room), 1)


def rest_s(targets: int, writers: int, length_s: float) -> float:
    """How long a target can rest between two writes; 0 if every target is always written to."""
    return min(max(length_s * (targets - writers) / writers, 0.0), _REST_S)


def sides(lead_s: float, table: Timetable) -> int:
    """Passive sides that a target needs so that one listens whenever a connection is set up.

    A side is in use from the set-up of a write to its end, and its replacement needs about one
    set-up time until it listens. The next write to the target starts after its rest.
    """
    taken_s = lead_s + table.length_s + lead_s
    needed = math.ceil(taken_s / (table.length_s + table.setup_s))
    return min(max(needed, _LEAST_SIDES), MOST_SIDES)


def due(table: Timetable, sides: int) -> dict[str, list[Due]]:
    """Origin -> its writes, as sent to its agent.

    A target's passive sides take turns: while a write goes to one, others listen for the next, so
    that its set-up need not wait.
    """
    turns = [0] * len(table.targets)
    parts: dict[str, list[Due]] = {name: [] for name in table.origins}
    for write, target in zip(table, table.hits, strict=True):
        side = turns[target]
        turns[target] = (side + 1) % sides
        parts[write.origin].append(Due(write.number, target, side, round(write.start_s, 6)))
    return parts


def nothing(short: ShortWrites) -> TimetableRecord:
    """The record of an arm whose number of writers is 0."""
    return TimetableRecord(0, short.length_s, short.tolerance_s, short.allowed_share)


class _Aligned(NamedTuple):
    """A planned write, the write that was made, in the plan's time, and how near it must be."""

    plan: PlannedWrite
    real: Done
    #: Tolerance plus the error of its clock.
    near_s: float


def audit(
    plan: Timetable,
    done: Iterable[Done],
    zero_s: float,
    run_s: tuple[float, float],
    offsets: Mapping[str, Offset],
    allowed: ShortWrites,
    least_b_s: float,
    messages: int = 0,
) -> tuple[TimetableRecord, str | None]:
    """Compare writes, of so many messages each, with their plan.

    Returns the record for the sample, and why that is rejected, in one line (None if accepted).

    `zero_s` is when the plan's time 0 was, `run_s` when the application started and ended, both
    by the conductor's clock (Unix time). `offsets` says how far each origin's clock is ahead of
    it; an origin without an entry shares it. The error of a clock is added to the tolerance. A
    write below `least_b_s` does not count.
    """
    run = (run_s[0] - zero_s, run_s[1] - zero_s)
    due = sum(write.start_s < run[1] and write.end_s > run[0] for write in plan)
    first, again, unknown = _align(plan, done, zero_s, offsets, allowed.tolerance_s)
    made = [each for each in first if each.real.start_s < run[1] and each.real.end_s > run[0]]
    fast = [
        each
        for each in made
        if 0 < each.real.bytes_b >= least_b_s * (each.real.end_s - each.real.start_s)
    ]
    slow = len(made) - len(fast)
    asked_s = plan.writers * (run[1] - run[0])
    written_s = sum(_as_planned_s(each, run) for each in fast)
    beyond_s = sum(_beyond_s(each, run) for each in made)
    beyond_s += sum(_overlap_s(each.real.start_s, each.real.end_s, run) for each in again)
    missing = 1 - written_s / asked_s if asked_s else 0.0
    excess = beyond_s / asked_s if asked_s else 0.0
    starts = [each.real.start_s - each.plan.start_s for each in made]
    ends = [each.real.end_s - each.plan.end_s for each in made]
    setups = [each.real.setup_s for each in made]
    record = TimetableRecord(
        writers=plan.writers,
        length_s=plan.length_s,
        tolerance_s=allowed.tolerance_s,
        allowed_share=allowed.allowed_share,
        messages=messages,
        planned=due,
        done=len(made),
        slow=slow,
        unplanned=len(again) + unknown,
        missing_share=missing,
        excess_share=excess,
        bytes_b=sum(each.real.bytes_b for each in made),
        start_median_s=median(starts or [0.0]),
        start_worst_s=max(starts, key=abs, default=0.0),
        end_median_s=median(ends or [0.0]),
        end_worst_s=max(ends, key=abs, default=0.0),
        setup_median_s=median(setups or [0.0]),
        setup_worst_s=max(setups, default=0.0),
        clock_error_s=max((offset.error_s for offset in offsets.values()), default=0.0),
    )
    most, reason = allowed.allowed_share + _ROUNDING, None
    if unknown:
        reason = f"{unknown} writes are not in the plan"
    elif missing > most:
        reason = (
            f"{missing:.1%} of the planned writing is missing (allowed: {most:.1%}); "
            f"{len(made)} of {due} writes done, {slow} of them too slow"
        )
    elif excess > most:
        reason = f"{excess:.1%} was written beyond the plan (allowed: {most:.1%})"
    return record, reason


def _align(
    plan: Timetable,
    done: Iterable[Done],
    zero_s: float,
    offsets: Mapping[str, Offset],
    tolerance_s: float,
) -> tuple[list[_Aligned], list[_Aligned], int]:
    """Writes in the plan's time: the first of each number, repetitions, and how many unknown."""
    first, again, unknown = dict[int, _Aligned](), list[_Aligned](), 0
    for real in done:
        if not 0 <= real.number < len(plan):
            unknown += 1
            continue
        write = plan.write(real.number)
        offset = offsets.get(write.origin, Offset(0.0, 0.0, 0.0))
        ahead_s = offset.offset_s + zero_s
        real = real._replace(start_s=real.start_s - ahead_s, end_s=real.end_s - ahead_s)
        aligned = _Aligned(write, real, tolerance_s + offset.error_s)
        if first.setdefault(real.number, aligned) is not aligned:
            again.append(aligned)
    return list(first.values()), again, unknown


def _as_planned_s(each: _Aligned, run: tuple[float, float]) -> float:
    """Time within the run that counts as written as planned."""
    plan, real, near_s = each
    start_s = plan.start_s if real.start_s <= plan.start_s + near_s else real.start_s
    end_s = plan.end_s if real.end_s >= plan.end_s - near_s else real.end_s
    return _overlap_s(start_s, end_s, run)


def _beyond_s(each: _Aligned, run: tuple[float, float]) -> float:
    """Time within the run that was written where it was not planned."""
    plan, real, near_s = each
    start_s, end_s = max(real.start_s, plan.start_s - near_s), min(real.end_s, plan.end_s + near_s)
    return _overlap_s(real.start_s, real.end_s, run) - _overlap_s(start_s, end_s, run)


def _overlap_s(start_s: float, end_s: float, run: tuple[float, float]) -> float:
    return max(min(end_s, run[1]) - max(start_s, run[0]), 0.0)


def slot_records(
    table: Timetable,
    done: Iterable[Done],
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
    for each in done:
        length_s = each.end_s - each.start_s
        inside_s = min(each.end_s, window_s[1]) - max(each.start_s, window_s[0])
        if 0 <= each.number < len(table) and inside_s > 0:
            rate_b_s = each.bytes_b / length_s
            of_slot[each.number % table.writers].append((rate_b_s, inside_s))
    records = []
    for slot, parts in enumerate(of_slot):
        bytes_b = sum(rate * span for rate, span in parts)
        written_s = sum(span for _, span in parts)
        records.append(
            WriterRecord(
                injector=injector.name,
                direction=injector.direction,
                origin=table.origins[table.slots[slot]],
                target=table.targets[0] if len(table.targets) == 1 else MANY,
                transport=injector.transport(writer),
                message_b=writer.message_b,
                asked_b_s=writer.rate_b_s,
                rate_alone_b_s=alone_b_s,
                rate_b_s=bytes_b / written_s if written_s else 0.0,
                rate_min_b_s=min((rate for rate, _ in parts), default=0.0),
                bytes_b=bytes_b,
                buffer_node=writer.buffer_node,
            )
        )
    return records
