"""Centres and crossings against computations of their own: Walsh means, Fieller, scipy."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy import stats

from analysis.statistics.location import Crossing, crossing, location, p_value

#: Ten values without ties, of both signs.
VALUES = np.array([1.3, -0.4, 2.2, 0.9, 3.1, 1.7, -1.1, 2.6, 0.2, 1.9])


def rank_interval(values: np.ndarray) -> tuple[float, float, float]:
    """Median and ends of Wilcoxon's interval of ten values, from their Walsh means.

    Of 55 means, the statistic has the mean 27.5 and the variance 10 x 11 x 21 / 24 = 9.81^2; with
    continuity 27.5 - 1.96 x 9.81 - 0.5 = 7.8, so the ends are the 8th ones.
    """
    means = sorted((a + b) / 2 for a, b in combinations_with_replacement(values, 2))
    assert len(means) == 55
    return means[7], means[27], means[-8]


def test_the_centre_is_the_median_walsh_mean_with_the_wider_interval() -> None:
    low, centre, high = rank_interval(VALUES)
    mean, error = VALUES.mean(), stats.sem(VALUES)
    t_low, t_high = stats.t.interval(0.95, 9, mean, error)
    found = location(VALUES)
    assert found
    assert found.value == pytest.approx(centre, abs=1e-6)
    assert found.low == pytest.approx(min(low, t_low), abs=1e-6)
    assert found.high == pytest.approx(max(high, t_high), abs=1e-6)
    # The scale of the values has no part in it.
    tiny = location(VALUES * 1e-11)
    assert tiny
    assert tiny.low == pytest.approx(found.low * 1e-11)
    assert location(VALUES[:5]) is None


def test_p_is_the_larger_of_ranks_and_t() -> None:
    ranks = stats.wilcoxon(VALUES).pvalue
    student = stats.ttest_1samp(VALUES, 0).pvalue
    assert p_value(VALUES) == pytest.approx(max(ranks, student))
    assert p_value(np.zeros(8)) == 1
    # All of six on one side: 2 of 64 signs; the values scatter so little that t says less.
    assert p_value(np.array([1.0, 1.01, 1.02, 0.99, 0.98, 1.005])) == pytest.approx(2 / 64)


def fieller(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Interval of mean(y) / mean(x) for pairs, by Fieller's quadratic."""
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
    found = crossing(lambda x: x * slope - price, 0.0, 8.0)
    low, high = fieller(slope, price)
    points = np.linspace(0, 8, 1001)
    kept = [x for x in points if stats.wilcoxon(x * slope - price, method="exact").pvalue > 0.05]
    step = 8 / 1000
    assert found.low is not None
    assert found.high is not None
    assert found.value is not None
    assert found.low == pytest.approx(min(low, kept[0]), abs=2 * step)
    assert found.high == pytest.approx(max(high, kept[-1]), abs=2 * step)
    assert found.value == pytest.approx(3.0, abs=0.2)


@pytest.mark.parametrize(
    ("price", "open_side"),
    [(4.0, "high"), (-1.0, "low")],
)
def test_a_crossing_outside_the_range_is_open_on_that_side(price: float, open_side: str) -> None:
    slope = np.random.default_rng(1).normal(0.3, 0.01, 10)
    found = crossing(lambda x: x * slope - price, 0.0, 8.0)
    assert getattr(found, open_side) is None
    assert (found.low, found.high) == ((8.0, None) if open_side == "high" else (None, 0.0))


def test_a_crossing_that_noise_hides_is_not_decided() -> None:
    rng = np.random.default_rng(1)
    slope, price = rng.normal(0.0, 1, 10), rng.normal(0.0, 1, 10)
    assert crossing(lambda x: x * slope - price, 0.0, 8.0) == Crossing(None, None, None)
    # From above zero to below is no crossing of this kind.
    falling = np.random.default_rng(1).normal(-0.3, 0.01, 10)
    assert crossing(lambda x: x * falling + 1, 0.0, 8.0) == Crossing(None, None, None)
    with pytest.raises(ValueError, match="both ends"):
        Crossing(1.0, 0.5, None)


def test_values_without_scatter_cross_between_two_points() -> None:
    found = crossing(lambda x: x * np.ones(8) - 0.50025, 0.0, 1.0)
    assert (found.low, found.high) == (pytest.approx(0.5), pytest.approx(0.501))
