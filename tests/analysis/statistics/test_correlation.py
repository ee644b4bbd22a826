import math

import pytest

from analysis.statistics.interval import of_r, pearson
from analysis.subjects.published import paper


def test_r_by_hand():
    # x - 3 = -2 -1 0 1 2; y - 4 = -3 -1 1 0 3 (sum 0); products 6 1 0 0 6 = 13; squares 10 and 20.
    found = pearson([1, 2, 3, 4, 5], [1, 3, 5, 4, 7])
    assert found.r == pytest.approx(13 / math.sqrt(200))
    assert found.points == 5


def test_p_and_interval_by_hand():
    # r = 0.6, n = 28: t = 0.6 sqrt(26 / 0.64) = 3.824, of 26 degrees of freedom: p = 0.00074;
    # atanh(0.6) = 0.693147, 1.959964 / sqrt(25) = 0.391993; tanh(0.301154) = 0.29237,
    # tanh(1.085140) = 0.79510.
    found = of_r(0.6, 28)
    assert found.p == pytest.approx(0.00074, abs=5e-6)
    assert (found.low, found.high) == pytest.approx((0.29237, 0.79510), abs=2e-5)


@pytest.mark.parametrize(("points", "critical"), [(4, 0.950), (6, 0.811), (10, 0.632), (30, 0.361)])
def test_critical_values_of_the_textbooks(points, critical):
    # Two-sided, 5 %.
    assert of_r(critical - 0.001, points).p > 0.05 > of_r(critical + 0.001, points).p


def test_the_sign_and_the_scale():
    x, y = [1.0, 2.0, 4.0, 7.0], [2.0, 3.0, 3.5, 9.0]
    found = pearson(x, y)
    opposite = pearson(x, [-1e12 * each for each in y])
    assert opposite.r == pytest.approx(-found.r)
    assert (opposite.low, opposite.high) == pytest.approx((-found.high, -found.low))
    assert pearson([1e-300 * each for each in x], y).r == pytest.approx(found.r)


@pytest.mark.parametrize(
    ("x", "y"), [([1, 2, 3], [1, 2, 3]), ([1, 1, 1, 1], [1, 2, 3, 4]), ([1, 2, 3, 4], [0] * 4)]
)
def test_too_few_points_or_no_spread_have_no_r(x, y):
    assert pearson(x, y) is None


def test_what_groves_grant_and_arnold_say_of_significance_follows_from_six_points():
    # "not correlated" without traffic, "95% certainty" with it; Table IV, six applications.
    table = paper()["table_4_pearson_r"]
    assert of_r(table["off"]["time"]["stalled_cycles"], 6).p > 0.9
    assert all(of_r(r, 6).p > 0.8 for r in table["off"]["stalled_cycles"].values())
    assert of_r(table["on"]["time"]["stalled_cycles"], 6).p < 0.05
    assert all(of_r(r, 6).p < 0.05 for r in table["on"]["stalled_cycles"].values())
    for arm in ("off", "on"):
        misses = [r for name, r in table[arm]["time"].items() if name != "stalled_cycles"]
        assert all(of_r(r, 6).p < 0.05 for r in misses)
