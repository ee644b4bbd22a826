import pytest

from analysis.subjects.paper_tables import paper_estimates


def test_rates_by_hand() -> None:
    found = paper_estimates([4.0, 4.0, 5.0, 4.0, 4.0], [2.0, 2.5, 2.0, 2.0, 2.0], "higher")
    assert found.of_best == pytest.approx(2.0)  # 5 / 2.5
    assert found.best_against_median == pytest.approx(2.5)  # 5 / 2
    assert found.off_mean is None
    assert found.of_means is None


def test_too_few_runs_give_nothing() -> None:
    found = paper_estimates([1.0] * 4, [1.0] * 9, "lower")
    assert set(vars(found).values()) == {None}
