"""Finished short writes are compared with their timetable; figures are worked out by hand."""

import random
from types import SimpleNamespace
from typing import Any

import pytest

from conductor.injectors import INJECTORS
from conductor.judge import short_writes
from conductor.judge.short_writes import record_without_writers, timetable_records
from conductor.readings import FinishedWrite
from records.block_plan import ShortWrites
from records.timetable import staggered_writes
from tests import made_writers

ZERO_S = 1_000.0
ALLOWED = (ShortWrites(tolerance_s=0.05, allowed_share=0.05), 100.0)
#: Two writers of 1 s, staggered by 0.5 s, both writing from 0.5 s to 10.5 s.
PLAN = staggered_writes(["a", "b", "c", "d", "e"], ["x", "y"], 2, 1.0, 10.0, 4)
RUN = (ZERO_S + 0.5, ZERO_S + 10.5)


def moved(start_s: float = 0.0, end_s: float = 0.0) -> list[FinishedWrite]:
    """Return all writes of the plan; they start and end later than planned by these times."""
    return [
        FinishedWrite(
            write.number, ZERO_S + write.start_s + start_s, ZERO_S + write.end_s + end_s, 200.0, 0.1
        )
        for write in PLAN
    ]


def check(*arguments: Any) -> SimpleNamespace:
    """Return the record of a timetable, with the reason of a rejection as a further field."""
    record, reason = short_writes.check_writes(*arguments)
    return SimpleNamespace(**vars(record), reason=reason)


def checked(
    finished: list[FinishedWrite], clock_errors_s: dict[str, float] | None = None
) -> SimpleNamespace:
    return check(PLAN, finished, ZERO_S, RUN, clock_errors_s or {}, *ALLOWED)


def test_a_run_whose_timetable_was_carried_out_is_accepted() -> None:
    finished = moved()
    finished[3] = finished[3]._replace(end_s=finished[3].end_s + 0.04, setup_s=0.3)
    record = checked(finished)
    assert record.reason is None
    assert (record.planned, record.done, record.slow, record.unplanned) == (21, 21, 0, 0)
    assert record.missing_share == pytest.approx(0, abs=1e-12)
    assert record.excess_share == pytest.approx(0, abs=1e-12)
    assert record.bytes_b == 21 * 200
    assert (record.setup_median_s, record.setup_worst_s) == (0.1, 0.3)
    assert (record.end_median_s, record.end_worst_s) == pytest.approx((0, 0.04), abs=1e-9)
    # A run from 2.6 s to 7.5 s has the writes that start from 2.0 s to 7.0 s.
    record = check(PLAN, finished, ZERO_S, (ZERO_S + 2.6, ZERO_S + 7.5), {}, *ALLOWED)
    assert (record.planned, record.done) == (11, 11)
    assert record.missing_share == pytest.approx(0, abs=1e-9)
    # A write that ends when the run starts does not belong to the run.
    from_an_end = check(PLAN, finished, ZERO_S, (ZERO_S + 3.0, ZERO_S + 7.5), {}, *ALLOWED)
    assert (from_an_end.planned, from_an_end.done) == (10, 10)
    # The order of the finished writes does not matter.
    random.Random(1).shuffle(finished)
    again = vars(check(PLAN, finished, ZERO_S, (ZERO_S + 2.6, ZERO_S + 7.5), {}, *ALLOWED))
    assert {name: pytest.approx(value) for name, value in again.items() if value} == {
        name: value for name, value in vars(record).items() if value
    }


def without(*numbers: int) -> list[FinishedWrite]:
    return [write for write in moved() if write.number not in numbers]


@pytest.mark.parametrize(
    ("finished", "missing", "excess", "reason"),
    [
        (without(4), 0.05, 0.0, None),  # a write is 1 s of 20 s of planned writing
        (
            without(4, 5), 0.1, 0.0,
            "10.0 % of the planned writing is missing (allowed: 5.0 %); 19 of 21 writes done, 0 of",
        ),
        (moved(0.04, 0.03), 0.0, 0.0, None),  # all writes are late, but within the tolerance
        # If every write is 0.2 s late, a fifth is missing, and 0.15 s of each is beyond the plan.
        (moved(0.2, 0.2), 0.2, 0.15, "is missing"),
        (moved(0.0, 0.3), 0.0, 0.25, "was written beyond the plan"),
        (moved(0.0, -0.2), 0.2, 0.0, "is missing"),  # every write ends 0.2 s early
        ([*moved(), moved()[4]], 0.0, 0.05, None),
        ([*moved(), moved()[4]._replace(start_s=8.0, end_s=9.0)], 0.0, 0.0, None),
    ],
)  # fmt: skip
def test_shares_of_the_writing_that_are_missing_or_beyond_the_plan(
    finished: list[FinishedWrite], missing: float, excess: float, reason: str | None
) -> None:
    record = checked(finished)
    assert record.missing_share == pytest.approx(missing, abs=0.01 if missing == 0.2 else 1e-9)
    assert record.excess_share == pytest.approx(excess, abs=0.02 if excess > 0.1 else 1e-9)
    assert record.reason is None if reason is None else reason in record.reason
    if reason is None and finished[0].start_s > ZERO_S:  # all writes were late
        assert (record.start_median_s, record.start_worst_s) == pytest.approx((0.04, 0.04))
        assert (record.end_median_s, record.end_worst_s) == pytest.approx((0.03, 0.03))


