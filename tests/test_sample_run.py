"""Tests of the sample run that the docs show.

The tutorial agrees with the run, and the run's files name no folder of the host that measured it.
"""

import re
from pathlib import Path

from analysis.report.data import load_run
from records.checkout import ROOT
from tests.in_process import call

(SAMPLE,) = (ROOT / "docs/sample-run").iterdir()
TUTORIAL = ROOT / "docs/tutorial.md"


def test_the_tutorial_shows_the_table_and_the_words_of_the_sample_run(
    tmp_path: Path,
) -> None:
    status, output, _ = call(["report", SAMPLE, "--output", tmp_path])
    assert status == 0
    blocks = re.findall(r"```text\n(.*?)```", TUTORIAL.read_text(), re.DOTALL)
    table, words = next(block for block in blocks if "stream" in block), blocks[2]
    assert table.count("\n") == 3
    assert words.startswith("lammps: the interval")
    assert table in output
    assert words in output


def test_the_sample_run_names_no_folder_of_the_host_that_measured_it() -> None:
    text = "".join(path.read_text() for path in SAMPLE.rglob("*") if path.is_file())
    paths = set(re.findall(r'"(/[^"]*/)[^"/]*"', text))
    assert paths
    assert {path for path in paths if not path.startswith("/home/user/nimc/")} == set()


def test_the_sample_run_is_sound_and_finished_and_stream_is_decided() -> None:
    run = load_run(SAMPLE)
    assert run.integrity.lines() == []
    assert run.ended_s
    verdicts = {row.case: row.verdict for row in run.results if row.role == "effect"}
    assert verdicts == {
        "lammps": "not above the control",
        "stream": "slower under emulated writes",
    }
