"""`nimc pages`."""

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from nimc.nights import description
from tests.analysis.history.made import made_run
from tests.analysis.synthetic import STARTED_S
from tests.nimc.conftest import Command, call
from tests.nimc.nights.made import nightly

_NIGHT = {
    **{"schema": 1, "nightly": "made", "machine": "m", "campaign": "synthetic"},
    **{"night": "2026-06-01", "started_s": STARTED_S, "finished_s": STARTED_S + 60},
    **{"outcome": "not run", "reason": "no node was <free>", "budget_node_h": 1.0},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs in a store, one of them with a report, and a night without a run."""
    folder = tmp_path_factory.mktemp("results")
    for day, name in enumerate(("monday", "tuesday")):
        made_run(folder / name, day=day)
    (folder / "tuesday" / "report").mkdir()
    (folder / "tuesday" / "report" / "report.html").write_text("report")
    (folder / "nights").mkdir()
    (folder / "nights" / "made-2026-06-01.json").write_text(json.dumps(_NIGHT))
    assert call(["store", "add", "--results", folder])[0] == 0
    return folder


@pytest.fixture
def results(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "results"))


def test_the_pages_are_written_and_link_to_reports(results: Path, command: Command) -> None:
    command("pages", "--results", results)
    out = command.out.splitlines()
    pages = results / "pages"
    assert out[1:] == [f"page: {results}/pages/index.html"]
    assert out[0].startswith("m: last night 2026-06-01, not run; open alarms: 0; ")
    page = (pages / "m" / "index.html").read_text()
    assert "no node was &lt;free&gt;" in page
    assert "The RDMA on this page is emulated" in page
    (report,) = re.findall(r'href="(\S*report.html)"', page)
    assert (pages / "m" / report).read_text() == "report"
    calendar = pl.read_csv(pages / "m" / "calendar.csv")
    # `made_run` starts at 2026-05-28 20:26 UTC, and a day later.
    assert calendar.select("night", "outcome").rows() == [
        ("2026-05-28", "recorded"),
        ("2026-05-29", "recorded"),
        ("2026-06-01", "not run"),
    ]


def test_scheduled_nights_on_which_nothing_was_started_are_in_the_calendar(
    results: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From Monday to Friday: nothing on Tuesday, 2 June, and no night on Saturday."""
    described = nightly(results.parent, name="made")
    monkeypatch.setattr(description, "load", lambda _: described)
    command("pages", "--results", results)
    calendar = pl.read_csv(results / "pages" / "m" / "calendar.csv")
    outcomes = dict(calendar.select("night", "outcome").iter_rows())
    assert outcomes["2026-06-02"] == outcomes["2026-06-05"] == "not run"
    assert "2026-06-06" not in outcomes
    assert "the schedule of made" in (results / "pages" / "m" / "index.html").read_text()


def test_what_cannot_be_read_is_named_once_and_left_out(results: Path, command: Command) -> None:
    out = results.parent / "out"
    document = command.json("pages", "--results", results, "--output", out)
    assert document["page"] == str(out / "index.html")
    (machine,) = document["machines"]
    assert (machine["machine"], machine["nights"], machine["emulated"]) == ("m", 2, True)
    (results / "nights" / "made-2026-06-02.json").write_text("{")
    (torn,) = (results / "store" / "nights").rglob("monday-*.parquet")
    torn.write_bytes(b"torn")
    command("pages", "--results", results)
    lines = command.err.splitlines()
    assert len(lines) == 2
    assert any("made-2026-06-02.json" in line for line in lines)
    assert any(torn.name in line for line in lines)

    shutil.rmtree(results / "store")
    command("pages", "--results", results, code=2)
    (line,) = command.err.splitlines()
    assert "there is no store" in line
