"""Whether a writer's rows show that it wrote through the whole window, and fast enough.

All functions are pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from conductor.judge.rates import ExpectedRate, WindowFigures, all_rows, expected_rate
from conductor.judge.series import Window, WriterSeries
from conductor.readings import RateRow
from records.acceptance import AcceptanceLimits
from records.sample import MAX_EXTRA_MESSAGES, MAX_LIMITED_SHARE
from records.units import distinguishable, percentage


def writing_faults(
    writer: WriterSeries, figures: WindowFigures, window_s: Window, limits: AcceptanceLimits
) -> Iterator[str]:
    """Yield the reasons why a run must be rejected for a writer's rows.

    The rows must begin before the window and end after it. Each row must end within `late_rows`
    intervals of the end of the previous row, and show at least `min_share` of the expected rate.
    The mean rate must be at most `max_share` of the rate alone (without an application). If a rate
    is requested, the mean rate must not exceed it by too much (`_max_rate_b_s`). `figures` are the
    writer's rows and mean rate within the window.
    """
    rows = all_rows(writer)
    expected = expected_rate(writer)
    start_s, end_s = window_s
    if not figures.rows:
        rows_span_window = bool(rows) and rows[0].start_s <= start_s < end_s <= rows[-1].end_s
        fault = "reported no row" if rows_span_window else f"{expected.verb} nothing"
        yield f"{fault} within the window"
        return
    # A control writes nothing and has no expected rate: its rows may be late.
    max_silence_s = limits.late_rows * writer.row_s if expected.rate_b_s else math.inf
    yield from _gaps(rows, window_s, max_silence_s)
    yield from _too_slow(figures, start_s, expected, limits.min_share)
    if (share := share_of_rate_alone(writer, figures)) > limits.max_share:
        reached, allowed = distinguishable(share, limits.max_share, 0, percentage)
        yield (
            f"{expected.verb} at {reached} of its rate alone; at most {allowed} is allowed: the"
            " rate alone was disturbed"
        )
    max_b_s = _max_rate_b_s(writer, window_s)
    if expected.rate_b_s and figures.rate_b_s > max_b_s:
        reached, allowed = distinguishable(
            figures.rate_b_s / expected.rate_b_s, max_b_s / expected.rate_b_s, 0, percentage
        )
        yield f"{expected.verb} at {reached} of {expected.name}; at most {allowed} is allowed"


def _max_rate_b_s(writer: WriterSeries, window_s: Window) -> float:
    """Return the largest allowed mean rate of a writer in a window; infinite without a limit."""
    planned = writer.writer
    length_s = window_s[1] - window_s[0]
    if planned.rate_b_s is None:
        return math.inf
    return MAX_LIMITED_SHARE * planned.rate_b_s + MAX_EXTRA_MESSAGES * planned.message_b / length_s


def _gaps(rows: Sequence[RateRow], window_s: Window, max_silence_s: float) -> Iterator[str]:
    """Yield a line for each part of the window without rows: its start, its end, or a gap."""
    start_s, end_s = window_s
    if rows[0].start_s > start_s:
        yield f"started {rows[0].start_s - start_s:.2f} s late"
    if rows[-1].end_s < end_s:
        yield f"stopped {end_s - rows[-1].end_s:.2f} s before the application ended"
    ends_s = [rows[0].start_s, *(row.end_s for row in rows)]
    # A row comes at the end of its interval. So silence lasts from the end of one row to the end of
    # the next.
    silent_s = max(
        to_s - from_s for from_s, to_s in pairwise(ends_s) if to_s > start_s and from_s < end_s
    )
    if silent_s > max_silence_s:
        yield f"reported nothing for {silent_s:.1f} s"


def _too_slow(
    figures: WindowFigures, start_s: float, expected: ExpectedRate, min_share: float
) -> Iterator[str]:
    """Yield a line if the slowest row, or the mean, is below `min_share` of the expected rate.

    A control has no expected rate, but every row must show that it ran.
    """
    slowest = min(figures.rows, key=lambda row: row.rate_b_s)
    lowest_b_s = min(slowest.rate_b_s, figures.rate_b_s)
    moment = f"from second {max(slowest.start_s - start_s, 0.0):.1f} of the window"
    if not expected.rate_b_s:
        if slowest.rate_b_s <= 0:
            yield f"{expected.verb} nothing {moment}"
    elif lowest_b_s < min_share * expected.rate_b_s:
        reached, required = distinguishable(
            lowest_b_s / expected.rate_b_s, min_share, 0, percentage
        )
        yield (
            f"{expected.verb} at {reached} of {expected.name} {moment};"
            f" at least {required} is required"
        )


def share_of_rate_alone(writer: WriterSeries, figures: WindowFigures) -> float:
    """Return the mean rate as a share of the rate alone; 0 if the rate alone is unknown.

    If the window is short compared with a row, the rate within the window is uncertain. So if the
    rate over the whole rows is smaller, it is used instead.
    """
    alone_b_s = expected_rate(writer).alone_b_s
    if not alone_b_s or not figures.rows:
        return 0.0
    length_s = sum(row.end_s - row.start_s for row in figures.rows)
    rows_b_s = sum(row.bytes_b for row in figures.rows) / length_s
    return min(figures.rate_b_s, rows_b_s) / alone_b_s
