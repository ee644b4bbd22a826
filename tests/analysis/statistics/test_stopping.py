from __future__ import annotations

import numpy as np

from analysis.statistics.blocks import blocked_median
from analysis.statistics.stopping import enough

WIDE = [[1.0, 1.1, 1.2, 1.3, 1.4, 1.5]]  # [1.0, 1.5] around 1.25: 20 %


def test_never_below_the_floor() -> None:
    assert not enough([[1.0] * 9], floor=10, cap=30, precision=0.5)


def test_always_at_the_cap() -> None:
    assert enough(WIDE, floor=6, cap=6, precision=0.01)


def test_stops_at_the_relative_half_width_asked_for() -> None:
    assert enough(WIDE, floor=6, cap=30, precision=0.2000001)
    assert not enough(WIDE, floor=6, cap=30, precision=0.19)


def test_without_a_precision_the_floor_is_enough() -> None:
    assert enough(WIDE, floor=6, cap=30, precision=None)


def test_a_floor_without_interval_is_not_enough() -> None:
    assert not enough([[1.0] * 4], floor=4, cap=30, precision=0.5)


def test_stopping_by_width_keeps_the_coverage() -> None:
    rng = np.random.default_rng(9)
    hits = 0
    for _ in range(1000):
        draws = np.exp(rng.normal(np.log(1.3), 0.05, 30)).tolist()
        n = next(n for n in range(1, 31) if enough([draws[:n]], 10, 30, 0.03))
        estimate = blocked_median([draws[:n]])
        assert estimate is not None
        hits += estimate.low <= 1.3 <= estimate.high
    assert hits / 1000 >= 0.94
