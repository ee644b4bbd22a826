"""Timetables and their check, against figures worked out by hand and rules that hold for all."""

import itertools
import json
import random
from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from records import timetable
from records.errors import InputError
from records.plan import ShortWrites
from records.timetable import (
    FinishedWrite,
    PlannedWrite,
    Staggered,
    longest_rest_s,
    overlap_s,
    staggered,
    without_writers,
)

# Short writes.


@st.composite
def plans(draw: st.DrawFn) -> Staggered:
    writers = draw(st.integers(1, 12))
    targets = [f"t{i}" for i in range(writers + draw(st.integers(0, 60)))]
    origins = [f"o{i}" for i in range(draw(st.integers(1, 6)))]
    length_s = draw(st.floats(0.05, 20.0))
    # The longest rest can be planned, whatever its rounding.
    rest_s = draw(st.sampled_from([0.0, 0.5, 1.0])) * longest_rest_s(
        len(targets), writers, length_s
    )
    run_s = length_s * draw(st.floats(0.1, 40.0))
    seed = draw(st.integers(0, 2**32))
    return staggered(targets, origins, writers, length_s, run_s, seed, rest_s=rest_s)


def at_work(writes: Sequence[PlannedWrite]) -> list[tuple[float, int]]:
    """Number of writes in progress from each time on at which it changes."""
    change = Counter[float]()
    for write in writes:
        change[write.start_s] += 1
        change[write.end_s] -= 1
    times_s = sorted(change)
    levels = itertools.accumulate(change[at_s] for at_s in times_s)
    return list(zip(times_s, levels, strict=True))


@given(plans())
@settings(max_examples=80, deadline=None)
def test_rules_of_every_plan(plan: Staggered) -> None:
    steady_s = plan.steady_from_s, plan.steady_from_s + plan.run_s
    # A level counts where it lasts beyond the start and begins before the end, but for rounding.
    slack_s = 1e-9 * plan.length_s
    levels = {
        level
        for (start_s, level), (end_s, _) in itertools.pairwise(at_work(list(plan)))
        if end_s > steady_s[0] + slack_s and start_s < steady_s[1] - slack_s
    }
    assert levels == {plan.writers}  # all writers write at any time
    inside = [overlap_s((write.start_s, write.end_s), steady_s) for write in plan]
    assert sum(inside) == pytest.approx(plan.writers * plan.run_s)  # so many bytes, too
    to_target = defaultdict(list)
    for write in plan:
        to_target[write.target].append(write)
    for writes in to_target.values():
        for one, other in itertools.pairwise(writes):
            assert other.start_s - one.end_s >= plan.rest_s - slack_s  # targets rest
    size = len(plan.targets)
    for start in range(0, len(plan), size):
        one_round = plan.hits[start : start + size]
        assert len(set(one_round)) == len(one_round)  # every target once
    stored = json.loads(json.dumps(plan.as_dict()))
    same = {name: tuple(stored[name]) for name in ("targets", "origins")}
    assert Staggered(**{**stored, **same, "hits": array("I", stored["hits"])}) == plan


