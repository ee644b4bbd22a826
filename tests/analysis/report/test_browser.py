"""Tests pages in a real browser.

They load no other file, give no error, and no part is wider than the window.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from analysis.compare import page as compare_page
from analysis.compare.sides import compare_sides
from analysis.contention import evaluate
from analysis.contention.page import render as model_page
from analysis.pages.across import MachineHistory, side_by_side
from analysis.pages.render import index_page, machine_page, machine_state
from analysis.report import page
from analysis.report.data import load_run
from scripts.browser import DARK, LIGHT
from tests.analysis.compare.nights import night
from tests.analysis.made_counters import CASES
from tests.analysis.pages.made import made_history
from tests.analysis.remedies.sweeps import sweep, swept
from tests.analysis.report.browser import (
    layouts,
    needs_axe,
    needs_chromium,
    sheets,
    titles,
    violations,
)
from tests.analysis.subjects.made_causes import made_run, with_nodes
from tests.analysis.subjects.made_levels import case_of_levels
from tests.analysis.subjects.made_numa import TWO_NODES, run_of
from tests.analysis.subjects.made_scaling import run_of as scales
from tests.analysis.synthetic import (
    LAMMPS,
    STREAM,
    header,
    loaded_run,
    reject,
    remedies,
    samples,
    write_run,
)
from tests.captures import RUN_QUICK

pytestmark = [pytest.mark.browser, needs_chromium]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    long_name = replace(LAMMPS, name="lammps_with_quite_a_long_name@8192")
    runs = samples(STREAM, blocks=2, pairs=6) + samples(long_name, pairs=12)
    runs[5] = reject(runs[5], "injector_died", "writer 0 ended: " + "/a/long/path" * 12)
    facts = {"cpu": {"model": "x" * 70}, "memory_b": 1 << 34, "usable_cpus": list(range(0, 99, 2))}
    run = write_run(tmp_path_factory.mktemp("page") / "run", runs, header(facts=facts))
    return page.render([load_run(run)])


def _by_factor(folder: Path) -> str:
    return page.render([loaded_run(folder / "run", swept(sweep(), pairs=6))])


def _by_level(folder: Path) -> str:
    case = case_of_levels(
        {"load": ["read", "write", "copy"], "place": ["nic", "other"], "node": [0, 1]}
    )
    return page.render([loaded_run(folder / "run", samples(case, pairs=6))])


def _numa(folder: Path) -> str:
    return page.render([load_run(run_of(folder, TWO_NODES), force=True)])


def _comparison(folder: Path) -> str:
    long_name = replace(LAMMPS, name="lammps_with_quite_a_long_name@8192")
    node = {"cpu_model": "x" * 70, "kernel": "5.14.0-427.13.1.el9_4.x86_64"}
    sides = [
        [
            night(folder / f"{name}{n}", STREAM, long_name, node={**node, "bios": name}, seed=n)
            for n in range(3)
        ]
        for name in ("before", "after")
    ]
    return compare_page.render(compare_sides(*sides))


def _why(folder: Path) -> str:
    return page.render([load_run(made_run(folder, CASES, processor="GenuineIntel-6-85-7"))])


def _counters(folder: Path) -> str:
    times = {"on@rate=25%": 1.5, "on": 2.0, "off@tool=p": 1.05, "on@tool=p": 2.1}
    absent = {"ethtool": "the program ethtool, and a driver with these counters (mlx5)"}
    run = with_nodes(folder, samples(remedies(times=times), pairs=8), absent)
    return page.render([load_run(run)])


def _scaling(folder: Path) -> str:
    return page.render([scales(folder, 16, 64)])


def _model(_: Path) -> str:
    return model_page(evaluate.load_published("henri-subnuma"), None)


@cache
def _machines() -> list[MachineHistory]:
    """Return two machines with a year of nights of twelve workloads, with alarms.

    Writes on the second machine are emulated.
    """
    return [made_history("first"), made_history("second", emulated=True)]


@cache
def _index() -> str:
    return index_page(
        [machine_state(machine, ()) for machine in _machines()], side_by_side(_machines())
    )


@cache
def _machine() -> str:
    return machine_page(_machines()[0], ())


@cache
def _quick() -> str:
    return page.render([load_run(RUN_QUICK)])


@pytest.fixture(scope="module")
def sections(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Returns pages with sections that a run of STREAM and LAMMPS does not have."""
    folder = tmp_path_factory.mktemp("sections")
    makers = (_by_factor, _by_level, _numa, _comparison, _why, _counters, _scaling, _model)
    return {maker.__name__: maker(folder / maker.__name__) for maker in makers}


