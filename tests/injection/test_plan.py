from collections import Counter
from dataclasses import replace

from injection.plan import BlockPlan, Demand, ShortWrites

PLAN = BlockPlan(
    case="stream",
    workload="stream",
    block=0,
    seed=7,
    arms=["off", "on", "spin", "aa"],
    pairs=10,
    warmups=1,
    nimc_dir="/nowhere",
    command=["./stream"],
    demand=Demand(min_share=0.4, retries=1),
)


def test_what_was_saved_is_loaded(tmp_path):
    PLAN.save(tmp_path / "plan.json")
    assert BlockPlan.load(tmp_path / "plan.json") == PLAN


def test_short_writes_are_saved_too(tmp_path):
    short = ShortWrites({"daly": 2, "constant": 0}, length_s=0.5, messages=46000, link_b_s=4e9)
    plan = replace(PLAN, short=short)
    plan.save(tmp_path / "plan.json")
    assert BlockPlan.load(tmp_path / "plan.json") == plan


def test_which_arms_have_a_timetable():
    plan = replace(PLAN, short=ShortWrites({"daly": 2, "constant": 0}))
    assert [plan.timed_writers(arm) for arm in ("daly", "constant", "full", "off")] == [
        2,
        0,
        None,
        None,
    ]
    assert [plan.injector_of(arm) for arm in ("daly", "full")] == ["ucx", "ucx"]


def test_every_pair_has_every_arm_once_and_the_seed_fixes_the_order():
    orders = [PLAN.order(pair) for pair in range(200)]
    assert all(sorted(order) == ["aa", "off", "on", "spin"] for order in orders)
    assert orders == [PLAN.order(pair) for pair in range(200)]


def test_no_arm_has_a_place_of_its_own():
    # 200 draws of 4 places: 50 expected each, standard deviation 6.1; 25 to 75 is 4 of them.
    places = Counter((arm, PLAN.order(pair).index(arm)) for pair in range(200) for arm in PLAN.arms)
    assert len(places) == 16
    assert all(25 <= count <= 75 for count in places.values())


def test_which_injector_an_arm_has():
    assert [PLAN.injector_of(arm) for arm in PLAN.arms] == [None, "ucx", "spin", None]
