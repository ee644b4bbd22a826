import pytest

from analysis.statistics.means import mean


def test_rates_are_averaged_harmonically() -> None:
    # 1 GB at 2 GB/s and 1 GB at 6 GB/s take 2/3 s: 3 GB/s, not 4.
    assert mean([2.0, 6.0], "higher") == pytest.approx(3.0)


def test_times_are_averaged_arithmetically() -> None:
    assert mean([2.0, 6.0], "lower") == pytest.approx(4.0)


def test_nothing_has_no_mean() -> None:
    with pytest.raises(ValueError, match="at least one"):
        mean([], "lower")
