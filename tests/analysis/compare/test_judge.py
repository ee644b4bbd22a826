from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from analysis.compare.side import Nights, Quantity, Side
from analysis.compare.sides import Comparison, compare, compare_sides, nights_needed
from analysis.statistics.interval import Estimate
from analysis.statistics.nights import NightCorrelation
from studies.nights import NOISES, NightNoise, named
from tests.analysis.compare.nights import night
from tests.analysis.synthetic import LAMMPS, STREAM, Case

#: Rates in 1/s, as XSBench, AMG and UMT report them.
LOOKUPS = replace(STREAM, name="xsbench", unit="1/s", base=2.5e6)
#: Nights that do not follow one another in time.
INDEPENDENT = NightCorrelation(0.0, 0.0)


def _by_metric(rows: list[Comparison]) -> dict[str, Comparison]:
    return {row.metric: row for row in rows}


def _quantity(metric: str = "slowdown", better: str = "lower", case: str = "a") -> Quantity:
    return Quantity(case, "off" if metric == "off" else "on", metric, "s", better)  # type: ignore[arg-type]


def _compared(
    old: Nights,
    new: Nights,
    other_dose: Collection[tuple[str, str]] = (),
    correlated: NightCorrelation = INDEPENDENT,
) -> list[Comparison]:
    return compare(old, new, other_dose, correlated)


def _estimates(*values: float) -> list[Estimate]:
    return [Estimate(v, v * 0.99, v * 1.01, 0.95) for v in values]


@pytest.mark.parametrize(
    "noise",
    [
        *NOISES[::2],
        *(pytest.param(noise, marks=pytest.mark.slow) for noise in NOISES[1::2]),
    ],
    ids=lambda noise: noise.name,
)
def test_unchanged_nights_name_a_change_in_at_most_five_percent(noise: NightNoise) -> None:
    assert named(noise, (5, 5), 7, 200) <= 0.05


#: Nights a side, change of one case of one -> share found, as docs/evidence.md has it.
_POWER = {(7, 0.05): 0.72, (10, 0.03): 0.84, (10, 0.05): 0.965}


@pytest.mark.parametrize(("count", "change"), _POWER)
def test_planted_changes_are_found_as_often_as_documented(count: int, change: float) -> None:
    found = named(NOISES[0], (count, count), 1, 300, change)
    # Four standard errors of 300 trials.
    share = _POWER[count, change]
    assert found == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 300))


