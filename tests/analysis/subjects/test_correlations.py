"""Tests correlations of roles (kinds of counts) with the time.

Right values are worked out by hand, by numpy, or published.
"""

import math

import numpy as np
import pytest

from analysis.subjects.correlations import (
    CASE_CORRELATIONS,
    RUN_CORRELATIONS,
    TIME,
    correlation_estimate,
    pearson,
)
from analysis.subjects.counters import NOT_COUNTED
from analysis.subjects.paired_roles import MEMORY_STALLS, MISSES, STALLED_CYCLES
from analysis.subjects.paper import paper
from tests.analysis.made_counters import CASES, FIGURE_4, PRESETS, RATES
from tests.analysis.subjects.made_causes import made_run, rows


def test_r_by_hand() -> None:
    # x - 3 is -2, -1, 0, 1, 2, and y - 4 is -3, -1, 1, 0, 3. The products sum up to 13, the squares
    # to 10 and 20.
    assert pearson([1, 2, 3, 4, 5], [1, 3, 5, 4, 7]) == pytest.approx(13 / math.sqrt(200))
    # For r = 0.6 and n = 28, t is 0.6 sqrt(26 / 0.64) = 3.824. With 26 degrees of freedom, p is
    # 0.00074. For the interval, atanh(0.6) = 0.693147 and 1.959964 / sqrt(25) = 0.391993, so the
    # ends are tanh(0.301154) = 0.29237 and tanh(1.085140) = 0.79510.
    correlation = correlation_estimate(0.6, 28)
    assert correlation["p"] == pytest.approx(0.00074, abs=5e-6)
    ends = correlation["r_low"], correlation["r_high"]
    assert ends == pytest.approx((0.29237, 0.79510), abs=2e-5)
    # Points on a line have r = -1 or 1.
    assert pearson([0.0, 1.0, 2.0, 3.0], [5.0, 3.0, 1.0, -1.0]) == -1
    assert list(correlation_estimate(-1.0, 4).values()) == [-1.0, -1.0, -1.0, 0.0]
    assert set(correlation_estimate(None, 4).values()) == {None}


@pytest.mark.parametrize(("points", "critical"), [(4, 0.950), (6, 0.811), (10, 0.632), (30, 0.361)])
def test_critical_values_of_the_textbooks(points: int, critical: float) -> None:
    """They are two-sided, at 5 %."""
    assert (
        correlation_estimate(critical - 0.001, points)["p"]
        > 0.05
        > correlation_estimate(critical + 0.001, points)["p"]
    )


@pytest.mark.parametrize(
    ("x", "y"), [([1, 2, 3], [1, 2, 3]), ([1, 1, 1, 1], [1, 2, 3, 4]), ([1, 2, 3, 4], [0] * 4)]
)
def test_too_few_points_or_no_spread_have_no_r(x: list[float], y: list[float]) -> None:
    assert pearson(x, y) is None


def test_what_groves_grant_and_arnold_say_of_significance_follows_from_six_points() -> None:
    """They write 'not correlated' without traffic, and '95% certainty' with it.

    Table IV has the correlations of six applications.
    """
    table = paper()["table_4_pearson_r"]
    assert correlation_estimate(table["off"]["time"]["stalled_cycles"], 6)["p"] > 0.9
    assert all(
        correlation_estimate(r, 6)["p"] > 0.8 for r in table["off"]["stalled_cycles"].values()
    )
    assert correlation_estimate(table["on"]["time"]["stalled_cycles"], 6)["p"] < 0.05
    assert all(
        correlation_estimate(r, 6)["p"] < 0.05 for r in table["on"]["stalled_cycles"].values()
    )
    for arm in ("off", "on"):
        misses = [r for name, r in table[arm]["time"].items() if name != "stalled_cycles"]
        assert all(correlation_estimate(r, 6)["p"] < 0.05 for r in misses)