@given(plans(), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_every_write_is_handed_out_once_whichever_origin_makes_it(
    plan: Staggered, seed: int
) -> None:
    handed = [write for origin in plan.origins for write in plan.writes_of(origin)]
    assert sorted(handed) == list(plan)
    most = -(-plan.writers // len(plan.origins))
    for origin in plan.origins:
        levels = at_work(plan.writes_of(origin))
        assert all(level <= most for _, level in levels)
    # The order of origins decides who writes, not what is written.
    origins = random.Random(seed).sample(plan.origins, len(plan.origins))
    same = plan.targets, origins, plan.writers, plan.length_s, plan.run_s, plan.seed
    assert list(staggered(*same, rest_s=plan.rest_s)) == list(plan)


def small(seed: int = 7) -> Staggered:
    return staggered(["a", "b", "c", "d"], ["x", "y"], 2, 1.0, 3.0, seed)


def test_by_hand() -> None:
    # Two writers of 1 s: starts every 0.5 s; full from 0.5 s to 3.5 s, so that 7 writes start.
    plan = small()
    assert [write.start_s for write in plan] == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    assert [write.end_s for write in plan] == [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    assert [plan.origin(write.number) for write in plan] == ["x", "y", "x", "y", "x", "y", "x"]
    assert plan.steady_from_s == 0.5
    assert small(seed=1) == small(seed=1)
    assert len({tuple(small(seed=seed).hits) for seed in range(50)}) > 10
    empty = staggered(["a"], [], 0, 1.0, 10.0, 1)
    assert (list(empty), empty.steady_from_s) == ([], 0.0)


def test_targets_follow_no_pattern() -> None:
    names = [f"t{i}" for i in range(50)]
    followers = Counter(itertools.pairwise(staggered(names, ["x"], 3, 1.0, 50 * 100 / 3, 5).hits))
    # 5,000 steps over 2,450 possible pairs, two each: a repeated order would show a hundred.
    assert max(followers.values()) < 15


@pytest.mark.parametrize(
    ("targets", "writers", "rest_s"),
    [(1, 1, 0.0), (2, 2, 0.0), (3, 2, 0.2), (2, 1, 0.4), (100, 1, 1.0)],
)
def test_targets_rest_as_long_as_there_are_others(
    targets: int, writers: int, rest_s: float
) -> None:
    """With writes of 0.4 s: each of 3 targets is written to for 0.4 s of every 0.6 s."""
    assert longest_rest_s(targets, writers, 0.4) == pytest.approx(rest_s)


@pytest.mark.parametrize(
    ("targets", "changes", "text"),
    [
        (["a", "b"], {"writers": 3}, "need 3 targets; there are 2"),
        (["a", "b", "c"], {"rest_s": 1.0}, "need 4 targets; there are 3"),
        (["a", "b"], {"length_s": 0.0}, "write and run above 0"),
        (["a", "b"], {"rest_s": -1.0}, "rest and writers from 0"),
        (["a", "b"], {"length_s": 1e-9}, "allowed: 20000000"),
    ],
)
def test_refuses_what_cannot_be_planned(
    targets: list[str], changes: dict[str, Any], text: str
) -> None:
    arguments = {"writers": 2, "length_s": 1.0, "run_s": 5.0, "seed": 0} | changes
    with pytest.raises(InputError, match=text):
        staggered(targets, ["x"], **arguments)


# Finished short writes against their plan.

ZERO_S = 1_000.0
ALLOWED = (ShortWrites(tolerance_s=0.05, allowed_share=0.05), 100.0)
#: Two writers of 1 s, staggered by 0.5 s, both writing from 0.5 s to 10.5 s.
PLAN = staggered(["a", "b", "c", "d", "e"], ["x", "y"], 2, 1.0, 10.0, 4)
RUN = (ZERO_S + 0.5, ZERO_S + 10.5)


def moved(start_s: float = 0.0, end_s: float = 0.0) -> list[FinishedWrite]:
    """All writes, so much later than planned."""
    return [
        FinishedWrite(
            write.number, ZERO_S + write.start_s + start_s, ZERO_S + write.end_s + end_s, 200.0, 0.1
        )
        for write in PLAN
    ]


def check(*asked: Any) -> SimpleNamespace:
    """The record and the reason, in one."""
    record, reason = timetable.check(*asked)
    return SimpleNamespace(**vars(record), reason=reason)


def checked(
    finished: list[FinishedWrite], clock_errors_s: dict[str, float] | None = None
) -> SimpleNamespace:
    return check(PLAN, finished, ZERO_S, RUN, clock_errors_s or {}, *ALLOWED)


def test_a_plan_carried_out_counts() -> None:
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
    # Of a run from 2.6 to 7.5 s, those that start from 2.0 to 7.0 s.
    record = check(PLAN, finished, ZERO_S, (ZERO_S + 2.6, ZERO_S + 7.5), {}, *ALLOWED)
    assert (record.planned, record.done) == (11, 11)
    assert record.missing_share == pytest.approx(0, abs=1e-9)
    # In any order of their writers.
    random.Random(1).shuffle(finished)
    again = vars(check(PLAN, finished, ZERO_S, (ZERO_S + 2.6, ZERO_S + 7.5), {}, *ALLOWED))
    assert {name: pytest.approx(value) for name, value in again.items() if value} == {
        name: value for name, value in vars(record).items() if value
    }


def without(*numbers: int) -> list[FinishedWrite]:
    return [each for each in moved() if each.number not in numbers]


@pytest.mark.parametrize(
    ("finished", "missing", "excess", "reason"),
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
    if reason is None and finished[0].start_s > ZERO_S:  # how late they were
        assert (record.start_median_s, record.start_worst_s) == pytest.approx((0.04, 0.04))
        assert (record.end_median_s, record.end_worst_s) == pytest.approx((0.03, 0.03))


def test_slow_empty_repeated_and_strange_writes_do_not_count() -> None:
    finished = moved()
    record = checked([*finished, finished[4], FinishedWrite(99, RUN[0], RUN[1], 1.0)])
    assert (record.unplanned, record.reason) == (2, "1 writes are not in the plan")
    empty = [finished[0]._replace(bytes_b=0.0), *finished[1:]]
    assert check(PLAN, empty, ZERO_S, RUN, {}, ALLOWED[0], 0.0).slow == 1
    for number, bytes_b in ((4, 99.0), (5, 0.0), (6, 100.0)):  # at 100 B/s it counts
        finished[number] = finished[number]._replace(bytes_b=bytes_b)
    record = checked(finished)
    assert (record.slow, record.missing_share) == (2, pytest.approx(0.1))


def test_the_error_of_a_clock_adds_to_the_tolerance() -> None:
    late = moved(0.07, 0.07)
    assert checked(late).missing_share == pytest.approx(0.07, abs=0.01)
    record = checked(late, {"x": 0.03, "y": 0.025})
    assert (record.missing_share, record.clock_error_s) == (pytest.approx(0, abs=1e-9), 0.03)
    # That of one origin is not that of another.
    assert checked(late, {"x": 0.03}).missing_share == pytest.approx(0.035, abs=0.01)


def test_a_run_longer_than_its_plan_lacks_writers() -> None:
    record = check(PLAN, moved(), ZERO_S, (RUN[0], RUN[1] + 10), {}, *ALLOWED)
    # Twice as long as planned; the last two writes reach 0.5 s beyond the plan's end together.
    assert record.missing_share == pytest.approx(0.5 - 0.5 / 40, abs=1e-6)
    assert record.reason is not None


def test_no_writers_asked_and_none_seen() -> None:
    empty = staggered(["a"], [], 0, 1.0, 10.0, 4)
    record = check(empty, [], ZERO_S, RUN, {}, *ALLOWED)
    assert (record.planned, record.missing_share, record.reason) == (0, 0.0, None)
    assert vars(without_writers(ALLOWED[0])).items() <= vars(record).items()
