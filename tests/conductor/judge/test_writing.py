"""Writers that do not write during the whole run, and the line of the judge that names each.

Figures are worked out by hand. A row is a rate that a writer reported. Its *rate alone*, the rate
without an application, is 100 B/s unless stated.
"""

from typing import Any

import pytest

from conductor.judge.judge import judge
from conductor.judge.series import Series
from conductor.readings import RateRow
from tests.conductor.made_series import (
    LIMITS,
    PERFTEST,
    SHORT,
    assert_named,
    counted,
    reasons,
    rows,
    writer,
)

#: Counts of a writer that writes on after its last row, and of a writer that stops.
_GOES_ON, _STOPS = counted(*[100] * 11), counted(*[100] * 9, 0, 0)
_TWO_ROWS = rows(100, 100)
#: 100 B/s are requested, so 50 B/s are enough, although the writer's rate alone is 130 B/s.
_THROTTLED = {"alone_b_s": 130.0, "fields": {"rate_b_s": 100.0}}
_CONTROL = {"injector": "spin", "alone_b_s": 0.0}


@pytest.mark.parametrize(
    ("reported", "window", "changes", "reason"),
    [
        (rows(1, 90, 90, 1), (1.0, 3.0), {}, None),  # rows outside the window
        ([], (10.0, 13.0), {}, "writer 0 wrote nothing within the window"),
        (rows(90, 90), (10.0, 13.0), {}, "wrote nothing within the window"),
        # The application could not be started, so the window has no length. The writer writes on.
        (rows(90, 90, 90), (1.5, 1.5), {}, "wrote nothing within the window"),
        ([RateRow(0, 1, 100), RateRow(1.9, 2.9, 100)], (1.1, 1.8), {}, "reported no row within"),
        (rows(90, 90, 90, start_s=10.5), (10.0, 13.0), {}, "started 0.50 s late"),
        (rows(90, 90, 90, start_s=9.0), (10.0, 13.0), {}, "stopped 1.00 s before the application"),
        ([RateRow(9, 10, 90), RateRow(10, 13.5, 90)], (10.0, 13.0), {}, "nothing for 3.5 s"),
        ([RateRow(9, 10, 90), RateRow(10, 13, 90)], (10.0, 13.0), {}, None),
        ([RateRow(9.5, 13.5, 90)], (10.0, 13.0), {}, "nothing for 4.0 s"),
        # A row may be late before the window, and after it.
        ([RateRow(0, 1, 90), *rows(90, 90, 90, 90, start_s=9)], (10.0, 13.0), {}, None),
        ([*rows(90, 90), RateRow(2, 6, 90)], (0.0, 2.0), {}, None),
        # Rows are 1.4 s apart. They are late after three times `row_s`, which is 2 s here.
        (PERFTEST, (0.5, 5.9), {"row_s": 2 / 3}, None),
        (PERFTEST, (0.5, 5.9), {"row_s": 0.45}, "reported nothing for 1.4 s"),
        (rows(90, 49, 90), (0.0, 3.0), {}, "wrote at 49 % of its rate alone from second 1.0 of the"
         " window; at least 50 % is required"),
        (rows(90, 50, 90), (0.0, 3.0), {}, None),
        (rows(90, 49, 90), (1.5, 3.0), {}, "wrote at 49 % of its rate alone from second 0.0"),
        (rows(90, 0, 90), (0.0, 3.0), {}, "wrote at 0 % of its rate alone from second 1.0"),
        (_TWO_ROWS, (0.5, 2.7), {"samples": _GOES_ON, "counted_s": 0.25}, None),
        (_TWO_ROWS, (0.5, 2.7), {"samples": _STOPS, "counted_s": 0.25},
         "at 0 % of its rate alone from second 1.8"),
        # In the window it wrote 1000 of 3000 B/s, although its rows have 2000 B/s and 1400 B/s.
        (SHORT, (10.5, 11.8), {"alone_b_s": 3000.0}, "wrote at 33 % of its rate alone"),
        (rows(90, 55, 90), (0.0, 3.0), _THROTTLED, None),
        (rows(90, 45, 90), (0.0, 3.0), _THROTTLED, "wrote at 45 % of the requested rate from"),
        # It does not reach the requested 400 B/s even alone, so its rate alone is what counts.
        (rows(90, 55, 90), (0.0, 3.0), {"fields": {"rate_b_s": 400.0}}, None),
        # In 3 s, a limited writer may write at most 1.5 times 100 B/s, and two messages of 1 B.
        (rows(150, 150, 150), (0.0, 3.0), {**_THROTTLED, "alone_b_s": 500.0}, None),
        (rows(151, 151, 151), (0.0, 3.0), {**_THROTTLED, "alone_b_s": 500.0},
         "wrote at 151.0 % of the requested rate; at most 150.7 % is allowed"),
        # Two messages of 3 B in 3 s are 2 B/s.
        (rows(151.9, 151.9, 151.9, start_s=10.0), (10.0, 13.0),
         {"alone_b_s": 500.0, "fields": {"rate_b_s": 100.0, "message_b": 3}}, None),
        # A control must compute all the time, at any rate above 0. If a busy host delays a row, the
        # row covers all the time since the last row.
        ([RateRow(9, 10, 1.0), RateRow(10, 13.5, 0.2)], (10.0, 13.0), _CONTROL, None),
        (rows(1.0, 1.0), (0.0, 3.0), _CONTROL, "control 0 stopped 1.00 s before"),
        (rows(1.0, 1.0, 1.0, start_s=0.5), (0.0, 3.0), _CONTROL, "control 0 started 0.50 s late"),
        (rows(0.5, 0.5, 0.0), (0.0, 3.0), _CONTROL, "control 0 computed nothing from second 2.0"),
        # The control had its whole core until the application started. This was in the middle of a
        # row of half a core, so in the second half of the row it may have had nothing.
        ([*rows(1, 1, start_s=8.5), RateRow(10.5, 11.5, 0.5)], (11.0, 11.4), _CONTROL, None),
    ],
)  # fmt: skip
def test_a_run_is_rejected_if_its_writer_does_not_write_all_the_time(
    reported: list[RateRow],
    window: tuple[float, float],
    changes: dict[str, Any],
    reason: str | None,
) -> None:
    assert_named(reasons(Series(writers=[writer(reported, **changes)]), window), reason)


