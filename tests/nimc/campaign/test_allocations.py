"""How allocations differ, and whether more of them pay: by hand."""

import math

import polars as pl
import pytest
from scipy import stats

from nimc.campaign.allocations import Variation, variation


def pairs(*blocks: tuple[float, ...], arm: str = "on") -> pl.DataFrame:
    """Pairs of one case, by the logarithms of their ratios."""
    rows = [
        {"case": "a", "arm": arm, "block": number, "ratio": math.exp(log_ratio)}
        for number, block in enumerate(blocks)
        for log_ratio in block
    ]
    return pl.DataFrame(rows)


def test_variances_by_hand() -> None:
    """Within 0.02; means of 0, 1 and 2 vary by 1, of which half of 0.02 is by chance."""
    spread = variation(pairs((-0.1, 0.1), (0.9, 1.1), (1.9, 2.1)))
    assert spread is not None
    assert spread.within**2 == pytest.approx(0.02)
    assert spread.between**2 == pytest.approx(1 - 0.02 / 2)
    # What pairs explain alone is no variance of allocations.
    alike = variation(pairs((-0.1, 0.1), (-0.1, 0.1)))
    assert alike is not None
    assert alike.between == 0
    # One allocation, one of one pair, and repeated baselines say nothing.
    assert variation(pairs((0.0, 0.1))) is None
    assert variation(pairs((0.0, 0.1), (0.2,))) is None
    assert variation(pairs((0.0, 0.1), (0.2, 0.3), arm="aa")) is None


def test_the_interval_of_the_next_allocation_is_student_s() -> None:
    half = stats.t.ppf(0.975, 2) * math.sqrt((0.01**2 + 0.02**2 / 4) * 4 / 3)
    assert Variation(0.01, 0.02).half_width(3, 4) == pytest.approx(math.expm1(half))
