"""Tests methods to compare nights that a study tries besides the program's own.

Right results are worked out by hand and by scipy.
"""

import numpy as np
import pytest
from scipy import stats

from tests.studies.night_methods import (
    Sides,
    from_windows,
    names_any,
    unchanged_sides,
    unless_wider,
)


def test_students_t_of_independent_nights_is_scipys() -> None:
    sides = unchanged_sides(0.3, past=30, cases=2, count=4)
    expected = stats.ttest_ind(sides.old, sides.new, axis=-1).pvalue
    assert sides.student(0.0, with_history=False) == pytest.approx(expected)


@pytest.mark.parametrize("r", [0.0, 0.3, 0.6])
def test_a_long_history_shows_its_correlation(r: float) -> None:
    """From 14 quantities of 200 nights, the error is about 0.02. Correlations differ by 0.05."""
    chances = unchanged_sides(r, past=200, cases=7, count=5).chances[..., 0]
    assert chances.sum(0) == pytest.approx(1)
    assert np.arange(20) / 20 @ chances == pytest.approx(r, abs=0.08)


def test_windows_by_hand() -> None:
    """Neighbours differ by 1 and 2: the variance is 2.5, with 4^2 / 10 degrees of freedom."""
    old, new, past = (np.array([[values]]) for values in ([0.0], [5.0], [0.0, 1.0, 3.0]))
    p = 2 * stats.t.cdf(-5 / np.sqrt(2.5), 1.6)
    assert from_windows(Sides(old, new, past, 0.0)) == pytest.approx(np.array([[p]]))


def test_the_historys_spread_is_used_unless_the_nights_scatter_more() -> None:
    alike, wide = (
        unchanged_sides(0.0, past=60, cases=1, count=50, wider=wider) for wider in (1.0, 5.0)
    )
    assert unless_wider(wide) == pytest.approx(wide.averaged(with_history=False))
    pooled = np.isclose(unless_wider(alike), alike.averaged(with_history=True)).mean()
    # By chance, about a tenth of 150 quantities are taken for wider. A third of the quantities
    # depend on the others.
    assert 0.75 <= pooled < 1
    # If the history's spread, which is too small here, were used, the error would be more than
    # three times the bound.
    assert names_any(lambda sides: sides.averaged(with_history=True), wide) > 0.15
