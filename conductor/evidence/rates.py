"""Whether a writer kept its rate through the whole window. Pure functions on its reported rows."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import sub
from statistics import median
from typing import NamedTuple

from records.sample import LIMITED_MESSAGES, LIMITED_SHARE, BurstRecord
from records.treatment import Burst


class Bursts(NamedTuple):
    """Bursts that ended within a row, and how long it was written and paused, seconds."""

    number: int
    writing_s: float
    pausing_s: float


@dataclass(frozen=True)
class Seen:
    """A row that a writer reported: its rate over (start_s, end_s], Unix time.

    A program may pause between rows: what is written from the end of one to the start of the next
    is in none.
    """

    start_s: float
    end_s: float
    rate_b_s: float
    #: None: it did not say.
    bursts: Bursts | None = None

    @property
    def bytes_b(self) -> float:
        """What it reports as written."""
        return self.rate_b_s * (self.end_s - self.start_s)


class Tally(NamedTuple):
    """What had been counted by a time since some beginning, bytes (`conductor.watch`).

    Of a control, which writes nothing, the processor time that it has used, seconds.
    """

    at_s: float
    bytes_b: float


#: Shortest time over which counted bytes are taken for a rate, seconds.
COUNTED_S = 0.25


def passed_at(tallies: Sequence[Tally], at_s: float) -> float | None:
    """What had passed at a time between two readings, linearly; None before or after them all."""
    index = bisect_left(tallies, at_s, key=lambda tally: tally.at_s)
    if index == len(tallies) or (index == 0 and tallies[0].at_s > at_s):
        return None
    after, before = tallies[index], tallies[max(index - 1, 0)]
    length_s = after.at_s - before.at_s
    share = (at_s - before.at_s) / length_s if length_s else 0.0
    return before.bytes_b + share * (after.bytes_b - before.bytes_b)


def _passed(tallies: Sequence[Tally], start_s: float, end_s: float) -> float | None:
    """What passed between two times; None if the tallies do not cover them."""
    before, after = passed_at(tallies, start_s), passed_at(tallies, end_s)
    return None if before is None or after is None else after - before


def joined(rows: Sequence[Seen], tallies: Sequence[Tally]) -> list[Seen]:
    """The rows, each from the end of the one before it if what passed between them was counted.

    `tallies` are of this writer alone. They may be of another unit than the rows, and have headers:
    a byte between rows is as much of them as one within rows.
    """
    within = [(row.bytes_b, _passed(tallies, row.start_s, row.end_s)) for row in rows]
    reported_b = sum(bytes_b for bytes_b, passed in within if passed is not None)
    counted = sum(passed for _, passed in within if passed is not None)
    if counted <= 0:
        return list(rows)
    found = list(rows[:1])
    for before, row in pairwise(rows):
        between = _passed(tallies, before.end_s, row.start_s)
        if between is not None and row.start_s > before.end_s:
            bytes_b, over_s = row.bytes_b + between * reported_b / counted, row.end_s - before.end_s
            row = replace(row, start_s=before.end_s, rate_b_s=bytes_b / over_s)
        found.append(row)
    return found


def filled(
    rows: Sequence[Seen], tallies: Sequence[Tally], least_s: float = COUNTED_S
) -> list[Seen]:
    """The rows, and in the same form what was counted before the first and after the last of them.

    `tallies` are of this writer alone; each rate is over at least `least_s`.
    """
    if not tallies or tallies[-1].at_s - tallies[0].at_s < least_s:
        return list(rows)
    ended_s = tallies[-1].at_s
    until_s = min(rows[0].start_s, ended_s) if rows else ended_s
    before = _counted(tallies, tallies[0].at_s, until_s, least_s)
    after = _counted(tallies, rows[-1].end_s, ended_s, least_s) if rows else []
    return [*before, *rows, *after]


def _counted(tallies: Sequence[Tally], from_s: float, to_s: float, least_s: float) -> list[Seen]:
    """What was counted from one time to another, cut at the tallies."""
    if to_s <= from_s:
        return []
    cuts_s = [from_s]
    for at_s, _ in tallies:
        if min(at_s - cuts_s[-1], to_s - at_s) >= least_s:
            cuts_s.append(at_s)
    pieces = pairwise([*cuts_s, to_s])
    return [_piece(tallies, start_s, end_s, least_s) for start_s, end_s in pieces]


def _piece(tallies: Sequence[Tally], start_s: float, end_s: float, least_s: float) -> Seen:
    """A row of what was counted; the rate of a short one is that of a longer time around it."""
    begin_s = max(min(start_s, end_s - least_s), tallies[0].at_s)
    until_s = min(max(end_s, begin_s + least_s), tallies[-1].at_s)
    before_b, after_b = passed_at(tallies, begin_s), passed_at(tallies, until_s)
    assert before_b is not None, "it lies between two tallies"
    assert after_b is not None, "and so does this"
    return Seen(start_s, end_s, (after_b - before_b) / (until_s - begin_s))


def bytes_within(
    row: Seen, start_s: float, end_s: float, tallies: Sequence[Tally], outside_b_s: float
) -> float:
    """What a row's writer wrote within the window, of all that the row reports.

    A row that began before the application, or ended after it, is mostly of another rate than the
    window's. It is divided as the origin's device passed bytes, those of all its writers; if that
    was not seen, the part outside is what `outside_b_s` writes in that time.
    """
    inside_s = min(row.end_s, end_s) - max(row.start_s, start_s)
    outside_s = row.end_s - row.start_s - inside_s
    if outside_s <= 0:
        return row.bytes_b
    times_s = (row.start_s, max(row.start_s, start_s), min(row.end_s, end_s), row.end_s)
    first, enters, leaves, last = (passed_at(tallies, at_s) for at_s in times_s)
    if first is None or enters is None or leaves is None or last is None or last <= first:
        return max(row.bytes_b - outside_b_s * outside_s, 0.0)
    return row.bytes_b * min(max((leaves - enters) / (last - first), 0.0), 1.0)


def achieved(asked: Burst, rows: Sequence[Seen], start_s: float, end_s: float) -> BurstRecord:
    """The pattern of the rows that overlap the window, in which bursts are much shorter."""
    inside = [row for row in rows if row.end_s > start_s and row.start_s < end_s]
    found = [(row.rate_b_s, row.bursts) for row in inside if row.bursts]
    number = sum(each.number for _, each in found)
    writing_s = sum(each.writing_s for _, each in found)
    if not number or not writing_s:
        return BurstRecord(asked.length_s, asked.pause_s)
    bytes_b = sum(rate_b_s * (each.writing_s + each.pausing_s) for rate_b_s, each in found)
    return BurstRecord(
        asked_length_s=asked.length_s,
        asked_pause_s=asked.pause_s,
        length_s=writing_s / number,
        pause_s=sum(each.pausing_s for _, each in found) / number,
        peak_b_s=bytes_b / writing_s,
    )


@dataclass(frozen=True)
class Judgement:
    """What a writer did within a window; `reason` says why it is rejected, None if accepted.

    Rates and bytes are of the time that rows cover.
    """

    rate_b_s: float
    rate_min_b_s: float
    bytes_b: float
    #: Share of the window that rows cover, and the longest time within it that none does, seconds.
    observed_share: float
    unobserved_s: float
    reason: str | None
    #: It wrote more than `max_share` of its rate alone, which was disturbed when it was measured.
    beyond_alone: bool = False


class Expected(NamedTuple):
    """The rate that a writer's own is compared with, what it is called, and what a writer does."""

    rate_b_s: float
    name: str
    verb: str = "wrote"
    #: The rate alone, if the writer is judged by it.
    alone_b_s: float | None = None