@pytest.mark.parametrize(("rows", "nights"), [(1, 6), (3, 7), (21, 10), (25, 10), (26, 11)])
def test_so_many_rows_need_so_many_nights(rows: int, nights: int) -> None:
    """Two levels: rows x 2 / 2^nights is at most 0.05. 25 x 2 / 2^10 is 0.049, 26 x 2 is 0.051."""
    assert nights_needed(rows) == nights
    quantities = [_quantity(case=str(n)) for n in range(rows)]
    values = np.exp(np.random.default_rng(6).normal(0, 0.01, nights))
    for total in (nights - 1, nights):
        sides = (values[: total // 2], values[total // 2 : total])
        old, new = ({each: _estimates(*side.tolist()) for each in quantities} for side in sides)
        judged = {row.verdict != "too few nights" for row in _compared(old, new)}
        assert judged == {total == nights}


@pytest.mark.parametrize("rows", [1, 2])
def test_the_least_change_that_is_named_is_that_of_the_smallest_p(rows: int) -> None:
    """Of five nights a side with a standard deviation of sqrt(2.5) % the error is 1 %: Student's t
    of eight degrees of freedom, at 5 % over all rows.
    """
    values = _estimates(*np.exp([-0.02, -0.01, 0.0, 0.01, 0.02]).tolist())
    side = {_quantity(case=str(n)): values for n in range(rows)}
    least = np.expm1(stats.t.ppf(1 - 0.025 / rows, 8) * 0.01)
    found = [row.least_named for row in _compared(side, side)]
    assert found == [pytest.approx(least)] * rows


def test_rows_are_judged_together() -> None:
    """t of the one row is 3.8 with 8 degrees of freedom: printed tables have 3.833 for 0.005."""
    logs = np.array([-0.02, -0.01, 0, 0.01, 0.02])
    old, new = (_estimates(*np.exp(logs + more).tolist()) for more in (0, 0.038))
    (alone,) = _compared({_quantity(): old}, {_quantity(): new})
    assert 0.005 < alone.p < 0.006
    assert alone.verdict == "worse"
    others = {_quantity(case=str(n)): old for n in range(9)}
    rows = _compared({_quantity(): old, **others}, {_quantity(): new, **others})
    assert [row.verdict for row in rows] == ["no change shown"] * 10
    first = next(row for row in rows if row.case == "a")
    assert first.p_adjusted == pytest.approx(10 * alone.p)
    assert (first.ratio.low, first.ratio.high) == (alone.ratio.low, alone.ratio.high)


def test_the_least_change_named_is_just_named() -> None:
    old = _estimates(1.0, 1.01, 1.02)
    (row,) = _compared({_quantity(): old}, {_quantity(): old})
    for factor, verdict in ((0.999, "no change shown"), (1.001, "worse")):
        moved = [each.value * (1 + row.least_named * factor) for each in old]
        assert (
            _compared({_quantity(): old}, {_quantity(): _estimates(*moved)})[0].verdict == verdict
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
    (row,) = _compared({quantity: old}, {quantity: new})
    assert row.verdict == verdict
    assert row.ratio.value == pytest.approx(1.5 if verdict == "worse" else 1 / 1.5, rel=0.01)
    assert row.reference.nights == [1.0, 1.001, 1.002]
    # With one night a side as well.
    (two,) = _compared({quantity: old[:1]}, {quantity: new[:1]})
    assert two.ratio.value == pytest.approx(1.5 if verdict == "worse" else 1 / 1.5)


def test_two_nights_differ_and_no_more() -> None:
    (row,) = _compared({_quantity(): _estimates(1.0)}, {_quantity(): _estimates(1.5)})
    assert (row.verdict, row.p, row.least_named) == ("too few nights", None, None)
    assert row.text == "two nights differ by +50.0 %"
    # 1 % on either side of both: sqrt(2) % together.
    assert row.ratio.high == pytest.approx(1.5 * 1.01 ** (2**0.5), rel=1e-3)


def test_one_new_night_is_not_judged_however_many_there_were() -> None:
    old = _estimates(*(1 + n / 1000 for n in range(10)))
    (row,) = _compared({_quantity(): old}, {_quantity(): _estimates(1.5)})
    assert (row.verdict, row.text, row.p) == ("too few nights", "too few nights", None)
    assert row.ratio.low > 1


def test_correlated_nights_widen_all_intervals_of_a_row() -> None:
    old, new = _estimates(1.0, 1.01, 1.02), _estimates(1.0, 1.02, 1.03)
    plain, wide = (
        _compared({_quantity(): old}, {_quantity(): new}, (), NightCorrelation(None, r))[0]
        for r in (0.0, 0.6)
    )
    assert plain.widened == 1
    assert wide.ratio.value == plain.ratio.value
    narrow, wider = (np.log(row.ratio.low / row.ratio.value) for row in (plain, wide))
    assert wider / narrow == pytest.approx(wide.widened)
    assert wide.reference.low < plain.reference.low


def test_rows_of_another_dose_are_not_judged_and_weigh_on_no_other() -> None:
    sides = [
        {_quantity(m): _estimates(*(v * f for v in (1.0, 1.01, 1.02))) for m in ("off", "slowdown")}
        for f in (1.0, 1.05)
    ]
    off, slowdown = _compared(sides[0], sides[1], {("a", "on")})
    assert (slowdown.verdict, slowdown.p_adjusted) == ("dose differs", None)
    assert slowdown.ratio.value == pytest.approx(1.05)
    assert (off.verdict, off.p_adjusted) == ("worse", off.p)


def test_a_side_without_a_night_of_six_pairs_has_no_ratio(tmp_path: Path) -> None:
    sides = [
        Side((night(tmp_path / name, STREAM, pairs=pairs),))
        for name, pairs in (("a", 12), ("b", 5))
    ]
    for row in _compared(sides[0].nights(), sides[1].nights()):
        assert (row.verdict, row.ratio, row.this) == ("too few pairs", None, None)


@pytest.mark.parametrize("case", [STREAM, LAMMPS])
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
    assert rows["off"].ratio.value == pytest.approx(1.5, abs=0.05)


def test_effects_that_share_a_baseline_compare_it_once(tmp_path: Path) -> None:
    case = replace(STREAM, effects={**STREAM.effects, "on@rate=25%": 1.1, "mine": 1.2})
    rows = compare_sides([night(tmp_path / "a", case)], [night(tmp_path / "b", case)]).rows
    effects = [(arm, m) for arm in ("mine", "on", "on@rate=25%") for m in ("on", "slowdown")]
    assert sorted((row.arm, row.metric) for row in rows) == sorted([("off", "off"), *effects])


def test_figures_with_another_unit_or_direction_are_not_compared(tmp_path: Path) -> None:
    theirs = replace(LOOKUPS, name="theirs")
    other = replace(LAMMPS, name="theirs", unit="1/s")
    compared = compare_sides([night(tmp_path / "a", theirs)], [night(tmp_path / "b", other)])
    assert compared.rows == []
