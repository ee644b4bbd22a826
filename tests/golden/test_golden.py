"""Recorded and made runs give the results and exit codes of `golden.json`, whatever is rebuilt.

They were computed by the code of commit 357f9ad6. CHANGELOG names every difference since then.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.golden.computed import COLUMNS, GOLDEN, RECORDED, exit_codes, rows_of
from tests.golden.made import RUNS, made_run

_GOLDEN: dict[str, Any] = json.loads(GOLDEN.read_text())
#: Made runs a test, and those that `make test` computes.
_PART, _QUICK = 25, 50


@pytest.fixture(autouse=True)
def _files_are_not_flushed_to_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is most of the time of writing a made run."""
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
        pytest.param(first, marks=[pytest.mark.slow] if first >= _QUICK else [])
        for first in range(0, RUNS, _PART)
    ],
)
def test_made_runs(first: int, tmp_path: Path) -> None:
    for number in range(first, first + _PART):
        _assert_golden(str(number), made_run(tmp_path, number))


def test_exit_codes(tmp_path: Path) -> None:
    assert dict(exit_codes(tmp_path)) == _GOLDEN["exit_codes"]


def test_most_verdicts_occur() -> None:
    """Else the set would not guard them."""
    from analysis.effects.result import Verdict

    verdict = COLUMNS.index("verdict")
    verdicts = {row[verdict] for rows in _GOLDEN["runs"].values() for row in rows}
    assert {str(verdict) for verdict in Verdict} - verdicts <= {"no writes"}
