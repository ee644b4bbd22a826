"""Windows and rows worked out by hand: 1 s rows, a writer that reaches 100 B/s alone."""

import math
from itertools import pairwise

import pytest

from conductor.evidence.rates import (
    OF_CONTROL,
    Bursts,
    Expected,
    Seen,
    Tally,
    achieved,
    at_speed,
    bytes_within,
    expected,
    filled,
    joined,
    judge,
    most_of,
    passed_at,
    rate_alone,
    rate_before,
)
from records.treatment import Burst

ALONE = Expected(100.0, "its rate alone")


def rows(*rates: float, start_s: float = 0.0) -> list[Seen]:
    return [Seen(start_s + i, start_s + i + 1, rate) for i, rate in enumerate(rates)]


def judged(seen, start_s, end_s, required=ALONE, min_share=0.5, late_rows=3.0, **more):
    return judge(seen, start_s, end_s, required, min_share, 1.0, late_rows, **more)


def test_a_steady_writer_counts_and_its_rate_is_weighted_by_time():
    # Window 0.5..2.5 takes 0.5 s of the first row, which writes 100 outside, all of the second, and
    # 0.5 s of the third.
    found = judged(rows(80, 100, 70), 0.5, 2.5)
    assert found.reason is None
    assert found.bytes_b == pytest.approx((80 - 50) + 100 + (70 - 50))
    assert found.rate_b_s == pytest.approx(150 / 2)
    assert found.rate_min_b_s == 70
    assert (found.observed_share, found.unobserved_s) == (1.0, 0.0)


#: A writer that reaches 3000 B/s alone, and 1000 B/s while an application runs, from 10.5 to 11.8:
#: 1300 bytes. Rows are means of whole seconds; the two that the application shares have 2000 and
#: 1400.
SHORT = [*rows(500, 3000, 3000, start_s=7), Seen(10, 11, 2000), Seen(11, 12, 1400)]
FULL = Expected(3000.0, "its rate alone")


def played(*steps):
    """Readings of a device every quarter of a second from 7.1 to 12.1; steps: (until_s, rate)."""
    gone, then_s, found = 4e9, 7.1, []
    while then_s < 12.2:
        found.append(Tally(then_s, gone))
        now_s = then_s + 0.25
        for (from_s, _), (until_s, rate) in pairwise([(7.1, 0), *steps]):
            gone += 1.04 * rate * max(min(now_s, until_s) - max(then_s, from_s), 0.0)  # headers
        then_s = now_s
    return found


def short(tallies=(), seen=SHORT):
    return judged(seen, 10.5, 11.8, FULL, 0.1, tallies=tallies)


def test_rows_that_the_application_shares_are_divided_as_the_device_passed_them():
    found = short(played((10.5, 3000), (11.8, 1000), (20, 3000)))
    # Evenly spread they would be 0.5 * 2000 + 0.8 * 1400 = 2120. Readings at 10.35 and 10.6, and at
    # 11.6 and 11.85, straddle the edges. By hand: 550 passed between the first two, of which
    # 0.4 * 550 = 220 count, not 100; and 0.8 * 350 = 280 of the other two's 350, not 200.
    assert found.bytes_b == pytest.approx(1300 + 120 + 80)
    assert found.rate_b_s == pytest.approx(found.bytes_b / 1.3)
    assert found.rate_min_b_s == found.rate_b_s  # both rows are means with more than the window
    assert found.reason is None


def test_without_a_device_the_part_outside_is_taken_at_the_rate_before():
    assert short().bytes_b == pytest.approx((2000 - 0.5 * 3000) + (1400 - 0.2 * 3000))
    # Slower before this run than alone: 2800 of each second outside.
    slower = [*rows(500, 2800, 2800, start_s=7), *SHORT[3:]]
    assert short(seen=slower).bytes_b == pytest.approx((2000 - 1400) + (1400 - 560))
    # Never less than nothing, however fast it was before.
    assert short(seen=[*rows(500, 9000, 9000, start_s=7), *SHORT[3:]]).bytes_b == 0


