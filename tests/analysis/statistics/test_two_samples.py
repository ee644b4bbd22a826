import numpy as np
import pytest

from analysis.statistics.location import ratio_between


def test_six_against_six_by_hand() -> None:
    # Against ones, the ratios are six copies of each x. The table of the rank-sum test for 6 and 6
    # at 5 %, two-sided, has the critical value 5: the 6th smallest and 6th largest are the ends.
    found = ratio_between([1, 2, 3, 4, 5, 6], [1] * 6)
    assert (found.low, found.value, found.high) == (1.0, 3.5, 6.0)
    assert found.confidence == pytest.approx(1 - 2 * 19 / 924)  # 19 of C(12, 6) orders have U <= 5


def test_ends_are_the_ranked_ratios() -> None:
    x = [2.0, 3.0, 5.0, 7.0, 11.0, 13.0]
    y = [1.0, 1.7, 1.9, 2.3, 2.9, 3.1]
    found = ratio_between(x, y)
    ratios = sorted(a / b for a in x for b in y)
    assert (found.low, found.high) == (pytest.approx(ratios[5]), pytest.approx(ratios[-6]))


def test_fewer_than_six_give_none() -> None:
    assert ratio_between([1.0] * 5, [1.0] * 20) is None


def test_large_sets_agree_with_the_truth() -> None:
    rng = np.random.default_rng(12)
    found = ratio_between(1.5 * rng.lognormal(0, 0.1, 30_000), rng.lognormal(0, 0.1, 50_000))
    assert found.low < 1.5 < found.high
    assert found.half_width < 0.02
