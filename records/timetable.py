"""Which writer writes when and how much, planned before a run; and whether it was done.

A timetable is planned writes: so many bytes, evenly, between two times. That of one writer, which
repeats, has one form for a rate below full, bursts, and the rates of a trace. That of short writes
is of W writers and many targets: write k, of length L, starts at k L / W and ends when write k + W
starts, so that W writers always write. Slot k mod W is a stream of writes from one origin.

One function compares what was finished with the plan, in shares of the planned time (`shares`).
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
from records.sample import ReplayBin, TimetableRecord
from records.treatment import Burst

#: More would fill the memory, and come from a wrong unit.
MOST_WRITES = 20_000_000
#: Longest rest of a target between two short writes, until its next passive side listens, seconds.
_REST_S = 1.0
#: Rounding of times and shares.
_ROUNDING = 1e-9


class PlannedWrite(NamedTuple):
    """One planned write; times in seconds after the timetable's begin. A short list in JSON."""

    number: int
    #: Index of the target among the timetable's; 0 of a writer that has one.
    target: int
    start_s: float
    end_s: float
    bytes_b: float


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
class Timetable:
    """The writes of one writer, and the same again every `every_s`."""

    writes: list[PlannedWrite]
    every_s: float

    @property
    def bytes_b(self) -> float:
        """Bytes of one round."""
        return sum(write.bytes_b for write in self.writes)

    @property
    def pause_s(self) -> float:
        """The pause after a burst, seconds; 0 of a timetable without."""
        return self.every_s - self.writes[-1].end_s

    def due_b(self, after_s: float) -> float:
        """Bytes that are due so long after the begin."""
        rounds, left_s = divmod(max(after_s, 0.0), self.every_s)
        begun = [write for write in self.writes if write.start_s < left_s]
        parts = [min((left_s - each.start_s) / (each.end_s - each.start_s), 1.0) for each in begun]
        within_b = sum(part * each.bytes_b for part, each in zip(parts, begun, strict=True))
        return rounds * self.bytes_b + within_b

    def scaled(self, share: float) -> Timetable:
        """The same times at another rate."""
        writes = [write._replace(bytes_b=share * write.bytes_b) for write in self.writes]
        return Timetable(writes, self.every_s)


def even(rate_b_s: float, period_s: float) -> Timetable:
    """A rate below full: the bytes of each period by its end."""
    return Timetable([PlannedWrite(0, 0, 0.0, period_s, rate_b_s * period_s)], period_s)


def bursts(rate_b_s: float, burst: Burst) -> Timetable:
    """Bursts and pauses, of which `rate_b_s` is the mean."""
    write = PlannedWrite(0, 0, 0.0, burst.length_s, rate_b_s * burst.period_s)
    return Timetable([write], burst.period_s)


def along(rates_b_s: Sequence[float]) -> Timetable:
    """The rates of a trace, one a second."""
    rates = enumerate(rates_b_s)
    writes = [PlannedWrite(second, 0, second, second + 1.0, rate_b_s) for second, rate_b_s in rates]
    return Timetable(writes, float(len(writes)))


@dataclass(frozen=True)
class Staggered:
    """Short writes to many targets. The same arguments of `staggered` give the same ones.

    Only what differs from write to write is stored: its target.
    """

    seed: int
    #: Number of writers that write at any time, W.
    writers: int
    #: Length of a write; its bytes; and the shortest time between two to the same target.
    length_s: float
    bytes_b: float
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
        return PlannedWrite(number, self.hits[number], start_s, end_s, self.bytes_b)

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
    bytes_b: float = 0.0,
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
    for kind, names in (("targets", targets), ("origins", origins)):
        if len(set(names)) < len(names):
            raise InputError(f"timetable: duplicate {kind}; allowed: each once")
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
        bytes_b=bytes_b,
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


