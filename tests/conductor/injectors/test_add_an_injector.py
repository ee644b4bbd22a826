"""An injector that is added exactly as docs/extend.md#add-an-injector says has accepted runs."""

import pytest

from tests.conductor.conftest import PACE, lasting
from tests.conductor.treatments import treatments
from tests.literal_docs import copy_of_checkout, follow, section

PAGE = section("extend.md", "Add an injector")


@pytest.mark.slow
def test_an_injector_takes_two_files_and_its_writes_are_proven(block, tmp_path):
    checkout = copy_of_checkout(tmp_path / "checkout")
    added = follow(PAGE, checkout)
    assert len(added) == 2
    assert f"{sum(added.values())} lines in all" in PAGE
    full = {"injector": "fill", "message_b": 1 << 26}
    arms = [
        *treatments(["off", "on"], lasting(1), full),
        *treatments(["full"], lasting(1), {**full, "rate_share": 0.5}),
    ]
    # On a busy host, the measured rate without an application may be too low. Then it is measured
    # again, and the run is repeated.
    limits = {**PACE, "retries": 3}
    run = block(treatments=arms, limits=limits, python_path=str(checkout)).done()
    samples = {sample["arm"]: sample for sample in run.samples()}
    assert {arm: sample["reason"] for arm, sample in samples.items()} == dict.fromkeys(samples)
    assert {sample["outcome"] for sample in samples.values()} == {"accepted"}
    (fast,), (slow,) = samples["on"]["writers"], samples["full"]["writers"]
    assert fast["injector"] == "fill"
    assert fast["rate_alone_b_s"] > 1e8  # one core copies at gigabytes a second
    assert slow["asked_b_s"] == pytest.approx(fast["rate_alone_b_s"] / 2)
