"""What pairs say together: unstable baselines, controls, repeated runs, first attempts, blocks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.effects.estimate import Result, results
from analysis.samples.columns import read_run
from nimc.records.sample import Sample
from tests.analysis.synthetic import LAMMPS, STREAM, Case, reject, samples, write_run


def _results(tmp_path: Path, found: list[Sample]) -> list[Result]:
    return results(read_run(write_run(tmp_path / "run", found)).frame)


def _by_arm(tmp_path: Path, found: list[Sample]) -> dict[str, Result]:
    return {row.arm: row for row in _results(tmp_path, found)}


def test_a_baseline_that_does_not_repeat_itself_gives_no_other_verdict(tmp_path: Path) -> None:
    """The reviewer's edit: every figure of aa divided by 1.4."""
    found = [replace(s, fom=s.fom / 1.4) if s.arm == "aa" and s.fom else s for s in samples(STREAM)]
    rows = _by_arm(tmp_path, found)
    assert rows["on"].verdict == "baseline unstable"
    assert rows["on"].noise_floor_low is not None
    assert rows["on"].noise_floor_low > 1.3


def test_off_and_on_exchanged_are_a_speed_up(tmp_path: Path) -> None:
    """The figures of both, and those of aa, which repeats off."""
    found = samples(replace(STREAM, effects={"on": 1.35, "aa": 1.35}), pairs=16)
    fom = {(s.pair, s.arm): s.fom for s in found if not s.warmup}
    other = {"off": "on", "on": "off", "aa": "aa"}
    swapped = [s if s.warmup else replace(s, fom=fom[s.pair, other[s.arm]]) for s in found]
    row = _by_arm(tmp_path, swapped)["on"]
    assert row.verdict == "speed-up"
    assert row.slowdown == pytest.approx(1 / 1.35, abs=0.02)


def test_the_repeated_baseline_counts_as_a_baseline(tmp_path: Path) -> None:
    """Off 10 s, aa 10.4 s and 9.6 s in turn, on 12 s: against off alone it is 1.2 exactly."""
    case = Case("x", "s", "lower", 10.0, {"on": 1.2, "aa": 1.0}, noise=0.0, pair_noise=0.0)
    found = [
        replace(s, fom=10.4 if s.pair % 2 else 9.6) if s.arm == "aa" else s
        for s in samples(case, pairs=8)
    ]
    row = _by_arm(tmp_path / "a", found)["on"]
    assert (row.sign_low, row.sign_high) == (pytest.approx(1.2), pytest.approx(1.2))
    # Against the geometric means of 10 and 9.6, of 10 and 10.4.
    low, high = 12 / (10 * 10.4) ** 0.5, 12 / (10 * 9.6) ** 0.5
    assert row.slowdown_low is not None
    assert row.slowdown_high is not None
    assert row.slowdown_low <= low < high <= row.slowdown_high
    lost = [reject(s, "no_fom", "no Loop time") if s.arm == "aa" else s for s in found]
    row = _by_arm(tmp_path / "b", lost)["on"]
    assert (row.pairs, row.slowdown_low) == (8, pytest.approx(1.2))
    assert row.verdict == "baseline not repeated"


def test_the_control_is_judged_within_pairs(tmp_path: Path) -> None:
    """Pairs differ by 20 %, and each has on 2 % above spin: the intervals overlap, pairs do not."""
    case = Case("x", "s", "lower", 1.0, {"on": 1.1, "spin": 1.08, "aa": 1.0}, noise=0.001)
    found = samples(replace(case, origin="far"), pairs=10)
    slow = [
        replace(s, fom=s.fom * (1 + s.pair / 50)) if s.arm in ("on", "spin") and s.fom else s
        for s in found
    ]
    row = _by_arm(tmp_path / "a", slow)["on"]
    assert row.control_high is not None
    assert row.slowdown_low is not None
    assert row.slowdown_low < row.control_high
    assert row.over_control == pytest.approx(1.1 / 1.08, abs=0.002)
    assert row.verdict == "slower under emulated writes"
    same = [replace(s, fom=s.fom / 1.02) if s.arm == "on" and s.fom else s for s in slow]
    assert _by_arm(tmp_path / "b", same)["on"].verdict == "not above the control"