def test_slow_empty_repeated_and_unplanned_writes_do_not_count() -> None:
    finished = moved()
    record = checked([*finished, finished[4], FinishedWrite(len(PLAN), RUN[0], RUN[1], 1.0)])
    assert (record.unplanned, record.reason) == (2, "writes that are not in the plan: 1")
    empty = [finished[0]._replace(bytes_b=0.0), *finished[1:]]
    assert check(PLAN, empty, ZERO_S, RUN, {}, ALLOWED[0], 0.0).slow == 1
    for number, bytes_b in ((4, 99.0), (5, 0.0), (6, 100.0)):  # at 100 B/s it counts
        finished[number] = finished[number]._replace(bytes_b=bytes_b)
    record = checked(finished)
    assert (record.slow, record.missing_share) == (2, pytest.approx(0.1))
    # In 1.04 s, 104 B are enough.
    for bytes_b, slow in ((103.9, 1), (104.1, 0)):
        longer = moved()
        longer[4] = longer[4]._replace(end_s=longer[4].end_s + 0.04, bytes_b=bytes_b)
        assert checked(longer).slow == slow


def test_the_worst_deviation_may_be_early_and_the_median_is_of_all_writes() -> None:
    finished = moved(0.01, 0.02)
    for number, start_s, end_s, setup_s in ((4, -0.04, -0.03, 0.05), (5, 0.02, 0.025, 0.3)):
        write = PLAN.write(number)
        finished[number] = FinishedWrite(
            number, ZERO_S + write.start_s + start_s, ZERO_S + write.end_s + end_s, 200.0, setup_s
        )
    record = checked(finished)
    assert (record.start_median_s, record.start_worst_s) == pytest.approx((0.01, -0.04))
    assert (record.end_median_s, record.end_worst_s) == pytest.approx((0.02, -0.03))
    assert (record.setup_median_s, record.setup_worst_s) == (0.1, 0.3)


def test_the_error_of_a_clock_adds_to_the_tolerance() -> None:
    late = moved(0.07, 0.07)
    assert checked(late).missing_share == pytest.approx(0.07, abs=0.01)
    record = checked(late, {"x": 0.03, "y": 0.025})
    assert (record.missing_share, record.clock_error_s) == (pytest.approx(0, abs=1e-9), 0.03)
    # The error of one origin's clock does not help another origin.
    assert checked(late, {"x": 0.03}).missing_share == pytest.approx(0.035, abs=0.01)


def test_a_run_longer_than_its_plan_lacks_writers() -> None:
    record = check(PLAN, moved(), ZERO_S, (RUN[0], RUN[1] + 10), {}, *ALLOWED)
    # The run is twice as long as planned. The last two writes together reach 0.5 s beyond the end
    # of the plan.
    assert record.missing_share == pytest.approx(0.5 - 0.5 / 40, abs=1e-6)
    assert record.reason is not None


def test_a_timetable_without_writers_is_accepted_without_writes() -> None:
    empty = staggered_writes(["a"], [], 0, 1.0, 10.0, 4)
    record = check(empty, [], ZERO_S, RUN, {}, *ALLOWED)
    assert (record.planned, record.missing_share, record.reason) == (0, 0.0, None)
    assert vars(record_without_writers(ALLOWED[0])).items() <= vars(record).items()


def test_the_record_of_each_writer_covers_the_window_only() -> None:
    table = staggered_writes(["t0", "t1", "t2"], ["o0", "o1"], 2, 1.0, 4.0, 1)
    finished = [
        FinishedWrite(0, 10.0, 11.0, 100.0),  # of the first writer; half lies before the window
        FinishedWrite(2, 11.0, 12.0, 50.0),  # of the first writer
        FinishedWrite(1, 10.5, 11.5, 80.0),  # of the second writer
        FinishedWrite(3, 13.0, 14.0, 40.0),  # of the second writer, after the window
        FinishedWrite(len(table), 11.0, 12.0, 70.0),  # not in the timetable
    ]
    writer, window_s = (
        made_writers.writer(origin="o0", target="t0", address=""),
        (10.5, 13.0),
    )
    first, second = timetable_records(table, finished, window_s, 100.0, writer, INJECTORS["ucx"])
    assert (first.origin, first.target, first.transport) == ("o0", "*", "tcp")
    assert first.bytes_b == pytest.approx(100.0)  # 0.5 s at 100 B/s, and 1 s at 50 B/s
    assert first.rate_b_s == pytest.approx(100 / 1.5)
    assert first.rate_min_b_s == 50.0
    assert (second.origin, second.bytes_b, second.rate_alone_b_s) == ("o1", 80.0, 100.0)
    assert second.rate_min_b_s == 80.0
    _, idle = timetable_records(table, finished[:1], window_s, 100.0, writer, INJECTORS["ucx"])
    assert (idle.bytes_b, idle.rate_b_s, idle.rate_min_b_s) == (0.0, 0.0, 0.0)
    alone = staggered_writes(["t0"], ["o0"], 1, 1.0, 4.0, 1)
    (record,) = timetable_records(alone, finished[:1], window_s, 100.0, writer, INJECTORS["ucx"])
    assert record.target == "t0"
