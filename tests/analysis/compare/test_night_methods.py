"""The methods that the study of nights tries beside the program's, by hand and by scipy."""

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
    """Its error from 14 rows of 200 nights is about 0.02; steps are of 0.05."""
    chances = unchanged_sides(r, past=200, cases=7, count=5).chances[..., 0]
    assert chances.sum(0) == pytest.approx(1)
    assert np.arange(20) / 20 @ chances == pytest.approx(r, abs=0.08)


def test_windows_by_hand() -> None:
    """Differences 1 and 2 between neighbours: a variance of 2.5, and 4^2 / 10 degrees."""
    old, new, past = (np.array([[values]]) for values in ([0.0], [5.0], [0.0, 1.0, 3.0]))
    p = 2 * stats.t.cdf(-5 / np.sqrt(2.5), 1.6)
    assert from_windows(Sides(old, new, past, 0.0)) == pytest.approx(np.array([[p]]))


def test_the_historys_spread_counts_unless_the_nights_scatter_more() -> None:
    alike, wide = (
        unchanged_sides(0.0, past=60, cases=1, count=50, wider=wider) for wider in (1.0, 5.0)
    )
    assert unless_wider(wide) == pytest.approx(wide.averaged(with_history=False))
    pooled = np.isclose(unless_wider(alike), alike.averaged(with_history=True)).mean()
    # A tenth of 150 rows is taken for wider, of which a third depends on the others.
    assert 0.75 <= pooled < 1
    # Three times the bound, where the history's spread would be 2.5 times too small.
    assert names_any(lambda sides: sides.averaged(with_history=True), wide) > 0.15
