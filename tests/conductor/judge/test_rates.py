"""Figures of a writer in the window of a run, worked out by hand.

A row is a rate that the writer reported, here over 1 s. A sample is a reading of a byte counter.
Without an application, the writer reaches 100 B/s.
"""

from dataclasses import replace
from itertools import pairwise

import pytest

from conductor.judge.rates import (
    all_rows,
    bytes_within,
    gapless_rows,
    last_end_s,
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
    """Return all rows of a writer whose counter counts no other writer."""
    return all_rows(writer(reported, samples=samples, counted_s=least_s))


def joined(reported, samples):
    return gapless_rows(writer(reported, samples=samples, counted_s=0.25))


def test_a_steady_writer_counts_and_its_rate_is_weighted_by_time():
    # The window from 0.5 s to 2.5 s has 0.5 s of the first row, all of the second row, and 0.5 s of
    # the third row. Outside the window, the writer is assumed to write 100 B/s.
    figures = within(rows(80, 100, 70), 0.5, 2.5)
    assert figures.bytes_b == pytest.approx((80 - 50) + 100 + (70 - 50))
    assert figures.rate_b_s == pytest.approx(150 / 2)
    assert figures.rate_min_b_s == 70
    assert (figures.observed_share, figures.unobserved_s) == (1.0, 0.0)


def played(*steps):
    """Return readings of a device every quarter of a second, from 7.1 s to 12.1 s.

    `steps` are pairs (until_s, rate in B/s). The device counts 4 % more, for headers.
    """
    gone, then_s, readings = 4e9, 7.1, []
    while then_s < 12.2:
        readings.append(CounterSample(then_s, gone))
        now_s = then_s + 0.25
        for (from_s, _), (until_s, rate) in pairwise([(7.1, 0), *steps]):
            gone += 1.04 * rate * max(min(now_s, until_s) - max(then_s, from_s), 0.0)
        then_s = now_s
    return readings


def short(samples=(), reported=SHORT):
    return within(reported, 10.5, 11.8, 3000.0, samples)


def test_rows_that_overlap_the_edges_of_a_run_are_divided_as_the_device_counted():
    figures = short(played((10.5, 3000), (11.8, 1000), (20, 3000)))
    # If the bytes of each row were spread evenly, the window would have 0.5 * 2000 + 0.8 * 1400 =
    # 2120 B. It really has 1300 B. The readings at 10.35 s and 10.6 s straddle the first edge, and
    # those at 11.6 s and 11.85 s the second. By hand: 550 B passed between the first two readings,
    # of which 0.4 * 550 = 220 B are counted for the window; really it was 100 B. 350 B passed
    # between the last two, of which 0.8 * 350 = 280 B are counted; really it was 200 B.
    assert figures.bytes_b == pytest.approx(1300 + 120 + 80)
    assert figures.rate_b_s == pytest.approx(figures.bytes_b / 1.3)
    # Both rows are means that include time outside the window, so both are higher than this rate.
    assert figures.rate_min_b_s == figures.rate_b_s


def test_without_a_device_the_rate_before_the_run_is_assumed_outside_the_window():
    assert short().bytes_b == pytest.approx((2000 - 0.5 * 3000) + (1400 - 0.2 * 3000))
    # Just before this run, the writer was slower: it wrote 2800 B in each second.
    slower = [*rows(500, 2800, 2800, start_s=7), *SHORT[3:]]
    assert short(reported=slower).bytes_b == pytest.approx((2000 - 1400) + (1400 - 560))
    # The result is not negative, even if the writer was very fast before.
    assert short(reported=[*rows(500, 9000, 9000, start_s=7), *SHORT[3:]]).bytes_b == 0


def test_the_count_at_a_time_between_two_readings_is_interpolated():
    samples = [
        CounterSample(1.0, 100.0),
        CounterSample(2.0, 300.0),
        CounterSample(2.0, 300.0),
        CounterSample(4.0, 300.0),
    ]
    at_s = [0.9, 1.0, 1.25, 2.0, 3.0, 4.0, 4.1]
    assert [total_at(samples, time_s) for time_s in at_s] == [None, 100, 150, 300, 300, 300, None]
    assert total_at([], 1.0) is None


def test_rates_from_the_counter_are_added_before_and_after_the_reported_rows():
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
    # By hand: before the reported rows, 80 B/s. After them, 0.15 s at 90 B/s, then 0.25 s at 40.
    assert [row.rate_b_s for row in joint_rows] == pytest.approx(
        [80, 80, 91, 89, (0.15 * 90 + 0.25 * 40) / 0.4, 40]
    )


def test_without_reported_rows_all_rates_come_from_the_counter():
    joint_rows = filled([], counted(0, 100, 100))
    assert [row.rate_b_s for row in joint_rows] == pytest.approx([0, 100, 100])
    assert filled([], counted(100)) == [RateRow(0, 0.25, 100)]
    assert filled([], counted(100, start_s=5.0, every_s=0.2)) == []  # too short for a rate
    assert filled(rows(5, 6), []) == rows(5, 6)


def test_a_writer_is_known_until_its_last_row_or_the_last_count_after_it():
    series = writer(rows(90, 90), samples=counted(*[90] * 13))  # counted until 3.25
    assert last_end_s(series) == 2.0
    assert last_end_s(replace(series, rows=rows(90))) == 1.0
    assert last_end_s(replace(series, counted_s=0.25)) == 3.25
    assert last_end_s(replace(series, rows=[], counted_s=0.25)) == 3.25
    assert last_end_s(replace(series, rows=[])) is None


def test_a_rate_over_a_short_time_is_replaced_by_the_rate_over_a_longer_time_around_it():
    """In a few milliseconds after a row, the device may have counted a whole message or none."""
    samples = [*counted(100, 100, 100, 100), CounterSample(1.01, 1e9 + 100)]
    (row, last) = filled([RateRow(0, 1, 99)], samples)
    assert (last.start_s, last.end_s) == (1, 1.01)
    # By hand: nothing was counted in the last 0.01 s; before, 0.24 s at 100 B/s. So 24 B in 0.25 s.
    assert last.rate_b_s == pytest.approx(96)
    assert row.rate_b_s == 99
    # Before the first row, the longer time extends to later samples: in 0.25 s, 0.1 s at 80 B/s.
    early, *_ = filled([RateRow(0.1, 0.3, 5)], counted(80, 80, 0, 0, 0, 0, every_s=0.05))
    assert (early.end_s, early.rate_b_s) == pytest.approx((0.1, 32))


def test_several_samples_are_combined_if_a_rate_needs_a_longer_time():
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
    # In the second case, the counter was set back within the window.
    for one, other, bytes_b in ((10.0, 40.0, 30.0), (40.0, 10.0, 0.0)):
        odd = [
            CounterSample(0.0, 0.0),
            CounterSample(1.0, one),
            CounterSample(2.0, other),
            CounterSample(3.0, 20.0),
        ]
        assert bytes_within(RateRow(0, 3, 10.0), (1.0, 2.0), odd, 0.0) == bytes_b


def test_the_rate_before_a_run_is_the_mean_of_whole_rows_after_the_first_row():
    reported = [RateRow(0, 1, 5), RateRow(1, 2, 100), RateRow(2, 4, 70), RateRow(4, 5, 10)]
    assert rate_before(reported, 4.5) == pytest.approx((100 + 2 * 70) / 3)
    assert rate_before(reported, 1.5) is None


def test_bytes_counted_between_two_rows_are_added_to_the_second_row():
    """`ib_write_bw` printed rows of 912, 896 and 864 messages of 64 KiB, each over one second
    (`inf_stamped.client`).

    Each row is followed by a pause of 0.4 s without a row, in which the writer wrote at half the
    rate. The count of the pause is converted to the unit of the rows.
    """
    second_b = [65536 * messages for messages in (912, 896, 864)]
    reported = [RateRow(1.4 * i, 1.4 * i + 1, bytes_b) for i, bytes_b in enumerate(second_b)]
    pause_b = 0.4 * 0.5 * 60e6
    steps = [step for bytes_b in second_b for step in ((1.0, bytes_b), (0.4, pause_b))]
    # Counted bytes per written byte: with headers, or if the unit of the counter is wrong.
    for unit in (1.014, 0.25, 4.0):
        samples = [CounterSample(-0.5, 0.0), CounterSample(0.0, 7e6)]
        for over_s, bytes_b in steps:
            then = samples[-1]
            samples.append(CounterSample(then.at_s + over_s, then.total + unit * bytes_b))
        first, second, third = joined(reported, samples)
        assert first == reported[0]
        assert (second.start_s, second.end_s) == (1.0, 2.4)
        assert second.rate_b_s == pytest.approx((second_b[1] + pause_b) / 1.4)
        assert third.rate_b_s == pytest.approx((second_b[2] + pause_b) / 1.4)
        # The window from 0.5 s to 3.3 s has both pauses, the second row, and 0.5 s of each of the
        # two other rows.
        figures = within([first, second, third], 0.5, 3.3, samples=samples)
        by_hand_b = second_b[0] / 2 + second_b[1] + second_b[2] / 2 + 2 * pause_b
        assert figures.bytes_b == pytest.approx(by_hand_b)
        assert figures.rate_b_s == pytest.approx(by_hand_b / 2.8)
        assert (figures.observed_share, figures.unobserved_s) == (1.0, 0.0)


def test_pauses_between_rows_that_were_not_counted_are_unobserved():
    reported = [RateRow(0.0, 1.0, 100.0), RateRow(1.4, 2.4, 100.0), RateRow(2.8, 3.8, 100.0)]
    assert joined(reported, []) == reported
    # If the counter does not change, its unit is unknown.
    unchanged = [CounterSample(0.0, 5.0), CounterSample(4.0, 5.0)]
    assert joined(reported, unchanged) == reported
    # Counted from the end of the second row on: 80 B until the third row, and 100 B during it.
    late = [CounterSample(2.4, 0.0), CounterSample(2.8, 80.0), CounterSample(3.8, 180.0)]
    assert joined(reported, late) == [*reported[:2], RateRow(2.4, 3.8, pytest.approx(180 / 1.4))]
    assert joined([], late) == []
    # The writer shares its device, which counted the bytes of other writers too.
    shared = counted(*[300] * 16)
    assert gapless_rows(writer(reported, samples=shared)) == reported


def test_time_between_rows_is_unobserved_and_adds_no_bytes():
    """An emulated processor prints rows of 1 s 2.9 s apart. The window lasts 5.8 s."""
    reported = [RateRow(end - 1, end, 100.0) for end in (0.5, 3.4, 6.3)]
    figures = within(reported, 0.0, 5.8)
    # By hand: rows cover 0 to 0.5, 2.4 to 3.4, and 5.3 to 5.8. They do not cover 0.5 to 2.4 and 3.4
    # to 5.3.
    assert figures.observed_share == pytest.approx(2.0 / 5.8)
    assert (figures.unobserved_s, figures.bytes_b) == pytest.approx((1.9, 200))
    assert figures.rate_b_s == pytest.approx(100)
    assert within(PERFTEST, 0.5, 5.9).unobserved_s == pytest.approx(0.38)
    assert within([], 0.5, 5.9).unobserved_s == pytest.approx(5.4)
    assert within([], 0.5, 0.5).unobserved_s == 0.0
    between = within([RateRow(0.0, 1.0, 100.0), RateRow(1.9, 2.9, 100.0)], 1.1, 1.8)
    assert (between.observed_share, between.bytes_b) == (0.0, 0.0)
    assert (between.rate_b_s, between.rate_min_b_s) == (0.0, 0.0)
