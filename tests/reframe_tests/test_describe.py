"""The page of workloads is what their records say."""

import subprocess
import sys

from nimc.base.checkout import ROOT
from reframe_tests.describe import page
from reframe_tests.workload import load, names


def test_page_is_fresh():
    said = "stale: python -m reframe_tests.describe > docs/workloads.md"
    assert (ROOT / "docs" / "workloads.md").read_text() == page(), said


def test_page_names_every_workload_with_its_unit():
    assert len(names()) == 15
    for name in names():
        row = load(name)
        assert f"| `{name}`: {row.title} | {row.fom} | {row.unit} | {row.better} |" in page()


def test_module_prints_the_page():
    done = subprocess.run(
        [sys.executable, "-m", "reframe_tests.describe"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stdout == page()
