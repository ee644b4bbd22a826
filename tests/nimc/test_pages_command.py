"""`nimc pages`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from nimc.cli.main import main
from tests.analysis.history.made import made_run
from tests.analysis.synthetic import STARTED_S

_NIGHT = {
    **{"schema": 1, "nightly": "made", "machine": "m", "campaign": "synthetic"},
    **{"night": "2026-06-01", "started_s": STARTED_S, "finished_s": STARTED_S + 60},
    **{"outcome": "not run", "reason": "no node was <free>", "budget_node_h": 1.0},
}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs in a store, one of them with a report, and a night without a run."""
    folder = tmp_path / "results"
    for day, name in enumerate(("monday", "tuesday")):
        made_run(folder / name, day=day)
    (folder / "tuesday" / "report").mkdir()
    (folder / "tuesday" / "report" / "report.html").write_text("report")
    (folder / "nights").mkdir()
    (folder / "nights" / "made-2026-06-01.json").write_text(json.dumps(_NIGHT))
    assert _nimc(monkeypatch, "store", "add", "--results", folder) == 0
    return folder


def _nimc(monkeypatch: pytest.MonkeyPatch, *words: object) -> int | str | None:
    monkeypatch.setattr("sys.argv", ["nimc", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


def test_the_pages_are_written_and_link_to_reports(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert _nimc(monkeypatch, "pages", "--results", results) == 0
    out = capsys.readouterr().out.splitlines()
    pages = results / "pages"
    assert out == [
        "m: last night 2026-06-01, not run; open alarms: 0",
        f"page: {pages}/index.html",
    ]
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


def test_as_json_it_is_one_document(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    out = results.parent / "out"
    assert _nimc(monkeypatch, "pages", "--results", results, "--output", out, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    assert document["page"] == str(out / "index.html")
    (machine,) = document["machines"]
    assert (machine["machine"], machine["nights"], machine["emulated"]) == ("m", 2, True)


def test_what_cannot_be_read_is_named_once_and_left_out(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    (results / "nights" / "made-2026-06-02.json").write_text("{")
    (torn,) = (results / "store" / "nights").rglob("monday-*.parquet")
    torn.write_bytes(b"torn")
    assert _nimc(monkeypatch, "pages", "--results", results) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert any("made-2026-06-02.json" in line for line in lines)
    assert any(torn.name in line for line in lines)


def test_without_a_store_it_is_one_line_and_code_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _nimc(monkeypatch, "pages", "--results", tmp_path) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "there is no store" in line