@pytest.mark.parametrize(
    "tallies",
    [
        [],
        [Tally(10.2, 5.0), Tally(12.5, 9000.0)],  # not from the row's start
        [Tally(9.0, 5.0), Tally(11.9, 9000.0)],  # the second row: not until its end
        [Tally(9.0, 9000.0), Tally(12.5, 5.0)],  # set back
        [Tally(9.0, 5.0), Tally(12.5, 5.0)],  # nothing passed
    ],
)
def test_readings_that_do_not_cover_a_row_do_not_divide_it(tallies):
    assert short(tallies, SHORT[:4] + [Seen(11, 12, 1400)]).bytes_b >= 1300 - 1e-9


def test_what_had_passed_lies_between_two_readings():
    tallies = [Tally(1.0, 100.0), Tally(2.0, 300.0), Tally(2.0, 300.0), Tally(4.0, 300.0)]
    at_s = [0.9, 1.0, 1.25, 2.0, 3.0, 4.0, 4.1]
    assert [passed_at(tallies, each) for each in at_s] == [None, 100, 150, 300, 300, 300, None]
    assert passed_at([], 1.0) is None


def counted(*rates, start_s=0.0, every_s=0.25):
    """Tallies of a writer that held each rate for a quarter of a second."""
    found, total = [Tally(start_s, 1e9)], 1e9
    for number, rate in enumerate(rates, 1):
        total += rate * every_s
        found.append(Tally(start_s + number * every_s, total))
    return found


def test_what_was_counted_stands_before_and_after_the_rows():
    tallies = counted(*[80] * 3, *[90] * 8, *[40] * 2)  # until 3.25
    seen = [Seen(0.6, 1.6, 91), Seen(1.6, 2.6, 89)]
    found = filled(seen, tallies)
    assert found[2:4] == seen
    assert [(each.start_s, each.end_s) for each in found] == [
        *[(0, 0.25), (0.25, 0.6), (0.6, 1.6), (1.6, 2.6)],
        *[(2.6, 3.0), (3.0, 3.25)],
    ]
    # By hand: 0.25 s at 80 and 0.1 s too; 0.15 s of 90, then 0.25 s of 40.
    assert [each.rate_b_s for each in found] == pytest.approx(
        [80, 80, 91, 89, (0.15 * 90 + 0.25 * 40) / 0.4, 40]
    )


def test_without_rows_there_is_what_was_counted():
    found = filled([], counted(0, 100, 100))
    assert [each.rate_b_s for each in found] == pytest.approx([0, 100, 100])
    assert filled([], counted(100)) == [Seen(0, 0.25, 100)]
    assert filled([], counted(100, start_s=5.0, every_s=0.2)) == []  # too short for a rate
    assert filled(rows(5, 6), []) == rows(5, 6)


def test_the_rate_of_a_short_time_is_that_of_a_longer_one_around_it():
    """A few milliseconds after a row, a message or none may have been counted."""
    tallies = [*counted(100, 100, 100, 100), Tally(1.01, 1e9 + 100)]
    (row, last) = filled([Seen(0, 1, 99)], tallies)
    assert (last.start_s, last.end_s) == (1, 1.01)
    # Nothing in the last 0.01 s, 0.24 s at 100 before.
    assert last.rate_b_s == pytest.approx(96)
    assert row.rate_b_s == 99
    # Before the first row of all, a longer time is one after: of 0.25 s, 0.1 s at 80.
    early, *_ = filled([Seen(0.1, 0.3, 5)], counted(80, 80, 0, 0, 0, 0, every_s=0.05))
    assert (early.end_s, early.rate_b_s) == pytest.approx((0.1, 32))


def test_what_was_not_counted_before_the_first_row_is_no_row():
    """An agent on a busy host looked last a second before its writer's first row began."""
    counts = [Tally(0.0, 0.0), Tally(0.5, 5.0), Tally(1.0, 10.0)]
    row = Seen(2.0, 3.0, 5.0)
    assert filled([row], counts) == [Seen(0.0, 0.5, 10.0), Seen(0.5, 1.0, 10.0), row]


def test_a_longer_least_time_takes_several_tallies_together():
    found = filled([], counted(100, 0, 100, 0, 100), 0.5)
    assert [each.end_s for each in found] == [0.5, 1.25]
    assert [each.rate_b_s for each in found] == pytest.approx([50, 200 / 3])


