from collections import Counter
from dataclasses import replace

import pytest

from records.acceptance import AcceptanceLimits
from records.plan import BlockPlan, ShortWrites
from records.treatment import Start, Treatment, Writes
from tests.conductor.treatments import treatments

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
    short=ShortWrites(length_s=0.5, messages=46000),
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
