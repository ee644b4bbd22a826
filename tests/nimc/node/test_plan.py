from collections import Counter
from dataclasses import replace

from nimc.records.plan import BlockPlan, Demand, ShortWrites
from nimc.records.treatment import Start, Treatment, Writes
from tests.nimc.node.treatments import treatments

PLAN = BlockPlan(
    case="stream",
    workload="stream",
    block=0,
    seed=7,
    treatments=treatments(["off", "on", "spin", "aa"], ["./stream"], {"devices": ("mlx5_0",)}),
    pairs=10,
    warmups=1,
    nimc_dir="/nowhere",
    demand=Demand(min_share=0.4, retries=1),
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


def test_what_was_saved_is_loaded(tmp_path):
    for plan in (PLAN, CROSSED):
        plan.save(tmp_path / "plan.json")
        assert BlockPlan.load(tmp_path / "plan.json") == plan


def test_short_writes_are_saved_too(tmp_path):
    short = ShortWrites(length_s=0.5, messages=46000, link_b_s=4e9)
    arms = treatments(["off", "daly", "constant"], ["lmp"], scheduled={"daly": 2, "constant": 0})
    plan = replace(PLAN, short=short, treatments=arms)
    plan.save(tmp_path / "plan.json")
    assert BlockPlan.load(tmp_path / "plan.json") == plan
    assert [each.writes and each.writes.scheduled for each in arms] == [None, 2, 0]


def names(plan: BlockPlan, pair: int) -> list[str]:
    return [each.name for each in plan.order(pair)]


def test_every_pair_has_every_arm_once_and_the_seed_fixes_the_order():
    orders = [names(PLAN, pair) for pair in range(200)]
    assert all(sorted(order) == ["aa", "off", "on", "spin"] for order in orders)
    assert orders == [names(PLAN, pair) for pair in range(200)]


def test_no_arm_has_a_place_of_its_own():
    places = Counter(
        (name, place) for pair in range(200) for place, name in enumerate(names(PLAN, pair))
    )
    assert places == {(arm, place): 50 for arm in names(PLAN, 0) for place in range(4)}


def test_what_shares_a_baseline_is_adjacent_in_time_and_groups_come_in_balanced_order():
    orders = [names(CROSSED, pair) for pair in range(200)]
    groups = [[name.partition("@")[2] for name in order] for order in orders]
    assert {tuple(each) for each in groups} == {("", "", *["n=1"] * 3), (*["n=1"] * 3, "", "")}
    assert Counter(each[0] for each in groups) == {"": 100, "n=1": 100}
    # Within a group every order comes: 2 of the first, 6 of the second.
    assert len({tuple(n for n in order if n.endswith("1")) for order in orders}) == 6


def test_warm_ups_run_the_first_baseline():
    assert PLAN.baseline.name == CROSSED.baseline.name == "off"


def test_a_share_of_the_rate_is_of_what_the_writer_reaches_alone():
    throttled = Writes("ucx", 65536, rate_share=0.25)
    assert throttled.throttled
    assert throttled.asked_b_s(4e9) == 1e9
    assert throttled.at_full_rate() == Writes("ucx", 65536)
    assert Writes("ucx", 65536, rate_b_s=5e8).asked_b_s(4e9) == 5e8
    assert Writes("ucx", 65536).asked_b_s(None) is None