def test_correlations_across_workloads_are_those_of_numpy(tmp_path):
    table = rows(made_run(tmp_path, CASES), CASE_CORRELATIONS)
    measured = [row for row in table if row["source"] == "measured"]
    across = {(row["treatment"], row["of"], row["role"]): row for row in measured}
    # True correlations are those of sums over ranks with times, both without noise.
    off = {case.name: case.base for case in CASES}
    on = {case.name: case.base * case.effects["on"] for case in CASES}
    misses = [4 * RATES["l1d.replacement"] * t for t in off.values()]
    expected = np.corrcoef(list(off.values()), misses)[0, 1]
    assert across["off", TIME, "L1 misses"]["r"] == pytest.approx(expected, abs=0.01)
    stalls = [
        RATES["cycle_activity.stalls_l3_miss"] * off[name]
        + 0.8 * RATES["cycles"] * (on[name] - off[name])
        for name in off
    ]
    r = np.corrcoef(list(on.values()), stalls)[0, 1]
    assert across["on", TIME, MEMORY_STALLS]["r"] == pytest.approx(r, abs=0.01)
    assert {row["points"] for row in measured} == {6}
    printed = [row for row in table if row["source"] == "published"]
    published = {(row["treatment"], row["of"], row["role"]): row for row in printed}
    # These are the values of Table IV of the paper.
    for treatment, source, values in (
        ("off", TIME, [-0.040, 0.941, 0.946, 0.930]),
        ("off", STALLED_CYCLES, [None, 0.086, 0.030, 0.068]),
        ("on", TIME, [0.912, 0.959, 0.978, 0.925]),
        ("on", STALLED_CYCLES, [None, 0.870, 0.973, 0.997]),
    ):
        correlations = [
            published.get((treatment, source, role)) for role in (STALLED_CYCLES, *MISSES)
        ]
        assert [correlation and correlation["r"] for correlation in correlations] == values
    # Ends by hand are tanh(atanh(0.912) -+ 1.96 / sqrt(3)).
    correlation = published["on", TIME, STALLED_CYCLES]
    assert (round(correlation["r_low"], 2), round(correlation["r_high"], 2)) == (0.39, 0.99)
    assert (correlation["p"], correlation["points"]) == (None, 6)


def test_the_presets_of_figure_4_have_the_papers_table(tmp_path):
    """On a Haswell, misses are correlated with stalls, and both with the time.

    Hits are not counted there, which is reported once.
    """
    run = made_run(tmp_path, CASES, tool=FIGURE_4, processor="GenuineIntel-6-63-2")
    correlations = {
        (row["treatment"], row["of"], row["role"]): row
        for row in rows(run, CASE_CORRELATIONS)
        if row["source"] == "measured"
    }
    compared = {(source, role) for treatment, source, role in correlations if treatment == "on"}
    assert compared == {
        *((TIME, role) for role in ("cycles", STALLED_CYCLES, *MISSES)),
        *((STALLED_CYCLES, role) for role in MISSES),
    }
    # True stalls grow with the extra cycles. Misses are proportional to the time without traffic.
    on = {case.name: case.base * case.effects["on"] for case in CASES}
    stalls = [
        PRESETS["PAPI_STL_ICY"] * case.base
        + 0.8 * PRESETS["PAPI_TOT_CYC"] * (on[case.name] - case.base)
        for case in CASES
    ]
    misses = [case.base for case in CASES]
    r = np.corrcoef(list(on.values()), stalls)[0, 1]
    assert correlations["on", TIME, STALLED_CYCLES]["r"] == pytest.approx(r, abs=0.01)
    r = np.corrcoef(stalls, misses)[0, 1]
    assert correlations["on", STALLED_CYCLES, "L2 misses"]["r"] == pytest.approx(r, abs=0.01)
    assert correlations["on", TIME, STALLED_CYCLES]["p"] < 0.05
    absent = [(row["what"], row["reason"]) for row in rows(run, NOT_COUNTED)]
    assert ("L2 hits, L3 hits", "papi counts none there") in absent
    assert len(absent) == len({quantity for quantity, _ in absent})


def test_correlations_within_a_workload_have_its_runs_as_points(tmp_path):
    table = rows(made_run(tmp_path), RUN_CORRELATIONS)
    within = {(row["treatment"], row["of"], row["role"]): row for row in table}
    cycles = within["on", TIME, "cycles"]
    assert (cycles["case"], cycles["points"]) == ("lammps", 8)
    # Without traffic the made counts do not depend on the time of a run.
    assert within["off", TIME, "cycles"]["p"] > 0.05