def _fit(
    tmp_path: Path, pages: Mapping[str, str], *widths: int
) -> dict[tuple[str, int], dict[str, Any]]:
    """Check pages in windows of these widths, with all details open; return their layouts.

    No part is wider than the window or overlaps its neighbour, and no file is loaded.
    """
    shown = [(name, width) for name in pages for width in widths]
    measured = layouts(tmp_path, *((pages[name], width) for name, width in shown))
    for (name, width), layout in zip(shown, measured, strict=True):
        seen = [layout[key] for key in ("width", "wide", "stuck", "loaded")]
        assert seen == [width, [], [], []], (name, width)
        assert layout["scroll"] <= width, (name, width)
    return dict(zip(shown, measured, strict=True))


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> dict[tuple[str, int], dict[str, Any]]:
    """Returns the layouts of a made run and of a recorded one, at several widths of the window."""
    folder = tmp_path_factory.mktemp("runs")
    return _fit(folder, {"made": text, "recorded": _quick()}, 390, 900, 1000, 1400)


def test_the_page_of_a_run_fits_its_window(runs: dict[tuple[str, int], dict[str, Any]]) -> None:
    assert all(layout["details"] >= 8 for (name, _), layout in runs.items() if name == "made")


def test_a_script_planted_in_a_page_does_not_run(
    tmp_path: Path, text: str, sections: dict[str, str]
) -> None:
    policy = re.compile('<meta http-equiv="Content-Security-Policy"[^>]*>')
    planted = "<script>document.title = 'ran'</script><b onclick=''></b></body>"
    pages = (text, sections["_comparison"], sections["_model"], _index(), _machine())
    assert all(map(policy.search, pages))
    edited = [page_text.replace("</body>", planted) for page_text in pages]
    *shown, unprotected = titles(tmp_path, *edited, policy.sub("", edited[0]))
    assert "ran" not in shown
    assert unprotected == "ran"


def test_every_section_fits_its_window(tmp_path: Path, sections: dict[str, str]) -> None:
    _fit(tmp_path, sections, 390, 900, 1200)


def test_pages_of_machines_fit_and_texts_of_their_figures_do_not_cross(tmp_path: Path) -> None:
    measured = _fit(tmp_path, {"over all": _index(), "machine": _machine()}, 420, 1280)
    assert {
        window: layout["crossing"] for window, layout in measured.items() if layout["crossing"]
    } == {}


def test_ink_follows_the_colour_scheme(
    tmp_path: Path, text: str, runs: dict[tuple[str, int], dict[str, Any]]
) -> None:
    (dark,) = layouts(tmp_path, (text, 390), scheme=DARK)
    assert runs["made", 390]["ink"] == "rgb(28, 33, 40)"  # #1c2128
    assert dark["ink"] == "rgb(230, 233, 238)"  # #e6e9ee


def test_a_campaign_is_short_on_a_phone_until_its_parts_are_opened(
    runs: dict[tuple[str, int], dict[str, Any]],
) -> None:
    assert runs["recorded", 390]["folded"] <= 8000 < runs["recorded", 390]["opened"]


@pytest.mark.parametrize(("page", "most"), [(_quick, 7), (_machine, 8), (_index, 4)])
def test_a_campaign_or_a_year_is_printed_on_few_sheets(
    tmp_path: Path, page: Callable[[], str], most: int
) -> None:
    assert sheets(tmp_path, page()) <= most


@needs_axe
@pytest.mark.parametrize("scheme", [LIGHT, DARK])
def test_axe_finds_nothing(tmp_path: Path, text: str, scheme: str) -> None:
    for shown in (text, _index(), _machine()):
        assert violations(tmp_path, shown, scheme) == []
