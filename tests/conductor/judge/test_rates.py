"""Windows and rows worked out by hand: 1 s rows, a writer that reaches 100 B/s alone."""

from itertools import pairwise

import pytest

from conductor.judge.rates import (
    all_rows,
    bytes_within,
    gapless_rows,
    rate_before,
    total_at,
    window_figures,
)
from conductor.readings import CounterSample, RateRow
from tests.conductor.made_series import PERFTEST, SHORT, counted, rows, writer


def within(reported, start_s, end_s, alone_b_s=100.0, samples=()):
    series = writer(reported, alone_b_s=alone_b_s, samples=list(samples))
    return window_figures(series, (start_s, end_s))


def filled(reported, samples, least_s=0.25):
    """All rows of a writer that has its counter for itself."""
    return all_rows(writer(reported, samples=samples, counted_s=least_s))


def joined(reported, samples):
    return gapless_rows(writer(reported, samples=samples, counted_s=0.25))


def test_a_steady_writer_counts_and_its_rate_is_weighted_by_time():
    # Window 0.5..2.5 takes 0.5 s of the first row, which writes 100 outside, all of the second, and
    # 0.5 s of the third.
    figures = within(rows(80, 100, 70), 0.5, 2.5)
    assert figures.bytes_b == pytest.approx((80 - 50) + 100 + (70 - 50))
    assert figures.rate_b_s == pytest.approx(150 / 2)
    assert figures.rate_min_b_s == 70
    assert (figures.observed_share, figures.unobserved_s) == (1.0, 0.0)


def played(*steps):
    """Readings of a device every quarter of a second from 7.1 to 12.1; steps: (until_s, rate)."""
    gone, then_s, readings = 4e9, 7.1, []
    while then_s < 12.2:
        readings.append(CounterSample(then_s, gone))
        now_s = then_s + 0.25
        for (from_s, _), (until_s, rate) in pairwise([(7.1, 0), *steps]):
            gone += 1.04 * rate * max(min(now_s, until_s) - max(then_s, from_s), 0.0)  # headers
        then_s = now_s
    return readings


def short(samples=(), reported=SHORT):
    return within(reported, 10.5, 11.8, 3000.0, samples)


def test_rows_that_the_application_shares_are_divided_as_the_device_passed_them():
    figures = short(played((10.5, 3000), (11.8, 1000), (20, 3000)))
    # Evenly spread they would be 0.5 * 2000 + 0.8 * 1400 = 2120. Readings at 10.35 and 10.6, and at
    # 11.6 and 11.85, straddle the edges. By hand: 550 passed between the first two, of which
    # 0.4 * 550 = 220 count, not 100; and 0.8 * 350 = 280 of the other two's 350, not 200.
    assert figures.bytes_b == pytest.approx(1300 + 120 + 80)
    assert figures.rate_b_s == pytest.approx(figures.bytes_b / 1.3)
    assert figures.rate_min_b_s == figures.rate_b_s  # both rows are means with more than the window


def test_without_a_device_the_part_outside_is_taken_at_the_rate_before():
    assert short().bytes_b == pytest.approx((2000 - 0.5 * 3000) + (1400 - 0.2 * 3000))
    # Slower before this run than alone: 2800 of each second outside.
    slower = [*rows(500, 2800, 2800, start_s=7), *SHORT[3:]]
    assert short(reported=slower).bytes_b == pytest.approx((2000 - 1400) + (1400 - 560))
    # Never less than nothing, however fast it was before.
    assert short(reported=[*rows(500, 9000, 9000, start_s=7), *SHORT[3:]]).bytes_b == 0


def test_what_had_passed_lies_between_two_readings():
    samples = [
        CounterSample(1.0, 100.0),
        CounterSample(2.0, 300.0),
        CounterSample(2.0, 300.0),
        CounterSample(4.0, 300.0),
    ]
    at_s = [0.9, 1.0, 1.25, 2.0, 3.0, 4.0, 4.1]
    assert [total_at(samples, time_s) for time_s in at_s] == [None, 100, 150, 300, 300, 300, None]
    assert total_at([], 1.0) is None


def test_what_was_counted_stands_before_and_after_the_rows():
    samples = counted(*[80] * 3, *[90] * 8, *[40] * 2)  # until 3.25
    reported = [RateRow(0.6, 1.6, 91), RateRow(1.6, 2.6, 89)]
    joint_rows = filled(reported, samples)
    assert joint_rows[2:4] == reported
    assert [(row.start_s, row.end_s) for row in joint_rows] == [
        (0, 0.25),
        (0.25, 0.6),
        (0.6, 1.6),
        (1.6, 2.6),
        (2.6, 3.0),
        (3.0, 3.25),
    ]
    # By hand: 0.25 s at 80 and 0.1 s too; 0.15 s of 90, then 0.25 s of 40.
    assert [row.rate_b_s for row in joint_rows] == pytest.approx(
        [80, 80, 91, 89, (0.15 * 90 + 0.25 * 40) / 0.4, 40]
    )


def test_without_rows_there_is_what_was_counted():
    joint_rows = filled([], counted(0, 100, 100))
    assert [row.rate_b_s for row in joint_rows] == pytest.approx([0, 100, 100])
    assert filled([], counted(100)) == [RateRow(0, 0.25, 100)]
    assert filled([], counted(100, start_s=5.0, every_s=0.2)) == []  # too short for a rate
    assert filled(rows(5, 6), []) == rows(5, 6)