def test_too_few_pairs_with_a_control_are_no_control(tmp_path: Path) -> None:
    found = [
        reject(s, "application_hung", "") if s.arm == "spin" and s.pair > 4 else s
        for s in samples(STREAM, pairs=10)
    ]
    row = _by_arm(tmp_path, found)["on"]
    assert (row.over_control, row.verdict) == (None, "control missing")


def test_first_attempts_are_estimated_beside_and_a_difference_is_told(tmp_path: Path) -> None:
    """The slowest runs under writes rejected and repeated: 1.5 became 1.2."""
    case = Case("x", "s", "lower", 10.0, {"on": 1.2, "aa": 1.0}, noise=0.0, pair_noise=0.3)
    found = []
    for s in samples(case, pairs=8):
        if s.arm == "on" and s.fom:
            found.append(reject(replace(s, fom=s.fom * 1.25), "rejected", "disturbed"))
            s = replace(s, key=s.key + "1", attempt=1)
        found.append(s)
    rows = _by_arm(tmp_path / "a", found)
    on = rows["on"]
    assert on.slowdown == pytest.approx(1.2)
    assert on.first_attempts == pytest.approx(1.5)
    # 8 of 16 runs of on, 8 of off and 8 of aa.
    assert on.notes[-2:] == [
        "warning: with the first attempt of every run, accepted or rejected, the slowdown of"
        " on is 1.5 instead of 1.2, which differs by more than half the interval's width",
        "warning: 25% of the runs of on and of what it is compared with were rejected, more"
        " than 10%",
    ]
    assert rows["aa"].first_attempts == rows["aa"].slowdown
    assert not any("warning" in note for note in rows["aa"].notes)
    rows = _by_arm(tmp_path / "b", samples(case, pairs=8))
    assert rows["on"].first_attempts == rows["on"].slowdown
    assert not any("warning" in note for note in rows["on"].notes)


def test_first_attempts_of_the_control_are_compared_as_well(tmp_path: Path) -> None:
    """The control's slow first attempts of 1.3 were rejected and repeated: 1.0 was left."""
    case = Case("x", "s", "lower", 10.0, {"on": 1.2, "aa": 1.0, "spin": 1.0}, 0.0, 0.3)
    found = []
    for s in samples(case, pairs=8):
        if s.arm == "spin" and s.fom:
            found.append(reject(replace(s, fom=s.fom * 1.3), "rejected", "disturbed"))
            s = replace(s, key=s.key + "1", attempt=1)
        found.append(s)
    on = _by_arm(tmp_path / "a", found)["on"]
    assert (on.slowdown, on.first_attempts) == (pytest.approx(1.2), pytest.approx(1.2))
    assert on.over_control == pytest.approx(1.2)
    assert on.over_control_first == pytest.approx(1.2 / 1.3)
    # 8 of 16 runs of spin, and 8 each of on, off and aa.
    assert on.notes[-2:] == [
        "warning: with the first attempt of every run, accepted or rejected, the time of on over"
        " the control's is 0.9231 instead of 1.2, which differs by more than half the interval's"
        " width",
        "warning: 20% of the runs of on and of what it is compared with were rejected, more"
        " than 10%",
    ]
    on = _by_arm(tmp_path / "b", samples(case, pairs=8))["on"]
    assert on.over_control_first == on.over_control
    assert not any("warning" in note for note in on.notes)


def test_from_three_allocations_on_the_next_one_is_covered(tmp_path: Path) -> None:
    spread = replace(LAMMPS, block_noise=0.02)
    found = _results(tmp_path, samples(spread, blocks=3, pairs=4))[0]
    assert found.next_low is not None
    assert found.next_high is not None
    assert found.slowdown_low is not None
    assert found.slowdown_high is not None
    assert found.next_low < found.slowdown_low < found.slowdown_high < found.next_high
    assert not any("next allocation" in note for note in found.notes)
