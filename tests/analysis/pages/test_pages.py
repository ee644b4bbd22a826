"""The written pages: their links, tables and figures, and the data next to them."""

import json
import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from analysis.history.alarms import survey
from analysis.pages.data import MachineHistory
from analysis.pages.render import index_page, machine_page
from analysis.pages.write import write_pages
from tests.analysis.made_nights import emulated, made_histories


@pytest.fixture(scope="module")
def histories() -> list[MachineHistory]:
    """Three machines with two workloads; the first has alarms, the last emulates."""
    found = made_histories(nights=120, workloads=2)[:3]
    surveyed = survey(found[0].nights, found[0].runs)
    first = replace(found[0], alarms=surveyed.alarms, watches=surveyed.watches)
    return [first, found[1], emulated(found[2])]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, histories: list[MachineHistory]) -> Path:
    output = tmp_path_factory.mktemp("pages") / "site"
    write_pages(output, histories)
    return output


def _pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def test_every_link_of_every_page_leads_to_a_file_or_a_section(site: Path) -> None:
    names = [str(page.relative_to(site)) for page in _pages(site)]
    assert names == ["index.html", *(f"machine{n}/index.html" for n in range(3))]
    assert not list(site.rglob(".*"))
    for page in _pages(site):
        text = page.read_text()
        links = re.findall(r'href="([^"]*)"', text)
        assert len(links) > 10
        for link in links:
            if link.startswith("#"):
                assert text.count(f'id="{link[1:]}"') == 1
            elif not link.startswith("data:"):
                assert (page.parent / link).is_file(), link
        assert re.search(r"https?://(?!www\.w3\.org/)|<script|@import", text) is None


def test_tables_have_captions_and_scopes_and_figures_say_what_they_show(site: Path) -> None:
    for page in _pages(site):
        text = page.read_text()
        for table in re.findall(r"<table.*?</table>", text, re.DOTALL):
            assert re.match(r"<table[^>]*><caption>[^<]{5,}</caption>", table)
        assert [each for each in re.findall(r"<th\b[^>]*>", text) if "scope=" not in each] == []
        figures = re.findall(r"<svg[^>]*>", text)
        assert len(figures) > 2
        assert all(re.search(r'aria-label="[^"]*\d', each) for each in figures)


def test_every_night_of_every_quantity_is_drawn(
    site: Path, histories: list[MachineHistory]
) -> None:
    """The second machine has gaps: nights that were not run have no point."""
    for history in histories:
        text = (site / history.machine / "index.html").read_text()
        dots = "".join(re.findall(r'class="dots"[^>]* d="([^"]*)"', text)).count("h0")
        far = "".join(re.findall(r'class="far"[^>]* d="([^"]*)"', text)).count("l4 4")
        assert dots + far == history.nights.height


def test_emulation_is_said_on_the_page_and_wherever_machines_are_compared(site: Path) -> None:
    assert "The RDMA on this page is emulated" in (site / "machine2" / "index.html").read_text()
    hardware = (site / "machine0" / "index.html").read_text()
    assert "mulated" not in re.sub(r"<style>.*</style>", "", hardware, flags=re.DOTALL)
    index = (site / "index.html").read_text()
    assert "Some machines on this page emulate RDMA" in index
    assert re.search(r"machine2</a> <span class=\"emulated\">", index)
    rates = index[index.index('id="rates"') : index.index('id="table1"')]
    assert re.findall(r"<li>(machine.)( <span class=\"emulated\")?", rates) == [
        ("machine0", ""),
        ("machine1", ""),
        ("machine2", ' <span class="emulated"'),
    ]
    ranking = index[index.index('id="ranking"') : index.index('id="slowdowns"')]
    assert "machine1" in ranking
    assert "machine2" not in ranking


def test_the_data_hold_what_is_drawn(site: Path, histories: list[MachineHistory]) -> None:
    for history in histories:
        parquet = pl.read_parquet(site / history.machine / "nights.parquet")
        assert parquet.equals(history.nights)
        assert pl.read_csv(site / history.machine / "nights.csv").height == parquet.height
    gaps = pl.read_parquet(site / "machine1" / "calendar.parquet")
    assert gaps.filter(outcome="not run").height == 120 - histories[1].runs.height > 0
    slow = pl.read_csv(site / "slowdowns.csv")
    assert slow.height == 3 * 2
    published = pl.read_csv(site / "triad.csv").filter(pl.col("published"))
    assert published.filter(machine="Westmere-800")["off_b_s"].item() == 12.9e9
    index = json.loads((site / "index.json").read_text())
    assert index["schema"] == 1
    assert [each["machine"] for each in index["machines"]] == ["machine0", "machine1", "machine2"]
    (first, *_) = index["machines"]
    assert (site / first["page"]).is_file()
    assert first["open_alarms"] >= 1
    assert {"alarms", "watches", "facts"} <= set(first)
    assert {each["machine"] for each in index["ranking"]} == {"machine0", "machine1"}


def test_odd_names_and_no_nights_have_pages(histories: list[MachineHistory]) -> None:
    bad = "<script>alert(1)</script>"
    nights = histories[1].nights.with_columns(case=pl.lit(bad), machine=pl.lit(bad))
    odd = replace(histories[1], machine=bad, nights=nights)
    assert "<script" not in machine_page(odd)
    assert "<script" not in index_page([odd])
    told = [each for each in histories[1].outcomes if each.outcome == "not run"]
    frames = histories[0].runs[:0], histories[0].nights[:0]
    empty = MachineHistory("new", *frames, outcomes=told, known_s=histories[0].known_s)
    text = machine_page(empty)
    assert f"not run: {len(told)}" in text
    assert "No slowdown was measured" in index_page([empty])
    nothing = machine_page(replace(empty, outcomes=[]))
    assert "Nothing is known of any night." in nothing
