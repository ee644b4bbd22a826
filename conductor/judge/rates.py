"""Rates of a writer in a window, from its rows and from counts of its bytes.

A *row* is the rate that a writer reports for an interval. Between two rows there may be a *gap*,
whose bytes no row has. The *rate alone* is the rate without an application. All functions are pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from conductor.injectors import INJECTORS
from conductor.judge.series import Window, WriterSeries
from conductor.readings import CounterSample, RateRow


def total_at(samples: Sequence[CounterSample], at_s: float) -> float | None:
    """Return the total at a time, interpolated linearly; None if the samples do not cover it."""
    index = bisect_left(samples, at_s, key=lambda sample: sample.at_s)
    if index == len(samples) or samples[0].at_s > at_s:
        return None
    after, before = samples[index], samples[max(index - 1, 0)]
    length_s = after.at_s - before.at_s
    share = (at_s - before.at_s) / length_s if length_s else 0.0
    return before.total + share * (after.total - before.total)


def _amount_between(samples: Sequence[CounterSample], start_s: float, end_s: float) -> float | None:
    """Return the amount counted between two times; None if the samples do not cover them."""
    before, after = total_at(samples, start_s), total_at(samples, end_s)
    return None if before is None or after is None else after - before


def _without_gaps(rows: Sequence[RateRow], samples: Sequence[CounterSample]) -> list[RateRow]:
    """Return the rows, each extended over the gap before it if the bytes of the gap were counted.

    `samples` count only this writer. Their unit may differ from the unit of the rows, and they
    include headers. So the count of a gap is scaled by the ratio of reported to counted bytes in
    rows.
    """
    reported_and_counted = [
        (row.bytes_b, _amount_between(samples, row.start_s, row.end_s)) for row in rows
    ]
    reported_b = sum(bytes_b for bytes_b, count in reported_and_counted if count is not None)
    counted = sum(count for _, count in reported_and_counted if count is not None)
    if counted <= 0:
        return list(rows)
    gapless = list(rows[:1])
    for previous, row in pairwise(rows):
        gap_count = _amount_between(samples, previous.end_s, row.start_s)
        if gap_count is not None and row.start_s > previous.end_s:
            bytes_b = row.bytes_b + gap_count * reported_b / counted
            length_s = row.end_s - previous.end_s
            row = row._replace(start_s=previous.end_s, rate_b_s=bytes_b / length_s)
        gapless.append(row)
    return gapless


def _with_ends(
    rows: Sequence[RateRow], samples: Sequence[CounterSample], min_length_s: float
) -> list[RateRow]:
    """Return the rows, with rows made from counts added before the first and after the last.

    `samples` count only this writer. The rate of an added row is taken over at least
    `min_length_s`.
    """
    if not samples or samples[-1].at_s - samples[0].at_s < min_length_s:
        return list(rows)
    first_s, last_s = samples[0].at_s, samples[-1].at_s
    if not rows:
        return _rows_of_counts(samples, first_s, last_s, min_length_s)
    before = _rows_of_counts(samples, first_s, min(rows[0].start_s, last_s), min_length_s)
    after = _rows_of_counts(samples, rows[-1].end_s, last_s, min_length_s)
    return [*before, *rows, *after]


def gapless_rows(writer: WriterSeries) -> list[RateRow]:
    """Return a writer's rows. Each includes the gap before it if the gap's bytes were counted."""
    return writer.rows if writer.counted_s is None else _without_gaps(writer.rows, writer.samples)


def all_rows(writer: WriterSeries) -> list[RateRow]:
    """Return a writer's rows without gaps, with rows from counts added before and after them."""
    rows, min_length_s = gapless_rows(writer), writer.counted_s
    return rows if min_length_s is None else _with_ends(rows, writer.samples, min_length_s)


def last_end_s(writer: WriterSeries) -> float | None:
    """Return the end of the last of `all_rows`; None if there are no rows."""
    rows, min_length_s = writer.rows[-1:], writer.counted_s  # gaps do not change the end
    rows = rows if min_length_s is None else _with_ends(rows, writer.samples, min_length_s)
    return rows[-1].end_s if rows else None


def _rows_of_counts(
    samples: Sequence[CounterSample], from_s: float, to_s: float, min_length_s: float
) -> list[RateRow]:
    """Return rows made from the counts between two times, which are divided at samples."""
    if to_s <= from_s:
        return []
    boundaries_s = [from_s]
    for sample in samples:
        if min(sample.at_s - boundaries_s[-1], to_s - sample.at_s) >= min_length_s:
            boundaries_s.append(sample.at_s)
    pieces = pairwise([*boundaries_s, to_s])
    return [_row_of_counts(samples, start_s, end_s, min_length_s) for start_s, end_s in pieces]


def _row_of_counts(
    samples: Sequence[CounterSample], start_s: float, end_s: float, min_length_s: float
) -> RateRow:
    """Return a row made from counts.

    If the row is shorter than `min_length_s`, its rate is the rate over a longer time around it.
    """
    rate_start_s = max(min(start_s, end_s - min_length_s), samples[0].at_s)
    rate_end_s = min(max(end_s, rate_start_s + min_length_s), samples[-1].at_s)
    counted_b = _amount_between(samples, rate_start_s, rate_end_s)
    assert counted_b is not None, "both times lie between samples"
    return RateRow(start_s, end_s, counted_b / (rate_end_s - rate_start_s))


