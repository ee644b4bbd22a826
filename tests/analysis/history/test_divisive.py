"""When a level began.

The expected night is that of ruptures 1.1.10 (in an environment of its own) on the same series:
Dynp with the costs l2 and l1, for one change.
"""

from __future__ import annotations

import numpy as np
import pytest

from analysis.history.monitor import energies, latest_change


def noise(count: int) -> np.ndarray:
    """Uniform between -1/2 and 1/2: fractional parts of multiples of the golden ratio."""
    return (np.arange(1, count + 1) * (np.sqrt(5) - 1) / 2) % 1 - 0.5


def test_a_change_four_values_before_the_end() -> None:
    values = noise(60)
    values[56:] += 1.2
    assert latest_change(values) == 56  # Dynp with l2 and l1: 56


def test_the_statistic_by_hand() -> None:
    # 0 0 1 1: both parts of two are at a distance of 1, without any within: 2*2/(2+2) * 2 = 2.
    assert energies(np.array([0.0, 0.0, 1.0, 1.0])).tolist() == pytest.approx([2.0])
    # 0 0 | 0 1 1: between 4/6, within 0 and 4/6, so (8/6 - 4/6) * 6/5; 0 0 0 | 1 1: 2 * 6/5.
    assert energies(np.array([0.0, 0.0, 0.0, 1.0, 1.0])).tolist() == pytest.approx([0.8, 2.4])