def test_the_rate_of_a_short_time_is_that_of_a_longer_one_around_it():
    """A few milliseconds after a row, a message or none may have been counted."""
    samples = [*counted(100, 100, 100, 100), CounterSample(1.01, 1e9 + 100)]
    (row, last) = filled([RateRow(0, 1, 99)], samples)
    assert (last.start_s, last.end_s) == (1, 1.01)
    # Nothing in the last 0.01 s, 0.24 s at 100 before.
    assert last.rate_b_s == pytest.approx(96)
    assert row.rate_b_s == 99
    # Before the first row of all, a longer time is one after: of 0.25 s, 0.1 s at 80.
    early, *_ = filled([RateRow(0.1, 0.3, 5)], counted(80, 80, 0, 0, 0, 0, every_s=0.05))
    assert (early.end_s, early.rate_b_s) == pytest.approx((0.1, 32))


def test_a_longer_least_time_takes_several_samples_together():
    joint_rows = filled([], counted(100, 0, 100, 0, 100), 0.5)
    assert [row.end_s for row in joint_rows] == [0.5, 1.25]
    assert [row.rate_b_s for row in joint_rows] == pytest.approx([50, 200 / 3])


def test_a_row_within_the_window_counts_as_reported_whatever_the_device_passed():
    samples = [
        CounterSample(0.0, 0.0),
        CounterSample(1.0, 90.0),
        CounterSample(2.0, 91.0),
        CounterSample(9.0, 900.0),
    ]
    assert bytes_within(RateRow(1, 2, 77.0), (0.5, 2.5), samples, 100.0) == 77.0
    for one, other, bytes_b in ((10.0, 40.0, 30.0), (40.0, 10.0, 0.0)):  # it was set back within
        odd = [
            CounterSample(0.0, 0.0),
            CounterSample(1.0, one),
            CounterSample(2.0, other),
            CounterSample(3.0, 20.0),
        ]
        assert bytes_within(RateRow(0, 3, 10.0), (1.0, 2.0), odd, 0.0) == bytes_b


def test_the_rate_before_is_that_of_whole_rows_after_the_first():
    reported = [RateRow(0, 1, 5), RateRow(1, 2, 100), RateRow(2, 4, 70), RateRow(4, 5, 10)]
    assert rate_before(reported, 4.5) == pytest.approx((100 + 2 * 70) / 3)
    assert rate_before(reported, 1.5) is None


def test_what_passed_between_rows_is_of_the_next_one_in_the_unit_of_rows():
    """Rows of 912, 896 and 864 messages of 64 KiB, each of a second, as `ib_write_bw` printed them
    (`inf_stamped.client`), and a pause of 0.4 s after each, in which half as much was written."""
    second_b = [65536 * messages for messages in (912, 896, 864)]
    reported = [RateRow(1.4 * i, 1.4 * i + 1, bytes_b) for i, bytes_b in enumerate(second_b)]
    pause_b = 0.4 * 0.5 * 60e6
    steps = [step for bytes_b in second_b for step in ((1.0, bytes_b), (0.4, pause_b))]
    for unit in (1.014, 0.25, 4.0):  # headers, or a counter in another unit than is believed
        samples = [CounterSample(-0.5, 0.0), CounterSample(0.0, 7e6)]
        for over_s, bytes_b in steps:
            then = samples[-1]
            samples.append(CounterSample(then.at_s + over_s, then.total + unit * bytes_b))
        first, second, third = joined(reported, samples)
        assert first == reported[0]
        assert (second.start_s, second.end_s) == (1.0, 2.4)
        assert second.rate_b_s == pytest.approx((second_b[1] + pause_b) / 1.4)
        assert third.rate_b_s == pytest.approx((second_b[2] + pause_b) / 1.4)
        # A window from 0.5 to 3.3 s: both pauses, a row, and 0.5 s of each of the others.
        figures = within([first, second, third], 0.5, 3.3, samples=samples)
        by_hand_b = second_b[0] / 2 + second_b[1] + second_b[2] / 2 + 2 * pause_b
        assert figures.bytes_b == pytest.approx(by_hand_b)
        assert figures.rate_b_s == pytest.approx(by_hand_b / 2.8)
        assert (figures.observed_share, figures.unobserved_s) == (1.0, 0.0)


def test_pauses_that_were_not_counted_stay_unobserved():
    reported = [RateRow(0.0, 1.0, 100.0), RateRow(1.4, 2.4, 100.0), RateRow(2.8, 3.8, 100.0)]
    assert joined(reported, []) == reported
    assert (
        joined(reported, [CounterSample(0.0, 5.0), CounterSample(4.0, 5.0)]) == reported
    )  # nothing passed: no unit
    # From the end of the second row on: 80 between it and the third, in which 100 passed.
    late = [CounterSample(2.4, 0.0), CounterSample(2.8, 80.0), CounterSample(3.8, 180.0)]
    assert joined(reported, late) == [*reported[:2], RateRow(2.4, 3.8, pytest.approx(180 / 1.4))]
    assert joined([], late) == []


def test_what_lies_between_rows_is_unobserved_and_not_written():
    """Rows of 1 s that come 2.9 s apart, as an emulated processor prints them; window of 5.8 s."""
    reported = [RateRow(end - 1, end, 100.0) for end in (0.5, 3.4, 6.3)]
    figures = within(reported, 0.0, 5.8)
    # By hand: 0 to 0.5, 2.4 to 3.4 and 5.3 to 5.8 are covered; 0.5 to 2.4 and 3.4 to 5.3 are not.
    assert figures.observed_share == pytest.approx(2.0 / 5.8)
    assert (figures.unobserved_s, figures.bytes_b) == pytest.approx((1.9, 200))
    assert figures.rate_b_s == pytest.approx(100)
    assert within(PERFTEST, 0.5, 5.9).unobserved_s == pytest.approx(0.38)
    between = within([RateRow(0.0, 1.0, 100.0), RateRow(1.9, 2.9, 100.0)], 1.1, 1.8)
    assert (between.observed_share, between.bytes_b) == (0.0, 0.0)
