"""Tests that recorded and made runs still give the results and exit codes in `golden.json`.

The code of commit 357f9ad6 computed them. CHANGELOG names every difference since then.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.golden.computed import COLUMNS, GOLDEN, RECORDED, exit_codes, rows_of
from tests.golden.made import RUNS, made_run

_GOLDEN: dict[str, Any] = json.loads(GOLDEN.read_text())
#: Number of made runs in one test, and number of made runs that `make test` computes.
_RUNS_PER_TEST, _QUICK_RUNS = 25, 50


@pytest.fixture(autouse=True)
def _files_are_not_flushed_to_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip flushing, since it takes most of the time that is needed to write a made run."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def _assert_golden(name: str, run: Path) -> None:
    computed, golden = (sorted(rows) for rows in (rows_of(run), _GOLDEN["runs"][name]))
    assert len(computed) == len(golden), f"run {name}"
    for row, expected in zip(computed, golden, strict=True):
        for column, value, stored in zip(COLUMNS, row, expected, strict=True):
            if isinstance(stored, float) and value is not None:
                stored = pytest.approx(stored, rel=1e-9, abs=0)
            assert value == stored, f"run {name}, {row[:2]}: {column}"


def test_recorded_runs() -> None:
    for run in RECORDED:
        _assert_golden(run.name, run)


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=[pytest.mark.slow] if first >= _QUICK_RUNS else [])
        for first in range(0, RUNS, _RUNS_PER_TEST)
    ],
)
def test_made_runs(first: int, tmp_path: Path) -> None:
    for number in range(first, first + _RUNS_PER_TEST):
        _assert_golden(str(number), made_run(tmp_path, number))


@pytest.mark.slow
def test_exit_codes(tmp_path: Path) -> None:
    assert dict(exit_codes(tmp_path)) == _GOLDEN["exit_codes"]


def test_most_verdicts_occur() -> None:
    """The golden results can protect only verdicts that occur in them."""
    from analysis.effects.result import Verdict

    verdict = COLUMNS.index("verdict")
    verdicts = {row[verdict] for rows in _GOLDEN["runs"].values() for row in rows}
    assert {str(verdict) for verdict in Verdict} - verdicts <= {"no writes"}
