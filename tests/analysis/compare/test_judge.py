from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.compare.side import Quantity, Side
from analysis.compare.sides import Comparison, compare, compare_sides
from analysis.statistics.interval import Estimate
from tests.analysis.compare.nights import drawn, night, nights
from tests.analysis.synthetic import LAMMPS, STREAM, Case

#: Rates in 1/s, as XSBench, AMG and UMT report them.
LOOKUPS = replace(STREAM, name="xsbench", unit="1/s", base=2.5e6)

_NAMED = ("worse", "better")


def _by_metric(rows: list[Comparison]) -> dict[str, Comparison]:
    return {row.metric: row for row in rows}


def _quantity(metric: str = "slowdown", better: str = "lower", case: str = "a") -> Quantity:
    return Quantity(case, "off" if metric == "off" else "on", metric, "s", better)  # type: ignore[arg-type]


def _estimates(*values: float) -> list[Estimate]:
    return [Estimate(v, v * 0.99, v * 1.01, 0.95) for v in values]


@pytest.mark.parametrize("spread", [0.005, 0.01, 0.02])
def test_unchanged_nights_name_a_change_in_at_most_five_percent(spread: float) -> None:
    """1,000 pairs of sides, five nights each, seven cases of three quantities."""
    rng = np.random.default_rng(20)
    named = 0
    for _ in range(1000):
        rows = compare(drawn(rng, 5, spread), drawn(rng, 5, spread), ())
        assert len(rows) == 21
        named += any(row.verdict in _NAMED for row in rows)
    assert named <= 50


#: Nights a side, true change -> share found at a spread of 1 %, as docs/evidence.md has it.
_POWER = {(3, 0.03): 0.07, (5, 0.03): 0.57, (7, 0.03): 0.91, (10, 0.02): 0.80}


@pytest.mark.parametrize(("count", "change"), _POWER)
def test_planted_changes_are_found_as_often_as_documented(count: int, change: float) -> None:
    rng = np.random.default_rng(21)
    found = 0
    for _ in range(300):
        rows = compare(drawn(rng, count, 0.01), drawn(rng, count, 0.01, change), ())
        found += any(row.verdict == "worse" for row in rows if row.case == "case0")
    # Four standard errors of 300 trials.
    share = _POWER[count, change]
    assert found / 300 == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 300))


def test_rows_are_judged_together() -> None:
    """p of the one row is 0.0073 (t = 4.95 with 4 degrees of freedom, where 4.604 is 0.01)."""
    old, new = _estimates(1.0, 1.01, 1.02), _estimates(1.04, 1.05, 1.06)
    (alone,) = compare({_quantity(): old}, {_quantity(): new}, ())
    assert alone.p is not None
    assert 0.005 < alone.p < 0.01
    assert alone.verdict == "worse"
    others = {_quantity(case=str(n)): old for n in range(9)}
    rows = compare({_quantity(): old, **others}, {_quantity(): new, **others}, ())
    assert [row.verdict for row in rows] == ["no change shown"] * 10
    first = next(row for row in rows if row.case == "a")
    assert first.p_adjusted == pytest.approx(10 * alone.p)
    assert (first.ratio_low, first.ratio_high) == (alone.ratio_low, alone.ratio_high)


def test_the_least_change_named_is_just_named() -> None:
    old = _estimates(1.0, 1.01, 1.02)
    (row,) = compare({_quantity(): old}, {_quantity(): old}, ())
    assert row.least_named is not None
    for factor, verdict in ((0.999, "no change shown"), (1.001, "worse")):
        moved = [each.value * (1 + row.least_named * factor) for each in old]
        assert (
            compare({_quantity(): old}, {_quantity(): _estimates(*moved)}, ())[0].verdict == verdict
        )


@pytest.mark.parametrize(
    ("metric", "better", "verdict"),
    [
        ("off", "lower", "worse"),
        ("off", "higher", "better"),
        ("on", "higher", "better"),
        # A slowdown is a ratio of times, whatever the figure of merit is.
        ("slowdown", "higher", "worse"),
    ],
)
def test_a_rate_is_better_when_it_rises(metric: str, better: str, verdict: str) -> None:
    quantity = _quantity(metric, better)
    old, new = _estimates(1.0, 1.001, 1.002), _estimates(1.5, 1.501, 1.502)
    (row,) = compare({quantity: old}, {quantity: new}, ())
    assert row.verdict == verdict
    assert row.ratio == pytest.approx(1.5 if verdict == "worse" else 1 / 1.5, rel=0.01)
    assert row.reference is not None
    assert row.reference.nights == [1.0, 1.001, 1.002]
    # With one night a side as well.
    (two,) = compare({quantity: old[:1]}, {quantity: new[:1]}, ())
    assert two.ratio == pytest.approx(1.5 if verdict == "worse" else 1 / 1.5)


