"""Tests interim analyses, p values and Holm's method.

Right p values are worked out by hand, or by enumeration of all exchanges of runs within pairs.
"""

from itertools import product
from math import log, nan, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from analysis.statistics.evidence import (
    count_levels_shown,
    interim_analyses,
    max_unseen_share,
    mean_ratio,
    p_different,
    p_longer,
    p_outside_margin,
    p_over_interims,
    p_shorter,
    p_typical_and_mean_shorter,
    pairs_of_next_interim,
)


def test_each_interim_analysis_spends_a_quarter_of_the_remaining_error() -> None:
    """Shares of the error are 0.25, 0.75 x 0.25, ... All analyses together spend all of it."""
    assert [interim.pairs for interim in interim_analyses(64)] == [6, 8, 12, 16, 24, 32, 48, 64]
    assert [interim.share for interim in interim_analyses(12)] == pytest.approx(
        [0.25, 0.1875, 0.140625]
    )
    assert sum(interim.share for interim in interim_analyses(10**9)) == pytest.approx(1, abs=1e-6)
    assert [list(interim_analyses(pairs)) for pairs in (0, 5)] == [[], []]
    assert [pairs_of_next_interim(pairs) for pairs in (1, 6, 7, 9, 40, 64, 65)] == [
        6,
        6,
        8,
        12,
        48,
        64,
        96,
    ]


@pytest.mark.parametrize("baselines", [1, 2])
def test_treated_runs_that_are_the_longest_of_all_pairs_are_one_exchange_of_all(
    baselines: int,
) -> None:
    """In six equal pairs, only one of 2^6 or 3^6 exchanges has so large a sum.

    Student's t of equal scores is infinite, so it does not raise the p value.
    """
    log_times = np.log([[1.5, *[1.0] * baselines]] * 6)
    assert p_longer(log_times) == pytest.approx((1 + baselines) ** -6.0)
    assert p_shorter(log_times) == pytest.approx(1)
    # Relative to the slowdown itself, all runs are equal, so every exchange has the same sum.
    assert [p_longer(log_times, 1.5), p_shorter(log_times, 1.5)] == pytest.approx([1, 1])
    # A slowdown of 1.5 is outside a margin of 40 %, but within one of 60 %.
    assert p_outside_margin(log_times, 0.4) == pytest.approx(1)
    assert p_outside_margin(log_times, 0.6) == pytest.approx((1 + baselines) ** -6.0)


def _by_enumeration(log_times: NDArray[np.float64]) -> tuple[float, float]:
    """Return two p values: of the exact test, and of Student's t of the treated runs' ranks.

    The exact one is the share of exchanges with at least as large a sum of aligned ranks.
    """
    pairs = [[value for value in row if value == value] for row in log_times]
    aligned = [[value - sum(pair) / len(pair) for value in pair] for pair in pairs]
    flat = sorted(value for pair in aligned for value in pair)

    def rank(value: float) -> float:
        return float(np.mean([i + 1 for i, other in enumerate(flat) if abs(other - value) < 1e-9]))

    scores = [[rank(value) for value in pair] for pair in aligned]
    measured = sum(pair[0] for pair in scores)
    sums = [sum(chosen) for chosen in product(*scores)]
    treated = [pair[0] - sum(pair) / len(pair) for pair in scores]
    student = stats.ttest_1samp(treated, 0, alternative="greater").pvalue
    return sum(total >= measured - 1e-9 for total in sums) / len(sums), float(student)


def test_p_values_are_those_of_every_exchange_and_at_least_student_s() -> None:
    """Pairs have two or three runs, with ties."""
    rng = np.random.default_rng(5)
    guarded = 0
    for _ in range(40):
        log_times = rng.normal(0, 1, (6, 3)).round(1) + np.array([0.8, 0, 0])
        log_times[rng.random(6) < 0.3, 2] = nan
        exact, student = _by_enumeration(log_times)
        assert p_longer(log_times) == pytest.approx(max(exact, student))
        assert p_shorter(-log_times) == p_longer(log_times)
        guarded += student > exact
    assert 0 < guarded < 40


