"""docs/add-a-workload.md, followed literally, gives a check that runs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from analysis.checkout import ROOT
from tests.literal_docs import copy_of_checkout, follow
from tests.undisturbed import VARIABLES

PAGE = ROOT / "docs" / "add-a-workload.md"


def test_a_workload_takes_three_files_and_runs(tmp_path):
    checkout = copy_of_checkout(tmp_path / "checkout")
    added = follow(PAGE, checkout)
    assert len(added) <= 3
    assert f"{sum(added.values())} lines in all" in PAGE.read_text()
    command = [str(Path(sys.executable).parent / "reframe"), "-C", "configs/localhost.py"]
    command += ["--prefix", str(tmp_path / "rfm"), "-c", "reframe_tests/sort.py", "-r"]
    settings = {"arms": "off,aa", "pairs": 1, "warmups": 0, "numbers": 1000, **VARIABLES}
    for name, value in {**settings, "nimc_dir": tmp_path / "run"}.items():
        command += ["-S", f"sort.{name}={value}"]
    done = subprocess.run(
        command,
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (tmp_path / "run/samples/sort.jsonl").read_text().splitlines()
    samples = [json.loads(line) for line in lines]
    assert sorted(sample["arm"] for sample in samples) == ["aa", "off"]
    for sample in samples:
        assert sample["fom_extra"] == {"numbers": 1000.0}
        assert 0 < sample["fom"] < sample["elapsed_s"]
        assert (sample["fom_unit"], sample["fom_better"]) == ("s", "lower")


def test_the_page_names_what_the_mixin_has():
    from reframe_tests.mixin import NimcMixin

    named = re.findall(r"^\| `(\w+)\(.*?\)` \|", PAGE.read_text(), re.MULTILINE)
    assert len(named) == 4
    assert all(callable(getattr(NimcMixin, name)) for name in named)