def test_a_writer_that_stands_still_is_rejected_even_with_the_smallest_required_share() -> None:
    series = Series(writers=[writer(rows(90, 0, 90))])
    assert_named(reasons(series, (0.0, 3.0), min_share=1e-9), "wrote at 0 % of its rate alone")


#: The window covers a fifth of the row of 114 B/s. If the rest of this row had the 90 B/s of the
#: row before, this fifth would have 210 B/s. That is mostly scatter, so the row's 114 B/s are used.
_FIFTH_OF_A_ROW = [*rows(5, 90, start_s=8.5), RateRow(10.5, 11.5, 114), RateRow(11.5, 12.5, 90)]
#: The same with rows of two seconds.
_TWO_SECONDS = [
    RateRow(2 * row.start_s - 10.5, 2 * row.end_s - 10.5, row.rate_b_s) for row in _FIFTH_OF_A_ROW
]


@pytest.mark.parametrize(
    ("reported", "window", "alone_b_s", "asked_b_s", "beyond"),
    [
        (rows(155, 155, 155), (0.0, 3.0), 100.0, None, True),
        ([RateRow(0, 2, 125), RateRow(2, 4, 125)], (0.0, 4.0), 100.0, None, False),
        (rows(60, 190, 80), (0.0, 3.0), 100.0, None, False),  # a single high row is scatter
        (_FIFTH_OF_A_ROW, (10.9, 11.1), 100.0, None, False),
        (_TWO_SECONDS, (10.9, 11.3), 100.0, None, False),
        # The rate is above the requested 100 B/s, but hardly above the rate alone.
        (rows(140, 140, 140), (0.0, 3.0), 130.0, 100.0, False),
        (rows(200, 200, 200), (0.0, 3.0), 100.0, 400.0, True),  # twice the measured rate alone
    ],
)
def test_a_writer_far_above_its_rate_alone_shows_that_the_rate_alone_was_disturbed(
    reported: list[RateRow],
    window: tuple[float, float],
    alone_b_s: float,
    asked_b_s: float | None,
    beyond: bool,
) -> None:
    series = Series(writers=[writer(reported, alone_b_s=alone_b_s, fields={"rate_b_s": asked_b_s})])
    assert (judge(series, window, LIMITS).share_of_rate_alone > LIMITS.max_share) == beyond
    reached = f"{100 * reported[0].rate_b_s / alone_b_s:.0f} %"
    reason = f"wrote at {reached} of its rate alone; at most 125 % is allowed: the rate alone was"
    assert_named(reasons(series, window), reason if beyond else None)