def test_a_row_within_the_window_counts_as_reported_whatever_the_device_passed():
    tallies = [Tally(0.0, 0.0), Tally(1.0, 90.0), Tally(2.0, 91.0), Tally(9.0, 900.0)]
    assert bytes_within(Seen(1, 2, 77.0), 0.5, 2.5, tallies, 100.0) == 77.0
    for one, other, bytes_b in ((10.0, 40.0, 30.0), (40.0, 10.0, 0.0)):  # it was set back within
        odd = [Tally(0.0, 0.0), Tally(1.0, one), Tally(2.0, other), Tally(3.0, 20.0)]
        assert bytes_within(Seen(0, 3, 10.0), 1.0, 2.0, odd, 0.0) == bytes_b


#: What was counted of a writer that goes on after its last row, and of one that stops.
_GOES_ON, _STOPS = counted(*[100] * 11), counted(*[100] * 9, 0, 0)
_TWO = [Seen(0, 1, 100), Seen(1, 2, 100)]
#: Rows of perftest, which pauses for 0.2 to 0.4 s between them.
_PERFTEST = [Seen(end - 1, end, 100.0) for end in (1.0, 2.22, 3.6, 4.9, 6.2)]
#: Half of 100 requested is enough, although it wrote 130 alone.
_THROTTLED = {"required": expected(130.0, 100.0)}
_CONTROL = {"required": OF_CONTROL, "late_rows": 2.0}


@pytest.mark.parametrize(
    ("seen", "window", "options", "reason"),
    [
        (rows(1, 90, 90, 1), (1.0, 3.0), {}, None),  # rows outside the window
        ([], (10.0, 13.0), {}, "wrote nothing within the window"),
        (rows(90, 90), (10.0, 13.0), {}, "wrote nothing within the window"),
        # An application that could not be started, under a writer that goes on.
        (rows(90, 90, 90), (1.5, 1.5), {}, "wrote nothing within the window"),
        ([Seen(0, 1, 100), Seen(1.9, 2.9, 100)], (1.1, 1.8), {}, "reported no row within the"),
        (rows(90, 90, 90, start_s=10.5), (10.0, 13.0), {}, "started 0.50 s late"),
        (rows(90, 90, start_s=10.0), (10.0, 13.0), {}, "stopped 1.00 s before the application"),
        ([Seen(9, 10, 90), Seen(10, 13.5, 90)], (10.0, 13.0), {}, "reported nothing for 3.5 s"),
        (_PERFTEST, (0.5, 5.9), {"late_rows": 2.0}, None),
        (rows(90, 49, 90), (0.0, 3.0), {}, "wrote at 49% of its rate alone from second 1.0"),
        (rows(90, 0, 90), (0.0, 3.0), {}, "wrote at 0% of its rate alone from second 1.0"),
        (rows(90, 0, 90), (0.0, 3.0), {"min_share": 0.0}, "wrote at 0% of its rate alone"),
        (filled(_TWO, _GOES_ON), (0.5, 2.7), {}, None),
        (filled(_TWO, _STOPS), (0.5, 2.7), {}, "wrote at 0% of its rate alone from second 1.8"),
        # 1000 of 3000, though its rows have 2000 and 1400.
        (SHORT, (10.5, 11.8), {"required": FULL, "min_share": 0.4}, "wrote at 33% of its rate"),
        (rows(90, 55, 90), (0.0, 3.0), _THROTTLED, None),
        (rows(90, 45, 90), (0.0, 3.0), _THROTTLED, "wrote at 45% of the requested rate from"),
        # A control must run all the time, however little. A report that the busy host delays is of
        # all the time since the one before.
        ([Seen(9, 10, 1.0), Seen(10, 13.5, 0.2)], (10.0, 13.0), _CONTROL, None),
        (rows(1.0, 1.0), (0.0, 3.0), _CONTROL, "stopped 1.00 s before"),
        (rows(1.0, 1.0, 1.0, start_s=0.5), (0.0, 3.0), _CONTROL, "started 0.50 s late"),
        (rows(0.5, 0.5, 0.0), (0.0, 3.0), _CONTROL, "computed nothing from second 2.0 of the"),
        # It had all of its core until the application started, half a second into a row of half.
        ([*rows(1, 1, start_s=8.5), Seen(10.5, 11.5, 0.5)], (11.0, 11.4), _CONTROL, None),
    ],
)
def test_whatever_is_not_writing_all_the_time_is_refused(seen, window, options, reason):
    found = judged(seen, *window, **options).reason
    assert found is None if reason is None else found.startswith(reason)


