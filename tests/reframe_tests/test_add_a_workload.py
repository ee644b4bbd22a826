"""docs/add-a-workload.md, followed literally, gives a check that runs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nimc.base.checkout import ROOT
from tests.literal_docs import copy_of_checkout, follow
from tests.undisturbed import VARIABLES

PAGE = ROOT / "docs" / "add-a-workload.md"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the checkout to which the page was applied."""
    copy = copy_of_checkout(tmp_path_factory.mktemp("workload") / "checkout")
    added = follow(PAGE, copy)
    compiled = {"reframe_tests/src/sort/sort.c", "reframe_tests/sort_compiled.py"}
    assert added.keys() - compiled == {"reframe_tests/sort.py"}
    assert f"in {added['reframe_tests/sort.py']} lines" in PAGE.read_text()
    return copy


@pytest.mark.parametrize("check", ["sort", "sort_compiled"])
def test_a_workload_is_one_file_and_runs(checkout, tmp_path, check):
    command = [str(Path(sys.executable).parent / "reframe"), "-C", "configs/localhost.py"]
    command += ["--prefix", str(tmp_path / "rfm"), "-c", f"reframe_tests/{check}.py", "-r"]
    settings = {"arms": "off,aa", "pairs": 1, "warmups": 0, "numbers": 1000, **VARIABLES}
    for name, value in {**settings, "nimc_dir": tmp_path / "run"}.items():
        command += ["-S", f"{check}.{name}={value}"]
    done = subprocess.run(
        command,
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (tmp_path / f"run/samples/{check}.jsonl").read_text().splitlines()
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
