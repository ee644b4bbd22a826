from dataclasses import replace

import pytest

from records.plan import BlockPlan, ShortWrites
from records.treatment import Start, Treatment, Writes
from tests.conductor.block_plans import PLAN
from tests.conductor.treatments import treatments

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


def test_a_share_of_the_rate_is_of_what_the_writer_reaches_alone():
    throttled = Writes("ucx", 65536, rate_share=0.25)
    assert throttled.throttled
    assert throttled.asked_b_s(4e9) == 1e9
    assert throttled.at_full_rate() == Writes("ucx", 65536)
    assert Writes("ucx", 65536, rate_b_s=5e8).asked_b_s(4e9) == 5e8
    assert Writes("ucx", 65536).asked_b_s(None) is None
