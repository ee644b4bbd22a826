import itertools
import json
from array import array
from collections import Counter, defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.short_writes.records import rest_s
from records.acceptance import AcceptanceLimits
from records.errors import InputError
from records.plan import BlockPlan, ShortWrites
from records.timetable import POLICIES, PlannedWrite, Timetable, plan, writers_of_link
from records.treatment import Start, Treatment, Writes
from tests.conductor.treatments import treatments


@st.composite
def timetables(draw: st.DrawFn) -> tuple[Timetable, int]:
    writers = draw(st.integers(1, 12))
    length_s = draw(st.floats(0.05, 20.0))
    setup_s = draw(st.sampled_from([0.0, 0.3, 1.0, 2.5])) * length_s
    # Just enough targets to rest as long as asked, up to many more.
    enough = writers + -int(-setup_s * writers / length_s // 1) + 1
    targets = [f"t{i}" for i in range(enough + draw(st.integers(0, 60)))]
    origins = [f"o{i}" for i in range(draw(st.integers(1, 6)))]
    room = -(-writers // len(origins)) + draw(st.integers(0, 5))
    timetable = plan(
        targets,
        origins,
        writers,
        length_s,
        run_s=length_s * draw(st.floats(0.1, 40.0)),
        seed=draw(st.integers(0, 2**32)),
        policy=draw(st.sampled_from(POLICIES)),
        setup_s=setup_s,
        room=room,
    )
    return timetable, room


def parts(timetable: Timetable, end: str) -> dict[str, list[PlannedWrite]]:
    """The writes of each origin, or to each target, in order of their start."""
    found = defaultdict(list)
    for write in timetable:
        found[getattr(write, end)].append(write)
    return found


def at_work(writes: list[PlannedWrite]) -> list[tuple[float, int]]:
    """Number of writes in progress from each time on at which it changes."""
    change = Counter[float]()
    for write in writes:
        change[write.start_s] += 1
        change[write.end_s] -= 1
    level, steps = 0, []
    for time_s in sorted(change):
        level += change[time_s]
        steps.append((time_s, level))
    return steps


@given(timetables())
@settings(max_examples=80, deadline=None)
def test_rules_of_every_plan(case: tuple[Timetable, int]) -> None:
    timetable, room = case
    until_s = timetable.steady_from_s + timetable.run_s
    steps = at_work(list(timetable))
    # A level counts where it lasts beyond the start and begins before the end, but for rounding.
    slack_s = 1e-9 * timetable.length_s
    levels = {
        level
        for (start_s, level), (end_s, _) in itertools.pairwise(steps)
        if end_s > timetable.steady_from_s + slack_s and start_s < until_s - slack_s
    }
    assert levels == {timetable.writers}  # all writers write at any time
    for writes in parts(timetable, "target").values():
        for one, other in itertools.pairwise(writes):
            assert other.start_s - one.end_s >= timetable.setup_s - slack_s  # targets rest
    for writes in parts(timetable, "origin").values():
        assert all(level <= room for _, level in at_work(writes))
    size = len(timetable.targets)
    for start in range(0, len(timetable) if timetable.policy == "sweep" else 0, size):
        sweep = timetable.hits[start : start + size]
        assert len(set(sweep)) == len(sweep)  # every target once
    stored = json.loads(json.dumps(timetable.as_dict()))
    same = {name: tuple(stored[name]) for name in ("targets", "origins", "slots")}
    assert Timetable(**{**stored, **same, "hits": array("I", stored["hits"])}) == timetable


def small(seed: int = 7, **changes: object) -> Timetable:
    arguments: dict = {"policy": "sweep", "setup_s": 0.0} | changes
    return plan(["a", "b", "c", "d"], ["x", "y"], 2, 1.0, 3.0, seed, **arguments)


def test_by_hand() -> None:
    # Two writers of 1 s: starts every 0.5 s; full from 0.5 s to 3.5 s, so that 7 writes start.
    timetable = small()
    assert [write.start_s for write in timetable] == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    assert [write.end_s for write in timetable] == [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    assert [write.origin for write in timetable] == ["x", "y", "x", "y", "x", "y", "x"]
    assert timetable.steady_from_s == 0.5


def test_the_seed_makes_the_plan() -> None:
    assert small(seed=1) == small(seed=1)
    assert len({tuple(small(seed=seed).hits) for seed in range(50)}) > 10


def test_uniform_draws_every_target_about_as_often_and_a_sweep_follows_no_pattern() -> None:
    names = [f"t{i}" for i in range(20)]
    counts = Counter(plan(names, ["x"], 4, 1.0, 10_000.0, 3, policy="uniform").hits)
    # 40,003 draws, 2,000 a target; 6 standard deviations of a binomial are 262.
    assert set(counts) == set(range(20))
    assert all(abs(count - 2000) < 262 for count in counts.values())
    names = [f"t{i}" for i in range(50)]
    followers = Counter(itertools.pairwise(plan(names, ["x"], 3, 1.0, 50 * 100 / 3, 5).hits))
    # 5,000 steps over 2,450 possible pairs, two each: a repeated order would show a hundred.
    assert max(followers.values()) < 15


def test_no_writers_make_an_empty_plan() -> None:
    timetable = plan(["a"], [], 0, 1.0, 10.0, 1)
    assert (list(timetable), timetable.steady_from_s) == ([], 0.0)


@pytest.mark.parametrize(
    ("link_b_s", "share", "rate_b_s", "writers"),
    [(4e9, 1.0, 3.2e9, 1), (4e9, 0.5, 3.2e9, 0), (1.0, 1.0, 0.1, 10), (4e9, 0.9, 0.4e9, 9)],
)
def test_writers_of_a_link(link_b_s: float, share: float, rate_b_s: float, writers: int) -> None:
    assert writers_of_link(link_b_s, share, rate_b_s) == writers


@pytest.mark.parametrize(("share", "rate_b_s"), [(0.5, 0.0), (0.0, 1e9), (1.01, 1e9)])
def test_a_link_has_no_share_for_no_writer(share: float, rate_b_s: float) -> None:
    with pytest.raises(InputError, match="link share"):
        writers_of_link(4e9, share, rate_b_s)


@pytest.mark.parametrize("length_s", [0.05, 0.3, 2.0])
@pytest.mark.parametrize("targets", [2, 3, 7, 31, 64])
def test_the_longest_rest_of_a_target_can_be_planned(targets: int, length_s: float) -> None:
    names = [str(number) for number in range(targets)]
    for writers in range(1, targets + 1):
        rest = rest_s(targets, writers, length_s)
        plan(names, ["x"], writers, length_s, length_s, 0, setup_s=rest)


@pytest.mark.parametrize(
    ("targets", "origins", "changes", "text"),
    [
        (["a", "b"], ["x"], {"writers": 3}, "need 3 targets; there are 2"),
        (["a", "b", "c"], ["x"], {"setup_s": 1.0}, "need 4 targets; there are 3"),
        (["a", "b"], ["x"], {"room": 1}, "2 writers requested; 1 origins have room for 1"),
        (["a", "a", "b"], ["x"], {}, "duplicate targets"),
        (["a", "b"], ["x"], {"length_s": 0.0}, "write and run above 0"),
        (["a", "b"], ["x"], {"setup_s": -1.0}, "set-up time and writers from 0"),
        (["a", "b"], ["x"], {"length_s": 1e-9}, "allowed: 20000000"),
    ],
)
def test_refuses_what_cannot_be_planned(
    targets: list[str], origins: list[str], changes: dict, text: str
) -> None:
    arguments = {"writers": 2, "length_s": 1.0, "run_s": 5.0, "seed": 0} | changes
    with pytest.raises(InputError, match=text):
        plan(targets, origins, **arguments)


PLAN = BlockPlan(
    case="stream",
    workload="stream",
    block=0,
    seed=7,
    treatments=treatments(["off", "on", "spin", "aa"], ["./stream"], {"devices": ("mlx5_0",)}),
    pairs=10,
    warmups=1,
    nimc_dir="/nowhere",
    demand=AcceptanceLimits(min_share=0.4, retries=1),
)
#: Two baselines, each with an arm of its own.
CROSSED = replace(
    PLAN,
    treatments=[
        Treatment("off", Start(["a"])),
        Treatment("on", Start(["a"]), Writes("ucx", 1), "effect", "off"),
        Treatment("off@n=1", Start(["b"])),
        Treatment("on@n=1", Start(["b"]), Writes("ucx", 1), "effect", "off@n=1"),
        Treatment("aa@n=1", Start(["b"]), None, "floor", "off@n=1", {"n": 1}, ["a note"]),
    ],
)


SHORT = replace(
    PLAN,
    short=ShortWrites(length_s=0.5, messages=46000, link_b_s=4e9),
    treatments=treatments(["off", "daly", "on"], ["lmp"], scheduled={"daly": 2, "on": 0}),
)


@pytest.mark.parametrize("plan", [PLAN, CROSSED, SHORT], ids=["arms", "crossed", "short"])
def test_what_was_saved_is_loaded(tmp_path, plan):
    plan.save(tmp_path / "plan.json")
    assert BlockPlan.load(tmp_path / "plan.json") == plan
    assert plan.baseline.name == "off"


def test_what_shares_a_baseline_is_adjacent_in_time_and_groups_come_in_balanced_order():
    orders = [[each.name for each in CROSSED.order(pair)] for pair in range(200)]
    groups = [[name.partition("@")[2] for name in order] for order in orders]
    assert {tuple(each) for each in groups} == {("", "", *["n=1"] * 3), (*["n=1"] * 3, "", "")}
    assert Counter(each[0] for each in groups) == {"": 100, "n=1": 100}
    # Within a group every order comes: 2 of the first, 6 of the second.
    assert len({tuple(n for n in order if n.endswith("1")) for order in orders}) == 6


def test_a_share_of_the_rate_is_of_what_the_writer_reaches_alone():
    throttled = Writes("ucx", 65536, rate_share=0.25)
    assert throttled.throttled
    assert throttled.asked_b_s(4e9) == 1e9
    assert throttled.at_full_rate() == Writes("ucx", 65536)
    assert Writes("ucx", 65536, rate_b_s=5e8).asked_b_s(4e9) == 5e8
    assert Writes("ucx", 65536).asked_b_s(None) is None