#: Traffic: largest difference of the bytes of all reports, and of one, as shares of the planned
#: bytes; or, if that is more, as shares of what the writer writes alone in that time.
TOTAL_SHARE, TOTAL_ALONE_SHARE = 0.1, 0.01
BIN_SHARE, BIN_ALONE_SHARE = 0.3, 0.1
#: Least share of the reports' time in which they agree, and of the run that they cover.
AGREEING_SHARE = 0.8
COVERED_SHARE = 0.5


class Compared(NamedTuple):
    """A planned write, the one that was finished for it in the plan's time, and what counts."""

    planned: PlannedWrite
    finished: FinishedWrite
    #: How far start and end may be off, seconds; and whether its bytes are as planned.
    near_s: float
    counts: bool


class Shares(NamedTuple):
    """Shares of the planned time: in which no write counts, and in which none was planned."""

    missing: float
    excess: float


def shares(writes: Iterable[Compared], run_s: tuple[float, float], planned_s: float) -> Shares:
    """Compare writes with their plan within a run.

    A write that starts and ends near its plan counts in full; of one further off, only the part at
    the planned time.
    """
    as_planned_s = beyond_s = 0.0
    for planned, finished, near_s, counts in writes:
        begins_in_time = finished.start_s <= planned.start_s + near_s
        lasts_long_enough = finished.end_s >= planned.end_s - near_s
        start_s = planned.start_s if begins_in_time else finished.start_s
        end_s = planned.end_s if lasts_long_enough else finished.end_s
        as_planned_s += overlap_s((start_s, end_s), run_s) if counts else 0.0
        first_s = max(finished.start_s, planned.start_s - near_s)
        last_s = min(finished.end_s, planned.end_s + near_s)
        beyond_s += overlap_s((finished.start_s, finished.end_s), run_s)
        beyond_s -= overlap_s((first_s, last_s), run_s)
    if not planned_s:
        return Shares(0.0, 0.0)
    return Shares(1 - as_planned_s / planned_s, beyond_s / planned_s)


def overlap_s(one: tuple[float, float], other: tuple[float, float]) -> float:
    """How long two spans of time have in common, seconds."""
    return max(min(one[1], other[1]) - max(one[0], other[0]), 0.0)


def without_writers(short: ShortWrites) -> TimetableRecord:
    """The record of an arm whose number of writers is 0."""
    return TimetableRecord(0, short.length_s, short.tolerance_s, short.allowed_share)


