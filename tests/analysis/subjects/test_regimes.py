"""Regimes: the rule by hand, whole runs with known losses, and 50 made curves of each kind."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.contention.sweep import from_run
from analysis.report.data import load_run
from analysis.report.page import render, write_data
from analysis.statistics.interval import Estimate
from analysis.subjects.regimes import LOOKS, Regime, RegimePoint, classify, loses, regimes
from nimc.records.sample import Sample
from studies.regimes import CURVES, Curve, found
from tests.analysis.synthetic import Case, at_rate, samples, write_run

PAIRS = 8


@pytest.mark.parametrize(
    ("low", "high", "lost"),
    [
        (1.03, 1.2, True),
        (1.02, 1.2, None),  # its end is the margin, which is not beyond it
        (0.99, 1.02, False),
        (0.9, 0.95, False),  # a gain is no loss
    ],
)
def test_a_side_loses_only_if_the_whole_interval_lies_beyond_the_margin(
    low: float, high: float, lost: bool | None
) -> None:
    assert loses(Estimate((low + high) / 2, low, high, 0.95), 0.02) is lost


def test_what_cannot_be_told() -> None:
    assert classify(application=None, device=True) is Regime.UNKNOWN
    assert classify(application=True, device=None) is Regime.UNKNOWN
    assert loses(None, 0.02) is None


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_made_curves_are_seldom_wrong(curve: Curve) -> None:
    points = found(curve, seeds=50)
    wrong = [each for each in points if each not in (curve.regime, Regime.UNKNOWN)]
    assert len(points) == 50 * len(curve.application)
    assert len(wrong) <= 0.025 * len(points)
    # With the losses of the paper most points are classified, with clear ones on both sides all.
    told = points.count(curve.regime) / len(points)
    assert told >= {"red": 0.99, "network alone": 0.75, "blue": 0.6, "none": 0.5}.get(curve.name, 0)


def membench(
    application: float, device: float, *, spin: float = 1.0, aa: float = 1.0
) -> list[Sample]:
    """Runs on two cores; the device has 4 GB/s before each run, loses `device` of it in the run."""
    truth = {"on": application, "spin": spin, "aa": aa}
    factors = {name: {"kernel": "copy", "direction": "write", "rate": "full"} for name in truth}
    case = Case("membench", "B/s", "higher", 9e9, truth, noise=0.001, factors=factors)

    def measured(sample: Sample) -> Sample:
        rate_b_s = 4e9 / device * (1 + 0.001 * (sample.pair % 3))
        extra = {"cores": 2.0, "node": 0.0, "window_s": 1.0}
        made = replace(sample, fom_extra=extra)
        return (
            at_rate(made, rate_b_s, rate_before_b_s=4e9, rate_alone_b_s=4e9)
            if sample.arm == "on"
            else made
        )

    return [measured(sample) for sample in samples(case, pairs=PAIRS)]


def point_of(folder: Path, made: list[Sample]) -> RegimePoint:
    run = load_run(write_run(folder / "run", made))
    (point,) = regimes(run.samples, run.results)
    return point


@pytest.mark.parametrize(
    ("application", "device", "regime"),
    [
        (1.4, 1.0, Regime.BLUE),
        (1.4, 1.5, Regime.RED),
        (1.0, 1.5, Regime.NETWORK),
        (1.0, 1.0, Regime.NONE),
        (1.02, 1.5, Regime.UNKNOWN),
    ],
)
def test_a_run_with_known_losses(
    tmp_path: Path, application: float, device: float, regime: Regime
) -> None:
    point = point_of(tmp_path, membench(application, device))
    assert (point.kernel, point.direction, point.cores) == ("copy", "write", 2)
    assert point.regime is regime
    assert point.application.value == pytest.approx(application, rel=0.005)
    assert point.device.value == pytest.approx(device, rel=0.005)
    assert point.device_by_run
    assert bool(point.reason) == (regime is Regime.UNKNOWN)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"spin": 1.4}, "application: not above the control"),
        ({"aa": 1.1}, "application: baseline unstable"),
    ],
)
def test_the_repeated_baseline_and_the_control_have_their_say(
    tmp_path: Path, changes: dict[str, float], reason: str
) -> None:
    point = point_of(tmp_path, membench(1.4, 1.0, **changes))
    assert (point.regime, point.reason) == (Regime.UNKNOWN, reason)


def test_without_a_rate_before_each_run_that_of_the_block_is_taken(tmp_path: Path) -> None:
    def older(sample: Sample) -> Sample:
        writers = [
            replace(each, rate_before_b_s=None, rate_alone_b_s=8e9) for each in sample.writers
        ]
        return replace(sample, writers=writers)

    point = point_of(tmp_path, [older(each) for each in membench(1.4, 1.0)])
    assert not point.device_by_run
    assert point.device.value == pytest.approx(2.0, rel=0.005)  # 8 GB/s alone, 4 during the runs


def test_the_fit_says_where_its_rule_does_not_hold(tmp_path: Path) -> None:
    (note,) = (
        note
        for note in from_run(write_run(tmp_path / "blue", membench(1.4, 1.0)), None).notes
        if "blue" in note
    )
    assert note.startswith("blue regime: with copy on 2 cores the application loses and writes of")
    red = from_run(write_run(tmp_path / "red", membench(1.4, 1.5)), None)
    assert not any("blue" in note for note in red.notes)


def test_the_report_has_a_map_and_its_data(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "run", membench(1.4, 1.0)))
    page = render([run])
    assert "copy, device writes, 2 cores: blue" in page
    assert "Emulated RDMA" in page[page.index("r0regimes") :]
    files = {path.name: path for path in write_data(tmp_path, [run])}
    (row,) = json.loads(files["regimes.json"].read_text())["regimes"]
    assert (row["regime"], row["cores"], row["run"]) == ("blue", 2, "synthetic-run")
    assert row["application_low"] <= row["application"] <= row["application_high"]


def test_every_regime_has_its_own_colour_and_shape() -> None:
    assert set(LOOKS) == set(Regime)
    for looks in zip(*LOOKS.values(), strict=True):
        assert len(set(looks)) == len(Regime)