@pytest.mark.parametrize(("first", "exchanges"), [(-0.1, 2), (-7.0, 15)])
def test_with_one_baseline_run_exchanges_are_signs(first: float, exchanges: int) -> None:
    """Scores are 0.5, 1.5, ... 5.5 in order of size. There are 64 choices of the negative scores.

    Two choices have a sum of at most 0.5: no score, or the first score. 15 have at most 5.5: one
    choice of no score, six of one score, six of two scores, and two of three scores.
    """
    apart = np.array([first, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert p_longer(np.column_stack([apart, np.zeros(6)])) == pytest.approx(exchanges / 64)


def test_beyond_64_pairs_the_normal_distribution_stands_for_the_exact_one() -> None:
    """Scores are 0.5, 1.5, ... 99.5. Those at the positions 40 to 49, by size, are negative.

    Their sum is 100^2 / 2 - 2 x (39.5 + ... + 48.5) = 5,000 - 880, their variance
    (4 x 100^3 - 100) / 12.
    """
    apart = np.arange(1, 101) * 0.01
    apart[39:49] *= -1
    log_times = np.column_stack([apart, np.zeros(100)])
    expected = stats.norm.sf(4120 / sqrt(333_325))
    assert p_longer(log_times) == pytest.approx(expected, rel=1e-6, abs=0)


def test_a_p_value_is_the_least_of_the_analyses_each_divided_by_its_share() -> None:
    def p_value(*p: float) -> float:
        """Return the p value of a case that has these p values after 6, 8 and 12 pairs."""
        pairs = {1: 6, 2: 8, 3: 12}[len(p)]
        p_by_pairs = dict(zip((6, 8, 12), p, strict=False))
        return p_over_interims(np.zeros((pairs, 2)), lambda part: p_by_pairs[len(part)])

    assert p_value(0.02) == pytest.approx(0.08)
    assert p_value(0.5, 0.01) == pytest.approx(0.01 / 0.1875)
    assert p_value(0.001, 1.0, 1.0) == pytest.approx(0.004)
    assert p_value(0.9) == 1
    # Eleven pairs are analysed twice: after six and after eight.
    log_times = np.log([[1.5, 1.0, 1.0]] * 8 + [[0.1, 1.0, 1.0]] * 3)
    least = min(3**-6 / 0.25, 3**-8 / 0.1875)
    assert p_over_interims(log_times, p_longer) == pytest.approx(least)
    assert p_different(log_times) == p_different(-log_times) == pytest.approx(2 * least)
    assert p_different(log_times[:5]) == 1


def test_holm_over_cases_and_from_the_strongest_level_down() -> None:
    # With two cases, the first is shown at 0.02, then the second at 0.04.
    assert count_levels_shown([[0.02], [0.04]], 0.04) == [1, 1]
    assert count_levels_shown([[0.021], [0.04]], 0.04) == [0, 0]
    # A case that has a level left keeps its share of the error, so the second case still needs
    # 0.02.
    assert count_levels_shown([[0.02, 0.5], [0.04]], 0.04) == [1, 0]
    # A weaker level is tested only after the stronger one is shown, and uses no more of the error.
    assert count_levels_shown([[0.5, 0.0]], 0.04) == [0]
    assert count_levels_shown([[0.04, 0.04, 0.041]], 0.04) == [2]
    # A case that was requested but not measured counts.
    assert count_levels_shown([[0.03], [1.0]], 0.04) == [0, 0]
    assert count_levels_shown([], 0.04) == []


def test_the_mean_s_interval_is_student_s() -> None:
    """Treated runs take 1.1 and 1.3 in turn, the baseline 1. The mean is 1.2.

    Relative deviations are -1/12 and 1/12, so the standard deviation is (1/12) sqrt(6/5), and the
    standard error this over sqrt(6). With five degrees of freedom, t at 0.975 is 2.5706.
    """
    ratio = mean_ratio(np.log([[1.1, 1.0], [1.3, 1.0]] * 3))
    half = 2.5706 / 12 * sqrt(6 / 5) / sqrt(6)
    assert ratio is not None
    assert ratio.value == pytest.approx(1.2)
    assert (log(ratio.high / 1.2), log(1.2 / ratio.low)) == pytest.approx((half, half), rel=1e-4)
    # Pairs have two baseline runs of 0.9 and 1.1. In the last pair, one is missing.
    two_baselines = mean_ratio(np.log([[1.2, 0.9, 1.1]] * 5 + [[1.2, nan, 1.0]]))
    assert two_baselines is not None
    assert (two_baselines.low, two_baselines.value, two_baselines.high) == pytest.approx(
        (1.2, 1.2, 1.2)
    )
    assert mean_ratio(np.log([[1.1, 1.0]] * 5)) is None


def test_faster_needs_the_typical_run_and_the_mean() -> None:
    """Baselines take 1.

    If treated runs take 0.7 and 0.9 in turn, the p value of the ranks, 1/64, is larger than that of
    the mean, so it counts. If seven take 0.8 and one takes 3, the mean is 1.075. Deviations are
    -0.275 (seven times) and 1.925, divided by 1.075, and the p value of the mean counts.
    """
    steady = np.log([[0.7, 1.0], [0.9, 1.0]] * 3)
    assert p_typical_and_mean_shorter(steady) == pytest.approx(1 / 64)
    widened = np.log([[0.8, 1.0]] * 7 + [[3.0, 1.0]])
    error = sqrt((7 * 0.275**2 + 1.925**2) / 7 / 8) / 1.075
    mean_p = stats.t.cdf(log(1.075) / error, 7)
    assert p_shorter(widened) < 0.2 < mean_p
    assert p_typical_and_mean_shorter(widened) == pytest.approx(mean_p)


def test_the_largest_share_of_outliers_that_few_pairs_may_miss() -> None:
    """If 39 % of all runs are outliers, six runs have none with a chance of (1 - 0.39)^6 = 5 %."""
    assert [round(max_unseen_share(pairs), 3) for pairs in (6, 12, 48)] == [0.393, 0.221, 0.061]
    assert (1 - max_unseen_share(6)) ** 6 == pytest.approx(0.05)
