"""Short writes to many targets, planned before a run; and whether they were made.

Of W writers, write k, of length L, starts at k L / W and ends when write k + W starts, so that W
writers always write. Slot k mod W is a stream of writes from one origin.

Pure functions; standard library only.
"""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from records.errors import InputError
from records.plan import ShortWrites
from records.sample import TimetableRecord

#: More would fill the memory, and come from a wrong unit.
MOST_WRITES = 20_000_000
#: Longest rest of a target between two short writes, until its next passive side listens, seconds.
_REST_S = 1.0
#: Rounding of times and shares.
_ROUNDING = 1e-9


class PlannedWrite(NamedTuple):
    """One planned short write; times in seconds after the timetable's begin. A list in JSON."""

    number: int
    #: Index of the target among the timetable's.
    target: int
    start_s: float
    end_s: float


class FinishedWrite(NamedTuple):
    """One write as it was made. A short list in JSON."""

    #: Number of the planned write.
    number: int
    #: When its bytes started and stopped flowing, Unix time; by the clock of the origin at first.
    start_s: float
    end_s: float
    bytes_b: float
    #: How long its connection took to set up; not part of the write.
    setup_s: float = 0.0

    @property
    def rate_b_s(self) -> float:
        """Its rate, bytes per second."""
        return self.bytes_b / (self.end_s - self.start_s)

    def earlier(self, by_s: float) -> FinishedWrite:
        """The same write by a clock that is behind this one."""
        return self._replace(start_s=self.start_s - by_s, end_s=self.end_s - by_s)


@dataclass(frozen=True)
class Staggered:
    """Short writes to many targets. The same arguments of `staggered` give the same ones.

    Only what differs from write to write is stored: its target.
    """

    seed: int
    #: Number of writers that write at any time, W.
    writers: int
    #: Length of a write, and the shortest time between two to the same target, seconds.
    length_s: float
    rest_s: float
    #: Time during which all W writers write.
    run_s: float
    targets: tuple[str, ...]
    origins: tuple[str, ...]
    #: Target of each write in order of start, as an index into `targets`.
    hits: array[int]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[PlannedWrite]:
        return map(self.write, range(len(self)))

    @property
    def steady_from_s(self) -> float:
        """When all writers are writing, seconds."""
        return self.start_s(max(self.writers - 1, 0))

    def start_s(self, number: int) -> float:
        """When a write starts, seconds."""
        return number * self.length_s / self.writers if self.writers else 0.0

    def write(self, number: int) -> PlannedWrite:
        """One write in full."""
        start_s, end_s = self.start_s(number), self.start_s(number + self.writers)
        return PlannedWrite(number, self.hits[number], start_s, end_s)

    def slot(self, number: int) -> int:
        """Which of the W writers makes a write."""
        return number % self.writers

    def origin(self, number: int) -> str:
        """The origin of a write: slots are distributed round-robin."""
        return self.origins[self.slot(number) % len(self.origins)]

    def writes_of(self, origin: str) -> list[PlannedWrite]:
        """The part of an origin, in order of time."""
        slots = range(self.origins.index(origin), self.writers, len(self.origins))
        numbers = [n for slot in slots for n in range(slot, len(self), self.writers)]
        return [self.write(number) for number in sorted(numbers)]

    def as_dict(self) -> dict[str, Any]:
        """The plan as in JSON."""
        return {**vars(self), "hits": self.hits.tolist()}


def longest_rest_s(targets: int, writers: int, length_s: float) -> float:
    """How long a target can rest between two writes; 0 if every target is always written to."""
    return min(max(length_s * (targets - writers) / writers, 0.0), _REST_S)


