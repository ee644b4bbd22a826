"""The pages in a real browser: wide and narrow, dark, printed, and seen by axe-core."""

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.history.alarms import survey
from analysis.pages.data import MachineHistory
from analysis.pages.render import index_page, machine_page
from tests.analysis.made_nights import emulated, made_histories
from tests.analysis.report.browser import (
    DARK,
    LIGHT,
    fitting,
    needs_axe,
    needs_chromium,
    sheets,
    violations,
)

pytestmark = [pytest.mark.browser, needs_chromium]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """A year of twelve workloads, with alarms; the second machine emulates and has gaps."""
    found: list[MachineHistory] = []
    for history in made_histories()[:2]:
        surveyed = survey(history.nights, history.runs)
        found.append(replace(history, alarms=surveyed.alarms, watches=surveyed.watches))
    found[1] = emulated(found[1])
    return {
        "index": index_page(found),
        "machine": machine_page(found[0]),
        "emulated": machine_page(found[1]),
    }


@pytest.mark.parametrize("name", ["index", "machine", "emulated"])
def test_fits_the_window_and_loads_nothing(
    tmp_path: Path, pages: dict[str, str], name: str
) -> None:
    for found in fitting(tmp_path, pages[name], 420, 1280):
        assert found["crossing"] == []


@needs_axe
@pytest.mark.parametrize("name", ["index", "emulated"])
@pytest.mark.parametrize("scheme", [LIGHT, DARK])
def test_axe_finds_nothing(tmp_path: Path, pages: dict[str, str], name: str, scheme: str) -> None:
    assert violations(tmp_path, pages[name], scheme) == []


def test_a_year_of_twelve_workloads_is_printed_on_eight_sheets(
    tmp_path: Path, pages: dict[str, str]
) -> None:
    assert sheets(tmp_path, pages["machine"]) <= 8
    assert sheets(tmp_path, pages["index"]) <= 4