#: A control reports shares of a core in place of rates. It must run all the time, but no share is
#: required: the application takes as much of its core from it as from writers.
OF_CONTROL = Expected(0.0, "a core", "computed")


def expected(alone_b_s: float, asked_b_s: float | None) -> Expected:
    """The requested rate, unless there is none or the writer does not reach it even alone.

    The rate alone of a throttled writer is a measurement with the limiter's own scatter.
    """
    if asked_b_s is None or alone_b_s < asked_b_s:
        return Expected(alone_b_s, "its rate alone", alone_b_s=alone_b_s)
    return Expected(asked_b_s, "the requested rate", alone_b_s=alone_b_s)


def most_of(
    asked_b_s: float | None, message_b: int, window_s: float, burst: Burst | None = None
) -> float:
    """Largest mean rate of a writer limited to `asked_b_s`; infinite without a limit or a window.

    A window may have one burst more than its length asks for.
    """
    if asked_b_s is None or not window_s:
        return math.inf
    more_b = LIMITED_MESSAGES * message_b + (asked_b_s * burst.period_s if burst else 0.0)
    return LIMITED_SHARE * asked_b_s + more_b / window_s


def rate_alone(rows: list[Seen]) -> float:
    """The writer's rate with no application: median of all rows but the first, which ramps up."""
    return median(row.rate_b_s for row in rows[1:])


def rate_before(rows: list[Seen], start_s: float) -> float | None:
    """The writer's mean rate before the application started, without the first row, which ramps up.

    None if no other row ended by `start_s`.
    """
    early = [row for row in rows[1:] if row.end_s <= start_s]
    over_s = sum(row.end_s - row.start_s for row in early)
    return sum(row.bytes_b for row in early) / over_s if over_s else None


def at_speed(rows: list[Seen], expected_b_s: float, min_share: float) -> bool:
    """Whether the latest row reaches the rate at which a window may start."""
    return bool(rows) and rows[-1].rate_b_s > 0 and rows[-1].rate_b_s >= min_share * expected_b_s


