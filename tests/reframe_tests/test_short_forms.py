"""README's ReFrame line: what its tags choose, and what the machine's file requires of writers."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def reframe(*words):
    done = subprocess.run(
        [Path(sys.executable).parent / "reframe", "-C", ROOT / "configs/localhost.py", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_quick_is_two_checks_and_short_is_every_short_form():
    checks = ["-c", "reframe_tests", "-R", "-l"]
    listed = {tag: re.findall(r"^- (\w+)", reframe(*checks, "-t", tag), re.MULTILINE)
              for tag in ("quick", "short")}  # fmt: skip
    assert sorted(listed["quick"]) == ["lammps_quick", "stream_quick"]
    texts = [path.read_text() for path in (ROOT / "reframe_tests").glob("*.py")]
    forms = re.findall(r"^short_form\((\w+)", "\n".join(texts), re.MULTILINE)
    assert sorted(listed["short"]) == sorted(f"{name}_quick" for name in forms)


def test_checks_plan_longer_runs(tmp_path):
    names = "^(stream|lammps|membench|hpccg)_quick$"
    reframe("-c", "reframe_tests", "-R", "-n", names, "-p", "wheels", "--dry-run",
            "--prefix", tmp_path)  # fmt: skip
    plans = {path.parent.name: json.loads(path.read_text())
             for path in tmp_path.glob("stage/*/*/*/*/plan.json")}  # fmt: skip
    of = {name: plan["treatments"][0] for name, plan in plans.items()}
    times = [2, 4, 8, 16, 32, 64]
    assert [each["command"][-1] for each in of["lammps_quick"]["longer"]] == [
        str(400 * each) for each in times
    ]
    steps = of["lammps_quick"]["start"]["command"]
    assert steps[-2:] == ["steps", "400"]
    assert all(each["command"][:-1] == steps[:-1] for each in of["lammps_quick"]["longer"])
    assert [each["environment"]["STREAM_ITERATIONS"] for each in of["stream_quick"]["longer"]] == [
        str(35 * each) for each in times
    ]
    assert of["stream_quick"]["start"]["environment"]["STREAM_ITERATIONS"] == "35"
    assert of["membench_quick"]["longer"][-1]["command"][4:6] == ["-d", "64.0"]
    assert of["hpccg_quick"]["longer"] == []
    assert plans["lammps_quick"]["lengthened_by"] == "steps"
    assert plans["lammps_quick"]["notes"] == plans["hpccg_quick"]["notes"]


@pytest.mark.parametrize(
    ("settings", "min_share"), [((), 0.2), (("-S", "stream_quick.min_share=0.7"), 0.7)]
)
def test_the_machines_share_holds_unless_the_check_has_its_own(tmp_path, settings, min_share):
    name = ["-c", "reframe_tests/stream.py", "-n", "^stream_quick$", "-p", "wheels"]
    reframe(*name, "--dry-run", "--prefix", tmp_path, *settings)
    (path,) = tmp_path.glob("stage/*/*/*/stream_quick/plan.json")
    assert json.loads(path.read_text())["demand"]["min_share"] == min_share
