"""A recorded run gives the report and the advice that were written next to it.

`nimc run quick` of a host of two cores, with writers through shared memory. What the applications,
the writers and ReFrame printed is left out, paths are replaced, and its records were written again
as of today's schemas, with a chain.
"""

import json
from pathlib import Path

import pytest

from tests.captures import RUN_QUICK
from tests.commands import call


def _figures(text: str) -> object:
    """The document with nine digits of every figure: the last ones depend on the processor."""
    return json.loads(text, parse_float=lambda figure: f"{float(figure):.9g}")


def _same(document: str, recorded: str) -> None:
    assert _figures(document) == _figures((RUN_QUICK.parent / recorded).read_text())


@pytest.mark.usefixtures("undrawn")
def test_its_report(tmp_path: Path) -> None:
    status, out, _ = call(["report", RUN_QUICK, "--output", tmp_path])
    assert status == 0
    (line, *_) = out.splitlines()[2:]
    assert line.split()[0] == "lammps"
    assert "inconclusive" in line
    assert line.endswith(" 6 pairs")
    _same((tmp_path / "results.json").read_text(), "results.json")


def test_its_advice() -> None:
    status, out, _ = call(["advise", RUN_QUICK, "--json"])
    assert status == 0
    _same(out, "advice.json")
