from dataclasses import replace

import pytest

from records.block_plan import BlockPlan, ShortWrites
from records.treatment import Start, Treatment, Writes
from tests.conductor.block_plans import PLAN
from tests.conductor.treatments import treatments

#: A plan with two baselines. Each has an arm `on` of its own.
CROSSED = replace(
    PLAN,
    treatments=[
        Treatment(name="off", start=Start(command=["a"])),
        Treatment(
            name="on",
            start=Start(command=["a"]),
            writes=Writes(injector="ucx", message_b=1),
            role="effect",
            baseline="off",
        ),
        Treatment(name="off@n=1", start=Start(command=["b"])),
        Treatment(
            name="on@n=1",
            start=Start(command=["b"]),
            writes=Writes(injector="ucx", message_b=1),
            role="effect",
            baseline="off@n=1",
        ),
        Treatment(
            name="aa@n=1",
            start=Start(command=["b"]),
            writes=None,
            role="floor",
            baseline="off@n=1",
            factors={"n": 1},
            notes=["a note"],
        ),
    ],
)


SHORT = replace(
    PLAN,
    short=ShortWrites(length_s=0.5, messages=46000),
    treatments=treatments(["off", "daly", "on"], ["lmp"], scheduled={"daly": 2, "on": 0}),
)


@pytest.mark.parametrize("plan", [PLAN, CROSSED, SHORT], ids=["arms", "crossed", "short"])
def test_a_saved_plan_is_loaded_unchanged(tmp_path, plan):
    plan.save(tmp_path / "plan.json")
    assert BlockPlan.load(tmp_path / "plan.json") == plan
    assert plan.baseline.name == "off"


def test_a_share_of_the_rate_refers_to_the_rate_of_the_writer_without_an_application():
    throttled = Writes(injector="ucx", message_b=65536, rate_share=0.25)
    assert throttled.throttled
    assert throttled.requested_rate_b_s(4e9) == 1e9
    assert throttled.at_full_rate() == Writes(injector="ucx", message_b=65536)
    assert Writes(injector="ucx", message_b=65536, rate_b_s=5e8).requested_rate_b_s(4e9) == 5e8
    assert Writes(injector="ucx", message_b=65536).requested_rate_b_s(None) is None
