import pytest

from analysis.subjects.paper_tables import paper_estimates


def test_times_by_hand() -> None:
    off = [10.0, 12.0, 11.0, 10.0, 12.0, 11.0, 11.0, 11.0, 10.0, 12.0, 99.0]
    on = [20.0, 24.0, 22.0, 21.0, 23.0, 22.0, 22.0, 22.0, 20.0, 24.0, 99.0]
    found = paper_estimates(off, on, "lower")
    assert found.off_mean == pytest.approx(11.0)  # of the first 10
    assert found.off_sd == pytest.approx((6 / 9) ** 0.5)  # six deviations of 1, squared, over 9
    assert found.of_means == pytest.approx(2.0)
    assert found.of_best == pytest.approx(2.0)  # 20 / 10, of the first 5
    assert found.best_against_median == pytest.approx(2.2)  # 22 / 10


def test_rates_by_hand() -> None:
    found = paper_estimates([4.0, 4.0, 5.0, 4.0, 4.0], [2.0, 2.5, 2.0, 2.0, 2.0], "higher")
    assert found.of_best == pytest.approx(2.0)  # 5 / 2.5
    assert found.best_against_median == pytest.approx(2.5)  # 5 / 2
    assert found.off_mean is None
    assert found.of_means is None


def test_too_few_runs_give_nothing() -> None:
    found = paper_estimates([1.0] * 4, [1.0] * 9, "lower")
    assert set(vars(found).values()) == {None}
