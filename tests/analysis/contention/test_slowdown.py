"""Demand and predicted slowdown: figures that follow by hand from chosen ratios."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from analysis.contention import evaluate
from analysis.contention.parameters import Band, Bands
from analysis.contention.slowdown import (
    ComputingPlace,
    SlowdownRow,
    mean_error,
    of_membench,
    rows,
    share_of,
    slowdown_of,
)
from analysis.report.data import load_run
from analysis.statistics.interval import Estimate
from nimc.base.errors import InputError
from nimc.cli.main import cli
from nimc.records.sample import Sample
from tests.analysis.synthetic import Case, samples, write_run

#: henri on all 18 cores, data and buffers on node 0, MB/s: computations alone get t_seq_max; beside
#: communications the total at n_seq_max less the least that these keep, alpha of their rate alone.
MEMBENCH = 72589.9 / (73387.7 - 0.915 * 11481.1)
BESIDE = "off@tool=membench:1"


def estimate(value: float, half: float = 0.0) -> Estimate:
    return Estimate(value, value - half, value + half, 0.95)


def test_the_share_is_the_loss_beside_membench_relative_to_membench_itself() -> None:
    """1.2 where membench takes 1.8 times as long: a quarter; ends from both intervals."""
    share = share_of(estimate(1.2, 0.05), estimate(1.8, 0.1))
    assert share.value == pytest.approx(0.2 / 0.8)
    assert (share.low, share.high) == (pytest.approx(0.15 / 0.9), pytest.approx(0.25 / 0.7))
    assert share_of(estimate(1.2), estimate(1.05, 0.1)) is None
    faster = share_of(estimate(0.98, 0.01), estimate(1.8, 0.1))
    assert (faster.value, faster.low) == (0, 0)


def test_only_that_share_of_the_time_suffers() -> None:
    """Half of the time twice as long: 1.5. A model off by 10 %: 1 + 0.4 * 0.8 to 1 + 0.6 * 1.2."""
    share = estimate(0.5, 0.1)
    found = slowdown_of(share, Estimate(2.0, 2.0, 2.0, 1.0))
    assert (found.value, found.low, found.high) == pytest.approx((1.5, 1.4, 1.6))
    assert found.confidence == pytest.approx(0.95)
    found = slowdown_of(share, Estimate(2.0, 1.8, 2.2, 0.8))
    assert (found.value, found.low, found.high) == pytest.approx((1.5, 1.32, 1.72))
    assert found.confidence == pytest.approx(0.75)


def test_a_slowdown_is_never_below_zero() -> None:
    """A share of 4 and membench at 0.7 of its time would make -0.2."""
    assert slowdown_of(estimate(2.0, 2.0), Estimate(1.0, 0.7, 1.3, 0.8)).low == 0


def bands(alone: float, together: float) -> Bands:
    by_cores = {"comp_alone": alone, "comp_par": together}
    found = {rate: Band(width, width / 2, 9) for rate, width in by_cores.items()}
    return Bands("numbers of cores", comm_par=None, **found)


def test_a_ratio_is_widest_with_both_rates_at_opposite_ends() -> None:
    """120 / 60 with a fifth: 96 / 72 to 144 / 48; not the 1.2 to 2.8 of widths added."""
    found = of_membench(120.0, 60.0, bands(0.2, 0.2))
    assert (found.value, found.low, found.high) == pytest.approx((2, 96 / 72, 3))
    assert found.confidence == pytest.approx(0.8)
    found = of_membench(120.0, 60.0, None)
    assert (found.low, found.high, found.confidence) == (2, 2, 1)


def test_a_band_down_to_a_rate_of_zero_predicts_nothing(run: Path) -> None:
    found = of_membench(120.0, 60.0, bands(1.5, 0.2))
    assert found.low == 0
    assert of_membench(120.0, 60.0, bands(0.2, 1.0)) is None
    wide = replace(evaluate.load_published("henri"), bands={"local": bands(0.2, 1.0)})
    with pytest.raises(InputError, match="must be below 100 %"):
        rows([load_run(run)], wide, ComputingPlace(18))


def case(name: str, on: float, beside: float | None, unit: str) -> list[Sample]:
    """Runs of a workload with these true slowdowns under writers and beside membench."""
    times = {"on": on, "spin": 1.0, "aa": 1.0} | ({BESIDE: beside} if beside else {})
    tool = {BESIDE: "membench:1"}
    made = Case(
        name,
        unit,
        "higher" if unit == "B/s" else "lower",
        1e9 if unit == "B/s" else 10.0,
        times,
        noise=0.001,
        factors={
            each: {"tool": tool.get(each, "none"), "rate": "full" if each == "on" else 0}
            for each in ("off", *times)
        },
    )
    extra = {"cores": 18.0, "node": 0.0, "window_s": 1.0}
    return [
        replace(each, role="baseline", baseline=None, fom_extra=extra)
        if each.arm == BESIDE
        else replace(each, fom_extra=extra)
        for each in samples(made, pairs=8)
    ]


def slowdown_run(folder: Path) -> Path:
    """membench and two applications."""
    made = [
        *case("membench", 1.3, 1.8, "B/s"),
        *case("melt", 1.02, 1.2, "s"),
        *case("chimney", 1.10, 1.64, "s"),
    ]
    return write_run(folder / "run", made)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return slowdown_run(tmp_path_factory.mktemp("slowdown"))


@pytest.fixture(scope="module")
def found(run: Path) -> dict[str, SlowdownRow]:
    henri = evaluate.load_published("henri")
    return {row.case: row for row in rows([load_run(run)], henri, ComputingPlace(18))}


def test_predicted_and_measured_of_every_workload(found: dict[str, SlowdownRow]) -> None:
    for name, share, measured in (("melt", 0.25, 1.02), ("chimney", 0.8, 1.10)):
        row = found[name]
        assert row.source == "membench beside it"
        assert row.share.value == pytest.approx(share, abs=0.005)
        expected = 1 + share * (MEMBENCH - 1)
        assert row.predicted.value == pytest.approx(expected, abs=0.005)
        assert row.predicted.low < row.predicted.value < row.predicted.high
        assert row.measured.value == pytest.approx(measured, abs=0.005)
        assert row.error == pytest.approx(expected / measured - 1, abs=0.01)
        assert row.spread == pytest.approx(0.001 * 2**0.5, rel=0.7)


def test_membench_is_the_measure_and_has_no_error(found: dict[str, SlowdownRow]) -> None:
    row = found["membench"]
    assert (row.share.value, row.error) == (1, None)
    errors = [found[name].error for name in ("melt", "chimney")]
    assert mean_error(list(found.values())) == pytest.approx(sum(abs(e or 0) for e in errors) / 2)
    assert mean_error([row]) is None


def test_a_case_without_a_demand_says_why(tmp_path: Path) -> None:
    made = case("melt", 1.02, None, "s")
    (row,) = rows(
        [load_run(write_run(tmp_path / "r", made))],
        evaluate.load_published("henri"),
        ComputingPlace(18),
    )
    assert (row.predicted, row.error) == (None, None)
    assert row.reason == "neither counters of memory traffic nor six pairs beside membench"


def test_the_bands_of_the_model_widen_the_interval(
    run: Path, found: dict[str, SlowdownRow]
) -> None:
    """3 % of computations alone and 2 % of computations with writers."""
    banded = replace(evaluate.load_published("henri"), bands={"local": bands(0.03, 0.02)})
    for row in rows([load_run(run)], banded, ComputingPlace(18)):
        before = found[row.case]
        share = row.share
        assert row.predicted.value == before.predicted.value
        assert row.predicted.high == pytest.approx(1 + share.high * (MEMBENCH * 1.03 / 0.98 - 1))
        assert row.predicted.low == pytest.approx(1 + share.low * (MEMBENCH * 0.97 / 1.02 - 1))


def test_more_cores_than_the_model_has(run: Path) -> None:
    with pytest.raises(InputError, match="--cores 19: allowed: 1 to 18"):
        rows([load_run(run)], evaluate.load_published("henri"), ComputingPlace(19))


def nimc(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def test_the_command(run: Path, tmp_path: Path) -> None:
    model = tmp_path / "henri.json"
    model.write_text(json.dumps(evaluate.load_published("henri").as_dict()))
    words = ("model", "slowdown", "--model", model, "--run", run)
    document = json.loads(nimc(*words, "--json").output)
    assert document["schema"] == 1
    assert document["cores"] == 18
    by_case = {row["case"]: row for row in document["workloads"]}
    assert by_case["melt"]["share"] == pytest.approx(0.25, abs=0.005)
    assert any("emulation" in note for note in document["notes"])
    assert f"mean error without sign: {document['mean_error']:.1%}" in nimc(*words).output