def bytes_within(
    row: RateRow, window_s: Window, samples: Sequence[CounterSample], outside_b_s: float
) -> float:
    """Return the bytes of a row that were written within a window.

    The rate outside the window usually differs from the rate within it. So if a row begins before
    the window, or ends after it, its bytes are divided in proportion to the bytes that the writer's
    meter counted inside and outside (`samples`). If it did not count, the rate `outside_b_s` is
    assumed outside the window.
    """
    start_s, end_s = window_s
    inside_s = min(row.end_s, end_s) - max(row.start_s, start_s)
    outside_s = row.end_s - row.start_s - inside_s
    if outside_s <= 0:
        return row.bytes_b
    row_count = _amount_between(samples, row.start_s, row.end_s)
    inside_count = _amount_between(samples, max(row.start_s, start_s), min(row.end_s, end_s))
    if row_count is None or inside_count is None or row_count <= 0:
        return max(row.bytes_b - outside_b_s * outside_s, 0.0)
    return row.bytes_b * min(max(inside_count / row_count, 0.0), 1.0)


class ExpectedRate(NamedTuple):
    """The rate that a writer should reach, with words for messages."""

    rate_b_s: float
    #: Name of this rate.
    name: str
    #: Verb for what the writer or control did at this rate.
    verb: str = "wrote"
    #: The rate alone; None if the writer is not judged by it.
    alone_b_s: float | None = None


def expected_rate(writer: WriterSeries) -> ExpectedRate:
    """Return the rate that a writer's rows are compared with.

    If no rate is requested, or if the writer does not reach the requested rate even without an
    application, this is the rate alone. Otherwise it is the requested rate, since the rate alone
    was then measured under the same limiter, and scatters with it.

    A control reports shares of a core in place of rates. It must run all the time. No share of the
    core is required, since the application may take the core from a control or a writer.
    """
    alone_b_s, requested_b_s = writer.alone_b_s, writer.writer.rate_b_s
    if not INJECTORS[writer.injector].writes:
        return ExpectedRate(0.0, "a core", "computed")
    if requested_b_s is None or alone_b_s < requested_b_s:
        return ExpectedRate(alone_b_s, "its rate alone", alone_b_s=alone_b_s)
    return ExpectedRate(requested_b_s, "the requested rate", alone_b_s=alone_b_s)


def rate_before(rows: list[RateRow], start_s: float) -> float | None:
    """Return the writer's mean rate before the application started at `start_s`.

    The first row is left out, since the writer starts in it. None if no other row ended before
    `start_s`.
    """
    early_rows = [row for row in rows[1:] if row.end_s <= start_s]
    length_s = sum(row.end_s - row.start_s for row in early_rows)
    return sum(row.bytes_b for row in early_rows) / length_s if length_s else None


@dataclass(frozen=True, kw_only=True)
class WindowFigures:
    """Figures of a writer in a window. Rates and bytes are for the time that rows cover."""

    #: Its rows that overlap the window.
    rows: list[RateRow]
    rate_b_s: float = 0.0
    #: The lowest rate of these rows, or their mean if it is lower.
    rate_min_b_s: float = 0.0
    bytes_b: float = 0.0
    #: Share of the window that rows cover.
    observed_share: float = 0.0
    #: Longest time within the window that no row covers, seconds.
    unobserved_s: float = 0.0


def window_figures(writer: WriterSeries, window_s: Window) -> WindowFigures:
    """Return the figures of a writer in a window, from all its rows."""
    rows, (start_s, end_s) = all_rows(writer), window_s
    inside_rows = [row for row in rows if row.end_s > start_s and row.start_s < end_s]
    if not inside_rows or end_s <= start_s:
        return WindowFigures(rows=[], unobserved_s=max(end_s - start_s, 0.0))
    inside_s = sum(min(row.end_s, end_s) - max(row.start_s, start_s) for row in inside_rows)
    before_b_s = rate_before(rows, start_s)
    outside_b_s = expected_rate(writer).rate_b_s if before_b_s is None else before_b_s
    bytes_b = sum(bytes_within(row, window_s, writer.samples, outside_b_s) for row in inside_rows)
    rate_b_s = bytes_b / inside_s
    gap_starts_s = [start_s, *(row.end_s for row in inside_rows)]
    gap_ends_s = [*(row.start_s for row in inside_rows), end_s]
    gaps_s = [end - start for start, end in zip(gap_starts_s, gap_ends_s, strict=True)]
    return WindowFigures(
        rows=inside_rows,
        rate_b_s=rate_b_s,
        rate_min_b_s=min(rate_b_s, *(row.rate_b_s for row in inside_rows)),
        bytes_b=bytes_b,
        observed_share=min(inside_s / (end_s - start_s), 1.0),
        unobserved_s=max(0.0, *gaps_s),
    )
