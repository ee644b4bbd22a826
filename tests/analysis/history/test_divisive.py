"""Change points by E-divisive.

The expected points are those of ruptures 1.1.10 (in an environment of its own) on the same series:
Dynp with the costs l2 and l1, Binseg with rank, KernelCPD with rbf, each for as many changes as
expected here, and Pelt with l2 and a penalty of 2 ln(n) times the noise's variance.
"""

from __future__ import annotations

import numpy as np
import pytest

from analysis.history.divisive import change_points, latest_change


def noise(count: int) -> np.ndarray:
    """Uniform between -1/2 and 1/2: fractional parts of multiples of the golden ratio."""
    return (np.arange(1, count + 1) * (np.sqrt(5) - 1) / 2) % 1 - 0.5


def test_two_changes() -> None:
    values = noise(120)
    values[40:] += 1.5
    values[85:] -= 0.8
    assert change_points(values) == [40, 85]  # all five of ruptures: [40, 85]


def test_no_change() -> None:
    assert change_points(noise(120)) == []  # Pelt: none


def test_a_change_four_values_before_the_end() -> None:
    values = noise(60)
    values[56:] += 1.2
    assert change_points(values) == [56]  # Dynp with l2 and l1: 56
    assert latest_change(values) == 56


def test_the_statistic_by_hand() -> None:
    # 0 0 1 1: both parts of two are at a distance of 1, without any within: 2*2/(2+2) * 2 = 2.
    from analysis.history import divisive

    values = np.array([0.0, 0.0, 1.0, 1.0])
    energies = divisive._energies(np.abs(values[:, None] - values))
    assert energies.shape == (1, 1)
    assert energies[0, 0] == pytest.approx(2.0)


def test_without_a_change_few_series_have_one() -> None:
    rng = np.random.default_rng(11)
    split = [bool(change_points(rng.standard_normal(40))) for _ in range(100)]
    assert sum(split) <= 11  # level 5 %: 12 or more of 100 have a probability of 0.4 %


def test_too_few_values_have_none() -> None:
    assert change_points(np.array([1.0, 5.0, 9.0])) == []
