from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from campaigns.cli import main
from tests.analysis.synthetic import STREAM, header, samples, write_run


def _nimc(monkeypatch: pytest.MonkeyPatch, *words: object) -> int | str | None:
    monkeypatch.setattr("sys.argv", ["nimc", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


def _run(folder: Path, effect: float = 1.35, seed: int = 1) -> Path:
    case = replace(STREAM, effects={**STREAM.effects, "on": effect})
    found = samples(case, pairs=12, seed=seed)
    return write_run(folder, found, header(run=folder.name))


def test_report_prints_the_table_and_where_the_page_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _run(tmp_path / "monday")
    assert _nimc(monkeypatch, "report", run) == 0
    out = capsys.readouterr().out
    assert "memory" in out
    assert f"report: {run}/report/report.html" in out.replace("\n", "")


def test_report_as_json_is_one_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _run(tmp_path / "monday")
    assert _nimc(monkeypatch, "report", run, "--json", "--output", tmp_path / "out") == 0
    (report,) = json.loads(capsys.readouterr().out)["reports"]
    assert Path(report["page"]) == tmp_path / "out" / "report.html"
    assert [row["arm"] for row in report["runs"][0]["results"]] == ["on", "spin", "aa"]


def test_report_of_no_run_is_one_line_and_code_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.html"
    file.touch()
    for path in (tmp_path, file):
        assert _nimc(monkeypatch, "report", path) == 2
        assert capsys.readouterr().err == f"nimc: {path}: not a run folder (no run.json)\n"


def test_compare_fails_on_a_regression_only_where_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = _run(tmp_path / "monday"), _run(tmp_path / "tuesday", effect=1.7, seed=2)
    assert _nimc(monkeypatch, "compare", old, new) == 0
    assert _nimc(monkeypatch, "compare", old, new, "--fail") == 1
    out = capsys.readouterr().out
    assert "tuesday against monday" in out
    assert "worse" in out
    assert _nimc(monkeypatch, "compare", new, old, "--fail") == 0


def test_compare_as_json_tells_every_figure_with_its_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = _run(tmp_path / "monday"), _run(tmp_path / "tuesday", effect=1.7, seed=2)
    assert _nimc(monkeypatch, "compare", old, new, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["reference"], document["worse"]) == ("monday", 2)
    rows = document["runs"][0]["comparisons"]
    assert [row["metric"] for row in rows] == ["slowdown", "off", "on"]
    assert all(row["ratio_low"] <= row["ratio"] <= row["ratio_high"] for row in rows)


def test_compare_needs_two_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _nimc(monkeypatch, "compare", _run(tmp_path / "monday")) == 2
    assert "at least one more run" in capsys.readouterr().err


def test_a_run_with_faults_is_refused_and_shown_marked_with_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sound, edited = _run(tmp_path / "monday"), _run(tmp_path / "tuesday")
    file = edited / "samples" / "stream.jsonl"
    file.write_text(file.read_text().replace('"position": 1,', '"position": 0,'))
    for words in (["report", edited], ["compare", sound, edited]):
        assert _nimc(monkeypatch, *words) == 2
        lines = capsys.readouterr().err.splitlines()
        assert lines[0] == f"nimc: {edited}: 24 integrity faults: not to be trusted"
        assert lines[1].startswith(f"{file}:")
        assert lines[-1] == "and 4 more"
        assert len(lines) == 1 + 20 + 1
        assert _nimc(monkeypatch, *words, "--force") == 0
        assert "not to be trusted" in " ".join(capsys.readouterr().out.split())
    assert _nimc(monkeypatch, "compare", sound, edited, "--force", "--json") == 0
    faults = json.loads(capsys.readouterr().out)["integrity_faults"]
    assert list(faults) == [str(edited)]
