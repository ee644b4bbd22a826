"""Rates of a writer in a window, from its rows and from counts of its bytes. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import sub
from typing import NamedTuple

from conductor.injectors import INJECTORS
from conductor.judge.series import WriterSeries
from conductor.readings import CounterSample, RateRow


def passed_at(samples: Sequence[CounterSample], at_s: float) -> float | None:
    """Return the total at a time, interpolated linearly; None if the samples do not cover it."""
    index = bisect_left(samples, at_s, key=lambda sample: sample.at_s)
    if index == len(samples) or (index == 0 and samples[0].at_s > at_s):
        return None
    after, before = samples[index], samples[max(index - 1, 0)]
    length_s = after.at_s - before.at_s
    share = (at_s - before.at_s) / length_s if length_s else 0.0
    return before.total + share * (after.total - before.total)


def _passed(samples: Sequence[CounterSample], start_s: float, end_s: float) -> float | None:
    """Return the bytes counted between two times; None if the samples do not cover them."""
    before, after = passed_at(samples, start_s), passed_at(samples, end_s)
    return None if before is None or after is None else after - before


def _without_gaps(rows: Sequence[RateRow], samples: Sequence[CounterSample]) -> list[RateRow]:
    """Return the rows, each begun at the end of the previous one if the gap was counted.

    `samples` count this writer alone. They may be in another unit than the rows, and contain
    headers. So the bytes of a gap are scaled by the ratio of reported to counted bytes in rows.
    """
    in_rows = [(row.bytes_b, _passed(samples, row.start_s, row.end_s)) for row in rows]
    reported_b = sum(bytes_b for bytes_b, passed in in_rows if passed is not None)
    counted = sum(passed for _, passed in in_rows if passed is not None)
    if counted <= 0:
        return list(rows)
    gapless = list(rows[:1])
    for previous, row in pairwise(rows):
        in_gap = _passed(samples, previous.end_s, row.start_s)
        if in_gap is not None and row.start_s > previous.end_s:
            bytes_b = row.bytes_b + in_gap * reported_b / counted
            over_s = row.end_s - previous.end_s
            row = row._replace(start_s=previous.end_s, rate_b_s=bytes_b / over_s)
        gapless.append(row)
    return gapless


def _with_ends(
    rows: Sequence[RateRow], samples: Sequence[CounterSample], least_s: float
) -> list[RateRow]:
    """Return the rows, and rows made of counts before the first and after the last of them.

    `samples` count this writer alone. Each rate is computed over at least `least_s`.
    """
    if not samples or samples[-1].at_s - samples[0].at_s < least_s:
        return list(rows)
    first_s, last_s = samples[0].at_s, samples[-1].at_s
    if not rows:
        return _rows_of_counts(samples, first_s, last_s, least_s)
    before = _rows_of_counts(samples, first_s, min(rows[0].start_s, last_s), least_s)
    after = _rows_of_counts(samples, rows[-1].end_s, last_s, least_s)
    return [*before, *rows, *after]


def gapless_rows(writer: WriterSeries) -> list[RateRow]:
    """Return a writer's rows, each begun at the end of the previous one if the gap was counted."""
    return writer.rows if writer.counted_s is None else _without_gaps(writer.rows, writer.samples)


def all_rows(writer: WriterSeries) -> list[RateRow]:
    """Return a writer's rows without gaps, and rows made of counts before and after them."""
    rows, least_s = gapless_rows(writer), writer.counted_s
    return rows if least_s is None else _with_ends(rows, writer.samples, least_s)


def last_end_s(writer: WriterSeries) -> float | None:
    """Return the end of the last of all rows; None if there are none."""
    rows, least_s = writer.rows[-1:], writer.counted_s  # gaps do not change the end
    rows = rows if least_s is None else _with_ends(rows, writer.samples, least_s)
    return rows[-1].end_s if rows else None


def _rows_of_counts(
    samples: Sequence[CounterSample], from_s: float, to_s: float, least_s: float
) -> list[RateRow]:
    """Return rows made of the counts from one time to another, cut at the samples."""
    if to_s <= from_s:
        return []
    cuts_s = [from_s]
    for sample in samples:
        if min(sample.at_s - cuts_s[-1], to_s - sample.at_s) >= least_s:
            cuts_s.append(sample.at_s)
    pieces = pairwise([*cuts_s, to_s])
    return [_row_of_counts(samples, start_s, end_s, least_s) for start_s, end_s in pieces]


