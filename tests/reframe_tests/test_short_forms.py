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
    classes = re.findall(r"^class (\w+_quick)\(", "\n".join(texts), re.MULTILINE)
    assert sorted(listed["short"]) == sorted(classes)


@pytest.mark.parametrize(
    ("settings", "min_share"), [((), 0.2), (("-S", "stream_quick.min_share=0.7"), 0.7)]
)
def test_the_machines_share_holds_unless_the_check_has_its_own(tmp_path, settings, min_share):
    name = ["-c", "reframe_tests/stream.py", "-n", "^stream_quick$", "-p", "wheels"]
    reframe(*name, "--dry-run", "--prefix", tmp_path, *settings)
    (path,) = tmp_path.glob("stage/*/*/*/stream_quick/plan.json")
    assert json.loads(path.read_text())["demand"]["min_share"] == min_share