def test_the_rate_alone_and_before_are_those_of_whole_rows_after_the_first():
    assert rate_alone(rows(5, 100, 90, 110)) == 100
    seen = [Seen(0, 1, 5), Seen(1, 2, 100), Seen(2, 4, 70), Seen(4, 5, 10)]
    assert rate_before(seen, 4.5) == pytest.approx((100 + 2 * 70) / 3)
    assert rate_before(seen, 1.5) is None


def test_at_speed_looks_at_the_latest_row():
    assert not at_speed([], 100.0, 0.5)
    assert not at_speed(rows(100, 49), 100.0, 0.5)
    assert at_speed(rows(10, 50), 100.0, 0.5)
    assert not at_speed(rows(10, 0), 100.0, 0.0)


def test_a_throttled_writer_is_compared_with_what_was_requested():
    assert expected(100.0, None)[:2] == (100.0, "its rate alone")
    # A limiter that overshoots without an application: the request counts.
    assert expected(130.0, 100.0)[:2] == (100.0, "the requested rate")
    # More than the link carries: nothing above its rate alone can be expected.
    assert expected(60.0, 500.0)[:2] == (60.0, "its rate alone")


#: A fifth of a row of 114, less 0.8 s at the 90 of the rows before: 210 is mostly the scatter of
#: both, but the row has 114.
_FIFTH = [*rows(5, 90, start_s=8.5), Seen(10.5, 11.5, 114), Seen(11.5, 12.5, 90)]


@pytest.mark.parametrize(
    ("seen", "window", "alone_b_s", "asked_b_s", "beyond"),
    [
        (rows(155, 155, 155), (0.0, 3.0), 100.0, None, True),
        ([Seen(0, 2, 125), Seen(2, 4, 125)], (0.0, 4.0), 100.0, None, False),
        (rows(60, 190, 80), (0.0, 3.0), 100.0, None, False),  # one row above it is scatter
        (_FIFTH, (10.9, 11.1), 100.0, None, False),
        # A limiter overshoots the request of 100, but not what it reached alone.
        (rows(140, 140, 140), (0.0, 3.0), 130.0, 100.0, False),
        (rows(200, 200, 200), (0.0, 3.0), 100.0, 400.0, True),  # more than it seemed to reach
    ],
)
def test_a_writer_far_above_its_rate_alone_shows_that_this_was_disturbed(
    seen, window, alone_b_s, asked_b_s, beyond
):
    found = judged(seen, *window, expected(alone_b_s, asked_b_s), max_share=1.25)
    assert (found.beyond_alone, found.reason is not None) == (beyond, beyond)
    if seen is _FIFTH:
        assert found.rate_b_s == pytest.approx((114 - 0.8 * 90) / 0.2)


@pytest.mark.parametrize(("rate_b_s", "rejected"), [(152, False), (153, True)])
def test_a_limited_writer_far_above_its_limit_is_rejected(rate_b_s, rejected):
    """In 3 s at most 1.5 times 100 B/s, and two messages of 3 B."""
    most_b_s = most_of(100.0, 3, 3.0)
    found = judged(rows(*[rate_b_s] * 3), 0.0, 3.0, expected(1000.0, 100.0), most_b_s=most_b_s)
    assert (found.reason is not None, found.beyond_alone) == (rejected, False)


def test_a_window_may_have_a_burst_more():
    """Bursts of 1 s at 400 B/s each 4 s: a window of 3 s may have 400 B more than its 450 B."""
    assert most_of(100.0, 0, 3.0, Burst(1.0, 3.0)) == pytest.approx(850 / 3)
    assert most_of(None, 3, 3.0) == most_of(100.0, 3, 0.0) == math.inf


def test_the_pattern_of_a_window_by_hand():
    """Two rows of 0.3 s: bursts of 10 and 20 ms at 3 and 1.5 kB/s; a third row is before it."""
    asked = Burst(0.01, 0.09)
    seen = [
        Seen(8.7, 9.0, 999.0, Bursts(1, 0.2, 0.1)),
        Seen(9.0, 9.3, 300.0, Bursts(3, 0.03, 0.27)),
        Seen(9.3, 9.6, 300.0, Bursts(3, 0.06, 0.24)),
    ]
    found = achieved(asked, seen, 9.1, 9.5)
    assert (found.asked_length_s, found.asked_pause_s) == (0.01, 0.09)
    assert found.length_s == pytest.approx(0.015)
    assert found.pause_s == pytest.approx(0.085)
    assert found.peak_b_s == pytest.approx(180 / 0.09)
    # Without a pause, and from a program that does not say.
    for silent in (Bursts(0, 0.3, 0.0), None):
        nothing = achieved(asked, [Seen(9.0, 9.3, 300.0, silent)], 9.1, 9.2)
        assert (nothing.length_s, nothing.pause_s, nothing.peak_b_s) == (None, None, None)


