"""Why a block failed, in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nimc.run.runner import why_failed


def test_a_session_that_did_its_work(tmp_path: Path) -> None:
    assert why_failed(0, tmp_path) is None
    (tmp_path / "block.json").write_text(json.dumps({"state": "done", "reason": None}))
    assert why_failed(0, tmp_path) is None


def test_the_conductor_speaks_first(tmp_path: Path) -> None:
    block = {"state": "injector_died", "reason": "writer 0:\nsignal 9"}
    (tmp_path / "block.json").write_text(json.dumps(block))
    (tmp_path / "reframe.json").write_text(report("sanity", "sanity error: x"))
    # ReFrame ignores exit statuses: a block that is not done has failed even where it reports 0.
    for status in (0, 1):
        assert why_failed(status, tmp_path) == "injector_died: writer 0: signal 9"


def test_what_slurm_says_of_the_job_goes_before_the_conductor(tmp_path: Path) -> None:
    block = {"state": "cancelled", "reason": "stopped by a signal, or the owner process ended"}
    (tmp_path / "block.json").write_text(json.dumps(block))
    job = {"outcome": "time_limit", "reason": "Slurm: job state TIMEOUT"}
    (tmp_path / "job.json").write_text(json.dumps(job))
    assert why_failed(1, tmp_path) == "time_limit: Slurm: job state TIMEOUT"


@pytest.mark.parametrize(
    ("phase", "reason"),
    [
        ("performance", "failed to meet reference"),
        ("sanity", "sanity error: no pair of 'on' counts: writer 0 was at 3% of its rate alone"),
    ],
)
def test_a_result_is_no_failure_of_the_block(tmp_path: Path, phase: str, reason: str) -> None:
    (tmp_path / "block.json").write_text(json.dumps({"state": "done", "reason": None}))
    (tmp_path / "reframe.json").write_text(report(phase, reason))
    assert why_failed(1, tmp_path) is None


def test_else_reframes_report(tmp_path: Path) -> None:
    (tmp_path / "reframe.json").write_text(report("compile", "build job failed\nwith status 1"))
    assert why_failed(1, tmp_path) == (
        "ReFrame failed in 'compile': build job failed with status 1"
    )


def test_else_its_last_error(tmp_path: Path) -> None:
    log = tmp_path / "reframe.log"
    log.write_text("start\nERROR: could not load 'x'\nbye\n\n")
    assert why_failed(1, tmp_path) == (
        f"ReFrame ended with status 1: ERROR: could not load 'x' ({log})"
    )
    log.write_text("start\nbye\n\n")
    assert why_failed(-9, tmp_path) == f"ReFrame was killed by SIGKILL: bye ({log})"


def test_else_that_it_said_nothing(tmp_path: Path) -> None:
    (tmp_path / "reframe.json").write_text("{ half")
    assert why_failed(2, tmp_path) == (
        f"ReFrame ended with status 2: it printed nothing to {tmp_path}/reframe.log"
    )


def test_long_reasons_are_cut(tmp_path: Path) -> None:
    (tmp_path / "block.json").write_text(json.dumps({"state": "no_fom", "reason": "x" * 5000}))
    reason = why_failed(1, tmp_path)
    assert reason is not None
    assert len(reason) == 400
    assert reason.endswith("...")


def report(phase: str, reason: str) -> str:
    """As ReFrame 4.10 writes it, what does not matter left out."""
    good = {"result": "pass", "fail_phase": None, "fail_reason": None}
    bad = {"result": "fail", "fail_phase": phase, "fail_reason": reason}
    return json.dumps({"runs": [{"testcases": [good, bad]}]})


def test_a_check_that_was_skipped_everywhere_is_not_a_success(tmp_path: Path) -> None:
    # As ReFrame 4.10.4 prints and reports it, colours included.
    (tmp_path / "reframe.log").write_text(
        "[ \x1b[33m    SKIP\x1b[0m ] (1/2) hpccg /ae019b7e @localhost:default+wheels"
        " [test_HPCCG is not on PATH]\n"
        "[ \x1b[33m    SKIP\x1b[0m ] (2/2) hpccg /ae019b7e @localhost:default+spack"
        " [nimc: no Spack is set up]\n"
    )
    skip, ran = {"result": "skip"}, {"result": "pass"}
    report = tmp_path / "reframe.json"
    report.write_text(json.dumps({"runs": [{"testcases": [skip, skip]}]}))
    said = "skipped: test_HPCCG is not on PATH; nimc: no Spack is set up"
    assert why_failed(0, tmp_path) == said
    report.write_text(json.dumps({"runs": [{"testcases": [skip, ran]}]}))
    assert why_failed(0, tmp_path) is None


def test_where_else_the_check_was_skipped_is_no_failure_either(tmp_path: Path) -> None:
    (tmp_path / "block.json").write_text(json.dumps({"state": "done", "reason": None}))
    both = json.loads(report("performance", "failed to meet reference"))
    skipped = {"result": "skip", "fail_phase": None, "fail_reason": None}
    both["runs"][0]["testcases"].append(skipped)
    (tmp_path / "reframe.json").write_text(json.dumps(both))
    assert why_failed(1, tmp_path) is None
