"""docs/add-an-injector.md, followed literally, gives writers whose runs count."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from nimc.base.checkout import ROOT
from tests.literal_docs import copy_of_checkout, follow
from tests.nimc.node.conftest import APPLICATION
from tests.nimc.node.test_timetable import PLAN
from tests.nimc.node.treatments import treatments
from tests.undisturbed import UNJUDGED

PAGE = ROOT / "docs" / "add-an-injector.md"
#: On a busy host the writer is slower or late; this test asks whether its writes are proven.
PACE: dict[str, Any] = {
    "min_share": 0.01,
    **dict.fromkeys(["late_rows", "silent_s", "pause_s"], 60.0),
}


@pytest.mark.slow
def test_an_injector_takes_two_files_and_its_writes_are_proven(tmp_path):
    checkout = copy_of_checkout(tmp_path / "checkout")
    added = follow(PAGE, checkout)
    assert len(added) == 2
    assert f"{sum(added.values())} lines in all" in PAGE.read_text()
    writes = {"injector": "fill", "message_b": 1 << 26, "rate_share": 0.5}
    full = {**writes, "rate_share": None}
    plan = PLAN.__class__(
        **{
            **vars(PLAN),
            "workload": "lammps",
            "treatments": [
                *treatments(["off", "on"], APPLICATION, full),
                *treatments(["full"], APPLICATION, writes),
            ],
            "pairs": 1,
            "warmups": 0,
            "nimc_dir": str(tmp_path / "run"),
            "demand": replace(PLAN.demand, **PACE, **UNJUDGED),
        }
    )
    plan.save(tmp_path / "plan.json")
    done = subprocess.run(
        [sys.executable, "-m", "reframe_tests.conduct", str(tmp_path / "plan.json")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "run/samples/stream.jsonl").read_text().splitlines()
    samples = {each["arm"]: each for each in map(json.loads, lines)}
    assert {arm: each["reason"] for arm, each in samples.items()} == dict.fromkeys(samples)
    assert {each["outcome"] for each in samples.values()} == {"kept"}
    (fast,), (slow,) = samples["on"]["writers"], samples["full"]["writers"]
    assert fast["injector"] == "fill"
    assert fast["rate_alone_b_s"] > 1e8  # one core copies at gigabytes a second
    assert slow["asked_b_s"] == pytest.approx(fast["rate_alone_b_s"] / 2)
