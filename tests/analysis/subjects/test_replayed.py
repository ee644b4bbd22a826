"""What the report says of replayed traffic, on a made run whose figures are worked out by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.effects.verdict import Verdict
from analysis.questions.question import answer
from analysis.report.data import load_run
from analysis.subjects.replayed import REPLAYED, sentence
from records.sample import Sample, TimetableRecord
from tests.analysis.synthetic import LAMMPS, samples, write_run

#: 2026-03-01 00:00 UTC.
MARCH_S = 1772323200
LONGER = 1.04


def under_traffic(run: Sample, speed: int, share: float) -> Sample:
    """Its writer was to write 400 bytes in the second and a half reported."""
    record = TimetableRecord(
        trace_sha256="ab" * 32,
        nodes=["n7"],
        window_s=MARCH_S + 86400 * max(run.pair, 0),
        speed=speed,
        share=share,
        wanted_b_s=400 / 1.5,
        done_b_s=395 / 1.5,
        missing_share=0.1,
    )
    return replace(run, timetable=record)


def made(folder: Path, speed: int = 1, share: float = 1.0) -> Path:
    case = replace(LAMMPS, effects={"on": LONGER, "aa": 1.0}, noise=0.0, origin="origin-0")
    case = replace(case, transport="rdma")
    found = [under_traffic(each, speed, share) for each in samples(case, pairs=10)]
    return write_run(folder / "run", found)


def row_of(run: Path) -> dict[str, Any]:
    (row,) = answer(REPLAYED, load_run(run, force=True)).to_dicts()
    return row


def test_what_was_wanted_done_and_lost(tmp_path: Path) -> None:
    run = made(tmp_path)
    row = row_of(run)
    assert (row["nodes"], row["n"]) == (["n7"], 10)
    assert row["wanted_b_s"] == pytest.approx(400 / 1.5)
    assert row["done_b_s"] == pytest.approx(395 / 1.5)
    assert row["furthest_share"] == pytest.approx(5 / 400)
    assert row["agreeing_share"] == 0.9
    assert row["longer"] == pytest.approx(LONGER)
    # Of the 730.5 hours of a mean month, 1 - 1 / 1.04 are lost on one node.
    assert row["node_hours_month"] == pytest.approx(730.5 * 0.04 / 1.04)
    assert "of 2026-03-01 to 2026-03-10 takes 4.0 % longer [" in sentence(row)
    assert "node-hours" in sentence(row)
    # A loss that is not shown is not stated.
    assert row["verdict"] == Verdict.SLOWER
    undecided = sentence({**row, "verdict": Verdict.INCONCLUSIVE})
    assert "inconclusive, 4.0 % longer [" in undecided
    assert not {"takes", "node-hours"} & set(undecided.split())


@pytest.mark.parametrize(("speed", "share"), [(10, 1.0), (1, 0.5)])
def test_at_another_scale_no_node_hours_are_stated(
    tmp_path: Path, speed: int, share: float
) -> None:
    row = row_of(made(tmp_path, speed, share))
    assert row["longer"]
    assert row["node_hours_month"] is None