def test_two_nights_differ_and_no_more() -> None:
    (row,) = compare({_quantity(): _estimates(1.0)}, {_quantity(): _estimates(1.5)}, ())
    assert (row.verdict, row.p, row.least_named) == ("one night a side", None, None)
    assert row.text == "two nights differ by +50.0 %"
    # 1 % on either side of both: sqrt(2) % together.
    assert row.ratio_high == pytest.approx(1.5 * 1.01 ** (2**0.5), rel=1e-3)


def test_a_new_night_is_judged_by_the_reference_nights() -> None:
    """Ten nights around 1.0045 with a standard deviation of 0.003: t of 1.009 is 1.4."""
    old = _estimates(*(1 + n / 1000 for n in range(10)))
    for value, verdict in ((1.009, "no change shown"), (1.1, "worse"), (0.9, "better")):
        (row,) = compare({_quantity(): old}, {_quantity(): _estimates(value)}, ())
        assert row.verdict == verdict


def test_rows_of_another_dose_are_not_judged_and_weigh_on_no_other() -> None:
    sides = [
        {_quantity(m): _estimates(*(v * f for v in (1.0, 1.01, 1.02))) for m in ("off", "slowdown")}
        for f in (1.0, 1.05)
    ]
    off, slowdown = compare(sides[0], sides[1], {("a", "on")})
    assert (slowdown.verdict, slowdown.p_adjusted) == ("dose differs", None)
    assert slowdown.ratio == pytest.approx(1.05)
    assert (off.verdict, off.p_adjusted) == ("worse", off.p)


def test_a_side_without_a_night_of_six_pairs_has_no_ratio(tmp_path: Path) -> None:
    sides = [
        Side((night(tmp_path / name, STREAM, pairs=pairs),))
        for name, pairs in (("a", 12), ("b", 5))
    ]
    for row in compare(sides[0].nights(), sides[1].nights(), ()):
        assert (row.verdict, row.ratio, row.this) == ("too few pairs", None, None)


def test_more_contention_is_found_from_samples(tmp_path: Path) -> None:
    old, new = nights(tmp_path, "before"), nights(tmp_path, "after", 1.5)
    rows = _by_metric(compare_sides(old, new).rows)
    assert rows["slowdown"].verdict == "worse"
    assert rows["on"].verdict == "worse"
    assert rows["off"].verdict == "no change shown"
    assert rows["slowdown"].ratio == pytest.approx(1.5 / 1.35, rel=0.01)
    assert _by_metric(compare_sides(new, old).rows)["slowdown"].verdict == "better"


@pytest.mark.parametrize("case", [STREAM, LAMMPS, LOOKUPS])
def test_a_slower_machine_is_slower_in_time_and_not_in_slowdown(tmp_path: Path, case: Case) -> None:
    """Half as much again: the ratio is one of times, whatever the unit is."""
    slower = case.base / 1.5 if case.better == "higher" else case.base * 1.5
    old = [night(tmp_path / f"a{n}", case, seed=n) for n in range(4)]
    new = [night(tmp_path / f"b{n}", replace(case, base=slower), seed=n + 9) for n in range(4)]
    rows = _by_metric(compare_sides(old, new).rows)
    assert {metric: row.verdict for metric, row in rows.items()} == {
        "off": "worse",
        "slowdown": "no change shown",
        "on": "worse",
    }
    assert rows["off"].ratio == pytest.approx(1.5, abs=0.05)


def test_effects_that_share_a_baseline_compare_it_once(tmp_path: Path) -> None:
    case = replace(STREAM, effects={**STREAM.effects, "on@rate=25%": 1.1, "mine": 1.2})
    rows = compare_sides([night(tmp_path / "a", case)], [night(tmp_path / "b", case)]).rows
    assert sorted((row.arm, row.metric) for row in rows) == [
        ("mine", "on"),
        ("mine", "slowdown"),
        ("off", "off"),
        ("on", "on"),
        ("on", "slowdown"),
        ("on@rate=25%", "on"),
        ("on@rate=25%", "slowdown"),
    ]


def test_figures_with_another_unit_or_direction_are_not_compared(tmp_path: Path) -> None:
    other = replace(LAMMPS, name=LOOKUPS.name, unit="1/s")
    compared = compare_sides([night(tmp_path / "a", LOOKUPS)], [night(tmp_path / "b", other)])
    assert compared.rows == []
