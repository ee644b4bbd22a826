"""docs/extend.md#add-a-section, followed literally."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.analysis.synthetic import LAMMPS, samples, write_run
from tests.literal_docs import copy_of_checkout, follow, section


def test_a_section_of_one_file_is_on_the_page_and_in_a_file_of_its_own(tmp_path: Path) -> None:
    checkout = copy_of_checkout(tmp_path / "copy")
    added = follow(section("extend.md", "Add a section"), checkout)
    assert list(added) == ["analysis/subjects/allocations.py"]
    assert sum(added.values()) <= 60
    # The nodes of the last allocation take a tenth longer.
    quiet = samples(replace(LAMMPS, noise=0.001, pair_noise=0.001), blocks=3, pairs=6)
    made = [each if each.block == 2 else replace(each, fom=each.fom / 1.1) for each in quiet]
    run = write_run(tmp_path / "run", made)
    command = [sys.executable, "-c", "from nimc.cli.main import cli; cli()", "report", str(run)]
    where = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(checkout)}}
    done = subprocess.run([*command, "--force"], capture_output=True, text=True, **where)
    assert done.returncode == 0, done.stderr
    page = next((run / "report").glob("*.html")).read_text()
    shown = page[page.index('id="r0allocations"') :].partition("</section>")[0]
    assert 'href="#r0allocations"' in page
    assert "<svg" in shown
    rows = json.loads((run / "report" / "allocations.json").read_text())["allocations"]
    words = [(row["block"], row["n"], row["word"]) for row in rows]
    assert words == [(0, 6, "like the others"), (1, 6, "like the others"), (2, 6, "slower")]
    assert [row["relative"] for row in rows] == pytest.approx([1.0, 1.0, 1.1], rel=0.01)