def judge(
    rows: list[Seen],
    start_s: float,
    end_s: float,
    required: Expected,
    min_share: float,
    row_s: float,
    late_rows: float,
    tallies: Sequence[Tally] = (),
    max_share: float = math.inf,
    most_b_s: float = math.inf,
) -> Judgement:
    """Check rows against the application's window [start_s, end_s].

    Rows must come before, during and after the window. Those of a writer must come no later than
    `late_rows` intervals after the previous one, and each must show at least `min_share` of the
    expected rate. Their mean must be at most `max_share` of the rate alone, and at most `most_b_s`,
    the limit of a throttled writer. `tallies` are readings of the origin's device.
    """
    inside = [row for row in rows if row.end_s > start_s and row.start_s < end_s]
    if not inside or end_s <= start_s:
        around = bool(rows) and rows[0].start_s <= start_s < end_s <= rows[-1].end_s
        did = "reported no row" if around else f"{required.verb} nothing"
        why = f"{did} within the window"
        return Judgement(0.0, 0.0, 0.0, 0.0, max(end_s - start_s, 0.0), why)
    spans = [min(row.end_s, end_s) - max(row.start_s, start_s) for row in inside]
    before_b_s = rate_before(rows, start_s)
    outside_b_s = required.rate_b_s if before_b_s is None else before_b_s
    bytes_b = sum(bytes_within(row, start_s, end_s, tallies, outside_b_s) for row in inside)
    rate_b_s = bytes_b / sum(spans)
    # A control's row is of all the time since the one before: a late one hides nothing.
    late_s = late_rows * row_s if required.rate_b_s else math.inf
    too_slow = _too_slow(inside, rate_b_s, start_s, required, min_share)
    too_fast = _too_fast(inside, rate_b_s, required, max_share)
    above = None
    if rate_b_s > most_b_s:
        share, most = rate_b_s / required.rate_b_s, most_b_s / required.rate_b_s
        above = f"{required.verb} at {share:.0%} of {required.name}; at most {most:.0%} is allowed"
    ends_s = [start_s, *(row.end_s for row in inside)]
    starts_s = [*(row.start_s for row in inside), end_s]
    return Judgement(
        rate_b_s=rate_b_s,
        rate_min_b_s=min(rate_b_s, *(row.rate_b_s for row in inside)),
        bytes_b=bytes_b,
        observed_share=min(sum(spans) / (end_s - start_s), 1.0),
        unobserved_s=max(0.0, *map(sub, starts_s, ends_s)),
        reason=_gap(rows, start_s, end_s, late_s) or too_slow or too_fast or above,
        beyond_alone=too_fast is not None,
    )


def _too_slow(
    inside: list[Seen], rate_b_s: float, start_s: float, required: Expected, min_share: float
) -> str | None:
    slowest = min(inside, key=lambda row: row.rate_b_s)
    least_b_s = min(slowest.rate_b_s, rate_b_s)
    where = f"from second {max(slowest.start_s - start_s, 0.0):.1f} of the window"
    if not required.rate_b_s:
        return None if slowest.rate_b_s > 0 else f"{required.verb} nothing {where}"
    if 0 < least_b_s >= min_share * required.rate_b_s:
        return None
    return (
        f"{required.verb} at {least_b_s / required.rate_b_s:.0%} of {required.name} {where}; at"
        f" least {min_share:.0%} is required"
    )


def _too_fast(
    inside: list[Seen], rate_b_s: float, required: Expected, max_share: float
) -> str | None:
    """Why its rate alone must have been disturbed; None if it need not.

    In a window that is short compared with a row, the rate is uncertain; that of whole rows counts
    as well.
    """
    if not required.alone_b_s:
        return None
    rows_b_s = sum(row.bytes_b for row in inside) / sum(row.end_s - row.start_s for row in inside)
    share = min(rate_b_s, rows_b_s) / required.alone_b_s
    if share <= max_share:
        return None
    return (
        f"{required.verb} at {share:.0%} of its rate alone; at most {max_share:.0%} is allowed: the"
        " rate alone was disturbed"
    )


def _gap(rows: list[Seen], start_s: float, end_s: float, late_s: float) -> str | None:
    if rows[0].start_s > start_s:
        return f"started {rows[0].start_s - start_s:.2f} s late"
    if rows[-1].end_s < end_s:
        return f"stopped {end_s - rows[-1].end_s:.2f} s before the application ended"
    ends_s = [rows[0].start_s, *(row.end_s for row in rows)]
    # Between the ends of two rows, so that it is known for all of the second one.
    silent_s = max(
        to_s - from_s for from_s, to_s in pairwise(ends_s) if to_s > start_s and from_s < end_s
    )
    return f"reported nothing for {silent_s:.1f} s" if silent_s > late_s else None
