"""Timetables of short writes: figures worked out by hand, and rules that every timetable obeys."""

import itertools
import json
import random
from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from records.errors import InputError
from records.timetable import PlannedWrite, StaggeredWrites, longest_rest_s, staggered_writes


@st.composite
def plans(draw: st.DrawFn) -> StaggeredWrites:
    writers = draw(st.integers(1, 12))
    targets = [f"t{i}" for i in range(writers + draw(st.integers(0, 60)))]
    origins = [f"o{i}" for i in range(draw(st.integers(1, 6)))]
    length_s = draw(st.floats(0.05, 20.0))
    # Even with rounding errors, the longest rest can be planned.
    rest_s = draw(st.sampled_from([0.0, 0.5, 1.0])) * longest_rest_s(
        len(targets), writers, length_s
    )
    run_s = length_s * draw(st.floats(0.1, 40.0))
    seed = draw(st.integers(0, 2**32))
    return staggered_writes(targets, origins, writers, length_s, run_s, seed, rest_s=rest_s)


def writes_in_progress(writes: Sequence[PlannedWrite]) -> list[tuple[float, int]]:
    """Return pairs (time, number of writes in progress from then on), one for each change."""
    change = Counter[float]()
    for write in writes:
        change[write.start_s] += 1
        change[write.end_s] -= 1
    times_s = sorted(change)
    levels = itertools.accumulate(change[at_s] for at_s in times_s)
    return list(zip(times_s, levels, strict=True))


@given(plans())
@settings(max_examples=80, deadline=None)
def test_rules_of_every_plan(plan: StaggeredWrites) -> None:
    steady_s = plan.steady_from_s, plan.steady_from_s + plan.run_s
    # A number counts if it holds at some time of the steady part, apart from rounding errors.
    slack_s = 1e-9 * plan.length_s
    levels = {
        level
        for (start_s, level), (end_s, _) in itertools.pairwise(writes_in_progress(list(plan)))
        if end_s > steady_s[0] + slack_s and start_s < steady_s[1] - slack_s
    }
    assert levels == {plan.writers}  # all writers write at any time
    inside = [
        max(min(write.end_s, steady_s[1]) - max(write.start_s, steady_s[0]), 0.0) for write in plan
    ]
    # So the number of written bytes is as planned, too.
    assert sum(inside) == pytest.approx(plan.writers * plan.run_s)
    to_target = defaultdict(list)
    for write in plan:
        to_target[write.target].append(write)
    for writes in to_target.values():
        for one, other in itertools.pairwise(writes):
            assert other.start_s - one.end_s >= plan.rest_s - slack_s  # targets rest
    size = len(plan.targets)
    for start in range(0, len(plan), size):
        one_round = plan.hits[start : start + size]
        assert len(set(one_round)) == len(one_round)  # every target has one write in a round
    stored = json.loads(json.dumps(plan.as_dict()))
    same = {name: tuple(stored[name]) for name in ("targets", "origins")}
    assert StaggeredWrites(**{**stored, **same, "hits": array("I", stored["hits"])}) == plan


@given(plans(), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_every_write_is_handed_out_to_exactly_one_origin(plan: StaggeredWrites, seed: int) -> None:
    handed_out = [write for origin in plan.origins for write in plan.writes_of(origin)]
    assert sorted(handed_out) == list(plan)
    most = -(-plan.writers // len(plan.origins))
    for origin in plan.origins:
        assert plan.writes_of(origin) == sorted(plan.writes_of(origin))
        levels = writes_in_progress(plan.writes_of(origin))
        assert all(level <= most for _, level in levels)
    # The order of origins decides which origin makes a write. The writes are the same.
    origins = random.Random(seed).sample(plan.origins, len(plan.origins))
    same = plan.targets, origins, plan.writers, plan.length_s, plan.run_s, plan.seed
    assert list(staggered_writes(*same, rest_s=plan.rest_s)) == list(plan)


def small(seed: int = 7) -> StaggeredWrites:
    return staggered_writes(["a", "b", "c", "d"], ["x", "y"], 2, 1.0, 3.0, seed)


def test_a_small_timetable_worked_out_by_hand() -> None:
    # Two writers with writes of 1 s start a write every 0.5 s. Both write from 0.5 s to 3.5 s, so 7
    # writes start.
    plan = small()
    assert [write.start_s for write in plan] == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    assert [write.end_s for write in plan] == [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    assert [plan.origin(write.number) for write in plan] == ["x", "y", "x", "y", "x", "y", "x"]
    assert plan.steady_from_s == 0.5
    assert small(seed=1) == small(seed=1)
    assert len({tuple(small(seed=seed).hits) for seed in range(50)}) > 10
    empty = staggered_writes(["a"], [], 0, 1.0, 10.0, 1)
    assert (list(empty), empty.steady_from_s) == ([], 0.0)


def test_the_order_of_targets_has_no_pattern() -> None:
    names = [f"t{i}" for i in range(50)]
    followers = Counter(
        itertools.pairwise(staggered_writes(names, ["x"], 3, 1.0, 50 * 100 / 3, 5).hits)
    )
    # 5,000 steps over 2,450 possible pairs are two steps a pair. If the order were repeated, a pair
    # would come a hundred times.
    assert max(followers.values()) < 15


@pytest.mark.parametrize(
    ("targets", "writers", "rest_s"),
    [(1, 1, 0.0), (2, 2, 0.0), (3, 2, 0.2), (2, 1, 0.4), (100, 1, 1.0)],
)
def test_the_longest_rest_of_a_target_between_two_writes(
    targets: int, writers: int, rest_s: float
) -> None:
    """Writes take 0.4 s. With 3 targets and 2 writers, a target has a write in 0.4 s of 0.6 s."""
    assert longest_rest_s(targets, writers, 0.4) == pytest.approx(rest_s)


@pytest.mark.parametrize(
    ("targets", "changes", "text"),
    [
        (["a", "b"], {"writers": 3}, "need 3 targets; there are 2"),
        (["a", "b", "c"], {"rest_s": 1.0}, "need 4 targets; there are 3"),
        (["a", "b"], {"length_s": 0.0}, "write and run above 0"),
        (["a", "b"], {"run_s": 0.0}, "write and run above 0"),
        (["a", "b"], {"rest_s": -1.0}, "rest and writers from 0"),
        (["a", "b"], {"writers": -1}, "rest and writers from 0"),
        (["a", "b"], {"length_s": 1e-9}, "allowed: at most 20000000"),
    ],
)
def test_an_impossible_timetable_is_refused(
    targets: list[str], changes: dict[str, Any], text: str
) -> None:
    arguments = {"writers": 2, "length_s": 1.0, "run_s": 5.0, "seed": 0} | changes
    with pytest.raises(InputError, match=text):
        staggered_writes(targets, ["x"], **arguments)
