"""The CUSUM, its limit and the detectable change.

When a level began.

The expected night is that of ruptures 1.1.10 (in an environment of its own) on the same series:
Dynp with the costs l2 and l1, for one change.
"""

import math

import numpy as np
import pytest

from analysis.history import monitor
from analysis.history.monitor import energies, latest_change


def test_sums_by_hand() -> None:
    scores = np.array([0.5, 2.0, 3.0, -1.0, 0.0, 1.5])
    # less the allowance of 1, never below 0: 0, 1, 3, 1, 0, 0.5
    assert monitor.sums(scores).tolist() == [0.0, 1.0, 3.0, 1.0, 0.0, 0.5]


def test_one_night_raises_no_alarm_however_bad() -> None:
    for score in (3.9, 4.1, 1e6):
        assert monitor.sums(np.array([score, 0.0, 0.0])).max() < monitor.LEAST_LIMIT


def test_an_extreme_night_counts_once_the_next_one_is_bad_as_well() -> None:
    # Alone: 1.5 less 1. The next one is 2.1 less 1, and brings the missing 2.
    assert monitor.sums(np.array([9.0, 2.1])) == pytest.approx([0.5, 3.6])
    assert monitor.sums(np.array([9.0, 1.9])) == pytest.approx([0.5, 1.4])
    # After a bad night it is not doubted, and counts as 3.5.
    assert monitor.sums(np.array([2.1, 9.0, 3.0])) == pytest.approx([1.1, 3.6, 5.6])
    assert monitor.sums(np.array([9.0, 9.0])) == pytest.approx([0.5, 5.0])


def test_good_nights_take_back_as_much_as_bad_ones_add() -> None:
    assert monitor.sums(np.array([3.0, 3.0, -9.0])) == pytest.approx([2.0, 4.0, 0.0])
    assert monitor.sums(np.array([3.5, 3.5, -2.0])) == pytest.approx([2.5, 5.0, 2.0])


def test_outliers_do_not_move_the_baseline() -> None:
    values = np.random.default_rng(2).normal(5.0, 0.5, 100)
    spoilt = values.copy()
    spoilt[::20] += 1000.0
    level, spread = monitor.baseline(spoilt)
    assert abs(level - 5.0) < 0.2
    assert 0.4 < spread < 0.75


def test_baseline_of_normal_values_is_their_mean_and_deviation() -> None:
    values = np.random.default_rng(3).normal(5.0, 0.5, 4000)
    level, spread = monitor.baseline(values)
    assert level == pytest.approx(5.0, abs=0.03)
    assert spread == pytest.approx(0.5, rel=0.03)


def test_a_series_that_never_varies_has_a_baseline() -> None:
    level, spread = monitor.baseline(np.full(40, 7.0))
    assert (level, spread > 0) == (7.0, True)


def run_length(limit: float) -> float:
    """Mean nights to a false alarm with a known baseline: Siegmund 1985, equation 2.56."""
    bound = limit + 1.166
    return (math.exp(2 * bound) - 2 * bound - 1) / 2


def test_the_limit_is_that_of_theory_for_long_baselines_of_normal_nights() -> None:
    limits = []
    for seed in range(4, 8):
        windows = list(np.random.default_rng(seed).standard_normal((36, 500)))
        limits.append(monitor.common_limit(windows, 1 / 365, seed=1))
    # 36 series with one false alarm a year: one in 36 years for each, a limit of 3.93 if the
    # baseline were known and scores were not clipped.
    assert run_length(3.93) == pytest.approx(36 * 365, rel=0.03)
    assert np.mean(limits) == pytest.approx(3.93, abs=0.25)


def test_short_baselines_and_dependent_nights_have_higher_limits() -> None:
    rng = np.random.default_rng(5)

    def limit(nights: int, correlation: float) -> float:
        steps = rng.standard_normal((36, nights + 50))
        for night in range(1, nights + 50):
            steps[:, night] += correlation * steps[:, night - 1]
        return monitor.common_limit(list(steps[:, 50:]), 1 / 365, seed=1)

    long, short, dependent = limit(180, 0.0), limit(30, 0.0), limit(180, 0.4)
    assert short > long + 0.7
    assert dependent > long + 1.5


def test_more_series_have_a_higher_limit() -> None:
    rng = np.random.default_rng(6)
    windows = list(rng.standard_normal((36, 180)))
    alone = monitor.common_limit(windows[:2], 1 / 365, seed=1)
    # By theory the limit rises by ln(18)/2 = 1.45.
    assert monitor.common_limit(windows, 1 / 365, seed=1) - alone == pytest.approx(1.45, abs=0.6)


def test_the_detectable_change_by_theory() -> None:
    # A limit of 4 and five nights: the sum of five normal scores less 1 each has to reach 4, for
    # 80 % with a shift d: 5 (d - 1) - 0.84 sqrt(5) = 4, d = 2.18; a little less since the sum may
    # reach it before.
    values = np.random.default_rng(7).standard_normal(400)
    found = monitor.detectable_spreads(values, 4.0, seed=1)
    assert 1.95 <= found <= 2.4


def test_what_cannot_be_found_in_five_nights_has_no_detectable_change() -> None:
    values = np.random.default_rng(8).standard_normal(100)
    # Five clipped nights add at most 12.5.
    assert monitor.detectable_spreads(values, 13.0, seed=1) is None


def noise(count: int) -> np.ndarray:
    """Uniform between -1/2 and 1/2: fractional parts of multiples of the golden ratio."""
    return (np.arange(1, count + 1) * (np.sqrt(5) - 1) / 2) % 1 - 0.5


def test_a_change_four_values_before_the_end() -> None:
    values = noise(60)
    values[56:] += 1.2
    assert latest_change(values) == 56  # Dynp with l2 and l1: 56


def test_the_statistic_by_hand() -> None:
    # 0 0 1 1: both parts of two are at a distance of 1, without any within: 2*2/(2+2) * 2 = 2.
    assert energies(np.array([0.0, 0.0, 1.0, 1.0])).tolist() == pytest.approx([2.0])
    # 0 0 | 0 1 1: between 4/6, within 0 and 4/6, so (8/6 - 4/6) * 6/5; 0 0 0 | 1 1: 2 * 6/5.
    assert energies(np.array([0.0, 0.0, 0.0, 1.0, 1.0])).tolist() == pytest.approx([0.8, 2.4])