def check(
    plan: Staggered,
    finished: Iterable[FinishedWrite],
    zero_s: float,
    run_s: tuple[float, float],
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
    first, repeated, strange = dict[int, Compared](), list[Compared](), 0
    for each in finished:
        write, number = each.earlier(zero_s), each.number
        if not 0 <= number < len(plan):
            strange += 1
            continue
        is_fast = 0 < write.bytes_b >= least_b_s * (write.end_s - write.start_s)
        near_s = allowed.tolerance_s + clock_errors_s.get(plan.origin(number), 0.0)
        compared = Compared(plan.write(number), write, near_s, is_fast)
        if first.setdefault(number, compared) is not compared:
            # Nothing of it was planned.
            repeated.append(compared._replace(near_s=-math.inf, counts=False))
    in_run = [each for each in first.values() if _touches(each.finished, run)]
    missing, excess = shares([*in_run, *repeated], run, plan.writers * (run[1] - run[0]))
    starts_s = [each.finished.start_s - each.planned.start_s for each in in_run]
    ends_s = [each.finished.end_s - each.planned.end_s for each in in_run]
    setups_s = [each.finished.setup_s for each in in_run]
    record = TimetableRecord(
        writers=plan.writers,
        length_s=plan.length_s,
        tolerance_s=allowed.tolerance_s,
        allowed_share=allowed.allowed_share,
        messages=messages,
        planned=sum(_touches(write, run) for write in plan),
        done=len(in_run),
        slow=sum(not each.counts for each in in_run),
        unplanned=len(repeated) + strange,
        missing_share=missing,
        excess_share=excess,
        bytes_b=sum(each.finished.bytes_b for each in in_run),
        start_median_s=median(starts_s or [0.0]),
        start_worst_s=max(starts_s, key=abs, default=0.0),
        end_median_s=median(ends_s or [0.0]),
        end_worst_s=max(ends_s, key=abs, default=0.0),
        setup_median_s=median(setups_s or [0.0]),
        setup_worst_s=max(setups_s, default=0.0),
        clock_error_s=max(clock_errors_s.values(), default=0.0),
    )
    return record, _fault(record, strange)


def _touches(write: PlannedWrite | FinishedWrite, run: tuple[float, float]) -> bool:
    return write.start_s < run[1] and write.end_s > run[0]


def _fault(record: TimetableRecord, strange: int) -> str | None:
    most = record.allowed_share + _ROUNDING
    if strange:
        return f"{strange} writes are not in the plan"
    if record.missing_share > most:
        return (
            f"{record.missing_share:.1%} of the planned writing is missing (allowed: {most:.1%}); "
            f"{record.done} of {record.planned} writes done, {record.slow} of them too slow"
        )
    if record.excess_share > most:
        return f"{record.excess_share:.1%} was written beyond the plan (allowed: {most:.1%})"
    return None


def check_traffic(
    plan: Timetable,
    reports: Iterable[FinishedWrite],
    followed_s: tuple[float, float],
    run_s: tuple[float, float],
    alone_b_s: float,
) -> tuple[list[ReplayBin], float, str | None]:
    """What a writer reported, one after the other, against the traffic that it followed.

    Returns both side by side, the share of time in which they agree, and why that is too little.
    `followed_s` and `run_s`: from when until when it was followed, and the application ran.
    """
    zero_s = followed_s[0]
    compared = []
    for finished in reports:
        if zero_s <= finished.start_s and finished.end_s <= followed_s[1]:
            write = finished.earlier(zero_s)
            due_b = plan.due_b(write.end_s) - plan.due_b(write.start_s)
            length_s = write.end_s - write.start_s
            most_b = max(BIN_SHARE * due_b, BIN_ALONE_SHARE * alone_b_s * length_s)
            planned = PlannedWrite(write.number, 0, write.start_s, write.end_s, due_b)
            compared.append(Compared(planned, write, 0.0, abs(write.bytes_b - due_b) <= most_b))
    bins = [
        ReplayBin(
            start_s=each.planned.start_s + zero_s - run_s[0],
            length_s=each.planned.end_s - each.planned.start_s,
            wanted_b=each.planned.bytes_b,
            done_b=each.finished.bytes_b,
        )
        for each in compared
    ]
    covered_s = sum(each.length_s for each in bins)
    if covered_s < COVERED_SHARE * (run_s[1] - run_s[0]) or not covered_s:
        return bins, 0.0, f"its rows cover {covered_s:.1f} s of the run; allowed: half of it"
    agreeing = 1 - shares(compared, (0.0, math.inf), covered_s).missing
    wanted_b, done_b = sum(each.wanted_b for each in bins), sum(each.done_b for each in bins)
    most_b, reason = max(TOTAL_SHARE * wanted_b, TOTAL_ALONE_SHARE * alone_b_s * covered_s), None
    if abs(done_b - wanted_b) > most_b:
        reason = (
            f"wrote {done_b / 1e6:.1f} MB of {wanted_b / 1e6:.1f} MB of the traffic; allowed"
            f" difference: {TOTAL_SHARE:.0%}"
        )
    elif agreeing < AGREEING_SHARE:
        reason = (
            f"followed the traffic in {agreeing:.0%} of the time, within {BIN_SHARE:.0%}; at least"
            f" {AGREEING_SHARE:.0%} is required"
        )
    return bins, agreeing, reason
