from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from analysis.report.data import load_run
from analysis.report.make import make_reports
from nimc.base.errors import InputError
from tests.analysis.synthetic import LAMMPS, STREAM, header, samples, write_run


def test_one_run_is_reported_in_its_own_folder(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", samples(STREAM, pairs=6))
    (report,) = make_reports([run])
    assert report.page == run / "report" / "report.html"
    names = sorted(path.name for path in (run / "report").iterdir())
    assert names == ["pairs.parquet", "report.html", "results.json", "samples.parquet"]


def test_data_beside_the_page_holds_every_sample_and_result(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", samples(STREAM, pairs=6) + samples(LAMMPS, pairs=6))
    (report,) = make_reports([run])
    folder = report.page.parent
    table = pl.read_parquet(folder / "samples.parquet")
    assert table.height == 2 * (1 + 6 * 4)
    assert set(table["status"]) == {"counts", "warm-up"}
    assert pl.read_parquet(folder / "pairs.parquet").height == 2 * 6 * 3
    document = json.loads((folder / "results.json").read_text())
    assert (document["schema"], document["machine"]) == (1, "synthetic machine")
    assert document["runs"] == [load_run(run).document()]
    keys = ["machine", "campaign", "run", "results", "contrasts"]
    keys += ["integrity_faults", "order_effects"]
    assert list(document["runs"][0]) == keys


def test_several_machines_have_a_page_each(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / name, samples(STREAM, pairs=6), header(machine=name))
        for name in ("east", "west")
    ]
    reports = make_reports(runs, tmp_path / "out")
    assert [report.page for report in reports] == [
        tmp_path / "out" / name / "report.html" for name in ("east", "west")
    ]


def test_several_runs_need_a_folder_to_go_to(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, samples(STREAM, pairs=6)) for name in "ab"]
    with pytest.raises(InputError, match="--output: a folder is required"):
        make_reports(runs)
    (report,) = make_reports(runs, tmp_path / "out")
    assert len(report.runs) == 2
    assert pl.read_parquet(tmp_path / "out" / "samples.parquet").height == 50


@pytest.mark.parametrize("text", ["{", "null", "[1]"])
def test_a_broken_provenance_file_is_named(tmp_path: Path, text: str) -> None:
    run = write_run(tmp_path / "run", samples(STREAM, pairs=6))
    (run / "provenance").mkdir(exist_ok=True)
    (run / "provenance" / "abc.json").write_text(text)
    with pytest.raises(InputError, match=r"abc\.json"):
        make_reports([run])
