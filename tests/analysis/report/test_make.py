"""Tests which files a report writes, and where."""

import json
from pathlib import Path

import polars as pl
import pytest
from markupsafe import Markup

from analysis.report.data import UnfinishedBlock, load_run, unfinished_blocks, unread_runs
from analysis.report.page import make_reports, render
from records.errors import InputError
from tests.analysis.synthetic import LAMMPS, STREAM, header, samples, write_run
from tests.nimc import nimc_without_figures


@pytest.fixture(autouse=True)
def _without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.report.page.render", nimc_without_figures.render)


def test_data_beside_the_page_in_the_runs_folder_holds_every_sample_and_result(
    tmp_path: Path,
) -> None:
    run = write_run(tmp_path / "run", samples(STREAM, pairs=6) + samples(LAMMPS, pairs=6))
    (report,) = make_reports([run])
    folder = run / "report"
    assert report.page == folder / "report.html"
    names = sorted(path.name for path in folder.iterdir())
    files = ["pairs.parquet", "paper_estimates.json", "paper_table_2.json", "paper_table_3.json"]
    files += ["report.html", "results.json", "results.parquet", "samples.parquet"]
    assert names == files
    table = pl.read_parquet(folder / "samples.parquet")
    assert table.height == 2 * (1 + 6 * 4)
    assert set(table["status"]) == {"counts", "warm-up"}
    assert pl.read_parquet(folder / "pairs.parquet").height == 2 * 6 * 3
    document = json.loads((folder / "results.json").read_text())
    assert (document["schema"], document["machine"]) == (2, "synthetic machine")
    assert document["runs"] == [load_run(run).document()]
    keys = ["machine", "campaign", "run", "head", "results", "contrasts"]
    keys += ["integrity_faults"]
    assert list(document["runs"][0]) == keys
    # No report is written to a folder that others can write to, since they may have put links
    # there.
    run.chmod(0o777)
    with pytest.raises(InputError, match="allowed: --output"):
        make_reports([run])


def test_several_runs_go_to_a_folder_and_each_machine_has_a_page(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / name, samples(STREAM, pairs=6), header(machine=name))
        for name in ("east", "west")
    ]
    reports = make_reports(runs, tmp_path / "out")
    assert [report.page for report in reports] == [
        tmp_path / "out" / name / "report.html" for name in ("east", "west")
    ]
    runs = [write_run(tmp_path / name, samples(STREAM, pairs=6)) for name in "ab"]
    with pytest.raises(InputError, match="--output: a folder is required"):
        make_reports(runs)
    (report,) = make_reports(runs, tmp_path / "both")
    assert len(report.runs) == 2
    assert pl.read_parquet(tmp_path / "both" / "samples.parquet").height == 50


def test_runs_that_a_killed_session_left_unread_are_reported(tmp_path, command, monkeypatch):
    monkeypatch.setattr("analysis.report.plots.themed_svg", lambda *_, **__: Markup())
    run = write_run(tmp_path / "run", samples(STREAM, pairs=6))
    (run / "logs" / "osu" / "2").mkdir(parents=True)
    (run / "logs" / "osu" / "2" / "unread.jsonl").write_text('{"key": 1}\n{"key": 2}\n{"ke')
    sentence = "osu, block 2: 2 runs to be read by the check: resume this run"
    assert sentence in command("report", run)
    assert sentence in render([load_run(run)])
    # The session was killed while it wrote the first run of block 3. This incomplete line is no
    # run.
    for block, content in (("3", '{"ke'), ("10", "{}\n")):
        (run / "logs" / "osu" / block).mkdir()
        (run / "logs" / "osu" / block / "unread.jsonl").write_text(content)
    assert unread_runs(run) == [
        sentence,
        "osu, block 10: 1 run to be read by the check: resume this run",
    ]


def test_blocks_that_ended_early_are_listed_with_outcome_and_reason(tmp_path):
    jobs = [
        ("0", "node_failed", "Slurm: NODE_FAIL"),
        ("1", "done", None),
        ("10", "cancelled", "by the user"),
        ("9", "time_limit", "Slurm: TIMEOUT"),
    ]
    for block, outcome, reason in jobs:
        folder = tmp_path / "logs" / "stream" / block
        folder.mkdir(parents=True)
        (folder / "job.json").write_text(json.dumps({"outcome": outcome, "reason": reason}))
    for block, damaged in (("2", "{"), ("3", "{}"), ("4", "[1]"), ("5", "null")):
        folder = tmp_path / "logs" / "stream" / block
        folder.mkdir()
        (folder / "job.json").write_text(damaged)
    assert unfinished_blocks(tmp_path) == [
        UnfinishedBlock("stream", "0", "node_failed", "Slurm: NODE_FAIL"),
        UnfinishedBlock("stream", "9", "time_limit", "Slurm: TIMEOUT"),
        UnfinishedBlock("stream", "10", "cancelled", "by the user"),
    ]