def _row_of_counts(
    samples: Sequence[CounterSample], start_s: float, end_s: float, least_s: float
) -> RateRow:
    """Return a row made of counts. Its rate is that of at least `least_s` around it."""
    rate_start_s = max(min(start_s, end_s - least_s), samples[0].at_s)
    rate_end_s = min(max(end_s, rate_start_s + least_s), samples[-1].at_s)
    passed_b = _passed(samples, rate_start_s, rate_end_s)
    assert passed_b is not None, "both times lie between samples"
    return RateRow(start_s, end_s, passed_b / (rate_end_s - rate_start_s))


def bytes_within(
    row: RateRow, start_s: float, end_s: float, samples: Sequence[CounterSample], outside_b_s: float
) -> float:
    """Return the bytes of a row that were written within the window.

    The rate outside the window usually differs from that within it. So the bytes of a row that
    begins before the window, or ends after it, are divided like those that the origin's device
    counted of all its writers. If it did not count, `outside_b_s` is assumed outside the window.
    """
    inside_s = min(row.end_s, end_s) - max(row.start_s, start_s)
    outside_s = row.end_s - row.start_s - inside_s
    if outside_s <= 0:
        return row.bytes_b
    in_row = _passed(samples, row.start_s, row.end_s)
    inside = _passed(samples, max(row.start_s, start_s), min(row.end_s, end_s))
    if in_row is None or inside is None or in_row <= 0:
        return max(row.bytes_b - outside_b_s * outside_s, 0.0)
    return row.bytes_b * min(max(inside / in_row, 0.0), 1.0)


class ExpectedRate(NamedTuple):
    """The rate that a writer should reach, with words for messages."""

    rate_b_s: float
    #: Name of this rate.
    name: str
    #: What a writer or a control does.
    verb: str = "wrote"
    #: The rate alone; None if the writer is not judged by it.
    alone_b_s: float | None = None


def expected_rate(writer: WriterSeries) -> ExpectedRate:
    """Return the rate that a writer's rows are compared with.

    It is the requested rate, or the rate alone if none is requested or the writer does not reach it
    even alone. Otherwise the requested rate is taken since the rate alone scatters as the limiter
    does. A control reports shares of a core in place of rates. It must run all the time, but no
    share is required, since the application takes as much of the core from a control as from a
    writer.
    """
    alone_b_s, asked_b_s = writer.alone_b_s, writer.writer.rate_b_s
    if not INJECTORS[writer.injector].writes:
        return ExpectedRate(0.0, "a core", "computed")
    if asked_b_s is None or alone_b_s < asked_b_s:
        return ExpectedRate(alone_b_s, "its rate alone", alone_b_s=alone_b_s)
    return ExpectedRate(asked_b_s, "the requested rate", alone_b_s=alone_b_s)


def rate_before(rows: list[RateRow], start_s: float) -> float | None:
    """Return the writer's mean rate before the application started at `start_s`.

    The first row is left out, since the writer starts in it. None if no other row ended by then.
    """
    early = [row for row in rows[1:] if row.end_s <= start_s]
    over_s = sum(row.end_s - row.start_s for row in early)
    return sum(row.bytes_b for row in early) / over_s if over_s else None


@dataclass(frozen=True, kw_only=True)
class WindowFigures:
    """Figures of a writer in a window. Rates and bytes are those of the time that rows cover."""

    #: Its rows that overlap the window.
    rows: list[RateRow]
    rate_b_s: float = 0.0
    rate_min_b_s: float = 0.0
    bytes_b: float = 0.0
    #: Share of the window that rows cover.
    observed_share: float = 0.0
    #: Longest time within the window that no row covers, seconds.
    unobserved_s: float = 0.0


def window_figures(writer: WriterSeries, window_s: tuple[float, float]) -> WindowFigures:
    """Return the figures that all rows of a writer give for a window."""
    rows, (start_s, end_s) = all_rows(writer), window_s
    inside = [row for row in rows if row.end_s > start_s and row.start_s < end_s]
    if not inside or end_s <= start_s:
        return WindowFigures(rows=[], unobserved_s=max(end_s - start_s, 0.0))
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
