from __future__ import annotations

import pytest

from analysis.report.published import published


def test_stream_stands_beside_table_two() -> None:
    lines = {line.machine: line for line in published("stream")}
    assert len(lines) == 11
    piledriver = lines["Piledriver-1866"]
    assert (piledriver.off, piledriver.on, piledriver.table) == (12.7, 5.6, "Table II")
    assert piledriver.slowdown == pytest.approx(12.7 / 5.6)  # the paper's loss of 56 %


def test_lammps_stands_beside_table_three() -> None:
    (line,) = published("lammps")
    assert (line.off, line.on, line.unit) == (177.21, 372.04, "s")
    assert line.slowdown == pytest.approx(2.099, abs=0.001)  # times: on / off


def test_what_was_not_published_stands_alone() -> None:
    assert published("minife") == []
