"""What runs leave to the next ones: by hand, and simulated with fixed seeds."""

import numpy as np
import pytest
from scipy import stats

from analysis.statistics.carry_over import allowing, carry_over

#: Logarithms of `on`, `off` and `aa`, and which baseline came right after `on`: in the last two
#: pairs either both, or none, which say nothing.
TIMES = np.array([[0.0, 0.3, 0.1], [0.0, 0.0, 0.1], [0.0, 0.4, 0.1], [0.0, 9, 5], [0.0, 7, 5]])
AFTER = np.array([[1, 0], [0, 1], [1, 0], [1, 1], [0, 0]], bool)


def test_by_hand() -> None:
    """Differences of 0.2, 0.1 and 0.3: a mean of 0.2, an error of 0.1 / sqrt(3)."""
    carried = carry_over(TIMES, AFTER)
    assert carried is not None
    error = 0.1 / np.sqrt(3)
    half = stats.t.ppf(0.975, 2) * error
    ratio = carried.ratio
    assert np.log([ratio.low, ratio.value, ratio.high]) == pytest.approx(
        [0.2 - half, 0.2, 0.2 + half]
    )
    assert (carried.pairs, carried.shown) == (3, False)
    assert carried.reach == pytest.approx(0.2 + error)
    all_pairs, relieved = allowing(carried, TIMES, AFTER)
    assert all_pairs is TIMES
    assert relieved == pytest.approx(TIMES - carried.reach * np.insert(AFTER, 0, False, axis=1))
    # Two such pairs are too few, and runs that are missing are none.
    assert carry_over(TIMES[1:], AFTER[1:]) is None
    assert carry_over(np.where(TIMES == 0.4, np.nan, TIMES), AFTER) is None
    assert allowing(None, TIMES, AFTER) == [TIMES]


def test_runs_that_come_faster_after_writes_are_named_and_not_allowed_for() -> None:
    times = TIMES * [1, -1, -1]
    carried = carry_over(times, AFTER)
    assert carried is not None
    assert carried.reach == 0
    assert len(allowing(carried, times, AFTER)) == 1
    rng = np.random.default_rng(5)
    for left, shown in ((0.0, False), (-0.03, True), (0.03, True)):
        after = np.tile(AFTER[:2], (10, 1))
        times = np.insert(rng.normal(0, 0.01, (20, 2)) + left * after, 0, 0.0, axis=1)
        assert carry_over(times, after).shown is shown  # type: ignore[union-attr]
