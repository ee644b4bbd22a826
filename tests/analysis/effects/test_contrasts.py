"""Tests prices and gains of remedies.

A price is the loss by a remedy without writes, a gain what it saves under writes. Ratios of times
are chosen so that every figure can be worked out by hand.
"""

from dataclasses import replace

import polars as pl
import pytest

from analysis.effects.contrasts import Contrast, contrasts
from analysis.effects.estimate import StoppingRule, results_of
from analysis.effects.result import Result
from analysis.samples.pairs import judge_samples, pair_table
from records.sample import Better, Sample
from tests.analysis.synthetic import REMEDIES, changed, crossed, frame_of, reject, remedies, samples


def frame(runs: list[Sample]) -> pl.DataFrame:
    return judge_samples(frame_of(runs))


def rows(judged: pl.DataFrame) -> list[Result]:
    return results_of(judged, pair_table(judged), StoppingRule())


def contrasts_of(judged: pl.DataFrame) -> dict[tuple[str, str, str], Contrast]:
    measured = contrasts(judged, rows(judged))
    named = {(row.kind, row.treatment, row.against): row for row in measured}
    assert len(named) == len(measured)
    return named


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_prices_and_gains_by_hand(better: Better) -> None:
    measured = contrasts_of(frame(samples(remedies(better), pairs=6)))
    assert {key: row.ratio.value for key, row in measured.items()} == {
        ("price", "off@cores=1", "off"): pytest.approx(1.1),
        ("price", "off@cores=1,tool=p", "off@tool=p"): pytest.approx(1.1),
        ("gain", "on@cores=1", "on"): pytest.approx(2.0 / 1.21),
        ("gain", "on@rate=25%,cores=1", "on@rate=25%"): pytest.approx(1.25),
        ("gain", "on@cores=1,tool=p", "on@tool=p"): pytest.approx(2.1 / 1.32),
        ("price", "off@tool=p", "off"): pytest.approx(1.05),
        ("price", "off@cores=1,tool=p", "off@cores=1"): pytest.approx(1.05),
        ("gain", "on@tool=p", "on"): pytest.approx(1 / 1.05),
        ("gain", "on@cores=1,tool=p", "on@cores=1"): pytest.approx(1.21 / 1.32),
    }
    core = measured["price", "off@cores=1,tool=p", "off@tool=p"]
    assert (core.case, core.factor, core.level, core.reference) == ("melt", "cores", 1, 0)
    assert core.at == {"tool": "p"}
    assert core.pairs == 6
    assert measured["price", "off@cores=1", "off"].at == {}


def test_nothing_is_gained_where_the_timetable_has_no_writer() -> None:
    """Daly's interval needs no writer at a small scale. A price needs no writes."""
    times = {"off@cores=1": 1.1, "daly": 1.0, "daly@cores=1": 1.1}
    runs = samples(remedies(times=times), pairs=6)
    with_writers = frame(runs)
    without_writers = [
        replace(run, writers=[], timetable=replace(run.timetable, writers=0))
        if run.timetable
        else run
        for run in runs
    ]
    kinds = [
        {kind for kind, *_ in contrasts_of(judged)}
        for judged in (with_writers, frame(without_writers))
    ]
    assert kinds == [{"price", "gain"}, {"price"}]


def test_the_noise_floor_of_a_contrast_covers_those_of_both_levels() -> None:
    times = {**REMEDIES, "aa": 0.98, "aa@cores=1": 1.1 * 1.03}
    measured = contrasts_of(frame(samples(remedies(times=times), pairs=6)))
    for key in (("price", "off@cores=1", "off"), ("gain", "on@cores=1", "on")):
        assert measured[key].noise_floor.low == pytest.approx(0.98)
        assert measured[key].noise_floor.high == pytest.approx(1.03)
    # With the tool, no A/A comparison was made. Below, the one without the tool is removed.
    assert measured["price", "off@tool=p", "off"].noise_floor is None
    lost = changed(samples(remedies(), pairs=6), lambda s: reject(s, "no_fom", ""), "aa")
    assert contrasts_of(frame(lost))["price", "off@cores=1", "off"].noise_floor is None


def test_below_six_pairs_there_is_no_ratio() -> None:
    runs = [
        reject(s, "no_fom", "no Loop time") if (s.arm, s.pair) == ("off@cores=1", 2) else s
        for s in samples(remedies(), pairs=6)
    ]
    row = contrasts_of(frame(runs))["price", "off@cores=1", "off"]
    assert (row.pairs, row.ratio) == (5, None)
    none = changed(runs, lambda s: reject(s, "no_fom", ""), "off@cores=1")
    row = contrasts_of(frame(none))["price", "off@cores=1", "off"]
    assert (row.pairs, row.ratio, row.shown) == (0, None, False)


