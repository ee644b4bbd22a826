"""Tests slowdowns by aligned ranks.

They are compared with Wilcoxon's table, and with a simple computation term by term.
"""

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from analysis.statistics.aligned_ranks import (
    MAX_RANKED_PAIRS,
    next_allocation,
    shifts,
    slowdown,
    standard_score,
)


def _random_log_times(seed: int, *shape: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(0.01, 0.02, shape)


def _shifts_that_swap_ranks(log_times: NDArray[np.float64]) -> list[float]:
    """Return the shifts at which the aligned values of a treated and a baseline run are equal.

    They are computed term by term. Their median is the estimate, since half of the comparisons are
    larger there and half are smaller.
    """
    pairs, runs = log_times.shape
    m = runs - 1
    base = [sum(row[1:]) / m for row in log_times]
    d = [row[0] - b for row, b in zip(log_times, base, strict=True)]
    return [
        (m * d[i] + d[j]) / (m + 1) - (log_times[j][b] - base[j])
        for i, j, b in itertools.product(range(pairs), range(pairs), range(1, runs))
    ]


def test_six_pairs_with_one_baseline_give_the_extremes() -> None:
    """As by Wilcoxon's signed-rank test, each end excludes one of 64 choices of signs."""
    estimate = slowdown(np.log([[r, 1.0] for r in (1.31, 1.12, 1.63, 1.24, 1.55, 1.46)]))
    assert (estimate.low, estimate.high) == (pytest.approx(1.12), pytest.approx(1.63))
    assert slowdown(np.zeros((5, 2))) is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1, 2, 3], 4 / math.sqrt(8.75)), ([-1, -2, -3], -4 / math.sqrt(8.75)), ([-1, 2, -3, 2.5], 0)],
)
def test_the_standard_score_by_hand(values: list[float], expected: float) -> None:
    """If the runs of three pairs differ by 1, 2 and 3, the larger runs have the ranks 4, 5 and 6.

    The statistic is the sum of their distances from 3.5, less half of its smallest step. Its
    variance is the sum of the squared distances.
    """
    assert standard_score(np.array(values, dtype=float)) == pytest.approx(expected)


@pytest.mark.parametrize("runs", [2, 3, 4])
def test_the_estimate_is_the_median_of_all_shifts_that_swap_ranks(runs: int) -> None:
    drawn = _random_log_times(runs, 9, runs)
    low, value, high = shifts(drawn)
    assert value == pytest.approx(float(np.median(_shifts_that_swap_ranks(drawn))), abs=1e-7)
    assert low < value < high


@pytest.mark.parametrize(("pairs", "critical"), [(8, 3), (10, 8), (15, 25), (20, 52)])
def test_with_one_baseline_the_interval_is_that_of_wilcoxon(pairs: int, critical: int) -> None:
    """Critical values of the signed-rank test at 5 %, two-sided, from its published table."""
    d = _random_log_times(pairs, pairs)
    walsh = sorted((d[i] + d[j]) / 2 for i in range(pairs) for j in range(i, pairs))
    low, _, high = shifts(np.column_stack([d, np.zeros(pairs)]))
    # The continuity correction of half a step moves the end by a few averages at most.
    near = walsh[max(critical - 3, 0) : critical + 4]
    assert near[0] - 1e-7 <= low <= near[-1] + 1e-7
    far = walsh[-critical - 4 : len(walsh) - max(critical - 3, 0)]
    assert far[0] - 1e-7 <= high <= far[-1] + 1e-7


def test_shifts_follow_treated_runs_and_ignore_levels_of_pairs_and_missing_runs() -> None:
    drawn = _random_log_times(5, 12, 3)
    moved = drawn + _random_log_times(6, 12, 1) + [math.log(1.4), 0, 0]
    np.testing.assert_allclose(shifts(moved), shifts(drawn) + math.log(1.4), atol=1e-7)
    # Exchanged sides give the inverse. A missing repetition gets no rank.
    two = drawn[:, :2]
    np.testing.assert_allclose(shifts(two), -shifts(two[:, ::-1])[::-1], atol=1e-7)
    padded = np.column_stack([two, np.full(12, np.nan)])
    np.testing.assert_allclose(shifts(padded), shifts(two), atol=1e-9)


