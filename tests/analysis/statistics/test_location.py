"""Tests centres, crossings, ratios and shares of slow runs.

Centres and crossings are compared with other computations: Walsh means, Fieller's interval, scipy.
"""

import math
from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy import stats

from analysis.statistics.location import (
    Crossing,
    crossing,
    hit_share,
    location,
    p_above_zero,
    p_value,
    ratio_between,
)

#: Ten different values, positive and negative.
VALUES = np.array([1.3, -0.4, 2.2, 0.9, 3.1, 1.7, -1.1, 2.6, 0.2, 1.9])


def rejected_by_ranks(values: np.ndarray) -> bool:
    """Return whether ten values are shown not to be centred on zero, by a simple computation.

    The statistic is the sum of the ranks of absolute values, each less 1/2, with the signs of the
    values. Its variance is the sum of (k - 1/2)^2 for k from 1 to 10, which is 332.5. The
    continuity correction is half a step.
    """
    order = sorted(values, key=abs)
    total = sum(math.copysign(rank + 0.5, value) for rank, value in enumerate(order))
    return abs(total) - 0.5 > 1.959964 * math.sqrt(332.5)


def test_the_interval_is_the_wider_of_ranks_and_t() -> None:
    centre = location(VALUES)
    means = [(a + b) / 2 for a, b in combinations_with_replacement(VALUES, 2)]
    assert centre.value == pytest.approx(np.median(means), abs=1e-6)
    t_low, t_high = stats.t.interval(0.95, 9, VALUES.mean(), stats.sem(VALUES))
    for end, t_end, outward in ((centre.low, t_low, -1), (centre.high, t_high, 1)):
        assert (end - t_end) * outward > -1e-6
        outside, inside = end + outward * 1e-4, end - outward * 1e-4
        assert rejected_by_ranks(VALUES - outside)
        assert end == pytest.approx(t_end, abs=1e-6) or not rejected_by_ranks(VALUES - inside)
    # With one value far away, the interval by t is wider than that by ranks.
    far = np.append(VALUES, 30.0)
    low = stats.t.interval(0.95, 10, far.mean(), stats.sem(far))[0]
    assert location(far).low == pytest.approx(low)
    # The scale of the values does not matter.
    tiny = location(VALUES * 1e-11)
    assert tiny.low == pytest.approx(centre.low * 1e-11, rel=1e-9, abs=0)
    assert (location(VALUES[:5]), location(VALUES[:6]) is None) == (None, False)


def test_p_is_the_larger_of_ranks_and_t() -> None:
    ranks = stats.wilcoxon(VALUES).pvalue
    student = stats.ttest_1samp(VALUES, 0).pvalue
    assert p_value(VALUES) == pytest.approx(max(ranks, student))
    assert p_value(np.zeros(8)) == 1
    # Six values on one side are 2 of 64 choices of signs. They scatter so little that the p value
    # by t is smaller.
    assert p_value(np.array([1.0, 1.01, 1.02, 0.99, 0.98, 1.005])) == pytest.approx(2 / 64)


def test_a_centre_above_zero_is_shown_on_one_side_only() -> None:
    ranks = stats.wilcoxon(VALUES, alternative="greater").pvalue
    student = stats.ttest_1samp(VALUES, 0, alternative="greater").pvalue
    assert p_above_zero(VALUES) == pytest.approx(max(ranks, student))
    # Six values above zero are 1 of 64 choices of signs.
    values = np.array([1.0, 1.01, 1.02, 0.99, 0.98, 1.005])
    assert p_above_zero(values) == pytest.approx(1 / 64)
    assert p_above_zero(-values) == p_above_zero(np.zeros(8)) == p_above_zero(values[:5]) == 1