def test_levels_in_another_unit_are_not_compared() -> None:
    runs = [
        replace(s, fom_unit="B/s", fom_better="higher") if "cores=1" in s.arm else s
        for s in samples(remedies(), pairs=6)
    ]
    assert {row.factor for row in contrasts_of(frame(runs)).values()} == {"tool"}


def test_factors_that_only_change_the_writes_make_no_contrast() -> None:
    times = {"on": 2.0, "on@rate=25%": 1.5, "aa": 1.0}
    assert contrasts_of(frame(samples(remedies(times=times), pairs=6))) == {}


def test_moving_the_writes_costs_nothing_without_writes_and_reads_are_other_traffic() -> None:
    times = {"on": 2.0, "on@direction=read": 1.6, "on@writer_rail=nic1": 1.25}
    times |= {"on@direction=read,writer_rail=nic1": 1.28}
    case = crossed(remedies(times=times), {}, {"direction": "write", "writer_rail": "nic0"})
    measured = contrasts_of(frame(samples(case, pairs=6)))
    assert {key: row.ratio.value for key, row in measured.items()} == {
        ("gain", "on@writer_rail=nic1", "on"): pytest.approx(2.0 / 1.25),
        ("gain", "on@direction=read,writer_rail=nic1", "on@direction=read"): pytest.approx(1.25),
    }
    rail = measured["gain", "on@writer_rail=nic1", "on"]
    assert (rail.factor, rail.level, rail.reference) == ("writer_rail", "nic1", "nic0")


def test_every_treatment_is_compared_with_its_own_baseline() -> None:
    judged = frame(samples(remedies(), pairs=6))
    by_arm = {row.arm: row for row in rows(judged)}
    assert list(by_arm) == [
        "on",
        "on@cores=1",
        "on@cores=1,tool=p",
        "on@rate=25%",
        "on@rate=25%,cores=1",
        "on@tool=p",
        "aa",
        "aa@cores=1",
    ]
    assert by_arm["on"].slowdown.value == pytest.approx(2.0)
    assert by_arm["on@cores=1"].slowdown.value == pytest.approx(1.1)
    assert by_arm["on@rate=25%,cores=1"].slowdown.value == pytest.approx(1.2 / 1.1)
    assert by_arm["on@cores=1,tool=p"].slowdown.value == pytest.approx(1.32 / 1.155)
    assert by_arm["on@cores=1"].baseline == "off@cores=1"
    assert by_arm["on@rate=25%"].factors == {"cores": 0, "tool": "none", "rate": "25%"}
    # The noise floor of a row is the comparison of its own baseline with itself.
    assert by_arm["on@cores=1"].noise_floor.low == pytest.approx(1.0)
    assert by_arm["on@tool=p"].noise_floor is None
    assert by_arm["aa@cores=1"].verdict == "baseline repeatability"
    table = pair_table(judged)
    assert set(table.select("arm", "baseline").iter_rows()) == {
        (name, remedies().baselines[name]) for name in REMEDIES if not name.startswith("off")
    }


def test_a_difference_is_shown_over_all_prices_and_over_all_gains() -> None:
    """Error levels by hand.

    With eight pairs, the least two-sided p value is 2 / 2^8. The first analysis has 3/16 of the
    error, so this is 0.0417, which is enough for one price only. With twelve pairs, 2 / 2^12 over
    9/64 is 0.0035, which is enough for four prices and five gains.
    """
    all_runs = samples(remedies(), pairs=12)
    few = [run for run in all_runs if run.pair < 8]
    one = [run for run in few if "tool" not in run.arm]
    shown = {
        name: {(row.kind, row.shown) for row in contrasts_of(frame(runs)).values()}
        for name, runs in (("all", all_runs), ("few", few), ("one", one))
    }
    assert shown == {
        "all": {("price", True), ("gain", True)},
        "few": {("price", False), ("gain", False)},
        "one": {("price", True), ("gain", False)},
    }


@pytest.mark.parametrize(("prices", "shown"), [(14, True), (15, False)])
def test_prices_share_an_error_of_five_percent(prices: int, shown: bool) -> None:
    """With twelve pairs, 2 / 2^12 over 9/64 is 0.00347: below 0.05 / 14, above 0.05 / 15."""
    case = remedies(times={"off@cores=1": 1.1})
    runs = [
        run
        for number in range(prices)
        for run in samples(replace(case, name=f"melt{number}"), pairs=12)
    ]
    measured = contrasts(frame(runs), [])
    assert [(row.kind, row.shown) for row in measured] == [("price", shown)] * prices
    assert [row.case for row in measured] == [f"melt{number}" for number in range(prices)]
