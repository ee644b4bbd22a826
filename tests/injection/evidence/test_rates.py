"""Windows and rows worked out by hand: 1 s rows, a writer that reaches 100 B/s alone."""

import pytest

from injection.evidence.rates import (
    Expected,
    Seen,
    at_speed,
    expected,
    judge,
    rate_alone,
    rate_before,
)

ALONE = Expected(100.0, "its rate alone")


def rows(*rates: float, start_s: float = 0.0) -> list[Seen]:
    return [Seen(start_s + i, start_s + i + 1, rate) for i, rate in enumerate(rates)]


def reason(seen: list[Seen], start_s: float, end_s: float) -> str | None:
    return judge(
        seen, start_s, end_s, required=ALONE, min_share=0.5, row_s=1.0, late_rows=3.0
    ).reason


def test_a_steady_writer_counts_and_its_rate_is_weighted_by_time():
    # Window 0.5..2.5 takes half of the first row, all of the second, half of the third.
    judged = judge(rows(80, 100, 60), 0.5, 2.5, ALONE, 0.5, 1.0, 3.0)
    assert judged.reason is None
    assert judged.bytes_b == pytest.approx(0.5 * 80 + 100 + 0.5 * 60)
    assert judged.rate_b_s == pytest.approx(170 / 2)
    assert judged.rate_min_b_s == 60


def test_rows_outside_the_window_do_not_count():
    assert reason(rows(1, 90, 90, 1), 1.0, 3.0) is None


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([], "wrote nothing within the window"),
        (rows(90, 90), "wrote nothing within the window"),
        (rows(90, 90, 90, start_s=10.5), "started 0.50 s late"),
        (rows(90, 90, start_s=10.0), "stopped 1.00 s before the application ended"),
        ([Seen(9, 10, 90), Seen(10, 13.5, 90)], "reported nothing for 3.5 s"),
        (rows(90, 49, 90, start_s=10.0), "wrote at 49% of its rate alone from second 1.0"),
        (rows(90, 0, 90, start_s=10.0), "wrote at 0% of its rate alone from second 1.0"),
    ],
)
def test_whatever_is_not_writing_all_the_time_is_refused(seen, expected):
    assert reason(seen, 10.0, 13.0).startswith(expected)


def test_a_window_of_no_length_is_refused():
    # An application that could not be started, under a writer that goes on.
    assert reason(rows(90, 90, 90), 1.5, 1.5) == "wrote nothing within the window"


def test_a_zero_rate_is_refused_even_where_any_share_is_allowed():
    assert judge(rows(90, 0, 90), 0.0, 3.0, ALONE, 0.0, 1.0, 3.0).reason is not None


def test_rate_alone_leaves_out_the_first_row_which_ramps_up():
    assert rate_alone(rows(5, 100, 90, 110)) == 100


def test_the_rate_before_is_that_of_whole_rows_after_the_first():
    seen = [Seen(0, 1, 5), Seen(1, 2, 100), Seen(2, 4, 70), Seen(4, 5, 10)]
    assert rate_before(seen, 4.5) == pytest.approx((100 + 2 * 70) / 3)
    assert rate_before(seen, 1.5) is None


def test_at_speed_looks_at_the_latest_row():
    assert not at_speed([], 100.0, 0.5)
    assert not at_speed(rows(100, 49), 100.0, 0.5)
    assert at_speed(rows(10, 50), 100.0, 0.5)
    assert not at_speed(rows(10, 0), 100.0, 0.0)


@pytest.mark.parametrize(
    ("alone_b_s", "asked_b_s", "rate_b_s", "name"),
    [
        (100.0, None, 100.0, "its rate alone"),
        # A limiter that overshoots without an application: the request counts.
        (130.0, 100.0, 100.0, "the requested rate"),
        # More than the link carries: nothing above its rate alone can be expected.
        (60.0, 500.0, 60.0, "its rate alone"),
    ],
)
def test_a_throttled_writer_is_compared_with_what_was_requested(
    alone_b_s, asked_b_s, rate_b_s, name
):
    assert expected(alone_b_s, asked_b_s)[:2] == (rate_b_s, name)


def test_a_throttled_writer_that_falls_below_its_share_of_the_request_is_refused():
    seen = rows(90, 55, 90, start_s=10.0)
    # 55 of 100 requested is enough, though it is less than half of the 130 that it wrote alone.
    assert judge(seen, 10.0, 13.0, expected(130.0, 100.0), 0.5, 1.0, 3.0).reason is None
    refused = judge(rows(90, 45, 90, start_s=10.0), 10.0, 13.0, expected(130.0, 100.0), 0.5, 1.0, 3)
    assert refused.reason.startswith("wrote at 45% of the requested rate from second 1.0")


def test_what_lies_between_rows_is_unobserved_and_not_written():
    """Rows of 1 s that come 2.9 s apart, as an emulated processor prints them; window of 5.8 s."""
    seen = [Seen(end - 1, end, 100.0) for end in (0.5, 3.4, 6.3)]
    judged = judge(seen, 0.0, 5.8, ALONE, 0.5, 1.0, 3.0)
    # By hand: 0 to 0.5, 2.4 to 3.4 and 5.3 to 5.8 are covered; 0.5 to 2.4 and 3.4 to 5.3 are not.
    assert judged.observed_share == pytest.approx(2.0 / 5.8)
    assert judged.unobserved_s == pytest.approx(1.9)
    assert judged.bytes_b == pytest.approx(200)
    assert judged.rate_b_s == pytest.approx(100)
    assert judged.reason is None
    late = judge(seen, 0.0, 5.8, ALONE, 0.5, 1.0, 2.0)
    assert late.reason == "reported nothing for 2.9 s"


def test_rows_without_pauses_cover_all():
    judged = judge(rows(80, 100, 60), 0.5, 2.5, ALONE, 0.5, 1.0, 3.0)
    assert (judged.observed_share, judged.unobserved_s) == (1.0, 0.0)


def test_real_rows_of_perftest_are_accepted():
    """Its own pause of 0.2 to 0.4 s between rows is not yet a fault."""
    ends = [1.0, 2.22, 3.6, 4.9, 6.2]
    seen = [Seen(end - 1, end, 100.0) for end in ends]
    judged = judge(seen, 0.5, 5.9, ALONE, 0.5, 1.0, 2.0)
    assert judged.reason is None
    assert judged.unobserved_s == pytest.approx(0.38)


def test_a_run_between_two_rows_was_not_observed():
    seen = [Seen(0.0, 1.0, 100.0), Seen(1.9, 2.9, 100.0)]
    judged = judge(seen, 1.1, 1.8, ALONE, 0.5, 1.0, 3.0)
    assert judged.reason == "reported no row within the window"
    assert (judged.observed_share, judged.bytes_b) == (0.0, 0.0)
