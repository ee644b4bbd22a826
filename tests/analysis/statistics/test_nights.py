import math

import numpy as np
import pytest
from scipy import stats

from analysis.statistics.interval import Estimate
from analysis.statistics.nights import (
    mean_of_nights,
    ratio_of_nights,
    ratio_of_two,
)


def test_two_sides_as_worked_out_by_hand() -> None:
    """Logs 0, 1, 2 and 5, 6, 7: difference 5, each variance 1, standard error sqrt(2/3), 4 degrees
    of freedom; t of 97.5 % is 2.776445 in printed tables."""
    y, x = [math.exp(v) for v in (0, 1, 2)], [math.exp(v) for v in (5, 6, 7)]
    difference = ratio_of_nights(x, y)
    assert math.log(difference.ratio.value) == pytest.approx(5)
    assert math.log(difference.ratio.high) == pytest.approx(
        5 + 2.776445 * math.sqrt(2 / 3), abs=1e-6
    )
    assert math.log(difference.ratio.low) == pytest.approx(
        5 - 2.776445 * math.sqrt(2 / 3), abs=1e-6
    )
    # t = 6.12; printed tables have 4.604 for 0.01 and 8.610 for 0.001.
    assert 0.001 < difference.p < 0.01


def test_one_new_night_is_judged_by_the_spread_of_the_others() -> None:
    """Logs 0, 1, 2 against 4: difference 3, standard error sqrt(1 + 1/3), 2 degrees of freedom
    (t of 97.5 %: 4.302653)."""
    difference = ratio_of_nights([math.exp(4)], [math.exp(v) for v in (0, 1, 2)])
    half = 4.302653 * math.sqrt(4 / 3)
    assert math.log(difference.ratio.low) == pytest.approx(3 - half, abs=1e-5)
    # A change as large as the half-width is the least one with p = 0.05.
    assert math.log1p(difference.least(0.05)) == pytest.approx(half, abs=1e-5)


def test_the_more_cautious_of_student_and_welch_is_used() -> None:
    rng = np.random.default_rng(3)
    for m, n, spread in [(5, 5, 1.0), (5, 5, 3.0), (9, 3, 3.0), (3, 9, 3.0), (2, 2, 1.0)]:
        x, y = np.exp(rng.normal(0.02, 0.01 * spread, m)), np.exp(rng.normal(0, 0.01, n))
        oracle = [
            stats.ttest_ind(np.log(x), np.log(y), equal_var=equal).pvalue for equal in (True, False)
        ]
        difference = ratio_of_nights(list(x), list(y))
        assert difference.p == pytest.approx(max(oracle))
    # A side without spread: logs 5, 5, 5 and 0, 1, 2 have Welch's 2 degrees of freedom.
    difference = ratio_of_nights([math.exp(5)] * 3, [math.exp(v) for v in (0, 1, 2)])
    assert math.log(difference.ratio.high) == pytest.approx(4 + 4.302653 / math.sqrt(3), abs=1e-5)


def test_one_night_a_side_says_nothing_of_nights() -> None:
    assert ratio_of_nights([1.2], [1.1]) is None
    assert ratio_of_nights([], [1.1, 1.2, 1.3]) is None
    assert mean_of_nights([1.2]) is None


def test_nights_without_any_spread() -> None:
    same, other = ratio_of_nights([2.0] * 3, [2.0] * 3), ratio_of_nights([3.0] * 3, [2.0] * 3)
    assert (same.p, other.p) == (1.0, 0.0)
    assert other.ratio.low == pytest.approx(1.5)


def test_the_mean_of_nights_is_the_geometric_one() -> None:
    mean = mean_of_nights([1.0, 2.0, 4.0])
    assert mean.value == pytest.approx(2)
    # Logs 0, ln 2 and 2 ln 2: standard error ln 2 / sqrt(3), two degrees of freedom, t of 97.5 %
    # 4.302653.
    half = math.log(2) * 4.302653 / math.sqrt(3)
    assert math.log(mean.high) == pytest.approx(math.log(2) + half, rel=1e-5)


def test_the_ratio_of_two_estimates_adds_their_distances_in_quadrature() -> None:
    x = Estimate(math.exp(5), math.exp(2), math.exp(9))  # 3 below, 4 above
    y = Estimate(math.exp(1), math.exp(-11), math.exp(5))  # 12 below, 4 above
    ratio = ratio_of_two(x, y)
    logs = [math.log(v) for v in (ratio.low, ratio.value, ratio.high)]
    assert logs == pytest.approx([4 - 5, 4, 4 + math.sqrt(16 + 144)])
