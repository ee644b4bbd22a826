from __future__ import annotations

import math

import pytest

from analysis.statistics.correlation import pearson


def test_by_hand() -> None:
    # Both sums of squared deviations are 17.5, the sum of their products is 14.5.
    x, y = [1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 6, 5]
    found = pearson(x, y)
    assert found is not None
    assert found.value == pytest.approx(14.5 / 17.5)
    # Fisher: atanh(r) +- 1.959964 / sqrt(n - 3)
    z, half = math.atanh(14.5 / 17.5), 1.959963985 / math.sqrt(3)
    assert found.low == pytest.approx(math.tanh(z - half))
    assert found.high == pytest.approx(math.tanh(z + half))


def test_perfect_correlation() -> None:
    found = pearson([1, 2, 3, 4, 5, 6], [-1, -2, -3, -4, -5, -6])
    assert found is not None
    assert found.value == pytest.approx(-1.0)


def test_none_from_few_pairs_or_constants() -> None:
    assert pearson([1, 2, 3, 4, 5], [1, 2, 3, 4, 6]) is None
    assert pearson([1] * 6, [1, 2, 3, 4, 5, 6]) is None


def test_unequal_lengths_are_no_pairs() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        pearson([1, 2], [1])
