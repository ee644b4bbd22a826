"""Tests that a recorded run gives the report and the advice that are stored beside it.

It is a run of `nimc run quick` on a host of two cores, with writers through shared memory. Outputs
of the applications, the writers and ReFrame are left out, and paths are replaced. The records were
converted to the present schemas, with a chain of digests.
"""

import json
from pathlib import Path

import pytest

from tests.captures import RUN_QUICK
from tests.in_process import call


def _rounded_document(text: str) -> object:
    """Return a document with nine digits of every figure, since others depend on the processor."""
    return json.loads(text, parse_float=lambda figure: f"{float(figure):.9g}")


def _assert_recorded(document: str, file: str) -> None:
    recorded = (RUN_QUICK.parent / file).read_text()
    assert _rounded_document(document) == _rounded_document(recorded)


@pytest.mark.usefixtures("undrawn")
def test_the_report_of_the_recorded_run(tmp_path: Path) -> None:
    status, out, _ = call(["report", RUN_QUICK, "--output", tmp_path])
    assert status == 0
    first_row = out.splitlines()[2]
    assert first_row.split()[0] == "lammps"
    assert "inconclusive" in first_row
    assert first_row.endswith(" 6 pairs")
    _assert_recorded((tmp_path / "results.json").read_text(), "results.json")


def test_the_advice_of_the_recorded_run() -> None:
    status, out, _ = call(["advise", RUN_QUICK, "--json"])
    assert status == 0
    _assert_recorded(out, "advice.json")
