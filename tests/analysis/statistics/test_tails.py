"""Shares of runs hit, and the slowest tenth."""

from math import comb

import numpy as np
import pytest

from analysis.statistics.location import hits, slowest_tenth


def test_two_runs_of_twenty_are_hit() -> None:
    """Clopper and Pearson for 2 of 20: 1.23 % to 31.70 %, as tables of it have it."""
    on = np.ones(20)
    on[[3, 11]] = 1.5
    found = hits(np.log(np.column_stack([on, np.ones(20), np.ones(20)])), 0.02)
    assert found.treated.value == 0.1
    assert (found.treated.low, found.treated.high) == (
        pytest.approx(0.0123, abs=1e-4),
        pytest.approx(0.3170, abs=1e-4),
    )
    assert found.baseline == 0.0


def test_a_hit_is_beyond_the_margin_and_beyond_the_noise() -> None:
    spread = np.linspace(-0.1, 0.1, 11)
    # The median distance is 0.06 (0.02, 0.04, ... twice each), four deviations 0.356.
    on = 1.0 + np.append(spread, [0.3, 0.4])  # hits are seen against the treatment's own runs
    found = hits(np.column_stack([on, np.zeros(13)]), 0.02)
    assert found.treated.value == pytest.approx(1 / 13)
    calm = np.array([0.0] * 8 + [0.015, 0.05])
    found = hits(np.column_stack([np.zeros(10), calm]), 0.02)
    assert (found.treated.value, found.baseline) == (0.0, 0.1)
    assert hits(np.zeros((5, 2)), 0.02) is None


def test_the_slowest_tenth_needs_thirty_six_pairs() -> None:
    """0.9^n is at most 2.5 % from 36 on; on takes 1.3 times as long throughout."""
    rng = np.random.default_rng(1)
    off = rng.normal(0, 0.01, (200, 1))
    times = np.hstack([off + np.log(1.3), off])
    assert slowest_tenth(times[:35]) is None
    found = slowest_tenth(times)
    assert found.value == pytest.approx(1.3)
    assert 1.28 < found.low < 1.3 < found.high < 1.32
    assert slowest_tenth(times[:36]) is not None
    times[:7, 1] = np.nan
    assert (slowest_tenth(times[:42]), slowest_tenth(times[:43]) is None) == (None, False)


def test_limits_of_the_slowest_tenth_are_those_of_ordered_runs() -> None:
    """Of 36 runs that take 1 to 36 s against 1 s, the limits are the 29th and the last.

    Each may be beyond the percentile in 2.5 % of cases.
    """

    def fewer(than: int) -> float:
        return sum(comb(36, k) * 0.9**k * 0.1 ** (36 - k) for k in range(than))

    assert fewer(29) < 0.025 < fewer(30)
    assert 1 - fewer(36) < 0.025 < 1 - fewer(35)
    on = np.random.default_rng(1).permutation(np.arange(1.0, 37.0))
    found = slowest_tenth(np.log(np.column_stack([on, np.ones(36)])))
    assert (found.low, found.high) == pytest.approx((29, 36))
