from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from analysis.statistics.aligned_ranks import slowdown
from analysis.statistics.pairs_needed import enough


def _pairs(*ratios: float) -> list[NDArray[np.float64]]:
    return [np.log([[ratio, 1.0] for ratio in ratios])]


WIDE = _pairs(1.0, 1.1, 1.2, 1.3, 1.4, 1.5)  # [1.0, 1.5]: half the width is 0.25


def test_never_below_the_floor() -> None:
    assert not enough(_pairs(*[1.0] * 9), floor=10, cap=30, precision=0.5)


def test_always_at_the_cap() -> None:
    assert enough(WIDE, floor=6, cap=6, precision=0.01)


def test_stops_at_the_relative_half_width_asked_for() -> None:
    # The estimate lies between the geometric mean of the middle two, 1.249, and that of 1.2.
    assert enough(WIDE, floor=6, cap=30, precision=0.25 / 1.2)
    assert not enough(WIDE, floor=6, cap=30, precision=0.25 / 1.3)


def test_without_a_precision_the_floor_is_enough() -> None:
    assert enough(WIDE, floor=6, cap=30, precision=None)


def test_a_floor_without_interval_is_not_enough() -> None:
    assert not enough(_pairs(*[1.0] * 4), floor=4, cap=30, precision=0.5)


@pytest.mark.slow
def test_stopping_by_width_keeps_the_coverage() -> None:
    rng = np.random.default_rng(9)
    hits = 0
    for _ in range(500):
        draws = rng.normal(0, 0.04, (30, 3))
        draws[:, 0] += np.log(1.3)
        n = next(n for n in range(10, 31) if enough([draws[:n]], 10, 30, 0.025))
        estimate = slowdown(draws[:n])
        assert estimate is not None
        hits += estimate.low <= 1.3 <= estimate.high
    assert hits >= 460  # 0.92: P(fewer | 95 %) < 0.2 %
