"""Tests whether treated runs scatter more widely than their baselines, compared with scipy."""

import numpy as np
import pytest
from scipy import stats

from analysis.statistics.scatter import widening


@pytest.mark.parametrize("factor", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_wider_scatter_is_reported_if_scipy_rejects_equal_scatter(
    factor: float, seed: int
) -> None:
    """`scipy.stats.levene` with medians is two-sided, so its level of 2 % is 1 % on one side."""
    rng = np.random.default_rng(seed)
    times = rng.normal(0, 0.01, (16, 3))
    times[:, 0] *= factor
    times += [0.5, 0.3, 0.3]  # the centres of both sets do not matter
    times[3, 2] = np.nan
    baselines = times[:, 1:][np.isfinite(times[:, 1:])]
    rejected = stats.levene(times[:, 0], baselines, center="median").pvalue < 0.02
    ratio = np.std(times[:, 0], ddof=1) / np.std(baselines, ddof=1)
    assert widening(times) == (pytest.approx(ratio) if rejected and ratio > 1 else None)


def test_equal_scatter_is_called_wider_in_one_percent_at_most() -> None:
    rng = np.random.default_rng(7)
    named = sum(widening(rng.normal(0, 0.01, (8, 3))) is not None for _ in range(3000))
    assert named <= 45  # 30 expected; 45 or fewer with a chance of 0.997


def test_few_or_equal_runs_show_no_wider_scatter() -> None:
    """Treated runs are 20 and -20 in turn, baseline runs 1 and -1."""
    apart = np.array([[20.0, 1, -1], [-20, -1, 1]] * 3)
    assert widening(apart) == pytest.approx(20 * np.sqrt(6 / 5) / np.sqrt(12 / 11))
    # Five pairs are too few, even if the test shows a difference: distances of 20 and 0 beside 1.
    assert widening(np.vstack([apart[:4], [[0.0, 1, -1]]])) is None
    assert widening(np.zeros((8, 3))) is None


def test_one_odd_baseline_run_is_no_wider_scatter_of_the_others() -> None:
    """100 treated runs lie at 1 and -1 in turn, 99 baseline runs at 0, and one at 20.

    The mean distances are 1 and 0.2, shown to differ; the standard deviations are 1.005 and 2.
    """
    times = np.zeros((100, 2))
    times[:, 0] = [1, -1] * 50
    times[7, 1] = 20
    assert stats.levene(*times.T, center="median").pvalue < 0.02
    assert widening(times) is None
