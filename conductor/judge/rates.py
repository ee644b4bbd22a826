"""Rates of a writer in a window: from its rows, and from what counted it meanwhile. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from operator import sub
from typing import NamedTuple

from conductor.injectors import INJECTORS
from conductor.judge.series import WriterSeries
from conductor.readings import CounterSample, RateRow


def passed_at(samples: Sequence[CounterSample], at_s: float) -> float | None:
    """Return what had passed at a time between readings, linearly; None outside of them."""
    index = bisect_left(samples, at_s, key=lambda sample: sample.at_s)
    if index == len(samples) or (index == 0 and samples[0].at_s > at_s):
        return None
    after, before = samples[index], samples[max(index - 1, 0)]
    length_s = after.at_s - before.at_s
    share = (at_s - before.at_s) / length_s if length_s else 0.0
    return before.total + share * (after.total - before.total)


def _passed(samples: Sequence[CounterSample], start_s: float, end_s: float) -> float | None:
    """Return what passed between two times; None if the samples do not cover them."""
    before, after = passed_at(samples, start_s), passed_at(samples, end_s)
    return None if before is None or after is None else after - before


def _joined(rows: Sequence[RateRow], samples: Sequence[CounterSample]) -> list[RateRow]:
    """The rows, each from the end of the one before it if what passed between them was counted.

    `samples` are of this writer alone. They may be of another unit than the rows, and have headers:
    a byte between rows is as much of them as one within rows.
    """
    within = [(row.bytes_b, _passed(samples, row.start_s, row.end_s)) for row in rows]
    reported_b = sum(bytes_b for bytes_b, passed in within if passed is not None)
    counted = sum(passed for _, passed in within if passed is not None)
    if counted <= 0:
        return list(rows)
    longer = list(rows[:1])
    for before, row in pairwise(rows):
        between = _passed(samples, before.end_s, row.start_s)
        if between is not None and row.start_s > before.end_s:
            bytes_b = row.bytes_b + between * reported_b / counted
            over_s = row.end_s - before.end_s
            row = row._replace(start_s=before.end_s, rate_b_s=bytes_b / over_s)
        longer.append(row)
    return longer


def _filled(
    rows: Sequence[RateRow], samples: Sequence[CounterSample], least_s: float
) -> list[RateRow]:
    """The rows, and in the same form what was counted before the first and after the last of them.

    `samples` are of this writer alone; each rate is over at least `least_s`.
    """
    if not samples or samples[-1].at_s - samples[0].at_s < least_s:
        return list(rows)
    ended_s = samples[-1].at_s
    until_s = min(rows[0].start_s, ended_s) if rows else ended_s
    before = _counted(samples, samples[0].at_s, until_s, least_s)
    after = _counted(samples, rows[-1].end_s, ended_s, least_s) if rows else []
    return [*before, *rows, *after]


def gapless_rows(writer: WriterSeries) -> list[RateRow]:
    """A writer's rows, each with the time since the one before it if that was counted."""
    return writer.rows if writer.counted_s is None else _joined(writer.rows, writer.samples)


def all_rows(writer: WriterSeries) -> list[RateRow]:
    """A writer's rows, and what was counted between, before and after them."""
    rows, least_s = gapless_rows(writer), writer.counted_s
    return rows if least_s is None else _filled(rows, writer.samples, least_s)


def last_end_s(writer: WriterSeries) -> float | None:
    """The end of the last of them, which depends on no time between rows; None without any."""
    rows, least_s = writer.rows[-1:], writer.counted_s
    rows = rows if least_s is None else _filled(rows, writer.samples, least_s)
    return rows[-1].end_s if rows else None


def _counted(
    samples: Sequence[CounterSample], from_s: float, to_s: float, least_s: float
) -> list[RateRow]:
    """Return what was counted from one time to another, cut at the samples."""
    if to_s <= from_s:
        return []
    cuts_s = [from_s]
    for at_s, *_ in samples:
        if min(at_s - cuts_s[-1], to_s - at_s) >= least_s:
            cuts_s.append(at_s)
    pieces = pairwise([*cuts_s, to_s])
    return [_piece(samples, start_s, end_s, least_s) for start_s, end_s in pieces]


def _piece(
    samples: Sequence[CounterSample], start_s: float, end_s: float, least_s: float
) -> RateRow:
    """A row of what was counted; the rate of a short one is that of a longer time around it."""
    begin_s = max(min(start_s, end_s - least_s), samples[0].at_s)
    until_s = min(max(end_s, begin_s + least_s), samples[-1].at_s)
    before_b, after_b = passed_at(samples, begin_s), passed_at(samples, until_s)
    assert before_b is not None, "it lies between two samples"
    assert after_b is not None, "and so does this"
    return RateRow(start_s, end_s, (after_b - before_b) / (until_s - begin_s))


