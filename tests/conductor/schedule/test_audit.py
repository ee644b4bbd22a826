from types import SimpleNamespace
from typing import Any

import pytest

from conductor.short_writes.records import Done, nothing
from conductor.short_writes.records import audit as audited
from records.clock import Offset
from records.plan import ShortWrites
from records.timetable import Timetable, plan

ZERO_S = 1_000.0
ALLOWED = (ShortWrites(tolerance_s=0.05, allowed_share=0.05), 100.0)
#: Two writers of 1 s, staggered by 0.5 s, both writing from 0.5 s to 10.5 s.
PLAN = plan(["a", "b", "c", "d", "e"], ["x", "y"], 2, 1.0, 10.0, 4)
RUN = (ZERO_S + 0.5, ZERO_S + 10.5)


def as_planned(timetable: Timetable = PLAN) -> list[Done]:
    return [
        Done(write.number, ZERO_S + write.start_s, ZERO_S + write.end_s, 200.0, 0.1)
        for write in timetable
    ]


def audit(*given: Any) -> SimpleNamespace:
    """The record and the reason, in one."""
    record, reason = audited(*given)
    return SimpleNamespace(**vars(record), reason=reason)


def held(done: list[Done], offsets: dict[str, Offset] | None = None) -> SimpleNamespace:
    return audit(PLAN, done, ZERO_S, RUN, offsets or {}, *ALLOWED)


def test_a_plan_carried_out_counts() -> None:
    done = as_planned()
    done[3] = done[3]._replace(end_s=done[3].end_s + 0.04, setup_s=0.3)
    found = held(done)
    assert found.reason is None
    assert (found.planned, found.done, found.slow, found.unplanned) == (21, 21, 0, 0)
    assert found.missing_share == pytest.approx(0, abs=1e-12)
    assert found.excess_share == pytest.approx(0, abs=1e-12)
    assert found.bytes_b == 21 * 200
    assert (found.setup_median_s, found.setup_worst_s) == (0.1, 0.3)
    assert (found.end_median_s, found.end_worst_s) == pytest.approx((0, 0.04), abs=1e-9)
    # Of a run from 2.6 to 7.5 s, those that start from 2.0 to 7.0 s.
    found = audit(PLAN, done, ZERO_S, (ZERO_S + 2.6, ZERO_S + 7.5), {}, *ALLOWED)
    assert (found.planned, found.done, found.missing_share) == (11, 11, pytest.approx(0, abs=1e-9))


def moved(start_s: float, end_s: float) -> list[Done]:
    return [
        each._replace(start_s=each.start_s + start_s, end_s=each.end_s + end_s)
        for each in as_planned()
    ]


def without(*numbers: int) -> list[Done]:
    return [each for each in as_planned() if each.number not in numbers]


@pytest.mark.parametrize(
    ("done", "missing", "excess", "reason"),
    [
        (without(4), 0.05, 0.0, None),  # of 20 s of writing, a write is one
        (
            without(4, 5), 0.1, 0.0,
            "10.0% of the planned writing is missing (allowed: 5.0%); 19 of 21 writes done, 0 of",
        ),
        (moved(0.04, 0.03), 0.0, 0.0, None),  # late within the tolerance
        # Every write 0.2 s late: a fifth is missing, and 0.15 s of each lies beyond the plan.
        (moved(0.2, 0.2), 0.2, 0.15, "is missing"),
        (moved(0.0, 0.3), 0.0, 0.25, "was written beyond the plan"),
        ([*as_planned(), as_planned()[4]], 0.0, 0.05, None),
        ([*as_planned(), as_planned()[4]._replace(start_s=8.0, end_s=9.0)], 0.0, 0.0, None),
    ],
)  # fmt: skip
def test_shares_of_the_writing_that_are_missing_or_beyond_the_plan(
    done: list[Done], missing: float, excess: float, reason: str | None
) -> None:
    found = held(done)
    assert found.missing_share == pytest.approx(missing, abs=0.01 if missing == 0.2 else 1e-9)
    assert found.excess_share == pytest.approx(excess, abs=0.02 if excess > 0.1 else 1e-9)
    assert found.reason is None if reason is None else reason in found.reason
    if reason is None and done[0].start_s > ZERO_S:  # how late they were
        assert (found.start_median_s, found.start_worst_s) == pytest.approx((0.04, 0.04))
        assert (found.end_median_s, found.end_worst_s) == pytest.approx((0.03, 0.03))


def test_slow_empty_repeated_and_unknown_writes_do_not_count() -> None:
    done = as_planned()
    found = held([*done, done[4], Done(99, RUN[0], RUN[1], 1.0)])
    assert (found.unplanned, found.reason) == (2, "1 writes are not in the plan")
    empty = [done[0]._replace(bytes_b=0.0), *done[1:]]
    assert audit(PLAN, empty, ZERO_S, RUN, {}, ALLOWED[0], 0.0).slow == 1
    for number, bytes_b in ((4, 99.0), (5, 0.0), (6, 100.0)):  # at 100 B/s it counts
        done[number] = done[number]._replace(bytes_b=bytes_b)
    assert (held(done).slow, held(done).missing_share) == (2, pytest.approx(0.1))


def test_clocks_are_allowed_for() -> None:
    ahead = [
        d._replace(start_s=d.start_s + 50, end_s=d.end_s + 50)
        if PLAN.write(d.number).origin == "x"
        else d
        for d in as_planned()
    ]
    assert held(ahead).reason is not None
    found = held(ahead, {"x": Offset(50.02, 0.03, ZERO_S), "y": Offset(0.0, 0.01, ZERO_S)})
    assert found.reason is None
    assert found.missing_share == pytest.approx(0, abs=1e-9)
    assert found.clock_error_s == 0.03
    assert found.start_worst_s == pytest.approx(-0.02)


def test_the_error_of_a_clock_adds_to_the_tolerance() -> None:
    late = moved(0.07, 0.07)
    assert held(late).missing_share == pytest.approx(0.07, abs=0.01)
    clocks = {origin: Offset(0.0, 0.03, ZERO_S) for origin in PLAN.origins}
    assert held(late, clocks).missing_share == pytest.approx(0, abs=1e-9)


def test_a_run_longer_than_its_plan_lacks_writers() -> None:
    found = audit(PLAN, as_planned(), ZERO_S, (RUN[0], RUN[1] + 10), {}, *ALLOWED)
    # Twice as long as planned; the last two writes reach 0.5 s beyond the plan's end together.
    assert found.missing_share == pytest.approx(0.5 - 0.5 / 40, abs=1e-6)
    assert found.reason is not None


def test_no_writers_asked_and_none_seen() -> None:
    empty = plan(["a"], [], 0, 1.0, 10.0, 4)
    found = audit(empty, [], ZERO_S, RUN, {}, *ALLOWED)
    assert (found.planned, found.missing_share, found.reason) == (0, 0.0, None)
    assert vars(nothing(ALLOWED[0])).items() <= vars(found).items()