def test_what_passed_between_rows_is_of_the_next_one_in_the_unit_of_rows():
    """Rows of 912, 896 and 864 messages of 64 KiB, each of a second, as `ib_write_bw` printed them
    (`inf_stamped.client`), and a pause of 0.4 s after each, in which half as much was written."""
    second_b = [65536 * messages for messages in (912, 896, 864)]
    seen = [Seen(1.4 * i, 1.4 * i + 1, bytes_b) for i, bytes_b in enumerate(second_b)]
    pause_b = 0.4 * 0.5 * 60e6
    steps = [step for bytes_b in second_b for step in ((1.0, bytes_b), (0.4, pause_b))]
    for unit in (1.014, 0.25, 4.0):  # headers, or a counter in another unit than is believed
        tallies = [Tally(-0.5, 0.0), Tally(0.0, 7e6)]
        for over_s, bytes_b in steps:
            then = tallies[-1]
            tallies.append(Tally(then.at_s + over_s, then.bytes_b + unit * bytes_b))
        first, second, third = joined(seen, tallies)
        assert first == seen[0]
        assert (second.start_s, second.end_s) == (1.0, 2.4)
        assert second.rate_b_s == pytest.approx((second_b[1] + pause_b) / 1.4)
        assert third.rate_b_s == pytest.approx((second_b[2] + pause_b) / 1.4)
        # A window from 0.5 to 3.3 s: both pauses, a row, and 0.5 s of each of the others.
        found = judged([first, second, third], 0.5, 3.3, min_share=0.0, tallies=tallies)
        by_hand_b = second_b[0] / 2 + second_b[1] + second_b[2] / 2 + 2 * pause_b
        assert found.bytes_b == pytest.approx(by_hand_b)
        assert found.rate_b_s == pytest.approx(by_hand_b / 2.8)
        assert (found.observed_share, found.unobserved_s) == (1.0, 0.0)


def test_pauses_that_were_not_counted_stay_unobserved():
    seen = [Seen(0.0, 1.0, 100.0), Seen(1.4, 2.4, 100.0), Seen(2.8, 3.8, 100.0)]
    assert joined(seen, []) == seen
    assert joined(seen, [Tally(0.0, 5.0), Tally(4.0, 5.0)]) == seen  # nothing passed: no unit
    # From the end of the second row on: 80 between it and the third, in which 100 passed.
    late = [Tally(2.4, 0.0), Tally(2.8, 80.0), Tally(3.8, 180.0)]
    assert joined(seen, late) == [*seen[:2], Seen(2.4, 3.8, pytest.approx(180 / 1.4))]
    assert joined([], late) == []


def test_what_lies_between_rows_is_unobserved_and_not_written():
    """Rows of 1 s that come 2.9 s apart, as an emulated processor prints them; window of 5.8 s."""
    seen = [Seen(end - 1, end, 100.0) for end in (0.5, 3.4, 6.3)]
    found = judged(seen, 0.0, 5.8)
    # By hand: 0 to 0.5, 2.4 to 3.4 and 5.3 to 5.8 are covered; 0.5 to 2.4 and 3.4 to 5.3 are not.
    assert found.observed_share == pytest.approx(2.0 / 5.8)
    assert (found.unobserved_s, found.bytes_b) == pytest.approx((1.9, 200))
    assert (found.reason, found.rate_b_s) == (None, pytest.approx(100))
    assert judged(seen, 0.0, 5.8, late_rows=2.0).reason == "reported nothing for 2.9 s"
    assert judge(seen, 0.0, 5.8, ALONE, 0.5, 1.5, 2.0).reason is None
    assert judged(_PERFTEST, 0.5, 5.9).unobserved_s == pytest.approx(0.38)
    between = judged([Seen(0.0, 1.0, 100.0), Seen(1.9, 2.9, 100.0)], 1.1, 1.8)
    assert (between.observed_share, between.bytes_b) == (0.0, 0.0)