def fieller(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the interval of mean(y) / mean(x) for pairs, by Fieller's quadratic equation."""
    n = len(x)
    cov = np.cov(x, y) / n
    t2 = stats.t.ppf(0.975, n - 1) ** 2
    a = x.mean() ** 2 - t2 * cov[0, 0]
    b = -2 * (x.mean() * y.mean() - t2 * cov[0, 1])
    c = y.mean() ** 2 - t2 * cov[1, 1]
    assert a > 0
    root = math.sqrt(b * b - 4 * a * c)
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


def test_a_crossing_is_as_wide_as_fieller_and_ranks() -> None:
    rng = np.random.default_rng(3)
    slope, price = rng.normal(0.3, 0.03, 12), rng.normal(0.9, 0.1, 12)
    change = crossing(lambda x: x * slope - price, 0.0, 8.0)
    low, high = fieller(slope, price)
    points = np.linspace(0, 8, 1001)
    at_points = points[:, None] * slope - price
    possible = points[stats.wilcoxon(at_points, axis=1, method="exact").pvalue > 0.05]
    step = 8 / 1000
    assert change.low == pytest.approx(min(low, possible[0]), abs=2 * step)
    assert change.high == pytest.approx(max(high, possible[-1]), abs=2 * step)
    assert change.value == pytest.approx(3.0, abs=0.2)


def test_a_crossing_is_exactly_fieller_if_t_is_wider_than_ranks() -> None:
    rng = np.random.default_rng(5)
    slope, price = rng.normal(0.3, 0.03, 12), rng.normal(0.9, 0.1, 12)
    change = crossing(lambda x: x * slope - price, 2.0, 4.0)
    step = 2 / 1000
    assert (change.low, change.high) == pytest.approx(fieller(slope, price), abs=step)


@pytest.mark.parametrize(("price", "open_side"), [(4.0, "high"), (-1.0, "low")])
def test_a_crossing_outside_the_range_is_open_on_that_side(price: float, open_side: str) -> None:
    slope = np.random.default_rng(1).normal(0.3, 0.01, 10)
    outside = Crossing(None, 8.0, None) if open_side == "high" else Crossing(None, None, 0.0)
    assert crossing(lambda x: x * slope - price, 0.0, 8.0) == outside


def test_a_crossing_that_noise_hides_is_not_decided() -> None:
    assert crossing(lambda x: x * np.ones(5) - 0.5, 0.0, 1.0) == Crossing(None, None, None)
    rng = np.random.default_rng(1)
    slope, price = rng.normal(0.0, 1, 10), rng.normal(0.0, 1, 10)
    assert crossing(lambda x: x * slope - price, 0.0, 8.0) == Crossing(None, None, None)
    # Only a change from below zero to above is a crossing.
    falling = np.random.default_rng(1).normal(-0.3, 0.01, 10)
    assert crossing(lambda x: x * falling + 1, 0.0, 8.0) == Crossing(None, None, None)
    # These values are above zero at the first point, then zero, and above zero from the middle on.
    dip = crossing(lambda x: np.where((x > 0) & (x < 4), 0.0, np.ones(8)), 0.0, 8.0)
    assert dip == Crossing(None, None, None)


def test_values_without_scatter_cross_between_two_points() -> None:
    change = crossing(lambda x: x * np.ones(8) - 0.50025, 0.0, 1.0)
    assert (change.low, change.high) == (pytest.approx(0.5), pytest.approx(0.501))


def test_ratios_of_two_sets_by_hand() -> None:
    """Ends of the interval are the ratios with a certain rank.

    For 6 and 6 values, the table of the rank-sum test at 5 %, two-sided, has the critical value 5,
    so the ends are the 6th smallest and the 6th largest ratio. For 60 and 60, the rank is
    1800 - 1.96 sqrt(3600 * 121 / 12) + 1/2 = 1427.08.
    """
    large = np.random.default_rng(4).lognormal(0, 1, (2, 60)).tolist()
    small = [[2.0, 3.0, 5.0, 7.0, 11.0, 13.0], [1.0, 1.7, 1.9, 2.3, 2.9, 3.1]]
    for (x, y), rank in ((small, 6), (large, 1427)):
        ratio, ratios = ratio_between(x, y), sorted(a / b for a in x for b in y)
        ends = (ratio.low, ratio.value, ratio.high)
        assert ends == pytest.approx((ratios[rank - 1], np.median(ratios), ratios[-rank]))
    assert ratio_between([1.0] * 5, [1.0] * 20) is None


def test_two_runs_of_twenty_are_hit() -> None:
    """Tables of the interval by Clopper and Pearson have 1.23 % to 31.70 % for 2 of 20."""
    on = np.ones(20)
    on[[3, 11]] = 1.5
    share = hit_share(np.log(on), 0.02)
    assert (share.low, share.value, share.high) == pytest.approx((0.0123, 0.1, 0.3170), abs=1e-4)


def test_a_hit_is_beyond_the_margin_and_beyond_the_noise() -> None:
    spread = np.linspace(-0.1, 0.1, 11)
    # The median distance is 0.06 (0.02, 0.04, ... twice each), so four standard deviations are
    # 0.356.
    assert hit_share(1.0 + np.append(spread, [0.3, 0.4]), 0.02).value == pytest.approx(1 / 13)
    calm = hit_share(np.array([0.0] * 8 + [0.015, 0.05]), 0.02)
    # One of ten runs is hit. If none of ten is hit, the share is at most 1 - 0.025^(1/10).
    assert calm.value == 0.1
    none = hit_share(np.zeros(10), 0.02)
    assert (none.low, none.value, none.high) == pytest.approx((0, 0, 1 - 0.025**0.1))
    assert hit_share(np.zeros(5), 0.02) is None
