"""A run at several scales beside its simulation, on samples made by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nimc.base.errors import InputError
from nimc.cli.main import cli
from nimc.records.arms import arm_of
from nimc.records.sample import Sample, TimetableRecord, WriterRecord
from tests.nimc.documented import assert_documented

#: Off runs of so many seconds; 100 steps of 50 ms.
OFF_S = 5.0


def sample(nodes: int, pair: int, arm: str, fom: float) -> Sample:
    names = [f"n{i}" for i in range(nodes)]
    written = arm != "off"
    writer = WriterRecord("ucx", "o", "*", "tcp", 65536, None, 1e9, 1e9, 1e9, 5e9)
    return Sample(
        key=f"lammps@{nodes}/0/{pair}/{arm}/0",
        case=f"lammps@{nodes}",
        workload="lammps_scaling",
        arm=arm,
        block=0,
        pair=pair,
        position=0,
        attempt=0,
        warmup=False,
        outcome="kept",
        reason=None,
        start_s=1e9 + 100 * nodes + pair,
        elapsed_s=fom,
        fom=fom,
        fom_unit="s",
        fom_better="lower",
        nodes=names,
        origin_nodes=["o"],
        provenance="0" * 64,
        seed=1,
        role=arm_of(arm).role,
        baseline="off" if written else None,
        fom_extra={"ranks": float(nodes), "steps": 100.0},
        writers=[writer] if written else [],
        timetable=TimetableRecord(1, 1.0, 0.2, 0.1) if written else None,
    )


def make_run(folder: Path, slowdowns: dict[int, list[float]]) -> Path:
    """A run with a pair for each slowdown of each node count."""
    (folder / "samples").mkdir(parents=True)
    for nodes, ratios in slowdowns.items():
        lines = [
            json.dumps(sample(nodes, pair, arm, fom).as_dict())
            for pair, ratio in enumerate(ratios)
            for arm, fom in (("off", OFF_S), ("daly", OFF_S * ratio))
        ]
        (folder / "samples" / f"lammps@{nodes}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_scales_follow_from_the_single_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ratios = [2.0 / 1.2, 2.0 / 1.1, 2.0, 2.0, 2.0 * 1.1, 2.0 * 1.2]  # as far below as above
    run = make_run(tmp_path / "run", {1: ratios, 2: [1.5] * 6})
    cli.main(["simulate", "--against", str(run), "--json"], standalone_mode=False)
    found = json.loads(capsys.readouterr().out)
    assert_documented("simulate --against", found)
    assert (found["single"], found["arm"]) == ("lammps@1", "daly")
    one, two = found["rows"]
    # A rank that is always written to is slowed by its slowdown, whatever the steps.
    assert one["simulated"] == pytest.approx(2.0)
    # Of six pairs the interval is from the least to the largest (96.9 %).
    assert (one["simulated_low"], one["simulated_high"]) == pytest.approx((2.0 / 1.2, 2.4))
    assert (two["measured"], two["nodes"], two["step_s"]) == (pytest.approx(1.5), 2, 0.05)
    # One of two is always written to, and the other waits: they lose only what each works ahead
    # while the writer changes over, at most a step of 50 ms in every write of a second.
    assert 2.0 - 0.1 < two["simulated"] <= 2.0 + 1e-6
    cli.main(["simulate", "--against", str(run)], standalone_mode=False)
    assert "1.500 (1.500 to 1.500)" in capsys.readouterr().out


def test_a_line_that_a_crash_cut_off_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", {1: [2.0] * 6})
    file = run / "samples" / "lammps@1.jsonl"
    file.write_text(file.read_text() + '{"key": "lammps@1/0/7/da')
    cli.main(["simulate", "--against", str(run), "--json"], standalone_mode=False)
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["pairs"] == 6


def test_a_run_without_a_single_node_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {2: [1.5] * 6})
    with pytest.raises(InputError, match="no case on one node with one writer"):
        cli.main(["simulate", "--against", str(run)], standalone_mode=False)