def staggered(
    targets: Sequence[str],
    origins: Sequence[str],
    writers: int,
    length_s: float,
    run_s: float,
    seed: int,
    *,
    rest_s: float = 0.0,
) -> Staggered:
    """Plan `writers` whole writers, each write of `length_s`, for `run_s` with all of them writing.

    A target rests for `rest_s` after a write. With 0 writers the plan is empty. Raises InputError
    for too few targets or too many writes.
    """
    if not (length_s > 0 and run_s > 0 and rest_s >= 0 and writers >= 0):
        raise InputError(
            "timetable: allowed: lengths of write and run above 0, rest and writers from 0"
        )
    resting = writers + math.ceil(rest_s * writers / length_s - _ROUNDING)
    if writers and len(targets) < resting:
        raise InputError(
            f"timetable: {writers} writers of {length_s:g} s with {rest_s:g} s between two"
            f" writes to a target need {resting} targets; there are {len(targets)}"
        )
    # Writes that start until all writers write, and those until the end of the run.
    count = writers - 1 + math.ceil(run_s * writers / length_s) if writers else 0
    if count > MOST_WRITES:
        raise InputError(
            f"timetable: {count} writes of {length_s:g} s in {run_s:g} s; allowed: {MOST_WRITES}"
        )
    hits = _hits(len(targets), count, resting, random.Random(seed))
    return Staggered(
        seed=seed,
        writers=writers,
        length_s=length_s,
        rest_s=rest_s,
        run_s=run_s,
        targets=tuple(targets),
        origins=tuple(origins),
        hits=hits,
    )


def _hits(targets: int, count: int, resting: int, rng: random.Random) -> array[int]:
    """Draw `count` targets: all before any is repeated, none twice within `resting` of them."""
    hits = array("I")
    free, later = list(range(targets)), list[int]()
    for number in range(count):
        if number and number % targets == 0:
            free, later = later, free
        if number >= resting:
            # A target written to in this round waits for the next one.
            in_this_round = (number - resting) // targets == number // targets
            (later if in_this_round else free).append(hits[number - resting])
        # Of this module only random() gives the same numbers in every version of Python.
        chosen = int(rng.random() * len(free))
        free[chosen], free[-1] = free[-1], free[chosen]
        hits.append(free.pop())
    return hits


# What was finished, compared with the plan.


Span = tuple[float, float]


def overlap_s(one: Span, other: Span) -> float:
    """How long two spans of time have in common, seconds."""
    return max(min(one[1], other[1]) - max(one[0], other[0]), 0.0)


def without_writers(short: ShortWrites) -> TimetableRecord:
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


def check(
    plan: Staggered,
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
        write, number = report.earlier(zero_s), report.number
        if not 0 <= number < len(plan):
            strange += 1
        elif number in first:
            repeated.append(write)  # nothing of it was planned
        else:
            is_fast = 0 < write.bytes_b >= least_b_s * (write.end_s - write.start_s)
            near_s = allowed.tolerance_s + clock_errors_s.get(plan.origin(number), 0.0)
            first[number] = _Done(plan.write(number), write, near_s, is_fast)
    done = [checked for checked in first.values() if _touches(checked.finished, run)]
    right_s = sum(overlap_s(checked.as_planned(), run) for checked in done if checked.is_fast)
    written = [*repeated, *(checked.finished for checked in done)]
    beyond_s = sum(overlap_s((write.start_s, write.end_s), run) for write in written)
    beyond_s -= sum(overlap_s(checked.within(), run) for checked in done)
    planned_s = plan.writers * (run[1] - run[0])
    starts_s = [checked.finished.start_s - checked.planned.start_s for checked in done]
    ends_s = [checked.finished.end_s - checked.planned.end_s for checked in done]
    setups_s = [checked.finished.setup_s for checked in done]
    record = TimetableRecord(
        writers=plan.writers,
        length_s=plan.length_s,
        tolerance_s=allowed.tolerance_s,
        allowed_share=allowed.allowed_share,
        messages=messages,
        planned=sum(_touches(write, run) for write in plan),
        done=len(done),
        slow=sum(not checked.is_fast for checked in done),
        unplanned=len(repeated) + strange,
        missing_share=1 - right_s / planned_s if planned_s else 0.0,
        excess_share=beyond_s / planned_s if planned_s else 0.0,
        bytes_b=sum(checked.finished.bytes_b for checked in done),
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