def bytes_within(
    row: RateRow, start_s: float, end_s: float, samples: Sequence[CounterSample], outside_b_s: float
) -> float:
    """Return what a row's writer wrote within the window, of all that the row reports.

    A row that began before the application, or ended after it, is mostly of another rate than the
    window's. It is divided as the origin's device passed bytes, those of all its writers; if that
    was not seen, the part outside is what `outside_b_s` writes in that time.
    """
    inside_s = min(row.end_s, end_s) - max(row.start_s, start_s)
    outside_s = row.end_s - row.start_s - inside_s
    if outside_s <= 0:
        return row.bytes_b
    times_s = (row.start_s, max(row.start_s, start_s), min(row.end_s, end_s), row.end_s)
    first, enters, leaves, last = (passed_at(samples, at_s) for at_s in times_s)
    if first is None or enters is None or leaves is None or last is None or last <= first:
        return max(row.bytes_b - outside_b_s * outside_s, 0.0)
    return row.bytes_b * min(max((leaves - enters) / (last - first), 0.0), 1.0)


class ExpectedRate(NamedTuple):
    """The rate that a writer's own is compared with, what it is called, and what a writer does."""

    rate_b_s: float
    name: str
    verb: str = "wrote"
    #: The rate alone, if the writer is judged by it.
    alone_b_s: float | None = None


def expected_rate(writer: WriterSeries) -> ExpectedRate:
    """Return what the rows of a writer are compared with.

    That is the requested rate, unless there is none or it is not reached even alone.

    The rate alone of a throttled writer is a measurement with the limiter's own scatter. A control
    reports shares of a core in place of rates. It must run all the time, but no share is required:
    the application takes as much of its core from it as from writers.
    """
    alone_b_s, asked_b_s = writer.alone_b_s, writer.writer.rate_b_s
    if not INJECTORS[writer.injector].writes:
        return ExpectedRate(0.0, "a core", "computed")
    if asked_b_s is None or alone_b_s < asked_b_s:
        return ExpectedRate(alone_b_s, "its rate alone", alone_b_s=alone_b_s)
    return ExpectedRate(asked_b_s, "the requested rate", alone_b_s=alone_b_s)


def rate_before(rows: list[RateRow], start_s: float) -> float | None:
    """The writer's mean rate before the application started, without the first row, which ramps up.

    None if no other row ended by `start_s`.
    """
    early = [row for row in rows[1:] if row.end_s <= start_s]
    over_s = sum(row.end_s - row.start_s for row in early)
    return sum(row.bytes_b for row in early) / over_s if over_s else None


class WindowFigures(NamedTuple):
    """A writer's work in a window; rates and bytes are of the time that rows cover."""

    #: Its rows that overlap the window.
    rows: list[RateRow]
    rate_b_s: float = 0.0
    rate_min_b_s: float = 0.0
    bytes_b: float = 0.0
    #: Share of the window that rows cover, and the longest time within it that none does, seconds.
    observed_share: float = 0.0
    unobserved_s: float = 0.0


def window_figures(writer: WriterSeries, window_s: tuple[float, float]) -> WindowFigures:
    """Return what all rows of a writer show of a window."""
    rows, (start_s, end_s) = all_rows(writer), window_s
    inside = [row for row in rows if row.end_s > start_s and row.start_s < end_s]
    if not inside or end_s <= start_s:
        return WindowFigures([], unobserved_s=max(end_s - start_s, 0.0))
    spans_s = [min(row.end_s, end_s) - max(row.start_s, start_s) for row in inside]
    before_b_s = rate_before(rows, start_s)
    outside_b_s = expected_rate(writer).rate_b_s if before_b_s is None else before_b_s
    bytes_b = sum(bytes_within(row, *window_s, writer.samples, outside_b_s) for row in inside)
    rate_b_s = bytes_b / sum(spans_s)
    ends_s = [start_s, *(row.end_s for row in inside)]
    starts_s = [*(row.start_s for row in inside), end_s]
    return WindowFigures(
        rows=inside,
        rate_b_s=rate_b_s,
        rate_min_b_s=min(rate_b_s, *(row.rate_b_s for row in inside)),
        bytes_b=bytes_b,
        observed_share=min(sum(spans_s) / (end_s - start_s), 1.0),
        unobserved_s=max(0.0, *map(sub, starts_s, ends_s)),
    )