def _score(log_times: NDArray[np.float64], shift: float) -> float:
    """Return the statistic, less half a step, / its standard deviation at a shift, term by term."""
    shifted = log_times - np.array([shift, 0, 0])
    aligned = shifted - np.nanmean(shifted, axis=1, keepdims=True)
    ranks = stats.rankdata(aligned, method="ordinal", axis=None, nan_policy="omit")
    ranks = ranks.reshape(aligned.shape)
    scores = ranks - np.nanmean(ranks, axis=1, keepdims=True)
    variances = np.sum(np.nanmean(scores**2, axis=1)), np.sum(scores[:, 0] ** 2)
    return (np.sum(scores[:, 0]) - 0.5) / math.sqrt(max(variances))


def test_the_interval_of_pairs_with_different_numbers_of_baselines_is_wide_enough() -> None:
    """Two pairs have two baseline runs, and four have one.

    If the treated runs are raised by 1.1, each ranks above every baseline run. Still the score
    is within 1.96.
    """
    one, two = [[d, 0, math.nan] for d in (-1, 0.1, -1.01, 0)], [[1, 0, 0], [1.01, -1, -1]]
    log_times = np.array([*two, *one], dtype=float)
    grid = np.arange(-3.0, 0.0, 0.001)
    beyond = [shift for shift in grid if _score(log_times, shift) > 1.96]
    low, _, _ = shifts(log_times)
    assert _score(log_times, -1.1) < 1.96
    assert low == pytest.approx(max(beyond), abs=0.002)


def test_a_second_baseline_narrows_the_interval() -> None:
    """The spread of a pair is sqrt(3/2) instead of sqrt(2) times that of a run, 13 % less."""
    drawn = _random_log_times(10, 100, 20, 3)
    width = [float((high - low).mean()) for low, _, high in (shifts(drawn), shifts(drawn[..., :2]))]
    assert width[0] / width[1] == pytest.approx(math.sqrt(3) / 2, abs=0.03)


def test_equal_runs_give_one_and_only_evenly_spaced_pairs_of_very_many_are_used() -> None:
    estimate = slowdown(np.zeros((6, 3)))
    assert (estimate.low, estimate.high) == (pytest.approx(1), pytest.approx(1))
    drawn = _random_log_times(11, 3 * (MAX_RANKED_PAIRS - 1) + 1, 2)
    assert slowdown(drawn) == slowdown(drawn[::3])


def _one_pair_blocks(*log_ratios: float) -> list[np.ndarray]:
    """Return blocks with one pair each: the treated run takes exp(log_ratio), its baseline 1."""
    return [np.array([[log_ratio, 0.0]]) for log_ratio in log_ratios]


def test_the_next_allocation_by_hand() -> None:
    # Shifts 0.01, 0.02 and 0.03 have the mean 0.02 and the standard deviation 0.01. With 2 degrees
    # of freedom, t is 4.302653.
    half = 4.302653 * 0.01 * math.sqrt(4 / 3)
    ends = pytest.approx((math.exp(0.02 - half), math.exp(0.02 + half)))
    assert next_allocation(_one_pair_blocks(0.01, 0.02, 0.03)) == ends
    # Two blocks are too few, and empty blocks do not count.
    assert next_allocation([*_one_pair_blocks(0.01, 0.02), np.empty((0, 2))]) is None
    # The Hodges-Lehmann estimate of 0, 0 and 0.03 is 0.0075, the median of the means of two: 0, 0,
    # 0, 0.015, 0.015, 0.03.
    long = np.array([[0.0, 0.0, 0.0], [0.01, 0.0, 0.02], [0.03, 0.0, np.nan]])
    same = pytest.approx((math.exp(0.0075), math.exp(0.0075)))
    assert next_allocation([long, *_one_pair_blocks(0.0075, 0.0075)]) == same
