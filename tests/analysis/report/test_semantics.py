"""What readers who do not see the page, or do not use a pointer, need of its HTML."""

from __future__ import annotations

import re

import pytest

from analysis.report import page
from analysis.report.data import load_run
from tests.analysis.remedies.sweeps import sweep, swept
from tests.analysis.synthetic import LAMMPS, STREAM, reject, samples, write_run


@pytest.fixture(scope="module", params=["two workloads", "remedies"])
def text(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "remedies":
        found = swept(sweep(), pairs=8)
    else:
        found = samples(STREAM, pairs=8) + samples(LAMMPS, pairs=6)
    found[3] = reject(found[3], "rejected", "slow")
    run = write_run(tmp_path_factory.mktemp("page") / "run", found)
    return page.render([load_run(run)])


def test_every_table_has_a_caption_and_every_header_a_scope(text: str) -> None:
    tables = re.findall(r"<table.*?</table>", text, re.DOTALL)
    assert len(tables) > 8
    for table in tables:
        assert re.match(r'<table class="cards">\s*<caption>[^<]{5,}</caption>', table)
    headers = re.findall(r"<th\b[^>]*>", text)
    assert [header for header in headers if "scope=" not in header] == []


def test_every_figure_says_what_it_shows_with_its_figures(text: str) -> None:
    labels = re.findall(r'<svg role="img" aria-label="([^"]*)"', text)
    # Two a case, the overview and figure 3 of the paper; of remedies, sweeps and prices too.
    assert len(labels) >= 6
    without = [label for label in labels if not re.search(r"\d\.\d\d", label)]
    # The table below has their values.
    in_tables = ("Slowdown against ", "Figure of merit against the rate written")
    assert [label for label in without if not label.startswith(in_tables)] == []
    assert any("with both 0." in label or "with both 1." in label for label in labels) == (
        'id="advice"' in text
    )


def test_the_contents_lead_to_every_section(text: str) -> None:
    (contents,) = re.findall(r"<nav.*?</nav>", text, re.DOTALL)
    links = re.findall(r'href="#([^"]+)"', contents)
    sections = re.findall(r'<section (?:class="panel" )?id="([^"]+)"', text)
    assert links == sections
    assert text.index("Next: ") < text.index("<nav")


def test_the_first_link_skips_to_the_content(text: str) -> None:
    assert re.search(r"<body>\s*<a class=\"skip\" href=\"#main\">", text)
    assert text.count('id="main"') == 1
