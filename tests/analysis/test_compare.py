from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.compare import compare, differences
from analysis.report.data import RunData, load_run
from tests.analysis.synthetic import LAMMPS, STREAM, Case, header, samples, write_run

#: Rates in 1/s, as XSBench, AMG and UMT report them, and what a machine has too much of per second.
LOOKUPS = replace(STREAM, name="xsbench", unit="1/s", base=2.5e6)
FAULTS = replace(LAMMPS, name="faults", unit="1/s", base=40.0)


_WRITES = "write of 64 KiB over shared memory by ucx"


def _run(folder: Path, case: Case, seed: int = 1, pairs: int = 12, **changes: object) -> RunData:
    found = samples(case, pairs=pairs, seed=seed)
    return load_run(write_run(folder, found, header(**changes)))


def _verdicts(old: RunData, new: RunData) -> dict[str, str]:
    return {row.metric: row.verdict for row in compare(old, new)}


@pytest.mark.parametrize("case", [STREAM, LAMMPS])
def test_two_nights_of_the_same_show_no_change(tmp_path: Path, case: Case) -> None:
    old, new = _run(tmp_path / "a", case), _run(tmp_path / "b", case, seed=2)
    assert set(_verdicts(old, new).values()) == {"no change"}


def test_more_contention_is_worse_and_less_is_better(tmp_path: Path) -> None:
    old = _run(tmp_path / "a", STREAM)
    new = _run(tmp_path / "b", replace(STREAM, effects={**STREAM.effects, "on": 1.7}), seed=2)
    assert _verdicts(old, new) == {"slowdown": "worse", "off": "no change", "on": "worse"}
    assert _verdicts(new, old) == {"slowdown": "better", "off": "no change", "on": "better"}
    slowdown = compare(old, new)[0]
    assert slowdown.ratio == pytest.approx(1.7 / 1.35, abs=0.02)
    assert slowdown.ratio_low is not None
    assert slowdown.ratio_high is not None
    assert slowdown.ratio_low < 1.7 / 1.35 < slowdown.ratio_high


@pytest.mark.parametrize("case", [STREAM, LAMMPS, LOOKUPS, FAULTS])
def test_a_slower_machine_is_worse_in_time_and_not_in_slowdown(tmp_path: Path, case: Case) -> None:
    """Half as much again, or as little: the ratio is one of times, whatever the unit is."""
    old = _run(tmp_path / "a", case)
    slower = case.base / 1.5 if case.better == "higher" else case.base * 1.5
    new = _run(tmp_path / "b", replace(case, base=slower), seed=2)
    assert _verdicts(old, new) == {"slowdown": "no change", "off": "worse", "on": "worse"}
    assert compare(old, new)[1].ratio == pytest.approx(1.5, abs=0.05)


def test_only_effects_are_compared_by_their_names(tmp_path: Path) -> None:
    case = replace(STREAM, effects={**STREAM.effects, "on@rate=25%": 1.1, "mine": 1.2})
    old = _run(tmp_path / "a", case)
    assert {row.arm for row in compare(old, old)} == {"on", "on@rate=25%", "mine"}


def test_figures_with_another_direction_are_not_compared(tmp_path: Path) -> None:
    other = replace(FAULTS, name=LOOKUPS.name)
    assert compare(_run(tmp_path / "a", LOOKUPS), _run(tmp_path / "b", other)) == []


def test_noise_floors_of_both_runs_are_enclosed(tmp_path: Path) -> None:
    quiet = _run(tmp_path / "a", STREAM)
    loud = _run(tmp_path / "b", replace(STREAM, noise=0.1), seed=2)
    row = compare(quiet, loud)[0]
    floors = [
        (r.noise_floor_low, r.noise_floor_high)
        for run in (quiet, loud)
        for r in run.results
        if r.arm == "on"
    ]
    assert row.noise_floor_low == min(low for low, _ in floors if low is not None)
    assert row.noise_floor_high == max(high for _, high in floors if high is not None)


def test_inconclusive_comparisons_say_why(tmp_path: Path) -> None:
    old = _run(tmp_path / "a", STREAM)
    assert set(_verdicts(old, _run(tmp_path / "b", STREAM, pairs=5)).values()) == {"too few pairs"}
    alone = replace(STREAM, effects={"on": 1.35})
    assert _verdicts(old, _run(tmp_path / "c", alone))["off"] == "noise floor missing"
    other = _run(tmp_path / "d", LAMMPS)
    assert compare(old, other) == []
    assert [(d.what, d.reference, d.this) for d in differences(old, other)] == [
        ("stream on", f"measured in B/s, {_WRITES}", "absent"),
        ("lammps on", "absent", f"measured in s, {_WRITES}"),
    ]


def test_other_writes_are_a_difference(tmp_path: Path) -> None:
    old = _run(tmp_path / "a", STREAM)
    new = _run(tmp_path / "b", replace(STREAM, transport="tcp"))
    assert [(d.what, d.this) for d in differences(old, new)] == [
        ("stream on", "measured in B/s, write of 64 KiB over tcp by perftest")
    ]


def test_differences_name_what_is_not_the_same(tmp_path: Path) -> None:
    old = _run(tmp_path / "a", STREAM, facts={"kernel": "6.1", "cores": 2}, commit="abc")
    new = _run(tmp_path / "b", STREAM, facts={"kernel": "6.6", "cores": 2, "smt": True})
    found = [(d.what, d.reference, d.this) for d in differences(old, new)]
    assert found == [
        ("commit", "abc", "unknown"),
        ("kernel", "6.1", "6.6"),
        ("smt", "absent", "yes"),
    ]
    assert differences(old, old) == []
