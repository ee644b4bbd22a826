"""Follows the steps of docs/extend.md#add-a-section literally."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import analysis.subjects
from analysis.report import sections
from analysis.report.page import make_reports
from tests.analysis.synthetic import LAMMPS, samples, write_run
from tests.literal_docs import follow, section

MODULE = "analysis/subjects/allocations.py"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a folder in which modules of subjects are found as well."""
    subjects = (tmp_path / MODULE).parent
    subjects.mkdir(parents=True)
    path = [*analysis.subjects.__path__, str(subjects)]
    monkeypatch.setattr(analysis.subjects, "__path__", path)
    sections.declared_sections.cache_clear()
    yield tmp_path
    sections.declared_sections.cache_clear()
    sys.modules.pop("analysis.subjects.allocations", None)


@pytest.mark.usefixtures("undrawn")
def test_a_section_of_one_file_is_on_the_page_and_in_a_file_of_its_own(checkout: Path) -> None:
    added = follow(section("extend.md", "Add a section"), checkout)
    assert list(added) == [MODULE]
    assert sum(added.values()) <= 60
    # The nodes of the last allocation take a tenth longer.
    quiet = samples(replace(LAMMPS, noise=0.001, pair_noise=0.001), blocks=3, pairs=6)
    runs = [run if run.block == 2 else replace(run, fom=run.fom / 1.1) for run in quiet]
    (report,) = make_reports([write_run(checkout / "run", runs)])
    page = report.page.read_text()
    shown = page[page.index('id="r0allocations"') :].partition("</section>")[0]
    assert 'href="#r0allocations"' in page
    assert "<svg" in shown
    rows = json.loads((report.page.parent / "allocations.json").read_text())["allocations"]
    words = [(row["block"], row["n"], row["word"]) for row in rows]
    assert words == [(0, 6, "like the others"), (1, 6, "like the others"), (2, 6, "slower")]
    assert [row["relative"] for row in rows] == pytest.approx([1.0, 1.0, 1.1], rel=0.01)
